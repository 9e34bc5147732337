#!/usr/bin/env python3
"""Put the transcript of a real diagnosis into the READMEs, so that it cannot drift; `--check` only compares.

Usage: update_readme.py [--check]

Exit codes: 0 up to date (or updated), 1 a README differs from what the command prints now.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ["graph-mode-diagnostics/scripts/diagnose.py", "graph-mode-diagnostics/examples/default_stream.txt"]
PAGES = (("README.md", "transcript", []), ("README.zh-CN.md", "transcript-zh", ["--lang", "zh"]))
MAX_WIDTH = 150


def transcript(arguments: list[str]) -> str:
    """Return what the command prints, long lines shortened."""
    command = [sys.executable, "-I", "-S", *COMMAND, *arguments]
    printed = subprocess.run(command, capture_output=True, cwd=ROOT, check=True).stdout.decode("utf-8")
    lines = [line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…" for line in printed.rstrip().split("\n")]
    return "\n".join(lines)


def with_transcript(page: str, mark: str, printed: str) -> str:
    """Return the page with the text between its two marks replaced."""
    start = f"<!-- {mark}: tools/update_readme.py -->"
    end = "<!-- end of transcript -->"
    head, _, rest = page.partition(start)
    return f"{head}{start}\n```text\n{printed}\n```\n{end}{rest.partition(end)[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, mark, arguments in PAGES:
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        updated = with_transcript(text, mark, transcript(arguments))
        if updated == text:
            continue
        stale.append(name)
        if not check:
            page.write_text(updated, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run tools/update_readme.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

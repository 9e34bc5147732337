#!/usr/bin/env python3
"""Write references/environment_variables.md from the table of variables, or check that it is up to date.

Usage: write_variable_page.py [--check]

Exit codes: 0 written, or up to date; 1 --check found a difference; 2 wrong usage.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Sequence

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "graph-mode-expert" / "scripts"))

from health.tables import read_table

from npu_graph import cli

PAGE = ROOT / "graph-mode-expert" / "references" / "environment_variables.md"
# Headings in the order of the page, by the kind that the table gives a variable.
KINDS = (
    ("graph", "Capture and replay"),
    ("memory", "Memory"),
    ("timeout", "Timeouts: how a hang becomes an error"),
    ("log", "Logs"),
    ("profile", "Profiling and acl.json"),
    ("device", "Devices"),
    ("cann", "Folders of CANN"),
    ("absent", "Names that no release reads"),
)
INTRODUCTION = """# Environment variables and their effect on graph mode

{contents}

Generated from data/variables.tsv by tools/write_variable_page.py; edit the table, not this page.

`check_graph_health.py --only variables` reports what is set here, impossible combinations, and misspelt names.
`releases`: torch_npu releases that read the variable, or the software that does. Values are separated by commas.

What cannot work:

| setting | gives | releases |
| --- | --- | --- |
| `TASK_QUEUE_ENABLE=2` | ERR00007 at `capture_begin` | all |
| `TASK_QUEUE_ENABLE=3` (any other number) | `should be 0, 1 or 2` when torch_npu is first used | all |
| `ASCEND_LAUNCH_BLOCKING=1` | 107027 at the first captured operator | up to 7.2.0 |
| `pin_memory_expandable_segments:True` | `capture_begin` raises | torch_npu 2.11 and newer |
| `PYTORCH_NPU_ALLOC_CONF` with `PYTORCH_ALLOC_CONF` | `set only one of them` at first use | where the second is read |
| a module in `TORCH_NPU_LOGS` that the release does not register | `Invalid log settings` at import | all |
| `HCCL_OP_EXPANSION_MODE=AIV` with a task group | 507009 or a hang | vllm-project/vllm-ascend#13688 |
"""


def page() -> str:
    """Return the text of the page."""
    rows = read_table("variables")
    links = (f"[{title[:1].lower()}{title[1:]}](#{_anchor(title)})" for _, title in KINDS)
    parts = [INTRODUCTION.replace("{contents}", "Contents: " + " · ".join(links))]
    for kind, title in KINDS:
        parts += [
            f"## {title}",
            "",
            "| variable | values | effect | releases | source |",
            "| --- | --- | --- | --- | --- |",
        ]
        for row in rows:
            if row["kind"] == kind:
                parts.append("| " + " | ".join(_cell(text) for text in _cells(row)) + " |")
        parts.append("")
    return "\n".join(parts)


def _anchor(title: str) -> str:
    """Return the anchor that Markdown gives a heading: lower case, hyphens for spaces, no punctuation."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _cells(row: dict[str, str]) -> list[str]:
    values = row["values"].replace("|", ", ")
    if row["default"]:
        values = f"{values} (default {row['default']})" if values else f"default {row['default']}"
    return [f"`{row['name']}`", values, row["effect"], row["versions"], row["source"]]


def _cell(text: str) -> str:
    return text.replace("|", "\\|") or "any"


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Write the page of environment variables.", ["write_variable_page.py", "… --check"])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(argv)
    if not options.check:
        PAGE.write_text(page(), encoding="utf-8")
        return cli.DONE
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return cli.DONE
    print(
        f"{PAGE.relative_to(ROOT)} is not what data/variables.tsv says; run tools/write_variable_page.py",
        file=sys.stderr,
    )
    return cli.NEGATIVE


if __name__ == "__main__":
    cli.run(main)

#!/usr/bin/env python3
"""Write evals/evals.json, the portable form of evals/cases, for harnesses that do not read the folders.

Usage: python3 tools/write_evals_json.py [--check]
Default: writes the file. With --check: writes nothing; exit 1 when the file is not what the folders say.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from eval_cases import ROOT, Case, Grader, read_cases

TARGET = ROOT / "evals" / "evals.json"


def describe_grader(grader: Grader) -> str:
    """A grader as one sentence a judge or a person can check."""
    if grader.kind == "llm":
        return grader.body
    if grader.kind == "tool_used":
        return f"tool use: {grader.name.replace('-', ' ')}"
    verb = "matches" if grader.match == "contains" else "does not match"
    return f"{grader.name.replace('-', ' ')}: the answer {verb} /{grader.body}/{grader.flags}"


def portable(case: Case) -> dict[str, Any]:
    """One entry of evals.json."""
    return {
        "id": case.name,
        "prompt": case.prompt,
        "expected_output": case.expected_outcome,
        "files": [],
        "expectations": [describe_grader(grader) for grader in case.graders],
        "expected_skill": None if case.tags["owner"] == "none" else case.tags["owner"],
        "expected_script": case.check["command"][0],
    }


def render() -> str:
    """The whole file."""
    content = {"skill_name": "npu-graph-skill", "evals": [portable(case) for case in read_cases()]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a difference")
    options = parser.parse_args()
    if options.check:
        same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == render()
        print("evals.json is current" if same else "evals.json differs: run python3 tools/write_evals_json.py")
        return 0 if same else 1
    TARGET.write_text(render(), encoding="utf-8")
    print(f"written: {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Read the agent evals under evals/cases: prompt, graders and the check that needs no model.

The folders are in the format of `claude plugin eval` (prompt.md with front matter, graders/*.md); check.json is ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "evals" / "cases"
# Graders that look at tool calls need the host's trace: only `claude plugin eval` can grade them.
TRACE_GRADERS = ("tool_used", "tool_order", "file_exists", "baseline")


@dataclass(frozen=True)
class Grader:
    """One grader: `kind` as in its front matter, `body` the pattern or rubric."""

    name: str
    kind: str
    body: str
    match: str = "contains"
    flags: str = ""
    weight: float = 1.0

    def grade_text(self, answer: str) -> bool:
        """Whether a regex grader passes on `answer`."""
        found = re.search(self.body, answer, re.IGNORECASE if "i" in self.flags else 0) is not None
        return found if self.match == "contains" else not found


@dataclass(frozen=True)
class Case:
    """One eval case with its tags split into a table."""

    name: str
    prompt: str
    expected_outcome: str
    tags: dict[str, str]
    graders: list[Grader]
    check: dict[str, Any] = field(default_factory=dict)

    @property
    def block(self) -> str:
        """The first fenced block of the prompt: the pasted log or code."""
        found = re.search(r"^```\w*\n(.*?)^```", self.prompt, re.MULTILINE | re.DOTALL)
        return found.group(1) if found else self.prompt


def split_front_matter(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Front matter and body of a Markdown file; ValueError where there is none."""
    found = re.match(r"---\n(.*?)^---\n(.*)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{where}: no front matter between two lines of ---")
    return yaml.safe_load(found.group(1)) or {}, found.group(2).strip()


def read_grader(path: Path) -> Grader:
    """One file of a graders/ folder."""
    meta, body = split_front_matter(path.read_text(encoding="utf-8"), str(path))
    return Grader(
        path.stem,
        meta["type"],
        body,
        meta.get("match", "contains"),
        meta.get("flags", ""),
        float(meta.get("weight", 1)),
    )


def read_case(folder: Path) -> Case:
    """One folder of evals/cases."""
    meta, prompt = split_front_matter((folder / "prompt.md").read_text(encoding="utf-8"), str(folder / "prompt.md"))
    check = json.loads((folder / "check.json").read_text(encoding="utf-8"))
    graders = [read_grader(path) for path in sorted((folder / "graders").glob("*.md"))]
    tags = dict(tag.split(":", 1) for tag in meta["tags"])
    return Case(folder.name, prompt, meta["expected_outcome"], tags, graders, check)


def read_cases(root: Path = CASES) -> list[Case]:
    """Every case, in name order."""
    return [read_case(path.parent) for path in sorted(root.glob("*/prompt.md"))]

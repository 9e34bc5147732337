"""The texts of the bundle that state facts: Markdown pages and the strings that scripts print."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator, NamedTuple

PAGE_GLOBS = (
    *("SKILL.md", "README.md", "README.zh-CN.md", "knowledge/*.md", "knowledge/cases/*.md"),
    *("graph-*/SKILL.md", "graph-*/references/*.md"),
)
SCRIPT_GLOBS = ("npu_graph/**/*.py", "graph-*/**/*.py", "knowledge/scripts/**/*.py")
# Written by programs from data that is checked where it comes from: the map, the cases, and this tool's own report.
GENERATED = ("knowledge/source-map.md", "knowledge/history.md", "knowledge/VERIFIED.md")

PROSE, CODE, REPORT, SIGNATURE = "prose", "code", "report", "signature"


class Line(NamedTuple):
    """One line of a page, or of a string in a script. `kind` says whose words these are."""

    file: str
    number: int
    text: str
    kind: str


def pages(root: Path) -> list[Path]:
    """Return the Markdown pages that people wrote, in a fixed order."""
    found = [path for pattern in PAGE_GLOBS for path in sorted(root.glob(pattern))]
    return [path for path in found if relative(root, path) not in GENERATED]


def page_lines(root: Path, path: Path) -> Iterator[Line]:
    """Yield a page's lines: prose, code, a user's report (a `text` block), or a pattern's signature."""
    name, kind = relative(root, path), PROSE
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.lstrip().startswith("```"):
            language = text.strip().strip("`")
            kinds = {"signature": SIGNATURE, "text": REPORT, "": REPORT}
            kind = PROSE if kind != PROSE else kinds.get(language, CODE)
            continue
        yield Line(name, number, text, kind)


def script_lines(root: Path, path: Path) -> Iterator[Line]:
    """Yield every string of a script (docstrings too), by the line where it starts."""
    name = relative(root, path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for offset, text in enumerate(node.value.splitlines()):
                # A string with an escape class is an expression, whose pieces are not names.
                kind = SIGNATURE if re.search(r"\\[bdwsn.]|\(\?", node.value) else CODE
                yield Line(name, node.lineno + offset, text, kind)


def scripts(root: Path) -> list[Path]:
    """Return the Python files that a user runs."""
    return [path for pattern in SCRIPT_GLOBS for path in sorted(root.glob(pattern))]


def all_lines(root: Path) -> Iterator[Line]:
    """Yield the lines of every page and the strings of every script."""
    for path in pages(root):
        yield from page_lines(root, path)
    for path in scripts(root):
        yield from script_lines(root, path)


def relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()

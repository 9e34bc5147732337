"""Call chains: the table of public APIs in source_reading.md names the lines of one release."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

from knowledge_checks.findings import Outcome
from knowledge_checks.sources import TORCH_NPU_REPO, Sources
from npu_graph.codes import split_row

PAGE = "graph-mode-expert/references/source_reading.md"
# The page says so above its table; a cell may name another file before its numbers.
COLUMN_FILES = {
    "Python": "torch_npu/npu/graphs.py",
    "binding": "torch_npu/csrc/npu/Graph.cpp",
    "C++": "torch_npu/csrc/core/npu/NPUGraph.cpp",
    "ACL": "torch_npu/csrc/core/npu/interface/AclInterface.cpp",
}
_TAG = re.compile(r"Lines are those of .*\(tag (v[\w.-]+)\)")
_PART = re.compile(r"(?P<file>[\w/]+\.(?:py|cpp|h))|(?P<line>(?<![\w.])\d{1,4}(?![\w.]))|(?P<name>[A-Za-z_…][\w:…]*)")
# A definition's name may stand on the line after its return type, a binding's after `m.def(`.
_WITHIN = 2


def check(root: Path, sources: Sources) -> Outcome:
    """Look at every number of the table in the release that the page names."""
    outcome = Outcome("call chains", "lines in the table of public APIs")
    lines = (root / PAGE).read_text(encoding="utf-8").splitlines() if (root / PAGE).is_file() else []
    repository = sources.repositories.get(TORCH_NPU_REPO)
    tag = next((found.group(1) for found in map(_TAG.search, lines) if found), "")
    if not repository or not tag:
        outcome.leave_out(f"no checkout of {TORCH_NPU_REPO}" if tag else "the page names no tag")
        return outcome
    for number, names, file, at in _claims(lines):
        path = next((p for p in (file, f"torch_npu/{file}") if repository.read(tag, p)), "")
        path = path or next((p for p in repository.list(tag) if p.endswith("/" + file)), "")
        rows = (repository.read(tag, path) or "").splitlines()
        shown = "\n".join(rows[at - 1 : at + _WITHIN]).lower()
        outcome.checked += 1
        if not any(name.strip("_").lower() in shown for name in names):
            outcome.fault(PAGE, number, f"{path or file}:{at} at {tag}: none of {', '.join(names[:4])}")
    return outcome


def _claims(lines: list[str]) -> Iterator[tuple[int, list[str], str, int]]:
    """Yield (line of the page, names that may stand there, file, line) for each number of the table."""
    columns: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = split_row(line) if line.startswith("|") else []
        if cells[:1] == ["public API"]:
            columns = cells
        elif not cells:
            columns = []
        elif columns and len(cells) == len(columns):
            of_row = [name.rpartition(".")[2] for name in re.findall(r"[A-Za-z_][\w.]+", cells[0])]
            for column, cell in zip(columns[1:], cells[1:]):
                yield from ((number, *claim) for claim in _cell_claims(cell, COLUMN_FILES.get(column, ""), of_row))


def _cell_claims(cell: str, file: str, of_row: list[str]) -> Iterator[tuple[list[str], str, int]]:
    before: list[str] = []
    for part in _PART.finditer(re.sub(r"\d+(?:\.\d+)+", "", cell)):
        if part.group("file"):
            file = part.group("file")
        elif part.group("name"):
            before.append(part.group("name").rpartition("::")[2].strip("…"))
        elif int(part.group("line")) > 1 and file:
            yield [*reversed(before[-2:]), *of_row], file, int(part.group("line"))

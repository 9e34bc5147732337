"""Call chains: the lines of call_chains.tsv in every release, and of the overview in source_reading.md in one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator

from measure_call_chains import CANN, CANN_COMMIT, STEP_CELLS, TABLE, Finder, read_table

from knowledge_checks.findings import Outcome
from knowledge_checks.sources import TORCH_NPU_REPO, Repository, Sources
from npu_graph.codes import split_row
from npu_graph.source_map import Release, Row, SourceMap

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
    """Look at every line of the data in every release, and at every number of the page in the release it names."""
    outcome = Outcome("call chains", "lines of what public APIs call, in each release that could be read")
    _check_data(root, sources, outcome)
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


def _check_data(root: Path, sources: Sources, outcome: Outcome) -> None:
    finder, source_map = Finder(), SourceMap.load([root / "knowledge"])
    name = str(TABLE.relative_to(TABLE.parents[2])).replace("\\", "/")
    text = (root / name).read_text(encoding="utf-8") if (root / name).is_file() else ""
    for number, cells in enumerate(read_table(text), 1):
        if cells[0] != "step" or len(cells) != STEP_CELLS:
            continue
        layer, file, function, wanted, where = cells[2], cells[3], cells[4], cells[5], cells[8]
        if layer == CANN:
            runtime = sources.repositories.get("hicann/runtime")
            shown = [(CANN_COMMIT, int(where), runtime.read(CANN_COMMIT, file) or "")] if runtime else []
        else:
            row = Row(file, function, "", "", "", "", where)
            shown = [
                (release.id, next(iter(source_map.lines_in(row, release.id)), 0), text)
                for release in source_map.releases.values()
                for text in [_text_of(release, file, sources)]
                if text is not None
            ]
        if not shown:
            outcome.leave_out(f"no source of {file}")
        for release_id, line, source in shown:
            outcome.checked += 1
            found = finder.line(file, source, function, wanted)
            if found != line:
                outcome.fault(name, number, f"{function} {wanted!r} in {release_id}: table {line}, source {found}")


def _text_of(release: Release, file: str, sources: Sources) -> str | None:
    repository: Repository | None = sources.repositories.get(TORCH_NPU_REPO)
    if repository and release.commit and not release.wheel_only and repository.resolve(release.commit):
        return repository.read(release.commit, file) or ""
    wheel = sources.torch_npu.get(release.wheel)
    return (wheel.read(file) or "") if wheel and release.wheel_only and file.endswith(".py") else None


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

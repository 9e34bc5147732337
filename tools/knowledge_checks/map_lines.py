"""The source map: every site is where the map says, in each release whose sources are at hand."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from source_sites import sites_of

from knowledge_checks.findings import Outcome
from knowledge_checks.sources import TORCH_NPU_REPO, Sources, Wheel
from npu_graph.source_map import MAP_NAME, Release, Row, SourceMap

MAP_FILE = f"knowledge/{MAP_NAME}"
TORCHAIR_REPO = "Ascend/torchair"
TORCHAIR = "torch_npu/dynamo/torchair/"
NPUGRAPH_EX = "torch_npu/dynamo/npugraph_ex/"


class Key(NamedTuple):
    """What names one site of a file: the row's first columns."""

    function: str
    printed: str
    kind: str
    message: str


def check(sources: Sources, source_map: SourceMap) -> Outcome:
    """Compare every row with each release that a wheel or checkout shows."""
    outcome = Outcome("source map", "lines of raise sites, one for each release that could be read")
    by_file: dict[str, list[tuple[int, Row]]] = {}
    for number, row in enumerate(source_map.rows, len(source_map.head) + 1):
        by_file.setdefault(row.file, []).append((number, row))
    measured: dict[tuple[str, str], dict[Key, set[int]]] = {}
    for file, rows in by_file.items():
        for release in source_map.releases.values():
            texts = list(_texts(file, release, sources, source_map))
            if not texts:
                outcome.leave_out(f"{release.id}: no source of it is at hand", len(rows))
            for where, text in texts:
                if (file, text) not in measured:
                    measured[file, text] = _measure(file, text)
                for number, row in rows:
                    outcome.checked += 1
                    found = measured[file, text].get(Key(*row[1:5]), set())
                    wanted = set(source_map.lines_in(row, release.id))
                    if found != wanted:
                        outcome.fault(MAP_FILE, number, _difference(row, release, where, wanted, found))
    return outcome


def _texts(file: str, release: Release, sources: Sources, source_map: SourceMap) -> Iterator[tuple[str, str]]:
    """Yield (where, text) of a file in a release; the empty text where the release is at hand and has no such file."""
    repository = sources.repositories.get(TORCHAIR_REPO if file.startswith(TORCHAIR) else TORCH_NPU_REPO)
    commit = release.torchair if file.startswith(TORCHAIR) else release.commit
    in_wheel_only = release.wheel_only or file.startswith(NPUGRAPH_EX)
    if repository and commit and not in_wheel_only and repository.resolve(commit):
        path = file
        if file.startswith(TORCHAIR):
            path = f"python/torchair/{file[len(TORCHAIR) :]}"
        yield f"{repository.name}@{commit}", repository.read(commit, path) or ""
    wheel = _wheel_of(release, sources, source_map)
    if wheel and file.endswith(".py"):
        yield f"wheel {wheel.version}", wheel.read(file) or ""


def _wheel_of(release: Release, sources: Sources, source_map: SourceMap) -> Wheel | None:
    for version, wheel in sources.torch_npu.items():
        known = source_map.wheels.get(version)
        if known and known.exact and known.id == release.id:
            return wheel
    return None


def _measure(file: str, text: str) -> dict[Key, set[int]]:
    found: dict[Key, set[int]] = {}
    for site in sites_of(file, text):
        found.setdefault(Key(*site[:4]), set()).add(site.line)
    return found


def _difference(row: Row, release: Release, where: str, wanted: set[int], found: set[int]) -> str:
    says = "+".join(map(str, sorted(wanted))) or "absent"
    shows = "+".join(map(str, sorted(found))) or "absent"
    return f"{row.file} {row.function} {row.message[:60]!r} in {release.id}: map {says}, {where} {shows}"

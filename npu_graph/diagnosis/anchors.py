"""Places in source code to read on from a failure."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from npu_graph.diagnosis.classification import passes_on
from npu_graph.diagnosis.error_lines import CallSite
from npu_graph.diagnosis.framework_places import Reading, find_source, is_explained, version_of
from npu_graph.diagnosis.located import Located
from npu_graph.diagnosis.repositories import WHEEL, path_in_package, repository_of
from npu_graph.expressions import compile_on_use
from npu_graph.framework_map import COMPILE_PARTS
from npu_graph.source_map import LOST_NAME, Match, Place, Release, SourceMap

MAX_ANCHORS = 6
# `Ascend/pytorch@v2.12.0 torch_npu/csrc/core/npu/NPUGraph.cpp NPUGraph::capture_begin`
_SOURCE = compile_on_use(r"([\w.-]+/[\w.-]+)@(\S+) (\S+\.\w{1,5})(?::(\d+)\S*)?(?: (\S.*))?")


class LookUp(NamedTuple):
    """What places are looked up in.

    Attributes:
        version: torch_npu as the report states it, else as its lines tell.
        source_map: by which a lost file name is found again, and a message's line in a release.
        releases: those that the report can be about; one or several with the same line make a place exact.
        readings: what the report tells about the frameworks, for the version of their frames.
    """

    version: str | None
    source_map: SourceMap
    releases: Sequence[Release]
    readings: Sequence[Reading]


def find_anchors(found: Located, look_up: LookUp, named: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return where to read on: the report's own call sites and frames (exact), the raise site, the pattern's sources.

    Args:
        found: what failed.
        look_up: what places are looked up in.
        named: anchors of the functions that the report names outside its stack.
    """
    version, source_map, releases, frameworks = look_up
    primary, pattern = found.cause.failure, found.known.pattern if found.known is not None else None
    anchors: list[dict[str, Any]] = []
    text = primary.text if primary is not None else ""
    for site in found.sites:
        if not site.code or primary is None or f":{site.file_line} " in text:
            anchors.append(_of_site(site, version, source_map, releases))
    raised: list[dict[str, Any]] = []
    if primary is not None and not anchors:
        raised = _of_message(f"{primary.type}: {text or primary.message}", source_map, releases)
    anchors += raised
    for frame in reversed(found.frames):
        repository = repository_of(frame.file)
        is_passed = repository == "pytorch/pytorch" and anchors or not repository and passes_on(frame.file)
        if not is_passed:
            of_frame = version_of(repository, frameworks)
            if repository.startswith("Ascend/") or repository == WHEEL:
                of_frame = _torch_npu_of_lines(version, frameworks)
            sure = is_explained(frame.file, frame.line, frame.function, frameworks)
            anchors.append(_anchor(repository, path_in_package(frame.file), frame.function, frame.line, of_frame, sure))
    # The innermost frames say where; what the report names stands behind them, and before a pattern's sources.
    anchors = [*anchors[: MAX_ANCHORS - len(named)], *named]
    if pattern is not None:
        for source in pattern.sources:
            named_place = _SOURCE.fullmatch(source)
            if named_place:
                repository, revision, file, line, function = named_place.groups()
                if any(item["exact"] and item["file"] == file and item["function"] == function for item in anchors):
                    continue  # the same place, already known to the line
                anchors.append(
                    _of_source(file, function or "", source_map, releases)
                    or find_source(frameworks, repository, file, function or "")
                    or _anchor(repository, file, function or "", int(line) if line else None, revision, False)
                )
    distinct = {(item["file"], item["function"], item["line"]): item for item in reversed(anchors)}
    return [item for item in anchors if distinct.get((item["file"], item["function"], item["line"])) is item][
        :MAX_ANCHORS
    ]


def _torch_npu_of_lines(version: str | None, readings: Sequence[Reading]) -> str | None:
    """Return the version of torch_npu that the stack's lines are of: as stated, unless they contradict it."""
    parts = next((item for item in readings if item.map.name == COMPILE_PARTS), None)
    if parts is not None and (version is None or parts.contradicts):
        return version_of(parts.map.repository, readings)
    return version


def _of_site(site: CallSite, version: str | None, source_map: SourceMap, releases: Sequence[Release]) -> dict[str, Any]:
    if site.file.endswith(LOST_NAME):
        place = Place(site.function, "", site.file_line, site.call, "")
        release_id = releases[0].id if releases else ""
        files = {match.row.file for match in source_map.match_place(place, release_id)}
        # The printed line belongs to the real file, so it stays exact once the file is known.
        file = files.pop() if len(files) == 1 else LOST_NAME
        return _anchor("Ascend/pytorch", file, site.function, site.file_line, version, file != LOST_NAME)
    file = path_in_package(site.file.replace("../", ""))
    return _anchor(repository_of(file), file, site.function, site.file_line, version, True)


def _of_message(text: str, source_map: SourceMap, releases: Sequence[Release]) -> list[dict[str, Any]]:
    """Return the place that raises the message: exact when every release in question has it at one line."""
    matches = source_map.match_text(text, releases[0].id if releases else "")
    if not matches or (len(matches) > 1 and matches[1].score == matches[0].score):
        return []
    return [_of_match(matches[0], source_map, releases)]


def _of_source(file: str, function: str, source_map: SourceMap, releases: Sequence[Release]) -> dict[str, Any] | None:
    """Return a pattern's source at the user's release, when the map knows one site of that function alone."""
    if not releases or not function:
        return None
    rows = [
        row
        for row in source_map.rows
        if row.file == file and row.function == function and source_map.lines_in(row, releases[0].id)
    ]
    return _of_match(Match(rows[0], None, 0.0), source_map, releases) if len(rows) == 1 else None


def _of_match(match: Match, source_map: SourceMap, releases: Sequence[Release]) -> dict[str, Any]:
    row = match.row
    lines = {source_map.lines_in(row, release.id) for release in releases}
    alone = len(lines) == 1 and all(len(numbers) == 1 for numbers in lines)
    line = min(lines)[0] if alone else None
    measured = all(source_map.is_measured(row, release) for release in releases)
    version = " or ".join(dict.fromkeys(release.release for release in releases)) or None
    return _anchor(repository_of(row.file), row.file, row.function, line, version, alone and measured)


def _anchor(
    repository: str, file: str, function: str, line: int | None, version: str | None, exact: bool
) -> dict[str, Any]:
    return {
        "repo": repository,
        "file": file,
        "function": function,
        "line": line,
        "version": version if repository else None,
        "exact": exact,
    }

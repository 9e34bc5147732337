"""What histories and release notes say near to a report: later changes, and known issues of the release."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph.diagnosis.classification import NPU_WORDS
from npu_graph.diagnosis.first_cause import Failure
from npu_graph.diagnosis.framework_places import Reading
from npu_graph.expressions import compile_on_use
from npu_graph.fix_index import FixIndex, Found, Query
from npu_graph.known_issues import KnownIssues, issue_record
from npu_graph.source_map import Release, SourceMap

MAX_FIXES = 5
# Of one project, so that a long history does not hide a short one.
MAX_OF_ONE = 4
MAX_ISSUES = 3
# Below them the words that are shared are those of any report about graph mode. Of 51 changes that were the right one 48
# share two rare words or more. torch_npu has changes for every kind of failure: without a release more must be shared.
LEAST_SCORE = 1.5
LEAST_RARE, LEAST_RARE_ALONE = 2, 3
FRAMES_READ = 12
# Parts of torch_npu with a history of their own, and what in a report leads there.
_PARTS = (
    ("torchair", compile_on_use(r"torchair|npugraph_ex|torch_npu/dynamo/")),
    ("op-plugin", compile_on_use(r"op_plugin/|op-plugin")),
    (
        "torch_npu",
        compile_on_use(r"torch_npu/(?:npu|_inductor|dynamo|utils)/|torch_npu[._]inductor|NPUGraph\.cpp|inductor"),
    ),
)
_OF_FRAMEWORKS = ("vllm-ascend", "xllm")
_ON_NPU = {"vllm": "vllm-ascend"}


class Asked(NamedTuple):
    """A history to look into, and the releases that the report can be about; () when nothing tells."""

    history: FixIndex
    releases: tuple[str, ...]


_UNKNOWN = Asked(FixIndex(), ())


def find_later_fixes(text: str, primary: Failure | None, histories: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return the record's `later_fixes`, best first: of a report, its first cause, and the histories to look into."""
    frames = tuple((frame.file, frame.function) for frame in reversed(primary.frames)) if primary is not None else ()
    failure = f"{primary.type}: {primary.message}" if primary is not None else ""
    query = Query(failure, text, frames[:FRAMES_READ])
    records = []
    for asked in histories:
        found = asked.history.search(query, asked.releases, MAX_OF_ONE)
        is_framework = asked.history.name in _OF_FRAMEWORKS
        least = LEAST_RARE if asked.releases or is_framework else LEAST_RARE_ALONE
        records += [
            _record(item, asked)
            for item in found
            if item.score >= LEAST_SCORE and (item.rare >= least or item.functions)
        ]
    records.sort(key=lambda item: -item["score"])
    return records[:MAX_FIXES]


def find_known_issues(
    text: str, histories: Sequence[Asked], folders: Sequence[Path], language: str
) -> list[dict[str, Any]]:
    """Return the record's `known_issues`: what the release notes list that the report is like."""
    asked = {item.history.name: item for item in histories if item.history.name in _OF_FRAMEWORKS}
    records = []
    # A report that names no framework can be from under one.
    for name, item in (asked or dict.fromkeys(_OF_FRAMEWORKS, _UNKNOWN)).items():
        notes = KnownIssues.load(name, folders)
        found = notes.search(text, item.releases, item.history.releases)
        records += [issue_record(issue, notes, language) for issue in found[:MAX_ISSUES]]
    return records


def find_histories(
    text: str,
    frameworks: Sequence[Reading],
    torch_npu: Sequence[Release],
    source_map: SourceMap,
    folders: Sequence[Path],
) -> list[Asked]:
    """Return the histories that a report leads to.

    Args:
        text: the report.
        frameworks: what it tells about serving frameworks.
        torch_npu: the releases of torch_npu that it can be about.
        source_map: of torch_npu's releases.
        folders: knowledge folders.
    """
    asked: list[Asked] = []
    for item in frameworks:
        # A report about vLLM on an NPU is about vLLM-Ascend, whether it says so or not.
        name = _ON_NPU.get(item.map.name, item.map.name) if NPU_WORDS.search(text.lower()) else item.map.name
        if name in _OF_FRAMEWORKS and name not in [one.history.name for one in asked]:
            history = FixIndex.load(name, folders)
            asked.append(Asked(history, _releases(item, history)))
    parts = [name for name, leads in _PARTS if leads.search(text)] or ([] if frameworks else ["torch_npu"])
    for name in parts:
        history = FixIndex.load(name, folders)
        known = dict.fromkeys(history.known_release(release, source_map) for release in torch_npu)
        asked.append(Asked(history, tuple(release for release in known if release)))
    return [item for item in asked if len(item.history)]


def _releases(item: Reading, history: FixIndex) -> tuple[str, ...]:
    """Return the releases that a report can be about.

    Where it states only the version of vLLM, or leaves it to the lines of another framework, every release for that
    version is possible: a change in the last of them may be missing in what ran.
    """
    if item.map.name == history.name and item.contradicts:
        # The lines fit other releases: what the stated one holds is left out.
        return history.find_release(item.stated[0])[0]
    if item.map.name == history.name and (item.stated or (item.fit is not None and item.fit.releases)):
        return tuple(item.releases)
    bases = {release.partition("rc")[0] for release in item.releases}
    return tuple(release for base in sorted(bases) for release in history.releases_for(base))


def _record(found: Found, asked: Asked) -> dict[str, Any]:
    fix = found.fix
    return {
        "repo": asked.history.repository,
        "commit": fix.commit,
        "date": fix.date,
        "title": fix.title,
        "first_release": asked.history.first_release(fix, asked.releases),
        "after": list(asked.releases[:3]),
        "files": [file for file, _ in fix.places][:3],
        "functions": list(found.functions),
        "score": round(found.score, 1),
    }

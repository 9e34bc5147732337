"""Recorded cases: reading them from every knowledge folder, and finding those that resemble a report."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

from npu_graph.case_features import CaseFeatures, Features, case_features, merge_features, score, text_features
from npu_graph.case_files import (
    CASE_FOLDER,
    CASE_NAME,
    case_files,
    has_hand_written_entries,
    read_case_file,
    read_folder,
    read_history,
)
from npu_graph.case_format import Case, Entry, Parsed
from npu_graph.patterns import Problem

# Up to this many cases are read and compared one by one; above it the index chooses which.
READ_ALL_UP_TO = 48
CANDIDATES = 40
# What a diagnosis may spend on bringing the index up to date; a later call goes on where this one stopped.
INDEX_SECONDS = 0.08
# Below this a resemblance is chance: a search for one rare word reaches 0.166, 60 unrelated reports 0.15 at most.
LEAST_SCORE = 0.16
# From here a diagnosis calls a case similar. Measured on 58 public reports against the shipped cases: 34 of 34 shown
# are of the same failure or pattern (36 shown from 0.25 on, 34 of them right), none of 60 unrelated reports shows one.
SIMILAR_FROM = 0.3


class CaseBase(NamedTuple):
    """All cases by id (a later folder's case replaces an earlier one's), and what was wrong in the files."""

    entries: dict[str, Entry]
    problems: list[Problem]


def read_cases(folders: Iterable[Path]) -> CaseBase:
    """Read every case of the folders; one that is faulty is reported and, as far as it can be read, still there."""
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for folder in folders:
        parsed = read_folder(Path(folder))
        problems += parsed.problems
        for entry in parsed.entries:
            entries[entry.case.id] = entry
    return CaseBase(entries, problems)


def find_case(identity: str, folders: Sequence[Path]) -> Entry | None:
    """Return the case with this id, from the last folder that has it."""
    for folder in reversed(folders):
        for entry in _read_one(Path(folder), identity).entries:
            if entry.case.id == identity:
                return entry
    return None


def similar_cases(
    text: str,
    codes: Iterable[str] = (),
    functions: Iterable[str] = (),
    folders: Sequence[Path] = (),
    limit: int = 5,
    *,
    seconds: float | None = INDEX_SECONDS,
) -> list[tuple[Case, float]]:
    """Return recorded cases that resemble a report, best first, with a score of 0 to 1.

    Args:
        text: the report: a stack, a log excerpt, prose.
        codes: error codes found in it.
        functions: function names found in it.
        folders: knowledge folders, the seed first.
        limit: how many at most.
        seconds: how long cases not yet in the index may be read in this call; None reads them all.

    Retired cases are left out.
    """
    query = text_features(text, codes, functions)
    if not query:
        return []
    chosen: dict[str, Entry] = {}
    for folder in folders:
        for entry in _candidates(Path(folder), query, seconds):
            chosen[entry.case.id] = entry
    scored = [
        (entry.case, round(score(query, case_features(entry.case)), 3))
        for entry in chosen.values()
        if entry.case.status != "retired"
    ]
    scored = [(case, points) for case, points in scored if points >= LEAST_SCORE]
    return sorted(scored, key=lambda item: (-item[1], item[0].id))[:limit]


def index_cases(folder: Path, anew: bool = False) -> None:
    """Bring the index of a folder up to date, however long it takes: after many cases came at once.

    A diagnosis spends a moment only on new cases; where the index cannot be kept it reads the newest files.

    Args:
        folder: a knowledge folder.
        anew: throw the present index away first.
    """
    if len(case_files(folder, at_most=READ_ALL_UP_TO + 1)) <= READ_ALL_UP_TO:
        return
    if anew:
        from npu_graph.case_index import CaseIndex

        with contextlib.suppress(OSError):
            CaseIndex(folder / CASE_FOLDER).discard()
    _indexed_candidates(folder, {}, None)


def _candidates(folder: Path, query: Features, seconds: float | None) -> list[Entry]:
    files = case_files(folder, at_most=READ_ALL_UP_TO + 1)
    if len(files) > READ_ALL_UP_TO:
        files = _indexed_candidates(folder, query, seconds)
    entries = [entry for path in files for entry in read_case_file(path).entries]
    if has_hand_written_entries(folder):
        known = {path.stem for path in case_files(folder)}
        entries += [entry for entry in read_history(folder).entries if entry.case.id not in known]
    return entries


def _indexed_candidates(folder: Path, query: Features, seconds: float | None) -> list[Path]:
    # Imported here because a diagnosis with few cases has no use for it.
    from npu_graph.case_index import CaseIndex

    try:
        index = CaseIndex(folder / CASE_FOLDER)
        names = index.candidates(
            query, lambda name: CASE_NAME.fullmatch(name) is not None, _features_of_file, CANDIDATES, seconds
        )
        return [folder / CASE_FOLDER / name for name in names]
    except Exception:
        return _newest_within(case_files(folder), query, seconds)


def _newest_within(files: list[Path], query: Features, seconds: float | None) -> list[Path]:
    """Without an index: read the files themselves, newest first, for as long as there is time."""
    deadline = None if seconds is None else time.monotonic() + seconds
    best: list[tuple[float, Path]] = []
    for path in reversed(files):
        if deadline is not None and time.monotonic() > deadline:
            break
        for entry in read_case_file(path).entries:
            best.append((score(query, case_features(entry.case)), path))
    best.sort(key=lambda item: (-item[0], item[1].name))
    return [path for _, path in best[:CANDIDATES]]


def _features_of_file(path: Path) -> Features:
    parts: list[Features] = []
    for entry in read_case_file(path).entries:
        features: CaseFeatures = case_features(entry.case)
        parts += [features.symptom, features.other]
    return merge_features(parts)


def _read_one(folder: Path, identity: str) -> Parsed:
    path = folder / CASE_FOLDER / f"{identity}.md"
    if path.is_file():
        return read_case_file(path)
    return read_history(folder) if has_hand_written_entries(folder) else Parsed([], [])

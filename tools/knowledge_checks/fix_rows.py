"""The fix index: every change has its day, subject and files in the history, and is in the releases that are named."""

from __future__ import annotations

import re
from pathlib import Path

from measure_fix_index import OF_TORCH_NPU, OWN_TITLE, subject_of, title_key

from knowledge_checks.findings import Outcome
from knowledge_checks.sources import Repository, Sources
from npu_graph.fix_index import INDEX_FOLDER, INDEX_SUFFIX, FixIndex
from npu_graph.source_map import SourceMap


def check(root: Path, sources: Sources, source_map: SourceMap) -> Outcome:
    """Look every change up by its commit; and in every release by its commit or, on other branches, its subject."""
    outcome = Outcome("fix index", "later changes: commit, day, subject, files, and the releases that hold them")
    for path in sorted((root / "knowledge" / INDEX_FOLDER).glob(f"*{INDEX_SUFFIX}")):
        index = FixIndex.load(path.stem, [root / "knowledge"])
        shown = f"knowledge/{INDEX_FOLDER}/{path.name}"
        repository = sources.repositories.get(index.repository)
        if repository is None:
            outcome.leave_out(f"change of {index.repository}, no checkout", len(index.fixes))
            continue
        _check_changes(index, repository, shown, outcome)
        _check_releases(index, repository, source_map, shown, outcome)
    return outcome


def _check_changes(index: FixIndex, repository: Repository, shown: str, outcome: Outcome) -> None:
    there = repository.changes([fix.commit for fix in index.fixes])
    for number, fix in enumerate(index.fixes, 1):
        outcome.checked += 1
        day, subject, files = there.get(fix.commit, ("", "", frozenset()))
        if day != fix.date or not _is_title(fix.title, subject):
            outcome.fault(
                shown, number, f"{fix.commit}: {day} {subject[:80]!r} instead of {fix.date} {fix.title[:80]!r}"
            )
        missing = [file for file, _ in fix.places if file not in files]
        if missing:
            outcome.fault(shown, number, f"{fix.commit} does not touch {missing[0]}")


def _is_title(title: str, subject: str) -> bool:
    """Say whether a title is the subject, without the number that a merge puts before or the index behind."""
    return re.sub(r" \(!\d+\)$", "", title) == subject_of(subject)


def _check_releases(
    index: FixIndex, repository: Repository, source_map: SourceMap, shown: str, outcome: Outcome
) -> None:
    for position, release in enumerate(index.releases):
        ref = f"v{release}"
        if index.name in OF_TORCH_NPU:
            ref = getattr(source_map.releases[release], OF_TORCH_NPU[index.name])
        if not repository.resolve(ref):
            outcome.leave_out(f"{index.repository} {release} is not in the checkout")
            continue
        commits, keys = set(), set()
        for commit, subject in repository.subjects(ref):
            commits.add(commit)
            keys.add(title_key(subject))
        for number, fix in enumerate(index.fixes, 1):
            key = title_key(fix.title)
            is_there = fix.commit in commits or (len(key) >= OWN_TITLE and key in keys)
            if is_there is not (position in fix.held):
                said = "is not said to be" if is_there else "is said to be"
                outcome.fault(shown, number, f"{fix.commit} {said} in {release}: {fix.title[:60]}")

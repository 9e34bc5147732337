"""The fix index: every change has its day, subject and files in the history, and is in the releases that are named."""

from __future__ import annotations

import re
from pathlib import Path

from commit_history import Twins, ambiguous_keys, has_commit, held_by, read_log, read_patches, subject_of
from measure_fix_index import OF_TORCH_NPU, PROJECTS, Project

from knowledge_checks.findings import Outcome, rows_of
from knowledge_checks.sources import Repository, Sources
from npu_graph.fix_index import INDEX_FOLDER, INDEX_SUFFIX, FixIndex
from npu_graph.source_map import SourceMap

COMMIT_SHOWN = 10


def check(root: Path, sources: Sources, source_map: SourceMap, projects: tuple[Project, ...] = PROJECTS) -> Outcome:
    """Look every change up by its commit, and in every release by its commit, else by its subject or its patch."""
    outcome = Outcome("fix index", "later changes: commit, day, subject, files, and the releases that hold them")
    for path in sorted((root / "knowledge" / INDEX_FOLDER).glob(f"*{INDEX_SUFFIX}")):
        index = FixIndex.load(path.stem, [root / "knowledge"])
        shown = f"knowledge/{INDEX_FOLDER}/{path.name}"
        repository = sources.repositories.get(index.repository)
        project = next((item for item in projects if item.name == index.name), None)
        if repository is None or project is None:
            outcome.leave_out(f"change of {index.repository}, no checkout", len(index))
            continue
        row_of = rows_of(path, "fix")
        faults = _check_changes(index, repository, outcome)
        faults += _check_releases(index, project, repository.folder, source_map, outcome)
        for commit, said in faults:
            outcome.fault(shown, row_of[commit], f"{commit} {said}")
    return outcome


def _check_changes(index: FixIndex, repository: Repository, outcome: Outcome) -> list[tuple[str, str]]:
    """Return (commit, fault) of every change that the history has otherwise."""
    faults = []
    there = repository.changes([fix.commit for fix in index.fixes])
    for fix in index.fixes:
        outcome.checked += 1
        day, subject, files = there.get(fix.commit, ("", "", frozenset()))
        if day != fix.date or not _is_title(fix.title, subject):
            said = f"{day} {subject[:80]!r} instead of {fix.date} {fix.title[:80]!r}"
            faults.append((fix.commit, f"is {said}"))
        missing = [file for file, _ in fix.places if file not in files]
        if missing:
            faults.append((fix.commit, f"does not touch {missing[0]}"))
    return faults


def _is_title(title: str, subject: str) -> bool:
    """Say whether a title is the subject, without the number that a merge puts before or the index behind."""
    return re.sub(r" \(!\d+\)$", "", title) == subject_of(subject)


def _check_releases(
    index: FixIndex, project: Project, folder: Path, source_map: SourceMap, outcome: Outcome
) -> list[tuple[str, str]]:
    """Return (commit, fault) of every change that is in other releases than the index says."""
    faults = []
    refs = {release: _ref(index, release, source_map) for release in index.releases}
    refs = {release: ref for release, ref in refs.items() if has_commit(folder, ref)}
    patches = read_patches(folder, [project.head, *refs.values()], project.since, project.scope)
    ambiguous = ambiguous_keys(read_log(folder, project.head), patches)
    patch_of = {commit[:COMMIT_SHOWN]: patch for commit, patch in patches.items()}
    twins = Twins((read_log(folder, ref) for ref in [project.head, *refs.values()]), patches, ambiguous)
    for position, release in enumerate(index.releases):
        if release not in refs:
            outcome.leave_out(f"{index.repository} {release} is not in the checkout")
            continue
        held = held_by(read_log(folder, refs[release]), patches, ambiguous)
        commits = {mark[:COMMIT_SHOWN] for mark in held if len(mark) == 40}
        for fix in index.fixes:
            is_there = fix.commit in commits or bool(twins.marks_of(fix.title, patch_of.get(fix.commit, "")) & held)
            if is_there is not (position in fix.held):
                said = "is not said to be" if is_there else "is said to be"
                faults.append((fix.commit, f"{said} in {release}: {fix.title[:60]}"))
    return faults


def _ref(index: FixIndex, release: str, source_map: SourceMap) -> str:
    if index.name in OF_TORCH_NPU:
        ref: str = getattr(source_map.releases[release], OF_TORCH_NPU[index.name])
        return ref
    return f"v{release}"

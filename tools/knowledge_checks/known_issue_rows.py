"""Known issues: the release notes of every release that is named list the number, or hold the words, of the row."""

from __future__ import annotations

import re
from pathlib import Path

from knowledge_checks.findings import Outcome, rows_of
from knowledge_checks.sources import Sources
from npu_graph.known_issues import ISSUES_FOLDER, ISSUES_SUFFIX, KnownIssue, KnownIssues

_RELEASE = re.compile(r"^## v(\S+)", re.MULTILINE)


def check(root: Path, sources: Sources) -> Outcome:
    """Look every row up in the notes of every release that it names."""
    outcome = Outcome("known issues", "what release notes list: number or words, and the releases")
    for path in sorted((root / "knowledge" / ISSUES_FOLDER).glob(f"*{ISSUES_SUFFIX}")):
        known = KnownIssues.load(path.stem, [root / "knowledge"])
        shown = f"knowledge/{ISSUES_FOLDER}/{path.name}"
        repository = sources.repositories.get(known.repository)
        if repository is None:
            outcome.leave_out(f"known issue of {known.repository}, no checkout", len(known.issues))
            continue
        sections = read_sections(repository.read(known.read_at, known.file) or "")
        row_of = rows_of(path, "issue")
        for issue in known.issues:
            for release in issue.releases:
                outcome.checked += 1
                if not _lists(sections.get(release, ""), issue):
                    outcome.fault(shown, row_of[issue.key], f"the notes of {release} do not list {issue.key}")
    return outcome


def read_sections(notes: str) -> dict[str, str]:
    """Return the release notes by release."""
    cells = _RELEASE.split(notes)
    return dict(zip(cells[1::2], cells[2::2]))


def _lists(section: str, issue: KnownIssue) -> bool:
    if not issue.number:
        return issue.key in section
    return re.search(rf"(?:\[#|/issues/|/pull/){issue.number[1:]}\b", section) is not None

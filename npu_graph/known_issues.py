"""Known issues of a project, as its release notes list them: by release and by what a report holds.

The data is knowledge/known-issues/*.tsv, in our own words; tools/verify_knowledge.py looks every row up in the notes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Collection, Iterable, NamedTuple, Sequence

from npu_graph.framework_map import version_key
from npu_graph.plain_files import read_first

ISSUES_FOLDER = "known-issues"
ISSUES_SUFFIX = ".tsv"
MAX_FILE_BYTES = 1 << 20
# What is read of a report.
MAX_TEXT = 256 * 1024
_GROUPS = " & "
_TELLS = "!"
_CELLS = 7


class KnownIssue(NamedTuple):
    """One entry of release notes.

    Attributes:
        key: `#number` of the issue or change that the entry cites, else words of the entry.
        releases: whose notes list it.
        when: expressions that a report must all hold.
        tells: whether they hold an error's own words, so that they tell the issue without its release.
        what: what goes wrong, by language.
        remedy: what to do, by language.
    """

    key: str
    releases: tuple[str, ...]
    when: tuple[str, ...]
    tells: bool
    what: dict[str, str]
    remedy: dict[str, str]

    @property
    def number(self) -> str:
        """The `#number` that the entry cites, '' when it cites none."""
        return self.key if self.key.startswith("#") else ""


class KnownIssues:
    """One project's known issues, read once. Look-ups never raise, whatever the text holds."""

    def __init__(self, text: str = "") -> None:
        self.name = self.repository = self.read_at = self.file = ""
        self.issues: list[KnownIssue] = []
        for line in text.splitlines():
            kind, _, rest = line.partition("\t")
            cells = rest.split("\t")
            if kind == "issue" and len(cells) == _CELLS:
                key, releases, when, what, remedy, what_zh, remedy_zh = cells
                self.issues.append(
                    KnownIssue(
                        key,
                        tuple(releases.split(",")),
                        tuple(when.lstrip(_TELLS).split(_GROUPS)),
                        when.startswith(_TELLS),
                        {"en": what, "zh": what_zh},
                        {"en": remedy, "zh": remedy_zh},
                    )
                )
            elif kind == "repository" and len(cells) == 4:
                self.name, self.repository, self.read_at, self.file = cells

    @classmethod
    def load(cls, name: str, folders: Iterable[Path]) -> KnownIssues:
        """Read a project's issues from the first folder that holds them; none when no folder does."""
        return cls(read_first(folders, f"{ISSUES_FOLDER}/{name}{ISSUES_SUFFIX}", MAX_FILE_BYTES))

    def search(self, text: str, releases: Collection[str], known: Sequence[str]) -> list[KnownIssue]:
        """Return the issues that a report is like, in the order of the file.

        Args:
            text: the report.
            releases: those that it can be about; nothing when that is not known.
            known: all releases of the project: one next to those that list an issue may have it too.

        An issue that is marked by what is in use (a model, a mode) is told from others by its release only.
        """
        lowered = text[:MAX_TEXT].lower()
        return [
            issue
            for issue in self.issues
            if _may_have(issue, releases, known) and all(re.search(expression, lowered) for expression in issue.when)
        ]


def issue_record(issue: KnownIssue, notes: KnownIssues, language: str) -> dict[str, Any]:
    """Return an issue as records hold it."""
    language = language if language in issue.what else "en"
    return {
        "repo": notes.repository,
        "number": issue.number,
        "releases": list(issue.releases),
        "what": issue.what[language],
        "remedy": issue.remedy[language],
        "source": f"{notes.repository}@{notes.read_at} {notes.file}",
    }


def issue_text(item: dict[str, Any], remedy: str) -> str:
    """Return an issue's record as one line; `remedy` is what stands before what to do (`. Do: `)."""
    number = f" {item['number']}" if item["number"] else ""
    return f"{item['repo']}{number} ({', '.join(item['releases'])}): {item['what']}{remedy}{item['remedy']}"


def _may_have(issue: KnownIssue, releases: Collection[str], known: Sequence[str]) -> bool:
    if not releases or not issue.tells:
        return issue.tells or bool(set(issue.releases) & set(releases))
    listed = sorted(issue.releases, key=version_key)
    first, last = version_key(listed[0]), version_key(listed[-1])
    first = max((key for key in map(version_key, known) if key < first), default=first)
    last = min((key for key in map(version_key, known) if key > last), default=last)
    return any(first <= version_key(release) <= last for release in releases)

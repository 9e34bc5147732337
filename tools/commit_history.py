"""What a git history says of its changes: subjects, days, files and functions, and which of them a revision holds."""

from __future__ import annotations

import re
import subprocess
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Container, Iterable, Iterator, NamedTuple, Sequence

TITLE_KEPT = 160
# A shorter title names no change of its own on another branch; a Chinese character counts as three.
OWN_TITLE = 16
MOST_FILES = 8
MOST_FUNCTIONS = 6
# Tests, examples, and parts for other hardware.
_NOT_RUN = re.compile(
    r"(?:^|/)(?:tests?|examples?|benchmarks?)/|_test\.\w{1,4}$|/(?:cuda|dcu|mlu|ilu|musa)(?:_graph|/)"
)
_SOURCES = (".py", ".cpp", ".h", ".hpp", ".cc", ".yaml")
_ATTRIBUTES = "*.py diff=python\n*.cpp diff=cpp\n*.h diff=cpp\n*.hpp diff=cpp\n*.cc diff=cpp\n"
_FUNCTION = re.compile(r"\b(?:async def|def|class) ([A-Za-z_]\w*)")
_CPP_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)(?:<[^>]{0,40}>)?\(")
_NO_FUNCTION = frozenset(
    ("if", "for", "while", "switch", "return", "sizeof", "defined", "catch", "TORCH_CHECK", "NPU_CHECK_ERROR")
)
# What a merge puts around a subject: numbers before it, whose branch it came from behind it.
_NUMBERS = re.compile(r"^(?:!\d+ )+")
_MERGED_FROM = re.compile(r"\s*(?:Merge pull request !\d+ from \S.*|!\d+ merge \S+ into \S+.*)$")
# What a pick on another branch adds to a subject: where it came from, for which release.
_PICKED = re.compile(
    r"\([#!]\d+\)|\(?from #?\d+\)?|cherry[- ]?pick\w*|\bpr[- ]?\d+[:：]?"
    r"|(?:\bfor )?\(?\bv\d+\.\d+(?:\.\d+)?(?:rc\d+|-dev)?\b\)?",
    re.IGNORECASE,
)
_TAGS = re.compile(r"^(?:\s*[\[【][^\]】]{0,40}[\]】])+")
_REVERTS = (
    re.compile(r"[Rr]evert[\]】]?\s+[\"“](.+)[\"”]"),
    re.compile(r"回退 ?'(?:Pull Request !\d+ : )?(.+)'"),
    re.compile(r"^(?:[\[【]revert[\]】]|revert\b)\s*[:：]?\s*(.+)", re.IGNORECASE),
)
_TAGGED_REVERT = re.compile(r"[\[【]revert[\]】]", re.IGNORECASE)
_REVERTED_COMMIT = re.compile(r"This reverts commit ([0-9a-f]{40})")
# No text of a history holds them; a diff may hold a lone control character.
_RECORD, _CELL = "\x01 record \x01", "\x02 cell \x02"


class Change(NamedTuple):
    """One commit as the history has it; places are (file, functions)."""

    commit: str
    date: str
    subject: str
    message: str
    places: tuple[tuple[str, tuple[str, ...]], ...]


class Commit(NamedTuple):
    """A commit of a revision, its subject, and the commits that its message says it takes back."""

    commit: str
    subject: str
    reverts: tuple[str, ...] = ()


def run_git(folder: Path, *arguments: str) -> str:
    """Return what git prints.

    Raises:
        CalledProcessError: git says no.
    """
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "core.quotepath=off", *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=900,
        check=True,
    )
    return done.stdout


def has_commit(folder: Path, ref: str) -> bool:
    command = ["git", "-C", str(folder), "cat-file", "-e", f"{ref}^{{commit}}"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


# --- subjects --------------------------------------------------------------------------------------------------


def subject_of(title: str) -> str:
    """Return a subject without what a merge puts around it, without invisible characters, cut at TITLE_KEPT."""
    seen = "".join(character for character in title if unicodedata.category(character) not in ("Cf", "Cc"))
    return _NUMBERS.sub("", _MERGED_FROM.sub("", " ".join(seen.split())))[:TITLE_KEPT].strip()


def title_key(title: str) -> str:
    """Return what the titles of one change on several branches have in common; '' when that is too little."""
    bare = _TAGS.sub(" ", _PICKED.sub(" ", _TAGS.sub(" ", subject_of(title))))
    key = re.sub(r"[\W_]+", " ", bare).strip().lower()
    if _TAGGED_REVERT.match(subject_of(title)):
        key = f"revert {key}"  # `[revert] X` is not the change X
    length = sum(3 if "\u4e00" <= character <= "\u9fff" else 1 for character in key)
    return key if length >= OWN_TITLE else ""


def reverted_title(subject: str) -> str:
    """Return the subject that a revert takes back, '' when it is none or names a number only."""
    for expression in _REVERTS:
        found = expression.search(subject)
        if found:
            return found.group(1)
    return ""


# --- what a revision holds -------------------------------------------------------------------------------------


def read_log(folder: Path, ref: str) -> list[Commit]:
    """Return the commits of a revision, newest first."""
    printed = run_git(folder, "log", f"--format={_RECORD}{_CELL.join(('%H', '%s', '%b'))}", ref)
    rows = (record.split(_CELL) for record in printed.split(_RECORD)[1:])
    return [Commit(commit, subject, tuple(_REVERTED_COMMIT.findall(body))) for commit, subject, body in rows]


def read_patches(folder: Path, refs: Sequence[str], since: str, scope: Sequence[str]) -> dict[str, str]:
    """Return the patch id of each commit that changes the scope: the same for a pick without conflicts.

    Raises:
        CalledProcessError: git cannot read the history.
    """
    log = ["git", "-C", str(folder), "log", "-p", "--no-merges", "--no-renames", f"--since={since}", *refs]
    identify = ["git", "patch-id", "--stable"]
    with subprocess.Popen([*log, "--", *scope], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as printed:
        done = subprocess.run(identify, stdin=printed.stdout, capture_output=True, text=True, timeout=900, check=True)
    if printed.returncode:
        raise subprocess.CalledProcessError(printed.returncode, log)
    rows = (line.partition(" ") for line in done.stdout.splitlines())
    return {commit: patch for patch, _, commit in rows}


def ambiguous_keys(log: Iterable[Commit], patches: dict[str, str]) -> set[str]:
    """Return the title keys that one branch has for several changes: such a title tells no change from another."""
    seen: dict[str, set[str]] = {}
    for item in log:
        if item.commit in patches and not reverted_title(item.subject):
            seen.setdefault(title_key(item.subject), set()).add(patches[item.commit])
    return {key for key, several in seen.items() if len(several) > 1} | {""}


def held_by(log: Iterable[Commit], patches: dict[str, str], ambiguous: Iterable[str]) -> set[str]:
    """Return the marks (marks_of) of the changes that a revision holds: what a later commit took back is not held."""
    unclear = set(ambiguous)
    held: set[str] = set()
    taken_back: Counter[str] = Counter()
    commits_taken_back: set[str] = set()
    for item in log:
        own = _bare(item.subject)
        if taken_back[own] or item.commit in commits_taken_back:
            taken_back[own] -= bool(taken_back[own])
            continue
        held |= marks_of(item, patches, unclear)
        commits_taken_back.update(item.reverts)
        inner = reverted_title(item.subject)
        if inner:
            taken_back[_bare(inner)] += 1
    return held


class Twins:
    """By what a change is known on other branches: the same subject, or the same patch under another subject."""

    def __init__(self, logs: Iterable[Iterable[Commit]], patches: dict[str, str], ambiguous: Container[str]) -> None:
        self._ambiguous = ambiguous
        self._twins: dict[str, set[str]] = {}  # of a subject its patches, of a patch its subjects
        for log in logs:
            for item in log:
                key, patch = title_key(item.subject), patches.get(item.commit, "")
                if patch and key not in ambiguous:
                    self._twins.setdefault(key, set()).add(patch)
                    self._twins.setdefault(patch, set()).add(key)

    def marks_of(self, subject: str, patch: str) -> set[str]:
        """Return every subject key and patch that the change has on some branch."""
        key = title_key(subject)
        marks = {"" if key in self._ambiguous else key, patch} - {""}
        grown = marks
        while grown:
            grown = {twin for mark in grown for twin in self._twins.get(mark, ())} - marks
            marks |= grown
        return marks


def _bare(subject: str) -> str:
    """Return a subject without the tags before it and the numbers behind it: a revert cites it with or without them."""
    bare = re.sub(r"(?:\s*\([#!]\d+\))+$", "", subject_of(subject))
    return bare if reverted_title(bare) else _TAGS.sub("", bare).strip()


def marks_of(item: Commit, patches: dict[str, str], ambiguous: Iterable[str]) -> set[str]:
    """Return by what a change is known again: its commit, its patch, and its title unless others have the same."""
    marks = {item.commit}
    if item.commit in patches:
        marks.add(patches[item.commit])
    key = title_key(item.subject)
    if key and key not in ambiguous:
        marks.add(key)
    return marks


# --- what a change touches -------------------------------------------------------------------------------------


def read_changes(folder: Path, refs: Sequence[str], since: str, scope: Sequence[str]) -> Iterator[Change]:
    """Yield the changes of a scope that are reachable from refs, newest first."""
    with tempfile.NamedTemporaryFile("w", suffix=".attributes") as attributes:
        attributes.write(_ATTRIBUTES)
        attributes.flush()
        cells = _CELL.join(("%H", "%cs", "%s", "%b", ""))
        text = run_git(
            folder,
            *("-c", f"core.attributesFile={attributes.name}", "log", "-p", "-U0", "--no-renames", "--no-merges"),
            *(f"--since={since}", f"--format={_RECORD}{cells}", *refs, "--", *scope),
        )
    for record in text.split(_RECORD)[1:]:
        commit, date, subject, message, patch = record.split(_CELL, 4)
        yield Change(commit, date, subject, message, tuple(_places_in(patch)))


def _places_in(patch: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (file, functions) of a patch, without tests."""
    found = 0
    for part in patch.split("\ndiff --git ")[1:]:
        file = part.split(" b/", 1)[1].split("\n", 1)[0] if " b/" in part else ""
        if not file.endswith(_SOURCES) or _NOT_RUN.search(file):
            continue
        if found == MOST_FILES:
            return
        found += 1
        yield file, tuple(dict.fromkeys(_functions_in(part, file.endswith(".py"))))[:MOST_FUNCTIONS]


def _functions_in(part: str, is_python: bool) -> Iterator[str]:
    for line in part.split("\n"):
        if line.startswith("@@ "):
            head = line.split("@@", 2)[2]
        elif line[:1] in "+-" and re.match(r"[+-]\s*(?:async def|def|class) ", line) and is_python:
            head = line
        else:
            continue
        match = (_FUNCTION if is_python else _CPP_FUNCTION).search(head)
        if match and match.group(1) not in _NO_FUNCTION:
            yield match.group(1)

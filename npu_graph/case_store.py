"""Where cases are kept: one file per case, and history.md compiled from them with the counts at its top.

One file per case is what makes the store safe. A case is written whole or not at all and never touched by the
recording of another, so neither a crash nor a second writer can lose it, and git merges two people's cases without
a conflict. (In a single file it would not: git's union merge drops lines that two new entries share, such as a
closing fence.) history.md is what people read; it holds every entry in full and can be compiled again at any time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.case_files import (
    CASE_FOLDER,
    COUNTS_END,
    HISTORY_FILE,
    MAX_HISTORY_BYTES,
    TOP_BYTES,
    case_files,
    case_names,
    case_path,
    has_hand_written_entries,
    read_case_file,
    read_history,
)
from npu_graph.case_format import STATUSES, Case, Entry, clean_case, parse_cases, render_case
from npu_graph.file_lock import FileLock, replace_file, write_atomically
from npu_graph.patterns import PATTERN_FILE, STAGES
from npu_graph.plain_files import read_plain

LOCK_FILE = ".history.lock"
_LEFTOVER = re.compile(r"\.tmp-[0-9a-f]{16}-.*")
_LEFTOVER_SECONDS = 3600

# Text files of a knowledge folder that is kept in git. `union` keeps a merge from stopping at the compiled file.
_GIT_ATTRIBUTES = "history.md text eol=lf merge=union\ncases/*.md text eol=lf\n"
_GIT_IGNORE = ".history.lock*\n.tmp-*\n*.bak\n"

_COUNTS_BEGIN = "<!-- counts -->"
# The lines of the table of counts, and the stamp below it.
_COUNTS_LINES = re.compile(r"^(?:\|[ \w|:-]*\||<!-- (?:end of )?counts[^\n>]*-->|# Case history)$", re.M)
_TOP = f"""# Case history

Compiled by `kb.py` from the files in `{CASE_FOLDER}/`, one per case. To correct a case edit its own file, then run
`kb.py compile`. The form of an entry is explained in `CASE_TEMPLATE.md`.

{_COUNTS_BEGIN}
"""


class Written(NamedTuple):
    """What a write did: the case's file, and notes for the user."""

    path: Path
    notes: list[str]


class Counts(NamedTuple):
    """Cases by stage and status."""

    table: dict[tuple[str, str], int]

    @property
    def total(self) -> int:
        return sum(self.table.values())

    def of(self, stage: str, status: str) -> int:
        return self.table.get((stage, status), 0)


def new_case_id(now: float | None = None) -> str:
    """Return an id that no other machine will draw: the day and 40 random bits."""
    day = time.strftime("%Y%m%d", time.gmtime(now))
    return f"C-{day}-{secrets.token_hex(5)}"


def today() -> str:
    """Return the date of a new case (UTC, so that two machines agree)."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def append_case(folder: Path, case: Case) -> Written:
    """Record a new case: its own file first, then history.md.

    Safe with any number of writers. When the disk is full or the folder cannot be written nothing changes.

    Raises:
        cli.CommandError: exit code 4 when the folder cannot be written.
    """
    case = clean_case(case)
    with _writing(folder):
        _prepare(folder)
        with FileLock(folder / LOCK_FILE) as lock:
            path = case_path(folder, case.id)
            if path.exists():
                raise cli.CommandError(f"{path} exists already; a case id is used once", cli.INTERNAL)
            write_atomically(path, render_case(case).encode("utf-8"))
            try:
                notes = _add_to_history(folder, case, lock)
            except BaseException:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
    return Written(path, notes)


def add_cases(folder: Path, cases: Sequence[Case]) -> Written:
    """Add many cases at once: each its own file, then history.md once; all of them or none."""
    made: list[Path] = []
    with _writing(folder):
        _prepare(folder)
        with FileLock(folder / LOCK_FILE) as lock:
            try:
                for case in map(clean_case, cases):
                    path = case_path(folder, case.id)
                    if path.exists():
                        raise cli.CommandError(f"{path} exists already; a case id is used once", cli.INTERNAL)
                    write_atomically(path, render_case(case).encode("utf-8"), durable=False)
                    made.append(path)
                notes = _compile(folder, lock)
            except BaseException:
                for path in made:
                    with contextlib.suppress(OSError):
                        path.unlink()
                raise
    return Written(folder / HISTORY_FILE, notes)


def replace_case(folder: Path, case: Case) -> Written:
    """Write a changed case over its file (or add it to this folder, when another folder holds the original)."""
    case = clean_case(case)
    with _writing(folder):
        _prepare(folder)
        with FileLock(folder / LOCK_FILE) as lock:
            path = case_path(folder, case.id)
            before = path.read_bytes() if path.exists() else None
            kept = _kept_aside(path) if before is not None else None
            try:
                write_atomically(path, render_case(case).encode("utf-8"))
                notes = _change_in_history(folder, before, case, lock)
            except BaseException:
                with contextlib.suppress(OSError):
                    if kept is None:
                        path.unlink()
                    else:
                        replace_file(kept, path)
                        kept.unlink()  # renaming one name of a file over another of the same file does nothing
                raise
            if kept is not None:
                with contextlib.suppress(OSError):
                    kept.unlink()
    return Written(path, notes)


def add_pattern(folder: Path, text: str) -> Path:
    """Append one pattern to the folder's known-patterns.md, which is made when it is missing."""
    path = folder / PATTERN_FILE
    with _writing(folder):
        _prepare(folder)
        with FileLock(folder / LOCK_FILE):
            before = path.read_bytes() if path.exists() else b"# Patterns of our own\n"
            write_atomically(path, before.rstrip(b"\n") + b"\n\n" + text.encode("utf-8"))
    return path


def compile_history(folder: Path) -> Written:
    """Write history.md again from the case files; entries written into it by hand get a file of their own first."""
    with _writing(folder):
        _prepare(folder)
        with FileLock(folder / LOCK_FILE) as lock:
            notes = _compile(folder, lock)
    return Written(folder / HISTORY_FILE, notes)


def count_cases(cases: Iterable[Case]) -> Counts:
    """Count by stage and status."""
    table: dict[tuple[str, str], int] = {}
    for case in cases:
        key = (case.stage or "unknown", case.status or "suspected")
        table[key] = table.get(key, 0) + 1
    return Counts(table)


def render_counts(counts: Counts) -> str:
    """Return the table at the top of history.md."""
    rows = ["| stage | confirmed | suspected | retired | all |", "| --- | ---: | ---: | ---: | ---: |"]
    for stage in STAGES:
        numbers = [counts.of(stage, status) for status in STATUSES]
        rows.append(f"| {stage} | {' | '.join(map(str, numbers))} | {sum(numbers)} |")
    totals = [sum(counts.of(stage, status) for stage in STAGES) for status in STATUSES]
    rows.append(f"| all | {' | '.join(map(str, totals))} | {sum(totals)} |")
    return "\n".join(rows) + "\n"


_COUNT_ROW = re.compile(r"\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|")


def parse_counts(text: str) -> Counts | None:
    """Read the table at the top of history.md back; None when it is not whole."""
    table: dict[tuple[str, str], int] = {}
    stages = []
    for row in _COUNT_ROW.findall(text.partition(_COUNTS_BEGIN)[2]):
        if row[0] == "all":
            break
        stages.append(row[0])
        table.update({(row[0], status): int(number) for status, number in zip(STATUSES, row[1:]) if int(number)})
    return Counts(table) if tuple(stages) == STAGES else None


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn what the system says about a write into one line with what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            reason = "the disk or quota is full; free some space and run it again"
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            reason = "it cannot be written; set NPU_GRAPH_KNOWLEDGE to a folder of yours"
        else:
            reason = f"{error.strerror or type(error).__name__}; set NPU_GRAPH_KNOWLEDGE to a folder of yours"
        raise cli.CommandError(f"{folder}: nothing was recorded: {reason}", cli.ABSENT) from None


def _kept_aside(path: Path) -> Path:
    """Return a second name of a file, from which it can be restored when the disk is full."""
    aside = path.with_name(f".tmp-{secrets.token_hex(8)}-{path.name}")
    try:
        os.link(str(path), str(aside))
    except (OSError, AttributeError):  # a file system without hard links
        write_atomically(aside, path.read_bytes())
    return aside


def _prepare(folder: Path) -> None:
    (folder / CASE_FOLDER).mkdir(parents=True, exist_ok=True)
    for name, text in ((".gitattributes", _GIT_ATTRIBUTES), (".gitignore", _GIT_IGNORE)):
        if not (folder / name).exists():
            write_atomically(folder / name, text.encode("utf-8"), durable=False)


class _History(NamedTuple):
    """history.md as kb.py wrote it last: its counts and its body."""

    counts: Counts
    body: bytes


def _sound_history(folder: Path, cases_expected: int) -> _History | None:
    """Return history.md when it is as kb.py wrote it and holds that many cases, else None (compile it)."""
    try:
        data = read_plain(folder / HISTORY_FILE, MAX_HISTORY_BYTES)
    except FileNotFoundError:
        return None
    stamp = COUNTS_END.search(data[:TOP_BYTES])
    counts = parse_counts(data[: stamp.start()].decode("utf-8", "replace")) if stamp else None
    if stamp is None or counts is None or len(data) - stamp.end() != int(stamp.group(1)):
        return None
    return _History(counts, data[stamp.end() :]) if counts.total == cases_expected else None


def _add_to_history(folder: Path, case: Case, lock: FileLock) -> list[str]:
    """Append one entry and raise its count, without reading the other cases."""
    history = _sound_history(folder, len(case_names(folder)) - 1)
    if history is None:
        return _compile(folder, lock)
    counts = _shifted(history.counts, case, 1)
    _write_history(folder, counts, history.body + b"\n" + render_case(case).encode("utf-8"), lock)
    return []


def _change_in_history(folder: Path, before: bytes | None, case: Case, lock: FileLock) -> list[str]:
    """Put the changed entry in the place of the one that stood there."""
    history = _sound_history(folder, len(case_names(folder)))
    old = parse_cases(before.decode("utf-8", "replace"), "").entries if before else []
    if history is None or not before or len(old) != 1 or history.body.count(before) != 1:
        return _compile(folder, lock)
    counts = _shifted(_shifted(history.counts, old[0].case, -1), case, 1)
    _write_history(folder, counts, history.body.replace(before, render_case(case).encode("utf-8")), lock)
    return []


def _shifted(counts: Counts, case: Case, by: int) -> Counts:
    key = (case.stage or "unknown", case.status or "suspected")
    return Counts({**counts.table, key: counts.of(*key) + by})


def _compile(folder: Path, lock: FileLock) -> list[str]:
    notes = _rescue(folder)
    _remove_leftovers(folder)
    cases: list[Case] = []
    for path in case_files(folder):
        parsed = read_case_file(path)
        cases += [entry.case for entry in parsed.entries]
        notes += [f"{problem.file}:{problem.line}: {problem.message}" for problem in parsed.problems]
    body = "".join("\n" + render_case(clean_case(case)) for case in cases)
    _write_history(folder, count_cases(cases), body.encode("utf-8"), lock)
    return notes


def _write_history(folder: Path, counts: Counts, body: bytes, lock: FileLock) -> None:
    top = f"{_TOP}{render_counts(counts)}<!-- end of counts; body {len(body)} bytes -->\n"
    if not lock.is_held():
        # Another process took the lock for stale and writes history.md itself, from the same case files.
        return
    write_atomically(folder / HISTORY_FILE, top.encode("utf-8") + body, durable=False)


def _rescue(folder: Path) -> list[str]:
    """Before history.md is written over: keep what only it holds. Returns notes for the user."""
    if not has_hand_written_entries(folder):
        return []
    notes: list[str] = []
    parsed = read_history(folder)
    faulty = {problem.line for problem in parsed.problems}
    # A remark, a heading of somebody's own, a broken entry: what is no whole case goes into no case file.
    at_risk = bool(parsed.problems) or _has_stray_text(folder / HISTORY_FILE)
    for entry, end in _with_ends(parsed.entries):
        path = case_path(folder, entry.case.id)
        is_sound = not any(entry.line <= line < end for line in faulty)
        if not path.exists() and is_sound:
            write_atomically(path, render_case(clean_case(entry.case)).encode("utf-8"))
            notes.append(f"{entry.case.id} was written by hand into {HISTORY_FILE}; it has its own file now")
        elif not path.exists():
            at_risk = True
            notes.append(f"{entry.file}:{entry.line}: {entry.case.id} has a fault and no case file; see the .bak file")
        elif is_sound and [entry.case] != [found.case for found in read_case_file(path).entries]:
            at_risk = True
            notes.append(
                f"{entry.file}:{entry.line}: {entry.case.id} was edited here; its case file counts; see the .bak file"
            )
    if at_risk:
        backup = folder / f"history-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}.bak"
        write_atomically(backup, read_plain(folder / HISTORY_FILE, MAX_HISTORY_BYTES))
        notes.append(f"the former {HISTORY_FILE} is kept as {backup.name}")
    return notes


def _has_stray_text(path: Path) -> bool:
    """Say whether history.md has text above its first entry that kb.py did not write."""
    text = read_plain(path, MAX_HISTORY_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    top = text[: text.index("\n## ")] if "\n## " in text else text
    for own in (_TOP, *_COUNTS_LINES.findall(top)):
        top = top.replace(own, "")
    return bool(top.strip())


def _with_ends(entries: list[Entry]) -> list[tuple[Entry, int]]:
    ends = [entry.line for entry in entries[1:]] + [1 << 60]
    return list(zip(entries, ends))


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that were killed."""
    for place in (folder, folder / CASE_FOLDER):
        for path in place.glob(".tmp-*"):
            with contextlib.suppress(OSError):
                if _LEFTOVER.fullmatch(path.name) and time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                    path.unlink()

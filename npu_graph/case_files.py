"""Where the cases of a knowledge folder lie, and how they are read: one file per case, and history.md."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from npu_graph.case_format import ID_FORM, Entry, Parsed, parse_cases
from npu_graph.expressions import compile_on_use
from npu_graph.patterns import Problem
from npu_graph.plain_files import read_plain

HISTORY_FILE = "history.md"
CASE_FOLDER = "cases"
MAX_CASE_BYTES = 512 * 1024
MAX_HISTORY_BYTES = 256 * 1024 * 1024
# The top of history.md: a table of counts, then the number of bytes that follow.
TOP_BYTES = 16 * 1024
# That number tells whether the body is as kb.py wrote it; if not, it is read before it is compiled again.
COUNTS_END = compile_on_use(rb"<!-- end of counts; body (\d{1,12}) bytes -->\n")
CASE_NAME = compile_on_use(rf"({ID_FORM})\.md")


def case_files(folder: Path, at_most: int | None = None) -> list[Path]:
    """Return the case files of a knowledge folder, in the order of their ids; `at_most` of them (any) when given."""
    return [folder / CASE_FOLDER / name for name in sorted(case_names(folder, at_most))]


def case_names(folder: Path, at_most: int | None = None) -> list[str]:
    """Return the names of the case files, in no order; none when the folder is not there."""
    try:
        with os.scandir(str(folder / CASE_FOLDER)) as files:
            names = (file.name for file in files if CASE_NAME.fullmatch(file.name))
            return list(itertools.islice(names, at_most))
    except OSError:
        return []


def case_path(folder: Path, identity: str) -> Path:
    """Return the file of a case, which need not exist."""
    return folder / CASE_FOLDER / f"{identity}.md"


def knowledge_folder_of(file: Path) -> Path:
    """Return the knowledge folder that a case's file, or history.md, belongs to."""
    return file.parent if file.name == HISTORY_FILE else file.parent.parent


def read_case_file(path: Path) -> Parsed:
    """Read one case file: at most one entry, and what is wrong with it."""
    try:
        data = read_plain(path, MAX_CASE_BYTES + 1)
    except OSError as error:
        return Parsed([], [Problem(str(path), 0, f"cannot be read: {error.strerror or type(error).__name__}")])
    parsed = parse_cases(data[:MAX_CASE_BYTES].decode("utf-8-sig", "replace"), str(path))
    problems = list(parsed.problems)
    if len(data) > MAX_CASE_BYTES:
        problems.append(Problem(str(path), 0, f"longer than {MAX_CASE_BYTES} bytes; the rest is not read"))
    expected = CASE_NAME.fullmatch(path.name)
    entries = [entry for entry in parsed.entries if expected is None or entry.case.id == expected.group(1)]
    problems += [
        Problem(
            str(path), entry.line, f"{entry.case.id} does not belong here; a case file holds the case it is named after"
        )
        for entry in parsed.entries
        if entry not in entries
    ]
    if not entries:
        problems.append(Problem(str(path), 1, f"no entry '## {path.stem} — title' in this file"))
    problems += [Problem(str(path), entry.line, f"{entry.case.id} stands twice in this file") for entry in entries[1:]]
    return Parsed(entries[:1], problems)


def read_history(folder: Path) -> Parsed:
    """Read history.md itself: what people see."""
    path = folder / HISTORY_FILE
    try:
        data = read_plain(path, MAX_HISTORY_BYTES)
    except FileNotFoundError:
        return Parsed([], [])
    except OSError as error:
        return Parsed([], [Problem(str(path), 0, f"cannot be read: {error.strerror or type(error).__name__}")])
    return parse_cases(data.decode("utf-8-sig", "replace"), str(path))


def has_hand_written_entries(folder: Path) -> bool:
    """Say whether history.md may hold entries that no case file has: its body is not as kb.py wrote it."""
    try:
        head = read_plain(folder / HISTORY_FILE, TOP_BYTES)
        size = (folder / HISTORY_FILE).stat().st_size
    except OSError:
        return False
    stamp = COUNTS_END.search(head)
    return stamp is None or size - stamp.end() != int(stamp.group(1))


def read_folder(folder: Path) -> Parsed:
    """Read every case of one folder: the case files, and entries written by hand into history.md."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    for path in case_files(folder):
        parsed = read_case_file(path)
        entries += parsed.entries
        problems += parsed.problems
    if has_hand_written_entries(folder):
        known = {entry.case.id for entry in entries}
        entries += [entry for entry in read_history(folder).entries if entry.case.id not in known]
    return Parsed(entries, problems)

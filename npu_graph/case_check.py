"""Checks of the knowledge files: every fault by file and line, and how much was looked at."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

from npu_graph.case_files import HISTORY_FILE, TOP_BYTES, case_path, read_folder, read_history
from npu_graph.case_format import Entry, clean_case
from npu_graph.case_store import count_cases, parse_counts
from npu_graph.patterns import Problem, check_pattern, load_patterns


class CheckResult(NamedTuple):
    """What was found, and how many patterns and cases were looked at."""

    problems: list[Problem]
    patterns: int
    cases: int


def check_folders(folders: Sequence[Path]) -> CheckResult:
    """Check the patterns and cases of every folder: grammar, ids, expressions, sources, counts, history.md."""
    loaded = load_patterns(folders)
    problems = list(loaded.problems)
    for pattern in loaded.patterns:
        problems += check_pattern(pattern)
        if not pattern.sources:
            problems.append(Problem(pattern.file, pattern.line, f"{pattern.id}: no source that can be opened"))
    known = {pattern.id for pattern in loaded.patterns}
    cases = 0
    for folder in folders:
        parsed = read_folder(Path(folder))
        cases += len(parsed.entries)
        problems += parsed.problems
        problems += [problem for entry in parsed.entries for problem in _check_case(entry, known)]
        problems += check_history(Path(folder), parsed.entries)
    distinct = dict.fromkeys(problems)
    return CheckResult(sorted(distinct, key=lambda item: (item.file, item.line)), len(loaded.patterns), cases)


def check_history(folder: Path, entries: Sequence[Entry]) -> list[Problem]:
    """Compare history.md with the cases: every entry there and the same, the counts right."""
    path = folder / HISTORY_FILE
    if not path.is_file():
        return [Problem(str(path), 0, "is missing; run kb.py compile")] if entries else []
    shown = read_history(folder)
    problems = list(shown.problems)
    by_id: dict[str, Entry] = {}
    for entry in shown.entries:
        if entry.case.id in by_id:
            problems.append(Problem(str(path), entry.line, f"{entry.case.id} stands twice in {HISTORY_FILE}"))
        by_id.setdefault(entry.case.id, entry)
        if not case_path(folder, entry.case.id).is_file():
            problems.append(
                Problem(str(path), entry.line, f"{entry.case.id} has no case file; kb.py compile makes one")
            )
    for entry in entries:
        seen = by_id.get(entry.case.id)
        if seen is None:
            problems.append(Problem(str(path), 0, f"lacks {entry.case.id}; run kb.py compile"))
        elif clean_case(seen.case) != clean_case(entry.case):
            problems.append(
                Problem(
                    str(path), seen.line, f"{entry.case.id} differs from its case file; edit that and run kb.py compile"
                )
            )
    with path.open("rb") as source:
        top = source.read(TOP_BYTES).decode("utf-8", "replace")
    if parse_counts(top) != count_cases(entry.case for entry in entries):
        problems.append(Problem(str(path), 1, "the counts at the top are not those of the cases; run kb.py compile"))
    return problems


def _check_case(entry: Entry, known_patterns: set[str]) -> list[Problem]:
    case = entry.case
    problems = []
    if case.pattern and case.pattern not in known_patterns:
        problems.append(
            Problem(entry.file, entry.line, f"{case.id}: pattern {case.pattern[:40]!r} is not in known-patterns.md")
        )
    if case.status == "confirmed" and not (case.verification or case.sources):
        problems.append(Problem(entry.file, entry.line, f"{case.id}: confirmed, but without verification or source"))
    if case.status == "retired" and not case.retired_because:
        problems.append(Problem(entry.file, entry.line, f"{case.id}: retired without a reason"))
    return problems

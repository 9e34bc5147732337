"""kb.py promote: a new pattern from confirmed cases that fail alike."""

from __future__ import annotations

import argparse
from typing import Sequence

from npu_graph import bundle, cli
from npu_graph.case_format import Case, clean_line
from npu_graph.case_record import CASES_FOR_A_PATTERN, SAME_SIGNATURE_FROM, matching_patterns, named_case
from npu_graph.cases import read_cases, similar_cases
from npu_graph.pattern_promotion import propose_pattern, write_pattern
from npu_graph.patterns import Pattern, load_patterns

from .output import Command, answer

SHOWN = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of promote."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="confirmed cases; one finds its like, none lists groups")
    parser.add_argument("--write", action="store_true", help="append it to known-patterns.md, else it is only shown")


def run_promote(arguments: argparse.Namespace) -> int:
    """Propose a pattern, and write it when asked."""
    folders = bundle.knowledge_folders()
    patterns = load_patterns(folders).patterns
    if not arguments.ids:
        return _list_groups(arguments, patterns)
    cases = [named_case(name).case for name in dict.fromkeys(arguments.ids)]
    if len(cases) == 1:
        cases += _like(cases[0], patterns)
    unconfirmed = [case.id for case in cases if case.status != "confirmed"]
    if unconfirmed:
        raise cli.CommandError(f"{unconfirmed[0]} is not confirmed; a pattern rests on confirmed cases", cli.NEGATIVE)
    if len(cases) < CASES_FOR_A_PATTERN:
        raise cli.CommandError(f"a pattern needs {CASES_FOR_A_PATTERN} confirmed cases that fail alike", cli.NEGATIVE)
    chosen = {case.id for case in cases}
    others = [entry.case for entry in read_cases(folders).entries.values() if entry.case.id not in chosen]
    proposal = propose_pattern(cases, patterns, others)
    file = ""
    if arguments.write:
        file = str(write_pattern(bundle.writable_knowledge_folder(), proposal, cases))
    text = proposal.text + "".join(f"dropped: {line}\n" for line in proposal.dropped[:SHOWN])
    text += f"written to {file}\n" if file else "not written; --write appends it to known-patterns.md\n"
    record = {
        "id": proposal.identity,
        "cases": sorted(chosen),
        "signature": proposal.signature,
        "dropped": proposal.dropped,
        "text": proposal.text,
        "file": file or None,
    }
    answer(arguments, record, text)
    return cli.DONE


def _like(case: Case, patterns: Sequence[Pattern]) -> list[Case]:
    found = similar_cases(case.symptom, folders=bundle.knowledge_folders(), limit=SHOWN, seconds=None)
    return [other for other, points in found if other.id != case.id and _is_open(other, patterns, points)]


def _is_open(case: Case, patterns: Sequence[Pattern], points: float = 1.0) -> bool:
    """Say whether a confirmed case is covered by no pattern."""
    if case.status != "confirmed" or points < SAME_SIGNATURE_FROM:
        return False
    named = case.pattern in {pattern.id for pattern in patterns}
    return not named and not matching_patterns(case.symptom, patterns)


def _list_groups(arguments: argparse.Namespace, patterns: Sequence[Pattern]) -> int:
    entries = read_cases(bundle.knowledge_folders()).entries
    groups: list[list[Case]] = []
    taken: set[str] = set()
    for case in (entry.case for entry in entries.values()):
        if case.id in taken or not _is_open(case, patterns):
            continue
        group = [case, *_like(case, patterns)]
        if len(group) >= CASES_FOR_A_PATTERN:
            groups.append(group)
            taken.update(member.id for member in group)
    lines = [f"{' '.join(case.id for case in group)}  {clean_line(group[0].title, 80)}" for group in groups]
    text = "\n".join(lines) or "no two confirmed cases without a pattern fail alike"
    answer(arguments, {"groups": [[case.id for case in group] for group in groups]}, text)
    return cli.DONE if groups else cli.NEGATIVE


PROMOTE = Command(
    "promote",
    "propose a new pattern from confirmed cases that fail alike; written only with --write",
    ("kb.py promote", "kb.py promote C-20261130-0123456789 C-20261130-aaaaaaaaaa --write"),
    add_options,
    run_promote,
)

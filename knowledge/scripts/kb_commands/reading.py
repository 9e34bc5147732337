"""kb.py search, list and stats: what the case base holds."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any, Callable, Sequence

from npu_graph import bundle, case_record, cli
from npu_graph.case_format import STATUSES, Case, clean_line
from npu_graph.cases import CaseBase, read_cases, similar_cases
from npu_graph.patterns import OWNERS, STAGES, load_patterns, search_patterns

from .output import Command, answer, no_options, table

# A page of a list; --all prints everything.
LIST_LIMIT = 50
SEARCH_LIMIT = 5
# What stats counts by.
GROUPS: tuple[tuple[str, Callable[[Case], str]], ...] = (
    ("stage", lambda case: case.stage),
    ("status", lambda case: case.status),
    ("owner", lambda case: case.owner),
    ("month", lambda case: case.date[:7]),
    ("pattern", lambda case: case.pattern),
)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of search."""
    parser.add_argument("text", nargs="+", metavar="TEXT", help="words or an error text; '-' reads standard input")
    parser.add_argument("--limit", type=_positive, default=SEARCH_LIMIT, help="how many at most (default %(default)s)")


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of list."""
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--status", choices=STATUSES)
    parser.add_argument("--owner", choices=OWNERS)
    parser.add_argument("--all", action="store_true", help=f"all of them, not only {LIST_LIMIT}")


def run_search(arguments: argparse.Namespace) -> int:
    """List cases and patterns that resemble a text."""
    text = cli.read_inputs(["-"])[0].text if arguments.text == ["-"] else " ".join(arguments.text)
    folders = bundle.knowledge_folders()
    found = similar_cases(text, folders=folders, limit=arguments.limit, seconds=None)
    patterns = load_patterns(folders).patterns
    hits = set(case_record.matching_patterns(text, patterns))
    by_words = search_patterns(patterns, text, arguments.limit)
    matched = [pattern for pattern in patterns if pattern.id in hits]
    matched += [pattern for pattern in by_words if pattern.id not in hits]
    rows = [(case.id, f"{points:.2f}", case.status, case.stage, clean_line(case.title, 100)) for case, points in found]
    rows += [(pattern.id, "", "pattern", pattern.stage, clean_line(pattern.title, 100)) for pattern in matched]
    record = {
        "cases": [
            {"id": case.id, "title": case.title, "score": points, "status": case.status} for case, points in found
        ],
        "patterns": [{"id": pattern.id, "title": pattern.title} for pattern in matched],
    }
    answer(
        arguments,
        record,
        table(arguments, ("id", "score", "status", "stage", "title"), rows) or "nothing resembles it\n",
    )
    return cli.DONE if rows else cli.NEGATIVE


def run_list(arguments: argparse.Namespace) -> int:
    """List the cases, newest first."""
    wanted = [(name, getattr(arguments, name)) for name in ("stage", "status", "owner") if getattr(arguments, name)]
    cases = [entry.case for entry in _base().entries.values()]
    cases = [case for case in cases if all(getattr(case, name) == value for name, value in wanted)]
    cases.sort(key=lambda case: (case.date, case.id), reverse=True)
    shown = cases if arguments.all else cases[:LIST_LIMIT]
    rows = [(case.id, case.status, case.stage, case.layer, case.owner, clean_line(case.title, 90)) for case in shown]
    text = table(arguments, ("id", "status", "stage", "layer", "owner", "title"), rows) or "no case\n"
    if len(shown) < len(cases):
        text += f"{len(cases) - len(shown)} more; --all lists them\n"
    names = ("id", "title", "date", "status", "stage", "layer", "owner", "pattern")
    record = {"total": len(cases), "cases": [{name: getattr(case, name) for name in names} for case in shown]}
    answer(arguments, record, text, whole=arguments.all)
    return cli.DONE if cases else cli.NEGATIVE


def run_stats(arguments: argparse.Namespace) -> int:
    """Print how many cases there are, by what and over time, and which patterns hit."""
    patterns = load_patterns(bundle.knowledge_folders()).patterns
    cases = [entry.case for entry in _base().entries.values()]
    record: dict[str, Any] = {"total": len(cases)}
    lines = [f"{len(cases)} cases"]
    for name, key in GROUPS:
        counts = Counter(key(case) or "none" for case in cases)
        record[name] = dict(sorted(counts.items()))
        if name != "pattern":  # below, with later sightings counted
            lines.append(f"by {name}: " + ", ".join(f"{value} {number}" for value, number in sorted(counts.items())))
    record["stage_by_month"] = stages_by_month(cases)
    record["pattern_hits"] = pattern_hits(cases)
    record["patterns_without_case"] = [pattern.id for pattern in patterns if pattern.id not in record["pattern_hits"]]
    hits = [f"{identity} {number}" for identity, number in record["pattern_hits"].items()]
    lines.append("patterns that hit: " + (", ".join(hits) or "none"))
    lines.append("patterns that never hit: " + (", ".join(record["patterns_without_case"]) or "none"))
    used = [stage for stage in STAGES if stage in record["stage"]]
    rows = [(month, *(str(row.get(stage, 0)) for stage in used)) for month, row in record["stage_by_month"].items()]
    answer(arguments, record, "\n".join(lines) + "\n\n" + table(arguments, ("month", *used), rows))
    return cli.DONE


def stages_by_month(cases: Sequence[Case]) -> dict[str, dict[str, int]]:
    """Return how many cases of each stage were recorded in each month, the oldest month first."""
    months: dict[str, Counter[str]] = {}
    for case in cases:
        months.setdefault(case.date[:7] or "none", Counter())[case.stage] += 1
    return {month: dict(sorted(row.items())) for month, row in sorted(months.items())}


def pattern_hits(cases: Sequence[Case]) -> dict[str, int]:
    """Return how often each pattern was seen, the most frequent first: each case and each later sighting of it counts.

    A retired case counts nowhere: it was wrong, or recorded twice.
    """
    hits: Counter[str] = Counter()
    for case in cases:
        if case.pattern and case.status != "retired":
            hits[case.pattern] += 1 + sum(1 for line in case.seen_again.split("\n") if line)
    return dict(sorted(hits.items(), key=lambda item: (-item[1], item[0])))


def _base() -> CaseBase:
    base = read_cases(bundle.knowledge_folders())
    if base.problems:
        print(f"kb.py: {len(base.problems)} fault(s) in the case files; kb.py check lists them", file=sys.stderr)
    return base


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("expected 1 to 1000")
    return value


READING = (
    Command(
        "search",
        "list cases that resemble a text, and patterns that match it",
        ("kb.py search 107027", "kb.py search - < stack.txt"),
        add_search_options,
        run_search,
    ),
    Command(
        "list",
        "list the cases, newest first",
        ("kb.py list", "kb.py list --stage capture --all"),
        add_list_options,
        run_list,
    ),
    Command(
        "stats",
        "cases by stage, status, owner and month; which patterns hit and which never do",
        ("kb.py stats", "kb.py stats --output json"),
        no_options,
        run_stats,
    ),
)

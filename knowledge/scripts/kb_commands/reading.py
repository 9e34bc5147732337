"""kb.py search, show, list and stats: what the case base holds."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Callable

from npu_graph import bundle, case_record, cli
from npu_graph.case_format import STATUSES, Case, clean_case, clean_line, clean_text, render_case
from npu_graph.cases import CaseBase, read_cases, similar_cases
from npu_graph.patterns import OWNERS, STAGES, load_patterns, search_patterns

from .output import Command, answer, case_as_json, no_options, table

# A page of a list; --all prints everything.
LIST_LIMIT = 50
SEARCH_LIMIT = 5


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of search."""
    parser.add_argument("text", nargs="+", metavar="TEXT", help="words or an error text; '-' reads standard input")
    parser.add_argument("--limit", type=_positive, default=SEARCH_LIMIT, help="how many at most (default %(default)s)")


def add_show_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of show."""
    parser.add_argument("id", metavar="ID", help="id of a case or a pattern; the beginning is enough when it is unique")
    parser.add_argument("--all", action="store_true", help="print it whole, however long")


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


def run_show(arguments: argparse.Namespace) -> int:
    """Print one case or pattern."""
    if arguments.id.upper().startswith("P-"):
        for pattern in load_patterns(bundle.knowledge_folders()).patterns:
            if pattern.id == arguments.id.upper():
                record = {
                    "id": pattern.id,
                    "title": pattern.title,
                    "fields": pattern.fields,
                    "signature": pattern.signature._asdict(),
                }
                answer(arguments, record, _section(Path(pattern.file), pattern.line), whole=arguments.all)
                return cli.DONE
        raise cli.CommandError(f"no pattern {clean_line(arguments.id, 40)}; see known-patterns.md", cli.NEGATIVE)
    case = clean_case(case_record.named_case(arguments.id).case)
    answer(arguments, {"case": case_as_json(case)}, render_case(case), whole=arguments.all)
    return cli.DONE


def _section(path: Path, line: int) -> str:
    lines = path.read_text(encoding="utf-8-sig").splitlines()[line - 1 :]
    end = next((n for n, text in enumerate(lines[1:], 1) if re.match(r"#{1,3} ", text)), len(lines))
    return clean_text("\n".join(lines[:end]).rstrip())


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
    """Print how many cases there are, by what, and which patterns hit."""
    folders = bundle.knowledge_folders()
    cases = [entry.case for entry in _base().entries.values()]
    groups: list[tuple[str, Callable[[Case], str]]] = [
        ("stage", lambda case: case.stage),
        ("status", lambda case: case.status),
        ("owner", lambda case: case.owner),
        ("month", lambda case: case.date[:7]),
        ("pattern", lambda case: case.pattern),
    ]
    record: dict[str, Any] = {"total": len(cases)}
    lines = [f"{len(cases)} cases"]
    for name, key in groups:
        counts: dict[str, int] = {}
        for case in cases:
            counts[key(case) or "none"] = counts.get(key(case) or "none", 0) + 1
        record[name] = dict(sorted(counts.items()))
        lines.append(f"by {name}: " + ", ".join(f"{value} {number}" for value, number in sorted(counts.items())))
    months: dict[str, dict[str, int]] = {}
    for case in cases:
        row = months.setdefault(case.date[:7] or "none", {})
        row[case.stage] = row.get(case.stage, 0) + 1
    record["stage_by_month"] = {month: dict(sorted(row.items())) for month, row in sorted(months.items())}
    record["patterns_without_case"] = [
        pattern.id for pattern in load_patterns(folders).patterns if pattern.id not in record["pattern"]
    ]
    lines.append("patterns without a case: " + (", ".join(record["patterns_without_case"]) or "none"))
    answer(arguments, record, "\n".join(lines))
    return cli.DONE


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
        "show",
        "print one case or pattern",
        ("kb.py show C-20261130-0123456789", "kb.py show P-CAP-001"),
        add_show_options,
        run_show,
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
        "cases per stage, owner and month; which patterns hit and which never do",
        ("kb.py stats", "kb.py stats --output json"),
        no_options,
        run_stats,
    ),
)

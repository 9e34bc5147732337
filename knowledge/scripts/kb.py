#!/usr/bin/env python3
"""Keep the case base: record a diagnosed failure, find similar ones, check the knowledge files.

Usage: kb.py record|search|show|list|retire|check|compile|stats [options]   (kb.py COMMAND --help)

Reads the shipped knowledge and every overlay; writes to $NPU_GRAPH_KNOWLEDGE, else to the bundle's knowledge/ when
it can be written, else to .npu-graph/knowledge/ of the project. A case is one file in cases/; history.md is compiled
from them. Secrets and names are hidden before anything is written. Never asks a question.

Exit codes: 0 done, 1 the answer is negative (duplicate, not found, check failed), 2 wrong usage, 3 no usable input,
4 the knowledge folder cannot be written, 5 internal error.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import bundle, case_check, case_record, case_store, cli
from npu_graph.case_format import ID_FORM, STATUSES, Case, clean_case, clean_line, render_case
from npu_graph.cases import CaseBase, find_case, read_cases, similar_cases
from npu_graph.patterns import LAYERS, OWNERS, STAGES, load_patterns
from npu_graph.redaction import Redactor, machine_names

# A page of a list; --all prints everything.
LIST_LIMIT = 50
SEARCH_LIMIT = 5
# Options of `record` that set one field each.
RECORD_FIELDS = (
    ("title", "title", "one line; taken from the error when left out"),
    ("location", "location", "function and file:line where it was raised"),
    ("pattern", "pattern", "id of the pattern that covers it, such as P-CAP-001"),
    ("symptom", "symptom", "the error text as it appeared"),
    ("cause", "direct_cause", "why it failed"),
    ("first-cause", "first_cause", "the earliest error that explains the rest"),
    ("trigger", "trigger", "what the user did or set that brings it about"),
    ("scope", "scope", "versions, models, settings that are affected; and that are not"),
    ("fix-now", "fix_now", "what helps at once"),
    ("fix-for-good", "fix_for_good", "what removes the cause"),
)
REPEATED_FIELDS = (
    ("verify", "verification", "\n", "how it was verified, with the result"),
    ("source", "sources", "\n", "where it can be read: an issue, a commit, repo@branch file function"),
    ("env", "environment", "; ", "versions and variables, such as 'torch_npu 2.10.0'"),
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = cli.make_parser(
        "Keep the case base of graph-mode failures: record, search, show, check.",
        [
            "diagnose.py stack.txt --output json | kb.py record --from - --symptom-file stack.txt",
            "kb.py search 'error code is 107027'",
        ],
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_record(commands)
    search = _add_command(
        commands, "search", "list cases that resemble a text", ["kb.py search 107027", "kb.py search - < stack.txt"]
    )
    search.add_argument("text", nargs="+", metavar="TEXT", help="words or an error text; '-' reads standard input")
    search.add_argument("--limit", type=_positive, default=SEARCH_LIMIT, help="how many at most (default %(default)s)")
    show = _add_command(
        commands, "show", "print one case or pattern", ["kb.py show C-20261130-0123456789", "kb.py show P-CAP-001"]
    )
    show.add_argument("id", metavar="ID", help="id of a case or a pattern; the beginning is enough when it is unique")
    show.add_argument("--all", action="store_true", help="print it whole, however long")
    listing = _add_command(
        commands, "list", "list the cases, newest first", ["kb.py list", "kb.py list --stage capture --all"]
    )
    listing.add_argument("--stage", choices=STAGES)
    listing.add_argument("--status", choices=STATUSES)
    listing.add_argument("--owner", choices=OWNERS)
    listing.add_argument("--all", action="store_true", help=f"all of them, not only {LIST_LIMIT}")
    retire = _add_command(
        commands, "retire", "take a case out of the search, with the reason", ["kb.py retire ID --why 'recorded twice'"]
    )
    retire.add_argument("id", metavar="ID")
    retire.add_argument("--why", required=True, metavar="TEXT", help="the reason, kept with the case")
    check = _add_command(
        commands, "check", "check patterns, cases and counts; every fault by file:line", ["kb.py check"]
    )
    check.add_argument("--folder", action="append", metavar="DIR", help="check this folder only (may be repeated)")
    _add_command(commands, "compile", "write history.md again from the case files", ["kb.py compile"])
    _add_command(
        commands, "stats", "cases per stage, owner and month; which patterns hit", ["kb.py stats --output json"]
    )
    return parser


def _add_command(commands: Any, name: str, purpose: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    model = cli.make_parser(purpose, examples)
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=model.description, epilog=model.epilog, formatter_class=model.formatter_class
    )
    parser.add_argument(
        "--output", choices=("text", "json", "md"), default="text", help="form of the answer (default text)"
    )
    return parser


def _add_record(commands: Any) -> None:
    parser = _add_command(
        commands,
        "record",
        "record a case: from a diagnosis, from fields, or both (a field wins)",
        [
            "kb.py record --from diagnosis.json --symptom-file stack.txt --verify 'replayed 100 times, same as eager'",
            "kb.py record --stage capture --layer L2 --owner user_code --symptom 'NPU graphs must be ...' --source URL",
        ],
    )
    parser.add_argument(
        "--from", dest="diagnosis", metavar="FILE", help="JSON of diagnose.py; '-' reads standard input"
    )
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--layer", choices=LAYERS)
    parser.add_argument("--owner", choices=OWNERS)
    parser.add_argument(
        "--status", choices=STATUSES[:2], help="suspected (default), or confirmed: needs --verify or --source"
    )
    for option, _, meaning in RECORD_FIELDS:
        parser.add_argument(f"--{option}", metavar="TEXT", help=meaning)
    for option, _, _, meaning in REPEATED_FIELDS:
        parser.add_argument(
            f"--{option}", action="append", default=[], metavar="TEXT", help=f"{meaning} (may be repeated)"
        )
    parser.add_argument("--symptom-file", metavar="FILE", help="read the symptom from a file; '-' reads standard input")
    parser.add_argument("--merge-into", metavar="ID", help="add this sighting to a recorded case instead of a new one")
    parser.add_argument("--force", action="store_true", help="record it although a near-duplicate exists")
    parser.add_argument("--show-redactions", action="store_true", help="list what was hidden, by field and line")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the case as it would be written, and write nothing"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    return _COMMANDS[arguments.command](arguments)


# --- record ---------------------------------------------------------------------------------------------------------


def run_record(arguments: argparse.Namespace) -> int:
    """Record one case."""
    if arguments.diagnosis == "-" and arguments.symptom_file == "-":
        raise cli.CommandError(
            "standard input cannot be both --from and --symptom-file; name a file for one", cli.USAGE
        )
    draft = case_record.with_fields(_read_diagnosis(arguments.diagnosis), _given_fields(arguments))
    verified = bool(arguments.verify)
    status = arguments.status or "suspected"
    draft = draft._replace(case=draft.case._replace(status=status, date=case_store.today()))
    missing = case_record.missing_parts(draft, verified)
    if missing:
        raise cli.CommandError("not recorded; missing: " + "; ".join(missing), cli.USAGE)
    redactor = Redactor(machine_names())
    case = clean_case(case_record.redact_case(draft.case, redactor)._replace(id=case_store.new_case_id()))
    if arguments.show_redactions:
        _show_redactions(redactor)
    if arguments.dry_run:
        _answer(arguments, {"recorded": False, "case": _as_json(case)}, render_case(case))
        return cli.DONE
    if arguments.merge_into:
        return _merge(arguments, case)
    folders = bundle.knowledge_folders()
    alike = [] if arguments.force else case_record.near_duplicates(case, folders)
    if alike:
        lines = [f"not recorded: {len(alike)} recorded case(s) look like the same failure"]
        lines += [
            f"  {other.id}  {points:.2f}  {clean_line(other.title, 100)}" for other, points in alike[:SEARCH_LIMIT]
        ]
        lines.append(f"add this sighting to it: --merge-into {alike[0][0].id}   record it all the same: --force")
        rows = [{"id": other.id, "title": other.title, "score": points} for other, points in alike[:SEARCH_LIMIT]]
        _answer(arguments, {"recorded": False, "duplicates": rows}, "\n".join(lines))
        return cli.NEGATIVE
    written = case_store.append_case(bundle.writable_knowledge_folder(), case)
    _report_written(arguments, case, written, "recorded", folders)
    return cli.DONE


def _read_diagnosis(name: str | None) -> case_record.Draft:
    if name is None:
        return case_record.Draft(Case(id="", title=""), [])
    text = cli.read_inputs([name])[0].text
    try:
        return case_record.draft_from_diagnosis(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise cli.CommandError(
            f"--from {name}: {error}; give the output of diagnose.py --output json", cli.NO_INPUT
        ) from None


def _given_fields(arguments: argparse.Namespace) -> dict[str, str]:
    fields = {field: getattr(arguments, option.replace("-", "_")) or "" for option, field, _ in RECORD_FIELDS}
    for option, field, joint, _ in REPEATED_FIELDS:
        fields[field] = joint.join(getattr(arguments, option))
    for name in ("stage", "layer", "owner"):
        fields[name] = getattr(arguments, name) or ""
    if arguments.symptom_file:
        fields["symptom"] = cli.read_inputs([arguments.symptom_file])[0].text
    return fields


def _merge(arguments: argparse.Namespace, case: Case) -> int:
    entry = _case_named(arguments.merge_into)
    if entry.status == "retired":
        raise cli.CommandError(
            f"{entry.id} is retired ({clean_line(entry.retired_because, 80)}); record a new case with --force"
        )
    merged = case_record.merge_case(entry, case, case_store.today())
    written = case_store.replace_case(bundle.writable_knowledge_folder(), merged)
    _report_written(arguments, merged, written, "merged into", bundle.knowledge_folders())
    return cli.DONE


def _report_written(
    arguments: argparse.Namespace, case: Case, written: case_store.Written, verb: str, folders: Sequence[Path]
) -> None:
    # The folder may have come into being just now, so it is not yet among those read before.
    folders = list(dict.fromkeys([*folders, *bundle.knowledge_folders()]))
    advice = case_record.pattern_advice(case, load_patterns(folders).patterns, folders)
    undo = f"kb.py retire {case.id} --why TEXT"
    history = written.path.parent.parent / case_store.HISTORY_FILE
    answer = "yes" if advice.is_needed else "no"
    text = f"{verb} {case.id} ({case.status}): {case.title}\n"
    text += f"file: {written.path}\ncompiled into: {history}\nundo: {undo}\n"
    text += f"new pattern for known-patterns.md: {answer}: {advice.reason}"
    text += f" ({', '.join(advice.cases)})\n" if len(advice.cases) > 1 else "\n"
    text += "".join(f"note: {note}\n" for note in written.notes)
    record = {
        "recorded": True,
        "id": case.id,
        "file": str(written.path),
        "history": str(history),
        "undo": undo,
        "new_pattern": {"needed": advice.is_needed, "reason": advice.reason, "cases": advice.cases},
        "notes": written.notes,
    }
    _answer(arguments, record, text)


def _show_redactions(redactor: Redactor) -> None:
    lines = [
        f"  {item.where} line {item.line}: {item.placeholder} ({item.length} characters)" for item in redactor.findings
    ]
    text = "\n".join([f"hidden: {len(lines)} value(s)", *lines]) + "\n"
    sys.stderr.write(cli.bound_output(text, way_out="a shorter symptom"))


# --- reading --------------------------------------------------------------------------------------------------------


def run_search(arguments: argparse.Namespace) -> int:
    """List cases and patterns that resemble a text."""
    text = cli.read_inputs(["-"])[0].text if arguments.text == ["-"] else " ".join(arguments.text)
    folders = bundle.knowledge_folders()
    found = similar_cases(text, folders=folders, limit=arguments.limit, seconds=None)
    patterns = load_patterns(folders).patterns
    matched = [pattern for pattern in patterns if pattern.id in case_record.matching_patterns(text, patterns)]
    rows = [(case.id, f"{points:.2f}", case.status, case.stage, clean_line(case.title, 100)) for case, points in found]
    rows += [(pattern.id, "", "pattern", pattern.stage, clean_line(pattern.title, 100)) for pattern in matched]
    record = {
        "cases": [
            {"id": case.id, "title": case.title, "score": points, "status": case.status} for case, points in found
        ],
        "patterns": [{"id": pattern.id, "title": pattern.title} for pattern in matched],
    }
    _answer(
        arguments,
        record,
        _table(arguments, ("id", "score", "status", "stage", "title"), rows) or "nothing resembles it\n",
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
                _answer(arguments, record, _section(Path(pattern.file), pattern.line), whole=arguments.all)
                return cli.DONE
        raise cli.CommandError(f"no pattern {clean_line(arguments.id, 40)}; see known-patterns.md", cli.NEGATIVE)
    case = clean_case(_case_named(arguments.id))
    _answer(arguments, {"case": _as_json(case)}, render_case(case), whole=arguments.all)
    return cli.DONE


def _section(path: Path, line: int) -> str:
    lines = path.read_text(encoding="utf-8-sig").splitlines()[line - 1 :]
    end = next((n for n, text in enumerate(lines[1:], 1) if re.match(r"#{1,3} ", text)), len(lines))
    return "\n".join(lines[:end]).rstrip()


def _case_named(name: str) -> Case:
    """Return the case with this id or beginning of an id.

    Raises:
        cli.CommandError: exit code 1 when there is none, or several.
    """
    folders = bundle.knowledge_folders()
    entry = find_case(name, folders) if re.fullmatch(ID_FORM, name) else None
    if entry is not None:
        return entry.case
    matching = [
        found.case for identity, found in read_cases(folders).entries.items() if name and identity.startswith(name)
    ]
    if len(matching) == 1:
        return matching[0]
    shown = clean_line(name, 40)
    if matching:
        some = ", ".join(case.id for case in matching[:5])
        raise cli.CommandError(
            f"{len(matching)} cases begin with {shown}: {some} ...; give more of the id", cli.NEGATIVE
        )
    raise cli.CommandError(f"no case {shown}; kb.py list shows the ids", cli.NEGATIVE)


def run_list(arguments: argparse.Namespace) -> int:
    """List the cases, newest first."""
    wanted = [(name, getattr(arguments, name)) for name in ("stage", "status", "owner") if getattr(arguments, name)]
    cases = [entry.case for entry in _base().entries.values()]
    cases = [case for case in cases if all(getattr(case, name) == value for name, value in wanted)]
    cases.sort(key=lambda case: (case.date, case.id), reverse=True)
    shown = cases if arguments.all else cases[:LIST_LIMIT]
    rows = [(case.id, case.status, case.stage, case.layer, case.owner, clean_line(case.title, 90)) for case in shown]
    text = _table(arguments, ("id", "status", "stage", "layer", "owner", "title"), rows) or "no case\n"
    if len(shown) < len(cases):
        text += f"{len(cases) - len(shown)} more; --all lists them\n"
    names = ("id", "title", "date", "status", "stage", "layer", "owner", "pattern")
    record = {"total": len(cases), "cases": [{name: getattr(case, name) for name in names} for case in shown]}
    _answer(arguments, record, text, whole=arguments.all)
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
    _answer(arguments, record, "\n".join(lines))
    return cli.DONE


# --- keeping --------------------------------------------------------------------------------------------------------


def run_retire(arguments: argparse.Namespace) -> int:
    """Take a case out of the search; it stays readable, with the reason."""
    case = _case_named(arguments.id)
    why = clean_line(arguments.why)
    if not why:
        raise cli.CommandError("--why is empty; say in a line why the case is retired")
    retired = case._replace(status="retired", retired_because=Redactor(machine_names()).apply(why))
    written = case_store.replace_case(bundle.writable_knowledge_folder(), retired)
    text = f"retired {case.id}: {case.title}\nfile: {written.path}\n" + "".join(
        f"note: {note}\n" for note in written.notes
    )
    _answer(arguments, {"id": case.id, "status": "retired", "file": str(written.path), "notes": written.notes}, text)
    return cli.DONE


def run_compile(arguments: argparse.Namespace) -> int:
    """Write history.md again from the case files."""
    written = case_store.compile_history(bundle.writable_knowledge_folder())
    text = f"compiled {written.path}\n" + "".join(f"note: {note}\n" for note in written.notes)
    _answer(arguments, {"file": str(written.path), "notes": written.notes}, text)
    return cli.DONE


def run_check(arguments: argparse.Namespace) -> int:
    """Check the knowledge files."""
    folders = [Path(name) for name in arguments.folder] if arguments.folder else bundle.knowledge_folders()
    result = case_check.check_folders(folders)
    lines = [f"{item.file}:{item.line}: {item.message}" for item in result.problems]
    lines.append(f"{len(result.problems)} problem(s) in {result.patterns} patterns and {result.cases} cases")
    record = {
        "patterns": result.patterns,
        "cases": result.cases,
        "problems": [{"file": item.file, "line": item.line, "message": item.message} for item in result.problems],
    }
    _answer(arguments, record, "\n".join(lines))
    if result.problems:
        return cli.NEGATIVE
    if not result.patterns and not result.cases:
        raise cli.CommandError("no pattern and no case found: nothing was checked; see --folder", cli.NO_INPUT)
    return cli.DONE


# --- output ---------------------------------------------------------------------------------------------------------


def _base() -> CaseBase:
    base = read_cases(bundle.knowledge_folders())
    if base.problems:
        print(f"kb.py: {len(base.problems)} fault(s) in the case files; kb.py check lists them", file=sys.stderr)
    return base


def _answer(arguments: argparse.Namespace, record: dict[str, Any], text: str, whole: bool = False) -> None:
    if arguments.output == "json":
        cli.write_json({"schema": f"npu-graph/kb-{arguments.command}/1", **record})
    else:
        cli.write_text(text if whole else cli.bound_output(text))


def _table(arguments: argparse.Namespace, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    if arguments.output == "md":
        lines = [head, ["---"] * len(head), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head) - 1)]
    return "".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() + "\n"
        for row in [head, *rows]
    )


def _as_json(case: Case) -> dict[str, str]:
    return {"id": case.id, "title": case.title, **case.values()}


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("expected 1 to 1000")
    return value


_COMMANDS = {
    "record": run_record,
    "search": run_search,
    "show": run_show,
    "list": run_list,
    "retire": run_retire,
    "check": run_check,
    "compile": run_compile,
    "stats": run_stats,
}

if __name__ == "__main__":
    cli.run(main)

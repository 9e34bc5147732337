"""kb.py record: a case from a diagnosis, from fields, or both."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Sequence

from npu_graph import case_record, cli
from npu_graph.case_files import HISTORY_FILE
from npu_graph.case_format import STATUSES, Case, clean_line, render_case
from npu_graph.case_store import today
from npu_graph.patterns import LAYERS, OWNERS, STAGES
from npu_graph.redaction import Redactor, machine_names

from .output import Command, answer, case_as_json, notes_text

# How many look-alikes are named.
SHOWN = 5
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of record."""
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


def run_record(arguments: argparse.Namespace) -> int:
    """Record one case."""
    if arguments.diagnosis == "-" and arguments.symptom_file == "-":
        raise cli.CommandError("standard input cannot be both --from and --symptom-file; name a file for one")
    draft = case_record.with_fields(_read_diagnosis(arguments.diagnosis), _given_fields(arguments))
    draft = draft._replace(case=draft.case._replace(status=arguments.status or "suspected", date=today()))
    redactor = Redactor(machine_names())
    case = case_record.prepare_case(draft, bool(arguments.verify), redactor)
    if arguments.show_redactions:
        _show_redactions(redactor)
    if arguments.dry_run:
        answer(arguments, {"recorded": False, "case": case_as_json(case)}, render_case(case))
        return cli.DONE
    if arguments.merge_into:
        _report(arguments, case_record.merge_into(arguments.merge_into, case), "merged into")
        return cli.DONE
    outcome = case_record.record_case(case, arguments.force)
    if outcome.path is None:
        _report_alike(arguments, outcome.alike)
        return cli.NEGATIVE
    _report(arguments, outcome, "recorded")
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


def _report_alike(arguments: argparse.Namespace, alike: Sequence[tuple[Case, float]]) -> None:
    lines = [f"not recorded: {len(alike)} recorded case(s) look like the same failure"]
    lines += [f"  {other.id}  {points:.2f}  {clean_line(other.title, 100)}" for other, points in alike[:SHOWN]]
    lines.append(f"add this sighting to it: --merge-into {alike[0][0].id}   record it all the same: --force")
    rows = [{"id": other.id, "title": other.title, "score": points} for other, points in alike[:SHOWN]]
    answer(arguments, {"recorded": False, "duplicates": rows}, "\n".join(lines))


def _report(arguments: argparse.Namespace, outcome: case_record.Outcome, verb: str) -> None:
    case, advice = outcome.case, outcome.advice
    assert outcome.path is not None and advice is not None
    undo = f"kb.py retire {case.id} --why TEXT"
    history = outcome.path.parent.parent / HISTORY_FILE
    text = f"{verb} {case.id} ({case.status}): {case.title}\n"
    text += f"file: {outcome.path}\ncompiled into: {history}\nundo: {undo}\n"
    text += f"new pattern for known-patterns.md: {'yes' if advice.is_needed else 'no'}: {advice.reason}"
    text += f" ({', '.join(advice.cases)})\n" if len(advice.cases) > 1 else "\n"
    record = {
        "recorded": True,
        "id": case.id,
        "file": str(outcome.path),
        "history": str(history),
        "undo": undo,
        "new_pattern": {"needed": advice.is_needed, "reason": advice.reason, "cases": advice.cases},
        "notes": outcome.notes,
    }
    answer(arguments, record, text + notes_text(outcome.notes))


def _show_redactions(redactor: Redactor) -> None:
    lines = [
        f"  {item.where} line {item.line}: {item.placeholder} ({item.length} characters)" for item in redactor.findings
    ]
    text = "\n".join([f"hidden: {len(lines)} value(s)", *lines]) + "\n"
    sys.stderr.write(cli.bound_output(text, way_out="a shorter symptom"))


RECORD = Command(
    "record",
    "record a case: from a diagnosis, from fields, or both (a field wins)",
    (
        "kb.py record --from diagnosis.json --symptom-file stack.txt --verify 'replayed 100 times, same as eager'",
        "kb.py record --stage capture --layer L2 --owner user_code --symptom 'NPU graphs must be ...' --source URL",
    ),
    add_options,
    run_record,
)

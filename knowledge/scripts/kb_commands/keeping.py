"""kb.py retire, check and compile: keeping the case base in order."""

from __future__ import annotations

import argparse
from pathlib import Path

from npu_graph import bundle, case_check, case_record, case_store, cli
from npu_graph.cases import index_cases
from npu_graph.redaction import Redactor, machine_names

from .output import Command, answer, no_options, notes_text


def add_retire_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of retire."""
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--why", required=True, metavar="TEXT", help="the reason, kept with the case")


def add_check_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of check."""
    parser.add_argument("--folder", action="append", metavar="DIR", help="check this folder only (may be repeated)")


def run_retire(arguments: argparse.Namespace) -> int:
    """Take a case out of the search; it stays readable, with the reason."""
    outcome = case_record.retire_case(arguments.id, arguments.why, Redactor(machine_names()))
    case = outcome.case
    text = f"retired {case.id}: {case.title}\nfile: {outcome.path}\n" + notes_text(outcome.notes)
    record = {"id": case.id, "status": case.status, "file": str(outcome.path), "notes": outcome.notes}
    answer(arguments, record, text)
    return cli.DONE


def run_compile(arguments: argparse.Namespace) -> int:
    """Write history.md, and the index of the search, again from the case files."""
    written = case_store.compile_history(bundle.writable_knowledge_folder())
    index_cases(written.path.parent, anew=True)
    text = f"compiled {written.path}\n" + notes_text(written.notes)
    answer(arguments, {"file": str(written.path), "notes": written.notes}, text)
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
    answer(arguments, record, "\n".join(lines))
    if result.problems:
        return cli.NEGATIVE
    if not result.patterns and not result.cases:
        raise cli.CommandError("no pattern and no case found: nothing was checked; see --folder", cli.NO_INPUT)
    return cli.DONE


KEEPING = (
    Command(
        "retire",
        "take a case out of the search, with the reason; the undo of record",
        ("kb.py retire C-20261130-0123456789 --why 'recorded twice'", "kb.py retire C-2026 --why 'cause was another'"),
        add_retire_options,
        run_retire,
    ),
    Command(
        "check",
        "check patterns, cases and counts; every fault by file:line",
        ("kb.py check", "kb.py check --folder .npu-graph/knowledge --output json"),
        add_check_options,
        run_check,
    ),
    Command(
        "compile",
        "write history.md and the search index again from the case files, after an edit or a git merge",
        ("kb.py compile", "kb.py compile --output json"),
        no_options,
        run_compile,
    ),
)

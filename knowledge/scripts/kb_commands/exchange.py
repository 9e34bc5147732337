"""kb.py export and import: cases between installations."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from npu_graph import bundle, cli
from npu_graph.case_exchange import export_cases, import_cases, read_exchange
from npu_graph.case_format import STATUSES
from npu_graph.cases import index_cases, read_cases
from npu_graph.file_lock import write_atomically
from npu_graph.patterns import STAGES
from npu_graph.redaction import Redactor, machine_names

from .output import Command, answer, notes_text

# How many refused cases are named.
SHOWN = 20


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of export."""
    parser.add_argument("--to", required=True, metavar="FILE", help="where to write; '-' prints it, however long")
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--status", choices=STATUSES)


def run_export(arguments: argparse.Namespace) -> int:
    """Write cases to one JSON file."""
    wanted = [(name, getattr(arguments, name)) for name in ("stage", "status") if getattr(arguments, name)]
    cases = [
        entry.case
        for _, entry in sorted(read_cases(bundle.knowledge_folders()).entries.items())
        if all(getattr(entry.case, name) == value for name, value in wanted)
    ]
    record = export_cases(cases)
    if arguments.to == "-":
        cli.write_json(record)
        return cli.DONE if cases else cli.NEGATIVE
    target = Path(arguments.to)
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    try:
        write_atomically(target, text.encode("utf-8"))
    except OSError as error:
        raise cli.CommandError(f"{target} cannot be written: {error.strerror or error}", cli.ABSENT) from None
    answer(arguments, {"file": str(target), "cases": len(cases)}, f"{len(cases)} case(s) written to {target}")
    return cli.DONE if cases else cli.NEGATIVE


def add_import_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of import."""
    parser.add_argument("sources", nargs="+", metavar="FILE", help="exported file, history.md or knowledge folder")
    parser.add_argument("--dry-run", action="store_true", help="say what would be added, and write nothing")


def run_import(arguments: argparse.Namespace) -> int:
    """Take in cases; the same twice changes nothing."""
    cases, faults = [], []
    for name in arguments.sources:
        found, wrong = read_exchange(name)
        cases += found
        faults += wrong
    if not cases:
        detail = f" ({faults[0]})" if faults else ""
        raise cli.CommandError(f"no case found in {', '.join(arguments.sources)}{detail}", cli.NO_INPUT)
    target = None if arguments.dry_run else bundle.writable_knowledge_folder()
    done = import_cases(cases, target, bundle.knowledge_folders(), Redactor(machine_names()))
    if target is not None:
        index_cases(target)
    verb = "would be added" if arguments.dry_run else "added"
    lines = [f"{len(done.added)} {verb}, {len(done.unchanged)} already here"]
    lines += [f"kept as it is here: {identity} (the other text differs)" for identity in done.kept_ours[:SHOWN]]
    lines += [f"refused: {reason}" for reason in [*done.refused, *faults][:SHOWN]]
    text = "\n".join(lines) + "\n" + notes_text(done.notes)
    record = {
        "dry_run": arguments.dry_run,
        "added": done.added,
        "unchanged": done.unchanged,
        "kept_ours": done.kept_ours,
        "refused": [*done.refused, *faults],
        "notes": done.notes,
    }
    answer(arguments, record, text)
    return cli.NEGATIVE if done.refused or faults else cli.DONE


EXCHANGE = (
    Command(
        "export",
        "write cases to one file, for another installation",
        ("kb.py export --to cases.json", "kb.py export --to - --stage capture"),
        add_export_options,
        run_export,
    ),
    Command(
        "import",
        "take in cases of another installation; the same twice changes nothing",
        ("kb.py import cases.json", "kb.py import ../other/.npu-graph/knowledge --dry-run"),
        add_import_options,
        run_import,
    ),
)

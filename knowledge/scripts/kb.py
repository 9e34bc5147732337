#!/usr/bin/env python3
"""Keep the case base: record a diagnosed failure, find similar ones, check the knowledge files.

Usage: kb.py record|search|show|list|stats|retire|check|compile|promote|export|import
             [options]   (kb.py COMMAND --help)

Reads the shipped knowledge and every overlay; writes to $NPU_GRAPH_KNOWLEDGE, else to the bundle's knowledge/ when
it can be written, else to .npu-graph/knowledge/ of the project. A case is one file in cases/; history.md is compiled
from them. Secrets and names are hidden before anything is written. Never asks a question.

JSON (schema npu-graph/COMMAND/1): record has recorded, and id, file, history, undo, new_pattern {needed, reason,
cases}, notes, or else duplicates [{id, title, score}]; search cases [{id, title, score, status}] and patterns
[{id, title}]; show case, or id, title, fields, signature of a pattern; list total and cases; stats total, counts by
stage, status, owner, month and pattern, stage_by_month, pattern_hits, patterns_without_case; check patterns, cases and
problems [{file, line, message}]; promote id, cases, signature, dropped, text, file, or groups; import added, unchanged,
kept_ours, refused, notes; export writes npu-graph/cases/1.

Exit codes: 0 done, 1 the answer is negative (duplicate, not found, check failed), 2 wrong usage, 3 no usable input,
4 the knowledge folder cannot be written, 5 internal error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Sequence

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from kb_commands.exchange import EXCHANGE
from kb_commands.keeping import KEEPING
from kb_commands.promotion import PROMOTE
from kb_commands.reading import READING
from kb_commands.recording import RECORD
from kb_commands.showing import SHOW

from npu_graph import cli

COMMANDS = (RECORD, SHOW, *READING, *KEEPING, PROMOTE, *EXCHANGE)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = cli.make_parser(
        "Keep the case base of graph-mode failures: record, search, show, check.",
        [
            "diagnose.py stack.txt --output json | kb.py record --from - --symptom-file stack.txt",
            "kb.py search 'error code is 107027'",
        ],
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        model = cli.make_parser(command.purpose, command.examples)
        own = subparsers.add_parser(
            command.name,
            help=command.purpose,
            description=model.description,
            epilog=model.epilog,
            formatter_class=model.formatter_class,
        )
        own.add_argument(
            "--output", choices=("text", "json", "md"), default="text", help="form of the answer (default text)"
        )
        command.add_options(own)
        own.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    code: int = arguments.run(arguments)
    return code


if __name__ == "__main__":
    cli.run(main)

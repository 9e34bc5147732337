#!/usr/bin/env python3
"""Diagnose a pasted stack, log excerpt or description: stage, layer, owner, first cause, fix and how to verify.

Usage: diagnose.py FILE [FILE ...] | -   [--output text|json|md] [--lang en|zh] [--all]

Prints the four-section report (the record of references/diagnosis_record.md with --output json).
Exit codes: 0 a pattern is established, 1 none is (candidate, unknown, insufficient, or not graph mode),
2 wrong usage, 3 no usable input, 5 internal error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import cli
from npu_graph.diagnosis.record import diagnose
from npu_graph.diagnosis.report import render_markdown, render_text

EXAMPLES = (
    "python3 diagnose.py stack.txt",
    "kubectl logs my-pod | python3 diagnose.py - --output json --lang zh",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Diagnose a graph-mode failure from pasted text.", EXAMPLES)
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="a file, several files, or - for standard input")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the report")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language (default: that of the input)")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    options = parser.parse_args(argv)

    record = diagnose(cli.read_inputs(options.inputs), options.lang)
    if options.output == "json":
        cli.write_json(record)
    else:
        text = render_markdown(record) if options.output == "md" else render_text(record)
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.DONE if record["verdict"] == "known" else cli.NEGATIVE


if __name__ == "__main__":
    cli.run(main)

#!/usr/bin/env python3
"""Find code that cannot be captured into a graph, or that will replay wrongly, without running it.

Usage: lint_capture.py PATH [PATH ...] [--entry MODULE:FUNCTION] [--select G001,G004] [--output text|json|md|sarif]

Reads .py files, folders and notebooks with Python's own parser; infers what is captured (torch.npu.graph,
capture_begin, make_graphed_callables, torch.compile with npugraph_ex or npugraphs, and each --entry) and follows calls
across the given files. `# noqa: G003` at the end of a line silences a rule there. Rules: references/lint_rules.md.
Exit codes: 0 captured code was inspected and nothing found, 1 findings, or a file or entry that could not be inspected,
or nothing that is captured, 2 wrong usage, 3 no file could be read, 5 internal error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from capture_lint.check import Entry, Report, lint_paths
from capture_lint.render import MAX_JSON_FINDINGS, as_record, render_markdown, render_rule, render_text
from capture_lint.rule import RULES, SEVERITIES
from capture_lint.sarif import as_sarif

from npu_graph import __version__, cli

EXAMPLES = (
    "python3 lint_capture.py train.py models/",
    "python3 lint_capture.py my_model/ --entry my_model.decoder:Decoder.forward --output sarif > capture.sarif",
    "python3 lint_capture.py --explain G029",
)
_ENTRY = re.compile(r"([\w./\\-]+):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)")


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Find code that cannot be captured into a graph, or will replay wrongly.", EXAMPLES)
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="a .py file, a notebook or a folder; several are one project"
    )
    parser.add_argument(
        "--entry",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="a function that a framework captures, e.g. pkg.model:Decoder.forward (a class alone means its forward)",
    )
    parser.add_argument("--select", default="", metavar="IDS", help="run only these rules, e.g. G001,G004")
    parser.add_argument(
        "--severity", choices=SEVERITIES, default="info", help="leave out what is below (default info: all)"
    )
    parser.add_argument("--explain", metavar="ID", help="print the page of one rule and stop")
    parser.add_argument("--output", choices=("text", "json", "md", "sarif"), default="text", help="form of the report")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    options = parser.parse_args(argv)

    if options.explain:
        cli.write_text(render_rule(RULES[chosen_rules(options.explain)[0]]))
        return cli.DONE
    if not options.paths:
        raise cli.CommandError("no file was named; give the .py files or the folder that holds the captured code")
    report = lint_paths(options.paths, read_entries(options.entry), chosen_rules(options.select))
    report = at_least(report, options.severity)
    if not report.files:
        first = report.problems[0] if report.problems else None
        where = (
            f"{first.file}{f' line {first.line}' if first.line else ''} {first.message}"
            if first
            else "no .py file there"
        )
        raise cli.CommandError(f"nothing could be inspected: {where}", cli.NO_INPUT)
    write(report, options.output, options.all)
    unclear = report.findings or report.problems or report.missing_entries or not report.regions
    return cli.NEGATIVE if unclear else cli.DONE


def read_entries(texts: Sequence[str]) -> list[Entry]:
    """Parse --entry values.

    Raises:
        CommandError: exit code 2 for a value that is not module:function.
    """
    entries = []
    for text in texts:
        found = _ENTRY.fullmatch(text)
        if found is None:
            raise cli.CommandError(f"--entry {text} is not MODULE:FUNCTION; give e.g. pkg.model:Decoder.forward")
        entries.append(Entry(found.group(1), found.group(2)))
    return entries


def chosen_rules(text: str) -> list[str]:
    """Parse a list of rule ids.

    Raises:
        CommandError: exit code 2 for an id that no rule has.
    """
    ids = [part for part in re.split(r"[,\s]+", text.upper()) if part]
    for name in ids:
        if name not in RULES:
            raise cli.CommandError(f"{name} is no rule; the rules are {min(RULES)} to {max(RULES)}")
    return ids


def at_least(report: Report, severity: str) -> Report:
    """Keep the findings of this severity and above."""
    kept = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return report._replace(findings=[item for item in report.findings if item.severity in kept])


def write(report: Report, form: str, everything: bool) -> None:
    """Print the report in the form asked for."""
    if form == "sarif":
        cli.write_json(as_sarif(report, __version__))
    elif form == "json":
        cli.write_json(as_record(report, 0 if everything else MAX_JSON_FINDINGS))
    else:
        text = render_markdown(report) if form == "md" else render_text(report)
        cli.write_text(text if everything else cli.bound_output(text))


if __name__ == "__main__":
    cli.run(main)

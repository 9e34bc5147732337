#!/usr/bin/env python3
"""Say what a profile of a graph-mode run shows: what limits the step, how much runs in graphs, and what stays outside.

Usage: analyze_profile.py DIR [--against EAGER_DIR] [--real-size N] [--lang en|zh] [--output text|json|md]
       [--html FILE] [--all]

Reads what torch_npu's profiler or msprof wrote below DIR (kernel_details.csv, op_summary, api_statistic, op_statistic,
step_trace_time, trace_view.json, communication.json), by column name, with bounded memory. Prints the verdict, the
facts behind it and the profiler switches that are missing; with --against also where graph and eager differ.
--html writes the same with drawings as one self-contained page (steps as bars, gaps as a histogram, eager against graph
as a waterfall); it needs Jinja2.
Exit codes: 0 done, 1 done and the verdict is `insufficient`, 2 wrong usage, 3 no profile there,
4 Jinja2 is absent (--html).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profile_page import render_profile

from npu_graph import cli
from npu_graph.pages.page import load_jinja2, write_page
from npu_graph.profiles.record import analyze
from npu_graph.profiles.report import write_report

EXAMPLES = (
    "analyze_profile.py ./worker_0_20260101_ascend_pt",
    "analyze_profile.py graph_run/ --against eager_run/ --output md",
    "analyze_profile.py graph_run/ --against eager_run/ --html report.html --lang zh",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Say what a profile of a graph-mode run shows, and what graph mode changed.", EXAMPLES)
    parser.add_argument("dir", help="folder of the profile (*_ascend_pt, PROF_*, or one above)")
    parser.add_argument("--against", metavar="DIR", help="profile of the same work without graph mode")
    parser.add_argument(
        "--real-size", type=float, metavar="N", help="tokens a replayed step really holds, to judge padding"
    )
    parser.add_argument("--no-trace", action="store_true", help="do not read trace_view.json (faster, less evidence)")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of text and md (default: en)")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="default: text")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with drawings (needs Jinja2)")
    parser.add_argument("--all", action="store_true", help="print everything, however long")
    options = parser.parse_args(argv)
    if options.real_size is not None and not options.real_size > 0:
        raise cli.CommandError(f"--real-size {options.real_size} is not a number of tokens; give one above 0")
    if options.html:
        load_jinja2("--html")  # a trace of 1 GB takes a minute: say it before
    record = analyze(options.dir, options.against, options.real_size, not options.no_trace)
    if options.output == "json":
        cli.write_json(record)
    else:
        report = write_report(record, options.output, options.lang)
        cli.write_text(report if options.all else cli.bound_output(report))
    if options.html:  # last: a page that cannot be written must not take the answer with it
        size = write_page(options.html, render_profile(record, options.lang))
        print(f"{options.html}: {size} bytes", file=sys.stderr)
    return cli.NEGATIVE if record["verdict"] == "insufficient" else cli.DONE


if __name__ == "__main__":
    cli.run(main)

#!/usr/bin/env python3
"""Run a callable eagerly and name every line that would break or spoil an NPU graph capture of it.

Usage: probe_capture.py MODULE:FUNCTION | FILE.py:FUNCTION [--inputs MAKER] [--path DIR] [--output text|json]

The callable runs once to warm up, then with different inputs, then with the first again; CPU torch is enough.
Reported with the user's line, in the order in which they run: waits for the device, data-dependent sizes, copies
between host and device, random numbers, numbers and branches frozen at capture, state at a new address in each call,
side streams that do not join, memory that grows. The input maker is MODULE:FUNCTION, FUNCTION (beside the callable) or
`make_inputs` of the callable's module; it gets a seed and returns the arguments. Prints of the callable go to stderr.
Exit codes: 0 nothing breaks or spoils a capture, 1 something does, 2 wrong usage, 3 the callable fails eagerly or runs
no operator, 4 torch is absent, 5 internal error.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from capture_probe.record import probe_target
from capture_probe.report import render

from npu_graph import cli
from npu_graph.user_callables import load_target, need_torch

EXAMPLES = (
    "python3 probe_capture.py model.py:decode_step",
    "python3 probe_capture.py mypackage.runner:forward --inputs mypackage.runner:sample --output json",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Name the lines that would break or spoil an NPU graph capture (needs torch).", EXAMPLES)
    parser.add_argument("target", metavar="MODULE:FUNCTION", help="the callable to capture, or FILE.py:FUNCTION")
    parser.add_argument("--inputs", default="", metavar="MAKER", help="function that returns the arguments for a seed")
    parser.add_argument("--path", action="append", default=[], metavar="DIR", help="add to the module search path")
    parser.add_argument("--device", default="", help="device type of the graph (default: that of the arguments)")
    parser.add_argument(
        "--seeds", type=int, default=2, metavar="N", help="different inputs to try, 2 to 20 (default 2)"
    )
    parser.add_argument("--try-capture", action="store_true", help="on an NPU or npu_sim: also capture once for real")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the report (default en)")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the report")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    options = parser.parse_args(argv)
    if not 2 <= options.seeds <= 20:
        raise cli.CommandError("--seeds takes 2 to 20: one input alone shows no frozen branch")

    need_torch("probe_capture.py")
    with contextlib.redirect_stdout(sys.stderr):
        target = load_target(options.target, options.inputs, options.path)
        record = probe_target(target, options.device, list(range(options.seeds)), options.lang, options.try_capture)
    if options.output == "json":
        cli.write_json(record)
    else:
        text = render(record)
        text = f"```text\n{text.replace('```', 'ʼʼʼ')}```\n" if options.output == "md" else text
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.NEGATIVE if record["verdict"] in ("breaks", "spoils") else cli.DONE


if __name__ == "__main__":
    cli.run(main)

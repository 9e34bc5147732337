#!/usr/bin/env python3
"""Say before a service starts how many graphs and streams its capture needs, whether that fits, and what padding costs.

Usage: capture_budget.py --command 'vllm serve …' [--layers N] [--from-log LOG] [--hdk V --cann V] …
       capture_budget.py --layers N --mode MODE --sizes 1,2,4,8 [--tp N --dp N …]

Reads a vLLM command line (also `@FILE`), a service log (batch sizes) or single options; options win over the command.
Prints the verdict with the formula and its source, settings that the framework rejects or changes, what the sizes cost
in padding for a distribution of batch sizes, and better choices. Says so where no public number exists.
Exit codes: 0 it fits, 1 it does not, is rejected, or no public number decides, 2 wrong usage, 3 no usable log.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from budget_report import write_budget

from npu_graph import cli
from npu_graph.batch_log import read_batch_log
from npu_graph.capture_budget import DEVICES, FITS, MODES, read_version
from npu_graph.capture_plan import DEFAULT_MODE, plan_capture
from npu_graph.serve_command import read_command

EXAMPLES = (
    "capture_budget.py --layers 48 --mode PIECEWISE --sizes 1,2,4,8,16,32 --tp 4 --hdk 25.2.3 --cann 8.3.RC1",
    "capture_budget.py --command 'vllm serve /models/q -tp 4 --max-num-seqs 64' --layers 64 --from-log serve.log",
)


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    settings = read_command(_command_text(options.command)) if options.command else {"variables": {}}
    for name in (
        "layers",
        "mode",
        "tp",
        "dp",
        "pp",
        "pcp",
        "dcp",
        "max_num_seqs",
        "speculative_tokens",
        "draft_layers",
    ):
        if getattr(options, name) is not None:
            settings[name] = getattr(options, name)
    for name in ("hdk", "cann", "vllm_ascend", "device"):
        settings[name] = getattr(options, name) or ""
    for name in ("hdk", "cann", "vllm_ascend"):
        if settings[name] and not read_version(settings[name]):
            shown = cli.one_line(settings[name], 40)
            option = "--" + name.replace("_", "-")
            raise cli.CommandError(f"{option} {shown} is no version; give one such as 25.5.1 or 8.5.0")
    for name in ("aiv", "moe", "expert_parallel"):
        settings[name] = getattr(options, name) or settings.get(name, False)
    if options.sizes:
        settings["sizes"] = _sizes(options.sizes)
    log = read_batch_log(options.from_log) if options.from_log else None
    record = plan_capture(settings, _batches(options.batches), log)
    if options.output == "json":
        cli.write_json(record)
    else:
        report = write_budget(record, options.output == "md", options.lang)
        cli.write_text(cli.bound_output(report, way_out="--output json"))
    return cli.DONE if record["verdict"] == FITS else cli.NEGATIVE


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser("Graphs, streams and padding of a capture, before the service starts.", EXAMPLES)
    number = {"type": _count, "metavar": "N"}
    parser.add_argument("--command", metavar="TEXT", help="a vllm serve command line, or @FILE that holds one")
    parser.add_argument(
        "--from-log", metavar="LOG", help="service log to take batch sizes from; - reads standard input"
    )
    parser.add_argument("--layers", help="hidden layers of the model", **number)
    parser.add_argument("--draft-layers", help="layers of the draft (MTP, EAGLE) model", **number)
    parser.add_argument("--mode", type=str.upper, choices=MODES, help=f"cudagraph_mode (default: {DEFAULT_MODE})")
    parser.add_argument("--sizes", metavar="LIST", help="capture sizes, such as 1,2,4,8 (default: the framework's own)")
    for name in ("tp", "dp", "pp", "pcp", "dcp"):
        parser.add_argument(f"--{name}", help=f"{name.upper()} size", **number)
    parser.add_argument("--expert-parallel", action="store_true", help="expert parallelism is on")
    parser.add_argument("--moe", action="store_true", help="the model has experts")
    parser.add_argument("--aiv", action="store_true", help="HCCL_OP_EXPANSION_MODE=AIV")
    parser.add_argument("--max-num-seqs", help="most requests per step", **number)
    parser.add_argument("--speculative-tokens", help="speculative tokens per step", **number)
    parser.add_argument("--hdk", metavar="V", help="driver package (HDK) version")
    parser.add_argument("--cann", metavar="V", help="CANN version")
    parser.add_argument("--vllm-ascend", metavar="V", help="vLLM-Ascend version")
    parser.add_argument("--device", choices=DEVICES, help="device family")
    parser.add_argument("--batches", metavar="LIST", help="batch sizes with weights, such as 1:500,8:100,30:20")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of text and md (default: en)")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="default: text")
    return parser


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number below 10000000")
    return int(text)


def _command_text(text: str) -> str:
    return cli.read_inputs([text[1:]])[0].text if text.startswith("@") else text


def _sizes(text: str) -> list[int]:
    parts = [part for part in re.split(r"[,\s]+", text.strip(" []")) if part]
    if not parts or not all(re.fullmatch(r"[0-9]{1,7}", part) for part in parts):
        raise cli.CommandError(f"--sizes {cli.one_line(text, 60)!r} is no list of whole numbers; give 1,2,4,8")
    return [int(part) for part in parts]


def _batches(text: str | None) -> dict[int, int] | None:
    if not text:
        return None
    batches: dict[int, int] = {}
    for part in re.split(r"[,\s]+", text.strip()):
        found = re.fullmatch(r"([0-9]{1,7})(?::([0-9]{1,9}))?", part)
        if not found or not int(found.group(1)):
            raise cli.CommandError(f"--batches: {cli.one_line(part, 40)!r} is no SIZE or SIZE:WEIGHT")
        batches[int(found.group(1))] = batches.get(int(found.group(1)), 0) + int(found.group(2) or 1)
    if not sum(batches.values()):
        raise cli.CommandError("--batches: all weights are zero")
    return batches


if __name__ == "__main__":
    cli.run(main)

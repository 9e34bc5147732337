#!/usr/bin/env python3
"""Say where hung ranks stand, which rank the others wait for, and what class of hang it is.

Usage: locate_hang.py FILE|FOLDER [...] | -   [--pid PID ...] [--source-root DIR] [--output text|json|md] [--lang en|zh]

Takes what can be had without a restart, each recognised by its content: `py-spy dump` output (text or --json),
faulthandler dumps, `npu-smi info`, plog, service logs. With --pid it runs py-spy itself. Prints the class with its
evidence, the ranks grouped by stack, the ranks that others wait for, and what to collect next; the record of
references/locate_hang.md with --output json.
Exit codes: 0 the class is established, 1 it is not, 2 wrong usage, 3 no usable input, 4 py-spy is absent, 5 internal
error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from hang_locate.collect import dump_processes
from hang_locate.record import locate_hang
from hang_locate.report import render

from npu_graph import cli
from npu_graph.language import detect_language

EXAMPLES = (
    "python3 locate_hang.py stack_*.txt npu-smi.txt ~/ascend/log/debug/plog",
    "python3 locate_hang.py --pid 4711 --pid 4712 --again 30 --output json",
)
# A log's head and tail tell more about a hang than its middle; many files share one bound, so that memory stays small.
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_ALL_BYTES = 128 * 1024 * 1024
MAX_FILES = 4096


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Locate a hang from stacks, logs and device state of one or many ranks.", EXAMPLES)
    parser.add_argument("inputs", nargs="*", metavar="FILE", help="files, folders, or - for standard input")
    parser.add_argument(
        "--pid", type=int, action="append", default=[], help="take the stack of this process with py-spy"
    )
    parser.add_argument(
        "--again", type=float, default=0, metavar="S", help="with --pid: a second sample after S seconds"
    )
    parser.add_argument("--native", action="store_true", help="with --pid: C and C++ frames too")
    parser.add_argument("--world-size", type=int, default=0, metavar="N", help="number of ranks that should exist")
    parser.add_argument(
        "--source-root", action="append", default=[], metavar="DIR", help="read source lines of frames below DIR"
    )
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the report")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language (default: that of the input)")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    options = parser.parse_args(argv)
    if not options.inputs and not options.pid:
        raise cli.CommandError("nothing to look at; name dump and log files, a folder, - or --pid PID")
    if any(pid < 1 for pid in options.pid) or not 0 <= options.again <= 3600 or not 0 <= options.world_size <= 100_000:
        raise cli.CommandError("--pid and --world-size take positive numbers, --again 0 to 3600 seconds")

    names = expand(options.inputs)
    inputs = cli.read_inputs(names, min(MAX_FILE_BYTES, MAX_ALL_BYTES // len(names))) if names else []
    if options.pid:
        inputs += dump_processes(options.pid, options.again, options.native)
    language = options.lang or detect_language(inputs[0].text)
    record = locate_hang(inputs, language, options.source_root, options.world_size)
    if not record["usable"]:
        raise cli.CommandError(
            "no stack, HCCL text, device table or telling log line was found; give `py-spy dump` output of each rank",
            cli.NO_INPUT,
        )
    if options.output == "json":
        cli.write_json(record)
    else:
        text = render(record, options.output == "md")
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.DONE if record["verdict"] == "known" else cli.NEGATIVE


def expand(names: Sequence[str]) -> list[str]:
    """Replace folders by the text files in them, sorted.

    Raises:
        CommandError: exit code 3 for an empty folder, 2 for too many files.
    """
    files: list[str] = []
    for name in names:
        path = Path(name)
        if name == "-" or not path.is_dir():
            files.append(name)
            continue
        inside = [
            item
            for item in sorted(path.rglob("*"))
            if item.suffix in (".txt", ".log", ".json", ".out", ".err", ".dump")
        ]
        found = [str(item) for item in inside if item.is_file() and item.stat().st_size]
        if not found:
            raise cli.CommandError(f"{name} holds no .txt, .log, .json, .out, .err or .dump file", cli.NO_INPUT)
        files += found
    if len(files) > MAX_FILES:
        raise cli.CommandError(f"{len(files)} files are too many; give at most {MAX_FILES}, newest first")
    return files


if __name__ == "__main__":
    cli.run(main)

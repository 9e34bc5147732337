#!/usr/bin/env python3
"""Find the layer of torch.compile that fails: eager, Dynamo, AOTAutograd, the backend's passes, or the capture itself.

Usage: triage_compile.py SCRIPT [options] [-- arguments of the script]

Makes variants of the script that differ in one torch.compile call only, runs them in order (eager, backend="eager",
"aot_eager", npugraph_ex with force_eager or inductor's partitioner, the original) with the script's own launcher, and
stops at the first that fails. Each run writes its folder: variant, env.txt, stdout_stderr.log, plog, compile_debug,
result.json. Prints the failing part, the first cause, what is ruled out and the next smallest action.
The script is executed, as often as there are steps. Progress goes to stderr.
Exit codes: 0 the failing layer was found, 1 every step passed, or the run stopped before the end, 2 wrong usage,
3 no usable script, 4 the launcher, torch or torch_npu is absent, 5 internal error.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from compile_triage.conclusion import LOCATED, NO_TORCH
from compile_triage.render import dry_run_record, render_dry_run, render_markdown, render_text
from compile_triage.triage import DEFAULT_FOLDER, Request, make_plan, new_folder, run_triage

from npu_graph import cli

EXAMPLES = (
    "python3 triage_compile.py repro.py -- --batch 4",
    'python3 triage_compile.py train.py --launcher "torchrun --nproc-per-node 2" --env TASK_QUEUE_ENABLE=0',
    "python3 triage_compile.py repro.py --file model/decoder.py --call 2 --dry-run",
)
_SETTING = re.compile(r"([A-Za-z_]\w{0,100})=(.*)", re.DOTALL)


def make_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = cli.make_parser(
        "Find the layer of torch.compile that fails, by running the script layer by layer.", EXAMPLES
    )
    parser.add_argument("script", metavar="SCRIPT", help="the script that reproduces the failure; it is executed")
    parser.add_argument("--launcher", default="", help="what starts the script (default: this Python)")
    parser.add_argument("--file", default="", help="the file that holds the torch.compile call, if it is not SCRIPT")
    parser.add_argument("--root", default="", help="the project's folder (default: the folder of SCRIPT)")
    parser.add_argument("--call", type=int, default=0, metavar="N", help="which call (default: the first for an NPU)")
    parser.add_argument("--backend", default="", help="the original's backend, where the script computes it")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="time limit of each step (default 600)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the runs only")
    parser.add_argument("--fail-on", default="", metavar="TEXT", help="a step whose output holds TEXT has failed too")
    parser.add_argument("--workdir", default=DEFAULT_FOLDER, help=f"where runs are kept (default ./{DEFAULT_FOLDER})")
    parser.add_argument("--resume", default="", metavar="DIR", help="go on in the folder of an earlier run")
    parser.add_argument("--no-debug-files", action="store_true", help="do not set TORCH_COMPILE_DEBUG for the runs")
    parser.add_argument("--dry-run", action="store_true", help="show the calls and the variants; run nothing")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the result")
    parser.add_argument("--all", action="store_true", help="do not shorten a long result")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    cut = given.index("--") if "--" in given else len(given)
    options = make_parser().parse_args(given[:cut])
    request = read_request(options, given[cut + 1 :])
    plan = make_plan(request)
    if options.dry_run:
        write(dry_run_record(plan), options.output, render_dry_run, options.all)
        return cli.DONE
    folder = Path(options.resume) if options.resume else new_folder(Path(options.workdir), request.script)
    if options.resume and not folder.is_dir():
        raise cli.CommandError(f"--resume {folder} is not a folder of an earlier run", cli.NO_INPUT)
    record = run_triage(request, plan, folder)
    write(record, options.output, render_markdown if options.output == "md" else render_text, options.all)
    if record["verdict"] == NO_TORCH:
        return cli.ABSENT
    return cli.DONE if record["verdict"] == LOCATED else cli.NEGATIVE


def read_request(options: argparse.Namespace, arguments: Sequence[str]) -> Request:
    """Check the options.

    Raises:
        CommandError: exit code 2 for an option that makes no sense.
    """
    settings = {}
    for text in options.env:
        found = _SETTING.fullmatch(text)
        if found is None:
            raise cli.CommandError(f"--env {text} is not NAME=VALUE")
        settings[found.group(1)] = found.group(2)
    if not 0 < options.timeout <= 7 * 24 * 3600:
        raise cli.CommandError(f"--timeout {options.timeout:g} is out of range; give seconds")
    if options.call < 0:
        raise cli.CommandError("--call counts from 1")
    try:
        launcher = shlex.split(options.launcher) or [sys.executable]
    except ValueError as error:
        raise cli.CommandError(f"--launcher cannot be read ({error}); quote it as in a shell") from None
    script = Path(options.script)
    return Request(
        script,
        Path(options.file) if options.file else script,
        Path(options.root) if options.root else script.parent,
        tuple(arguments),
        tuple(launcher),
        options.call,
        options.backend,
        options.timeout,
        settings,
        not options.no_debug_files,
        options.fail_on,
    )


def write(record: dict[str, Any], form: str, render: Callable[[dict[str, Any]], str], everything: bool) -> None:
    """Print a record in the form asked for."""
    if form == "json":
        cli.write_json(record)
    else:
        text = render(record)
        cli.write_text(text if everything else cli.bound_output(text))


if __name__ == "__main__":
    cli.run(main)

#!/usr/bin/env python3
"""Run a torch_npu script on a simulated NPU: the real wheel, a stand-in for CANN, no device.

Usage: run.py [options] SCRIPT.py [arguments]     or     run.py [options] -m MODULE [arguments]
The libraries are built once (about half a minute, g++ needed) and kept in a cache. The first line printed says that
results come from a simulator. The exit code is that of the script; 4 when torch, torch_npu or g++ is absent.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from npu_graph import cli
from npu_sim import build
from npu_sim.cann_versions import parse_version

EXAMPLES = (
    "python3 npu_sim/run.py repro.py --batch 4",
    "python3 npu_sim/run.py --cann 8.5.0 --defer --fail aclmdlRIExecuteAsync:507011@2 repro.py",
)
FAIL_RULE = re.compile(r"^[A-Za-z_]\w{0,80}:\d{1,9}(@\d{1,9}\+?)?$")
HANG_RULE = re.compile(r"^([A-Za-z_]\w{0,80})((?:@\d{1,9}\+?)?)$")


def make_parser() -> argparse.ArgumentParser:
    """Return the command line of run.py."""
    parser = cli.make_parser("Run a torch_npu script on a simulated NPU: the real wheel, no device.", EXAMPLES)
    parser.add_argument(
        "--cann", default="9.1.0", help="CANN version whose texts and functions to show (default 9.1.0)"
    )
    parser.add_argument("--soc", default="Ascend910B2", help="SoC name: Ascend910B2, Ascend910_9391, Ascend310P3 ...")
    parser.add_argument("--devices", type=int, default=2, help="number of devices (default 2)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MB", help="memory of each device (default 4096)")
    parser.add_argument("--streams", type=int, default=2048, help="streams the driver has (default 2048)")
    parser.add_argument("--queues", type=int, help="SQ/CQ pairs the driver has (default: as many as streams)")
    parser.add_argument("--fail", action="append", default=[], metavar="FUNCTION:CODE[@N[+]]", help="make a call fail")
    parser.add_argument("--hang", action="append", default=[], metavar="FUNCTION[@N[+]]", help="make a call never end")
    parser.add_argument("--defer", action="store_true", help="run work only when something orders it")
    parser.add_argument("--trace", metavar="FILE", help="append every ACL call to FILE")
    parser.add_argument("--plog", metavar="DIR", help="write logs in the layout of CANN's plog under DIR")
    parser.add_argument("--wait-limit", type=float, default=20, metavar="S", help="give up a wait after S seconds (20)")
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE [arguments]",
        help="run a module, as python -m does",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT [arguments]")
    return parser


def settings_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the NPU_SIM_* variables for the options.

    Raises:
        CommandError: exit code 2 for a value that the simulator cannot take.
    """
    try:
        parse_version(options.cann)
    except ValueError:
        raise cli.CommandError(f"--cann {options.cann} is no version; give one such as 8.5.0 or 9.1.0") from None
    for name, low in (("devices", 0), ("memory", 1), ("streams", 1)):
        if not low <= getattr(options, name) <= 1 << 20:
            raise cli.CommandError(f"--{name} {getattr(options, name)} is out of range; give {low} or more")
    rules: list[str] = [rule for text in options.fail for rule in text.split(",")]
    for rule in rules:
        if not FAIL_RULE.match(rule):
            raise cli.CommandError(f"--fail {rule} is not FUNCTION:CODE, FUNCTION:CODE@N or FUNCTION:CODE@N+")
    settings = {
        "NPU_SIM_CANN": options.cann,
        "NPU_SIM_SOC": options.soc,
        "NPU_SIM_DEVICES": str(options.devices),
        "NPU_SIM_MEMORY_MB": str(options.memory),
        "NPU_SIM_STREAMS": str(options.streams),
        "NPU_SIM_WAIT_LIMIT": str(options.wait_limit),
    }
    if options.queues is not None:
        if options.queues < 1:
            raise cli.CommandError(f"--queues {options.queues} is out of range; give 1 or more")
        settings["NPU_SIM_QUEUES"] = str(options.queues)
    hangs = [HANG_RULE.match(rule) for text in options.hang for rule in text.split(",")]
    if not all(hangs):
        raise cli.CommandError(f"--hang {','.join(options.hang)} is not FUNCTION, FUNCTION@N or FUNCTION@N+")
    if hangs:  # in the form of --fail, whose code is not used
        settings["NPU_SIM_HANG"] = ",".join(f"{rule.group(1)}:0{rule.group(2)}" for rule in hangs if rule)
    if rules:
        settings["NPU_SIM_FAIL"] = ",".join(rules)
    if options.defer:
        settings["NPU_SIM_DEFER"] = "1"
    for name in ("trace", "plog"):
        if getattr(options, name):
            settings[f"NPU_SIM_{name.upper()}"] = str(Path(getattr(options, name)).absolute())
    return settings


def command_of(options: argparse.Namespace) -> list[str]:
    """Return the Python command that runs the user's script or module.

    Raises:
        CommandError: exit code 2 without a script, 3 when the script does not exist.
    """
    rest = list(options.command)
    if options.module:
        return [sys.executable, "-m", *options.module]
    if not rest:
        raise cli.CommandError("no script was given; name a Python file, or a module with -m")
    if not Path(rest[0]).is_file():
        raise cli.CommandError(f"{rest[0]} does not exist; name a Python file", cli.NO_INPUT)
    return [sys.executable, *rest]


def main(argv: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(argv)
    settings = settings_of(options)
    command = command_of(options)
    folder = build.library_folder(options.cann)
    print(
        f"npu_sim: results come from a simulator (CANN {options.cann}, {options.soc}, {options.devices} devices); "
        "kernels' numerics and speed are not those of an NPU",
        file=sys.stderr,
        flush=True,
    )
    sys.stdout.flush()
    os.execve(command[0], command, build.environment(folder, settings))
    raise AssertionError("unreachable")


if __name__ == "__main__":
    cli.run(main)

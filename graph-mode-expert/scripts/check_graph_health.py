#!/usr/bin/env python3
"""Say whether the environment or the code is at fault: eight groups of checks of an NPU graph-mode installation.

Usage: check_graph_health.py [-v] [--only GROUP[,GROUP]] [--device N] [--output text|json|md] [--bundle OUT.zip]

Looks at CANN and driver, torch, torch_npu and whether they belong together, the devices, the NPUGraph API, environment
variables, a small capture and replay, and memory. Each check is PASS, FAIL, WARN or SKIP with evidence, a likely reason
and the next command; [CRIT] marks a FAIL with which no graph can run at all. The last line is
`N passed, N failed, N critical` (critical ones count as failed too).

Every probe runs in a process of its own with a time limit, so that a crash or a hang of the environment is a finding.
Needs Python alone; torch and torch_npu are what is examined.

Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage, 4 there is no NPU stack at all (what to install is
said), 5 internal error.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from health import (
    cann,
    capture,
    devices,
    evidence,
    graph_api,
    memory,
    npu_smi,
    pytorch,
    report,
    tables,
    torch_npu_package,
    variables,
)
from health.host import Host
from health.model import GROUPS, Check

from npu_graph import cli
from npu_graph.redaction import Redactor, machine_names

DEFAULT_TIMEOUT = 120.0
MIN_TIMEOUT, MAX_TIMEOUT = 5.0, 3600.0

RUNNERS: dict[str, Callable[[Host], list[Check]]] = {
    "cann": cann.run,
    "torch": pytorch.run,
    "torch_npu": torch_npu_package.run,
    "devices": devices.run,
    "api": graph_api.run,
    "variables": variables.run,
    "capture": capture.run,
    "memory": memory.run,
}


def run_checks(host: Host, groups: Sequence[str]) -> list[Check]:
    """Run the groups in their order and return every check."""
    return [found for name in RUNNERS if name in groups for found in RUNNERS[name](host)]


def find_facts(host: Host) -> dict[str, Any]:
    """Return the versions and the device in the words of the diagnosis record."""
    packages = host.packages()
    toolkit = cann.find_toolkit(host)
    outcome = host.npu_smi()
    smi = npu_smi.parse(outcome.stdout + "\n" + outcome.stderr)
    opened = host.asked("devices")
    loaded = ((opened.result or {}) if opened else {}).get("versions", {})
    frameworks = [name for name in ("vllm-ascend", "vllm", "sglang", "verl") if name in packages]
    return {
        "python": (host.probe("packages").result or {}).get("python"),
        "torch": packages.get("torch"),
        "torch_npu": packages.get("torch-npu"),
        "cann": (toolkit.version if toolkit else "") or loaded.get("cann") or None,
        "driver": cann.driver_version(host) or smi.version or loaded.get("driver") or None,
        "soc": devices.find_soc(host, smi).name or None,
        "chips": len(smi.chips),
        "framework": {"name": frameworks[0], "version": packages[frameworks[0]]} if frameworks else None,
        "packages": packages,
        "variables": {name: host.env[name] for name in variables.known_names() if name in host.env},
    }


def has_no_stack(host: Host, facts: dict[str, Any]) -> bool:
    """Say whether there is nothing of an NPU stack: no toolkit, package, driver, tool or device."""
    has_folder = bool((host.probe("packages").result or {}).get("folders", {}).get("torch_npu"))
    found = (facts["torch_npu"], has_folder, cann.find_toolkit(host), cann.find_core_library(host), facts["driver"])
    return not any(found) and host.npu_smi().kind == "absent" and not host.device_nodes()


def install_steps(language: str) -> list[str]:
    """Return what to install on a machine without an NPU stack: the newest set that was published together."""
    row = next(row for row in tables.releases() if row.cann and row.python)
    values = {"cann": row.cann, "torch": row.torch, "wheel": row.wheel, "python": row.python.replace(",", ", ")}
    return [step[1 if language == "zh" else 0].format(**values) for step in report.INSTALL]


def redact_record(value: Any, redactor: Redactor) -> Any:
    """Return the record with every text in it redacted."""
    if isinstance(value, str):
        return redactor.apply(value)
    if isinstance(value, list):
        return [redact_record(item, redactor) for item in value]
    if isinstance(value, dict):
        return {name: redact_record(item, redactor) for name, item in value.items()}
    return value


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    groups = _groups(options.only)
    if not MIN_TIMEOUT <= options.timeout <= MAX_TIMEOUT:
        raise cli.CommandError(f"--timeout {options.timeout:g}: give {MIN_TIMEOUT:g} to {MAX_TIMEOUT:g} seconds")
    if options.device < 0:
        raise cli.CommandError(f"--device {options.device}: give 0 or more")
    host = Host(os.environ, options.timeout, options.device, options.python)
    checks = run_checks(host, groups)
    facts = find_facts(host)
    record = report.as_record(checks, facts, options.lang)
    redactor = Redactor(machine_names())
    if options.bundle:
        names = evidence.write_bundle(options.bundle, host, record, redactor)
        print(f"{options.bundle}: {len(names)} files, redacted; look through it before you send it", file=sys.stderr)
    if options.redact:
        record = redact_record(record, redactor)
    no_stack = has_no_stack(host, facts)
    _write(record, options, install_steps(options.lang) if no_stack else [])
    if no_stack:
        return cli.ABSENT
    return cli.NEGATIVE if record["summary"]["failed"] else cli.DONE


def _write(record: dict[str, Any], options: argparse.Namespace, install: Sequence[str]) -> None:
    if options.output == "json":
        cli.write_json({**record, "install": list(install)})
        return
    if options.output == "md":
        text = report.as_markdown(record, install)
    else:
        text = report.as_text(record, options.verbose, install)
    if options.all or len(text.encode("utf-8")) <= cli.MAX_OUTPUT_BYTES:
        cli.write_text(text)
        return
    # The summary stays the last line of a shortened report too.
    ending = report.last_line(record["summary"])
    cli.write_text(cli.bound_output(text, cli.MAX_OUTPUT_BYTES - len(ending) - 80) + ending)


def _groups(text: str) -> list[str]:
    if not text:
        return list(GROUPS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in GROUPS]
    if unknown or not names:
        raise cli.CommandError(f"--only {text}: the groups are {', '.join(GROUPS)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser(
        "Check an NPU graph-mode installation: is it the environment or the code?",
        [
            "check_graph_health.py",
            "check_graph_health.py --only variables,capture --device 2 -v",
            "check_graph_health.py --output json --redact > health.json",
            "check_graph_health.py --bundle evidence.zip --lang zh",
        ],
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the evidence of what passed too")
    parser.add_argument("--only", default="", metavar="GROUPS", help=f"comma list of: {', '.join(GROUPS)}")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="device to examine (default 0)")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="default: text")
    parser.add_argument("--lang", choices=("en", "zh"), default=_default_language(), help="default: that of the locale")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, metavar="S", help="seconds for all (120)")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="Python whose torch is examined")
    parser.add_argument("--redact", action="store_true", help="replace host names, users, addresses, serial numbers")
    parser.add_argument("--bundle", type=Path, metavar="OUT.zip", help="also write a redacted evidence bundle")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    return parser


def _default_language() -> str:
    locale = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"


if __name__ == "__main__":
    cli.run(main)

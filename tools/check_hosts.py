#!/usr/bin/env python3
"""Try the bundle on real agent hosts and write what they made of it into docs/hosts.md.

Usage: check_hosts.py [--install] [--check] [--folder DIR]

Needs no account: Claude Code talks to a stand-in for the model's API on loopback, Codex prints what its model would
be shown. The programs lie in .npm-hosts/; --install gets them from npm (about 1 GB) and checks nothing. Everything else
happens in throw-away folders. --check prints the results and writes nothing.

Exit codes: 0 all as expected, 1 something is not, 2 wrong usage, 4 the programs are absent.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from host_checks import claude_code, codex, skills_cli
from host_checks.placement import WAYS, Site, make_site
from host_checks.programs import DEFAULT_FOLDER, PROGRAMS, Programs, find_programs, install_programs
from host_checks.results import Result

PAGE = ROOT / "docs" / "hosts.md"

# Name of a check, and what it does in a site of its own.
CHECKS: dict[str, Callable[[Site], list[Result]]] = {
    "Claude Code, manifests": claude_code.check_manifests,
    **{f"Claude Code, {way}": partial(claude_code.check_way, way=way) for way in claude_code.WAYS_HERE},
    **{f"Codex, {way}": partial(codex.check_way, way=way) for way in codex.WAYS_HERE},
    "skills CLI": skills_cli.check,
}

HEAD = """# The bundle on real hosts

Written by `tools/check_hosts.py` from a real run (`make hosts`); do not edit. No account and no model took part: Claude
Code was given a stand-in for the model's API on loopback, and what it sent there was looked into; Codex printed what
its model would be shown. So this page says that the hosts load the bundle, not how well a model uses it.
"""


def run_checks(programs: Programs) -> Iterator[Result]:
    """Run every check in a site of its own."""
    for name, check in CHECKS.items():
        with tempfile.TemporaryDirectory(prefix="npu-graph-hosts-") as folder:
            site = make_site(programs, Path(folder))
            try:
                yield from check(site)
            except RuntimeError as error:  # a step of the installation failed
                host, _, way = name.partition(", ")
                yield Result(host, way, "can be installed", False, str(error))


def versions(programs: Programs) -> dict[str, str]:
    """Return the version of each host's program."""
    with tempfile.TemporaryDirectory(prefix="npu-graph-hosts-") as home:
        return {host: programs.version(command, Path(home)) for host, _, command in PROGRAMS}


def render(results: list[Result], found: dict[str, str], date: str) -> str:
    """Return the page."""
    system = f"{platform.system()} {platform.machine()}"
    lines = [HEAD, f"Last run: {date}, {system}.", "", "| host | version | npm package |", "| --- | --- | --- |"]
    lines += [f"| {host} | {found[host]} | `{package}` |" for host, package, _ in PROGRAMS]
    lines += [
        "",
        "## Results",
        "",
        "| host | installed by | expected | result | seen |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {item.host} | {item.way} | {item.expected} | {'yes' if item.ok else '**no**'} | {cell(item.seen)} |"
        for item in results
    ]
    lines += ["", "## The ways of installing", "", "| name | what was run |", "| --- | --- |"]
    lines += [f"| {way} | `{(place.__doc__ or '').strip()}` |" for way, place in WAYS.items()]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return a text fit for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")[:300]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="install the programs from npm, and check nothing")
    parser.add_argument("--check", action="store_true", help="print the results, write nothing")
    parser.add_argument(
        "--folder", type=Path, default=DEFAULT_FOLDER, help="where the programs are (default: .npm-hosts)"
    )
    options = parser.parse_args(argv)
    try:
        programs = install_programs(options.folder) if options.install else find_programs(options.folder)
    except RuntimeError as error:
        print(f"check_hosts.py: error: {error}", file=sys.stderr)
        return 4
    if programs is None:
        print(f"check_hosts.py: error: no programs in {options.folder}; run it with --install first", file=sys.stderr)
        return 4
    if options.install:
        return 0
    results = list(run_checks(programs))
    for item in results:
        print(f"{'ok  ' if item.ok else 'FAIL'} {item.host} | {item.way} | {item.expected} | {cell(item.seen)}")
    if not options.check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(render(results, versions(programs), time.strftime("%Y-%m-%d", time.gmtime())), encoding="utf-8")
    return 0 if results and all(item.ok for item in results) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measure how much of what a user runs the tests execute, child processes included, and name the files below a floor.

Usage: measure_coverage.py [--floor PERCENT] [--report] [PYTEST ARGUMENT ...]

Runs the tests (all but the slow ones and those of simulator and hosts, unless arguments choose others) under
coverage.py. The tests start scripts with `python -S`, where nothing can be measured: here they get a Python that leaves
the -S away. Not seen all the same: what only torch, a device or the simulator reaches. --report prints the last
measurement again.

Exit codes: 0 every file is at the floor or above, 1 one is below, or a test failed, 2 wrong usage, 3 nothing was
measured, 4 coverage.py is absent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from npu_graph.install_plan import shipped_files

# Read by tests/conftest.py.
PYTHON_VARIABLE = "NPU_GRAPH_COVERAGE_PYTHON"
USUAL = ["-q", "-m", "not slow and not sim and not hosts and not versions"]
SETTINGS_NAME = "settings.ini"
# Absolute paths, because the tests start scripts from any folder. What is left out is not what a user runs.
SETTINGS = """[run]
source = {root}
omit =
    {root}/tests/*
    {root}/tools/*
    {root}/evals/*
    {root}/.*
    {root}/build/*
data_file = {root}/.coverage
parallel = true
patch = subprocess
disable_warnings = no-data-collected,module-not-measured

[report]
exclude_also =
    if TYPE_CHECKING:
    raise NotImplementedError
"""
WRAPPER = """#!/bin/sh
for word in "$@"; do
  shift
  [ "$word" = -S ] || set -- "$@" "$word"
done
COVERAGE_PROCESS_START="{settings}" exec "{python}" "$@"
"""


def coverage(folder: Path, command: str, *arguments: str, **variables: str) -> int:
    """Run one command of coverage.py with our settings; returns its exit code."""
    settings = folder / SETTINGS_NAME
    settings.write_text(SETTINGS.format(root=ROOT))
    call = [sys.executable, "-m", "coverage", command, f"--rcfile={settings}", *arguments]
    return subprocess.run(call, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode


def measure(folder: Path, arguments: list[str]) -> int:
    """Run the tests under coverage.py and combine what all processes wrote; returns pytest's exit code."""
    python = folder / "python3"
    python.write_text(WRAPPER.format(python=sys.executable, settings=folder / SETTINGS_NAME))
    python.chmod(0o755)
    coverage(folder, "erase")
    code = coverage(folder, "run", "-m", "pytest", *arguments, **{PYTHON_VARIABLE: str(python)})
    coverage(folder, "combine", "--quiet")
    return code


def file_shares(folder: Path) -> dict[str, tuple[float, int]]:
    """Return the share of executed lines in percent, and the number of lines, by file.

    coverage.py does not know scripts that no test started; they count with nothing executed.
    """
    out = folder / "coverage.json"
    if coverage(folder, "json", "--quiet", "-o", str(out)) or not out.is_file():
        return {}
    record = json.loads(out.read_text(encoding="utf-8"))
    never = {name: (0.0, 1) for name in shipped_files(ROOT) if name.endswith(".py") and name not in record["files"]}
    measured = {name: entry["summary"] for name, entry in record["files"].items()}
    return {
        **never,
        **{
            name: (entry["percent_covered"], entry["num_statements"])
            for name, entry in measured.items()
            if entry["num_statements"]
        },
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--floor", type=float, default=90.0, metavar="PERCENT", help="default: 90")
    parser.add_argument("--report", action="store_true", help="run no test, print the last measurement")
    options, arguments = parser.parse_known_args(argv)
    if importlib.util.find_spec("coverage") is None:
        print("measure_coverage.py: error: coverage.py is absent; tools/install_extras.py test", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(prefix="npu-graph-coverage-") as folder:
        code = 0 if options.report else measure(Path(folder), arguments or USUAL)
        shares = file_shares(Path(folder))
    if not shares:
        print("measure_coverage.py: error: nothing was measured; run it without --report", file=sys.stderr)
        return 3
    lines = sum(count for _, count in shares.values())
    executed = sum(share * count / 100 for share, count in shares.values())
    below = sorted((share, name, count) for name, (share, count) in shares.items() if share < options.floor)
    share = 100 * executed / lines
    print(f"{share:.1f} % of {lines} lines in {len(shares)} files; {len(below)} below {options.floor:g} %")
    for share, name, count in below:
        print(f"{share:6.1f} %  {count:5} lines  {name}")
    if code:
        print(f"pytest ended with {code}", file=sys.stderr)
    return 1 if below or code else 0


if __name__ == "__main__":
    sys.exit(main())

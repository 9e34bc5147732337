#!/usr/bin/env python3
"""Measure the log analyser against grep on the same generated file: speed, memory, growth, nothing lost.

Usage: bench_logs.py [--mb 200] [--profiles mixed,plog,storm,dense] [--reps 5] [--folder /tmp/bench] [--markdown]

Every repetition runs grep, the analyser and the line loop one after the other, so that other load on the machine hits
all alike; medians are compared. Prints a table; with --check a limit that is missed gives exit code 1.
Exit codes: 0 done, 1 a limit is missed (--check) or an event was lost, 2 wrong usage, 4 grep is absent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from npu_graph import cli
from npu_graph.logs.dispatch import SHORT_HEAD
from npu_graph.logs.inputs import BLOCK
from npu_graph.logs.signatures import EVENT_SIGNALS, GLOG_CHECKS, HUBS, PLOG_SIGNALS, SIGNATURES
from tools.generate_log import PROFILES, generate

EXAMPLES = ("python3 bench_logs.py --mb 200", "python3 bench_logs.py --mb 2000 --profiles mixed,plog --reps 3")
SCRIPT = ROOT / "graph-log-analyzer" / "scripts" / "parse_npu_logs.py"
# Times of the analyser as multiples of `LC_ALL=C grep -cE 'ERROR|FATAL'`, one process and two.
LIMITS = {"mixed": (5.0, 3.0), "plog": (3.0, None), "dense": (12.0, None), "storm": (None, None)}
LINE_LOOP_MB = 10
LINE_LOOP_FASTER = 30
PEAK_MB = 150
# The naive analyser: every line decoded, every signature tried as a regular expression.
_LINE_LOOP = """
import re, sys
sys.path.insert(0, {root!r})
from npu_graph.logs.signatures import SIGNATURES
from npu_graph.logs.errors import _CODED, _EXCEPTION, _KERNEL
rules = [re.compile(s.expression.pattern.decode()) for s in SIGNATURES]
rules += [re.compile(r.pattern.decode()) for r in (_CODED, _EXCEPTION, _KERNEL)] + [re.compile(r"\\[ERROR\\]|FATAL")]
hits = 0
for line in open({path!r}, encoding="utf-8", errors="replace"):
    for rule in rules:
        if rule.search(line):
            hits += 1
            break
print(hits)
"""
# The least that an analyser in Python does: take blocks apart into lines, look up each head. It finds nothing.
_FLOOR = """
import io, operator
head, seen = operator.itemgetter(slice(0, {head})), dict()
class Table(dict):
    def __missing__(self, key):
        self[key] = 1
        return 1
look = Table().__getitem__
with open({path!r}, "rb", buffering=0) as stream:
    while True:
        block = stream.read({block})
        if not block:
            break
        bytes(map(look, map(head, io.BytesIO(block).readlines())))
"""


class Run(NamedTuple):
    """One run of a command: seconds, processor seconds with children, peak memory of the largest process in MB."""

    wall: float
    cpu: float
    peak: float
    out: str


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> Run:
    """Run a command with its output in a file, as grep works less when nobody reads."""
    with tempfile.TemporaryFile() as out:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment)
        _, _, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = 0
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def with_bytecode(folder: Path) -> dict[str, str]:
    """Return an environment in which modules are compiled once, whatever the caller's environment says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def literals() -> list[bytes]:
    """Return every literal that the analyser searches for, each of which grep gets as well."""
    found = [*HUBS, *EVENT_SIGNALS, *GLOG_CHECKS, b"[ERROR] ", b"NPUGRAPH "]
    found += [literal for group in PLOG_SIGNALS.values() for literal in group]
    return sorted({literal for literal in found if literal.strip()} | {item.hub for item in SIGNATURES})


def lost(record: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """Return what was planted and not found."""
    problems = []
    found = sorted(
        [item["graph"], round(item["seconds"], 5)] for item in record["captures"]["list"] if item["state"] == "complete"
    )
    if found != sorted([graph, round(seconds, 5)] for graph, _, seconds in truth["captures"]):
        problems.append("captures")
    replays = {f"{item['process']} {item['graph']}": item["count"] for item in record["replays"]["graphs"]}
    if replays != truth["replays"]:
        problems.append("replays")
    if record["errors"]["total"] != truth["errors"]:
        problems.append("errors")
    compiles = sorted(item["seconds"] for item in record["compiles"] if item["kind"] == "compile")
    if compiles != sorted(truth["compile_s"]):
        problems.append("compiles")
    return problems


def measure(path: Path, profile: str, reps: int, patterns: Path) -> dict[str, Any]:
    """Return medians of one file."""
    c_locale = {**os.environ, "LC_ALL": "C"}
    floor = _FLOOR.format(head=SHORT_HEAD, path=str(path), block=BLOCK)
    parse = [sys.executable, str(SCRIPT), str(path), "--output", "json"]
    commands: dict[str, tuple[Sequence[str], dict[str, str] | None]] = {
        "grep": (["grep", "-cE", "ERROR|FATAL", str(path)], c_locale),
        "one": ([*parse, "--jobs", "1"], None),
        "two": ([*parse, "--jobs", "2"], None),
        "literals": (["grep", "-acF", "-f", str(patterns), str(path)], c_locale),
        "start": ([sys.executable, "-c", "pass"], None),
        "floor": ([sys.executable, "-c", floor], None),
    }
    environment = with_bytecode(patterns.parent)
    commands = {name: (command, own or environment) for name, (command, own) in commands.items()}
    run(*commands["one"])  # writes the bytecode, as a user's first run does
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(reps):
        for name, (command, own) in commands.items():
            runs[name].append(run(command, own))
    first = json.loads(runs["one"][0].out)
    second = json.loads(runs["two"][0].out)
    truth = json.loads(Path(f"{path}.truth.json").read_text(encoding="utf-8"))
    size = path.stat().st_size / 1e6
    result: dict[str, Any] = {"profile": profile, "mb": round(size), "lost": lost(first, truth)}
    if first != second:
        result["lost"].append("two jobs answer differently")
    for name, items in runs.items():
        result[name] = median(item.wall for item in items)
        result[f"{name}_cpu"] = median(item.cpu for item in items)
        result[f"{name}_least"] = min(item.cpu for item in items)
        result[f"{name}_peak"] = max(item.peak for item in items)
    return result


def line_loop(folder: Path, profile: str) -> float:
    """Return MB/s of a loop over lines and signatures, on a small file because it is slow."""
    path = folder / f"loop-{profile}.log"
    generate(path, LINE_LOOP_MB * 1_000_000, profile)
    code = _LINE_LOOP.format(root=str(ROOT), path=str(path))
    seconds = median(run([sys.executable, "-c", code]).wall for _ in range(2))
    speed = path.stat().st_size / 1e6 / seconds
    path.unlink()
    Path(f"{path}.truth.json").unlink()
    return speed


def missed(result: dict[str, Any]) -> list[str]:
    """Return the limits that a result misses."""
    one, two = LIMITS[result["profile"]]
    found = [f"lost: {item}" for item in result["lost"]]
    if one is not None and result["one"] > one * result["grep"]:
        found.append(f"one process {result['one'] / result['grep']:.1f}x grep, limit {one:g}x")
    if two is not None and result["two"] > two * result["grep"]:
        found.append(f"two processes {result['two'] / result['grep']:.1f}x grep, limit {two:g}x")
    if result["one"] > result["literals"]:
        found.append(f"slower than grep with the same literals ({result['literals'] / result['one']:.2f}x)")
    if max(result["one_peak"], result["two_peak"]) > PEAK_MB:
        found.append(f"peak {max(result['one_peak'], result['two_peak']):.0f} MB, limit {PEAK_MB} MB")
    if "loop" in result and result["mb"] / result["one"] < LINE_LOOP_FASTER * result["loop"]:
        found.append(f"only {result['mb'] / result['one'] / result['loop']:.0f}x the line loop")
    return found


COLUMNS = (
    ("log", lambda r: f"{r['profile']} {r['mb']} MB"),
    ("grep -cE s", lambda r: f"{r['grep']:.2f}"),
    ("1 job s", lambda r: f"{r['one']:.2f}"),
    ("x grep", lambda r: f"{r['one'] / r['grep']:.1f}"),
    ("cpu x grep", lambda r: f"{r['one_cpu'] / max(r['grep_cpu'], 0.001):.1f}"),
    ("least cpu x grep", lambda r: f"{r['one_least'] / max(r['grep_least'], 0.001):.1f}"),
    ("floor x grep", lambda r: f"{r['floor_least'] / max(r['grep_least'], 0.001):.1f}"),
    ("MB/s", lambda r: f"{r['mb'] / r['one']:.0f}"),
    ("2 jobs s", lambda r: f"{r['two']:.2f}"),
    ("2 jobs gain", lambda r: f"{r['one'] / r['two']:.2f}"),
    ("2 jobs cpu", lambda r: f"{r['two_cpu'] / max(r['one_cpu'], 0.001):.2f}"),
    ("grep -acF s", lambda r: f"{r['literals']:.2f}"),
    ("x grep -acF", lambda r: f"{r['one_cpu'] / max(r['literals_cpu'], 0.001):.2f}"),
    ("peak MB", lambda r: f"{max(r['one_peak'], r['two_peak']):.0f}"),
    ("x line loop", lambda r: f"{r['mb'] / r['one'] / r['loop']:.0f}" if "loop" in r else "-"),
    ("lost", lambda r: ", ".join(r["lost"]) or "nothing"),
)


def table(results: Sequence[dict[str, Any]], markdown: bool) -> str:
    """Return the results as a table."""
    rows = [[title for title, _ in COLUMNS], *([cell(result) for _, cell in COLUMNS] for result in results)]
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "| " + " | ".join("---" for _ in COLUMNS) + " |", *lines[1:]])
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Measure the log analyser against grep on the same file.", EXAMPLES)
    parser.add_argument("--mb", type=float, default=200, help="megabytes per file (default 200)")
    parser.add_argument("--profiles", default="mixed,plog,storm,dense", help="comma list of profiles")
    parser.add_argument("--reps", type=int, default=5, help="repetitions; medians are shown (default 5)")
    parser.add_argument("--folder", type=Path, help="where to put the files (default: a folder that is removed)")
    parser.add_argument("--no-loop", action="store_true", help="leave the slow line loop out")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options: argparse.Namespace = parser.parse_args(argv)
    if shutil.which("grep") is None:
        raise cli.CommandError("grep is absent; install GNU grep", cli.ABSENT)
    profiles = options.profiles.split(",")
    unknown = [name for name in profiles if name not in PROFILES]
    if unknown:
        raise cli.CommandError(f"no profile {unknown[0]!r}; one of {', '.join(PROFILES)}")
    results = []
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        patterns = folder / "literals.txt"
        patterns.write_bytes(b"\n".join(literals()) + b"\n")
        for profile in profiles:
            path = folder / f"{profile}.log"
            generate(path, int(options.mb * 1e6), profile)
            result = measure(path, profile, options.reps, patterns)
            if not options.no_loop:
                result["loop"] = line_loop(folder, profile)
            results.append(result)
            path.unlink()
            print(f"{profile}: done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    start = median(result["start_cpu"] for result in results)
    print(f"{machine}, {len(literals())} literals, medians of {options.reps}, the interpreter starts in {start:.3f} s")
    print(table(results, options.markdown))
    problems = [f"{result['profile']}: {problem}" for result in results for problem in missed(result)]
    for problem in problems:
        print(f"limit missed: {problem}")
    return cli.NEGATIVE if (options.check and problems) or any(result["lost"] for result in results) else cli.DONE


if __name__ == "__main__":
    cli.run(main)

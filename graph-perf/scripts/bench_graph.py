#!/usr/bin/env python3
"""Measure one workload eager and as a graph, side by side, and say how much faster the graph is, or that it is unclear.

Usage: bench_graph.py MODULE:FUNCTION [--backend npugraph|npugraphs|npugraph_ex|…] [--repeats N] [--save FILE]
       bench_graph.py --script FILE [FUNCTION]
       bench_graph.py --compare OLD.json NEW.json
Both take --html FILE (a page with drawings, needs Jinja2), --lang en|zh and --output text|json|md.

FUNCTION takes no argument and returns a call, `(call, args)`, or {"eager": call, "capture": function that captures and
returns the replaying call}. Runs warm-up, then eager and graph in turn (A B A B) between device events. Prints P50, P90
and P99, a bootstrap interval of the speed-up, capture cost, break-even, memory, drift and what it ran on; concludes
nothing when the interval includes 1, or when the device is npu_sim. Needs torch (and torch_npu on an NPU), except for
--compare.
Exit codes: 0 the graph is faster (compare: no regression), 1 slower, unclear or a regression, 2 wrong usage, 3 the
target or a record cannot be used, 4 torch is absent or does not load (--html: Jinja2 is absent).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Protocol, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench_device import Device, load_workload, users_code
from bench_page import render_comparison, render_measurement
from bench_record import FASTER, ON_CPU, SCHEMA, compare, conclude
from bench_report import bench_lines, compare_lines

from npu_graph import cli
from npu_graph.pages.page import load_jinja2, write_page

EXAMPLES = (
    "bench_graph.py my_model:decode_step --backend npugraph --repeats 50 --save graph.json",
    "bench_graph.py --compare before.json after.json --output md",
)
# A sample shorter than this measures the clock and the launch, not the workload.
_SAMPLE_US = 2000.0
_MAX_CALLS = 1000
_MAX_RECORD = 64 << 20
_ALL_BACKENDS = "npugraph (torch.npu.graph), or a torch.compile backend such as npugraphs, npugraph_ex, inductor"


class Clock(Protocol):
    """What the measurement needs of a device; tests give one with known times."""

    def time_us(self, run: Callable[[], Any], calls: int) -> float: ...

    def synchronize(self) -> None: ...


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.html:
        load_jinja2("--html")  # a measurement takes minutes: say it before
    if options.compare:
        records = [_read_record(name) for name in options.compare]
        record = _compare(records, options.compare)
        _print(record, options, compare_lines(record, options.lang))
        if options.html:
            _write_html(options.html, render_comparison(record, records, options.lang))
        return cli.NEGATIVE if record["regression"] or record["reasons"] else cli.DONE
    target = options.target or ("target" if options.script else None)
    if target is None or (options.script is None and ":" not in target):
        raise cli.CommandError("give MODULE:FUNCTION, or --script FILE [FUNCTION], or --compare OLD NEW")
    with contextlib.redirect_stdout(sys.stderr):  # torch_npu and the user's code print while they run
        record = _measure(target, options)
    # Printed first: a file that cannot be written must not take the measurement with it.
    shown = {key: value for key, value in record.items() if key != "samples" or options.samples}
    _print(shown, options, bench_lines(record, options.lang))
    if options.save:
        _save(record, Path(options.save))
    if options.html:
        _write_html(options.html, render_measurement(record, options.lang))
    return cli.DONE if record["result"]["conclusion"] == FASTER else cli.NEGATIVE


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser("Measure a workload eager and as a graph, interleaved.", EXAMPLES)
    parser.add_argument("target", nargs="?", metavar="MODULE:FUNCTION", help="what makes the workload")
    parser.add_argument("--script", metavar="FILE", help="a Python file instead of a module (function: target)")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="compare two saved records")
    parser.add_argument("--backend", default="npugraph", metavar="NAME", help=f"{_ALL_BACKENDS} (default: npugraph)")
    parser.add_argument("--warmup", type=_positive, default=10, metavar="N", help="calls of each before timing (10)")
    parser.add_argument("--repeats", type=_positive, default=30, metavar="N", help="samples of each (30)")
    parser.add_argument("--calls", type=_positive, metavar="N", help="calls per sample (default: about 2 ms of them)")
    parser.add_argument("--save", metavar="FILE", help="write the record with its samples, for --compare")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with drawings (needs Jinja2)")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of text, md and page (en)")
    parser.add_argument("--samples", action="store_true", help="print every sample in JSON")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="default: text")
    return parser


def _positive(text: str) -> int:
    if not (text.isdigit() and text.isascii()) or not 0 < int(text[:9]) <= 1_000_000 or len(text) > 7:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000000")
    return int(text)


def _measure(target: str, options: argparse.Namespace) -> dict[str, Any]:
    device = Device()
    workload = load_workload(target, options.script, options.backend, device)
    memory = {"before": device.memory()}
    device.reset_peak()
    with users_code("the eager run failed", "make it run alone first"):
        _repeat(workload.eager, options.warmup)
        device.synchronize()
    memory["eager"] = device.memory()
    device.reset_peak()
    began = time.perf_counter_ns()
    with users_code("the capture failed", "diagnose it with graph-mode-diagnostics"):
        graph = workload.capture()
        device.synchronize()
    capture_us = (time.perf_counter_ns() - began) / 1000
    if not callable(graph):
        raise cli.CommandError("'capture' returned no call that replays the graph, such as graph.replay", cli.NO_INPUT)
    with users_code("the graph run failed", "diagnose it with graph-mode-diagnostics"):
        _repeat(graph, options.warmup)
        device.synchronize()
    memory["graph"] = device.memory()
    with users_code("a run failed while it was measured", "make eager and graph run alone first"):
        calls = options.calls or choose_calls(device, workload.eager, graph)
        eager_us, graph_us = interleave(device, workload.eager, graph, options.repeats, calls)
    if min(*eager_us, *graph_us) <= 0:
        raise cli.CommandError(
            f"a sample of {calls} calls took no measurable time; give more with --calls", cli.NO_INPUT
        )
    memory["graph_adds"] = _added(memory["eager"], memory["graph"])
    return {
        "schema": SCHEMA,
        "target": target,
        "result": conclude(eager_us, graph_us, capture_us, bool(device.simulator)),
        "notes": [] if device.npu else [ON_CPU],
        "memory_bytes": memory if any(memory.values()) else None,
        "settings": {
            "backend": options.backend,
            "warmup": options.warmup,
            "repeats": options.repeats,
            "calls_per_sample": calls,
            "order": "A B A B",
        },
        "environment": device.environment(),
        "samples": {"eager": eager_us, "graph": graph_us},
    }


def _added(eager: dict[str, int] | None, graph: dict[str, int] | None) -> dict[str, int] | None:
    """Return the memory that capture and replay took beside what eager held, which stays allocated meanwhile."""
    if eager is None or graph is None:
        return None
    return {name: graph[name] - eager[name] for name in ("allocated", "reserved")}


def _repeat(run: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        run()


def choose_calls(device: Clock, eager: Callable[[], Any], graph: Callable[[], Any]) -> int:
    """Return how many calls make a sample long enough to measure, for the faster of the two."""
    fastest = min(device.time_us(run, 3) for run in (eager, graph))
    return max(1, min(_MAX_CALLS, int(_SAMPLE_US / max(fastest, 0.001)) + 1))


def interleave(
    device: Clock, eager: Callable[[], Any], graph: Callable[[], Any], repeats: int, calls: int
) -> tuple[list[float], list[float]]:
    """Return times per call (us) of eager and graph, measured in turn: what disturbs one disturbs its neighbour too."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for kept, run in zip(times, (eager, graph)):
            kept.append(round(device.time_us(run, calls), 4))
    return times


def _save(record: dict[str, Any], path: Path) -> None:
    """Write beside the target and rename, so that a record is whole or not there."""
    written = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=str(path.parent), prefix=".bench-")
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            json.dump(record, target, ensure_ascii=False)
        os.replace(written, path)  # noqa: PTH105
    except OSError as error:
        with contextlib.suppress(OSError):
            if written:
                os.unlink(written)  # noqa: PTH108
        raise cli.CommandError(f"{path} cannot be written: {error.strerror}", cli.USAGE) from None


def _write_html(path: Path, page: str) -> None:
    print(f"{path}: {write_page(path, page)} bytes", file=sys.stderr)


def _read_record(name: str) -> Any:
    try:
        if Path(name).exists() and not Path(name).is_file():
            raise cli.CommandError(f"{name} is not a regular file; name a record of --save", cli.NO_INPUT)
        if Path(name).stat().st_size > _MAX_RECORD:
            raise cli.CommandError(f"{name} is too large for a record of --save", cli.NO_INPUT)
        return json.loads(Path(name).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise cli.CommandError(f"{name} cannot be read: {error.strerror}", cli.NO_INPUT) from None
    except (ValueError, RecursionError):
        raise cli.CommandError(f"{name} is no JSON record of --save", cli.NO_INPUT) from None


def _compare(records: list[Any], names: Sequence[str]) -> dict[str, Any]:
    try:
        return compare(*records)
    except ValueError as error:
        raise cli.CommandError(f"{' or '.join(names)} is {error}", cli.NO_INPUT) from None


def _print(record: dict[str, Any], options: argparse.Namespace, lines: list[str]) -> None:
    if options.output == "json":
        cli.write_json(record)
        return
    if options.output == "md":
        lines = [f"## {lines[0]}", "", *[f"- {line}" for line in lines[1:]]]
    with contextlib.suppress(BrokenPipeError):
        cli.write_text(cli.bound_output("\n".join(cli.one_line(line, 600) for line in lines) + "\n"))


if __name__ == "__main__":
    cli.run(main)

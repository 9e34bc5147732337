#!/usr/bin/env python3
"""Read NPU logs of any size: the first failure, graph events and their durations, anomalies, clusters of errors.

Usage: parse_npu_logs.py PATH [PATH ...] | -   [--output text|json|md|trace] [--summary] [--since T] [--rank R]

PATH is a file, a directory (~/ascend/log, a service's log folder), a .gz, or - for standard input. Prints a report;
--output json gives the record of references/log_record.md, --output trace a Chrome trace for Perfetto and MindStudio
Insight, --excerpt the lines around the first failure for diagnose.py, --partial a result for --merge.
Exit codes: 0 done, no error and no anomaly; 1 done, an error or an anomaly was found; 2 wrong usage; 3 no usable input;
5 internal error; 130 interrupted before anything was read.
"""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if __name__ == "__main__":
    # What starting makes stays: looking for garbage in it again and again takes a twentieth of a short run.
    gc.set_threshold(50_000)

from npu_graph import cli
from npu_graph.logs import engine, partial, record, stamps
from npu_graph.logs.anomalies import THRESHOLDS, defaults
from npu_graph.logs.context import attach_contexts
from npu_graph.logs.failures import find_failures
from npu_graph.logs.inputs import find_sources, peek_stdin, unreadable
from npu_graph.logs.render import render
from npu_graph.logs.timeline import build_timeline
from npu_graph.logs.trace import to_trace

EXAMPLES = (
    "python3 parse_npu_logs.py ~/ascend/log service.log --summary",
    "kubectl logs my-pod | python3 parse_npu_logs.py - --excerpt | python3 diagnose.py -",
)
# A terminal is told about progress this often.
_PROGRESS_EVERY_S = 0.3


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.test:
        return _run_self_check()
    limits = _limits(options.threshold)
    since, until = (_time(text, name) for text, name in ((options.since, "--since"), (options.until, "--until")))
    if options.merge:
        found = _merged(options.merge)
    else:
        found = _scanned(options, since, until)
    if options.partial:
        return _write_partial(found, options)
    result = record.analyse(found, limits, options.rank, options.host, language=options.lang)
    _check_rank(result, options.rank)
    return _write(result, options)


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser(
        "Read NPU logs of any size: first failure, graph events, anomalies, error clusters.", EXAMPLES
    )
    parser.add_argument("inputs", nargs="*", metavar="PATH", help="a file, a directory, a .gz, or - for standard input")
    parser.add_argument("--output", choices=("text", "json", "md", "trace"), default="text", help="form of the report")
    parser.add_argument("--summary", action="store_true", help="the short report (about 60 lines)")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    parser.add_argument("--excerpt", action="store_true", help="print only the lines around the first failure")
    parser.add_argument("--since", metavar="TIME", help="leave out what is earlier, e.g. '2026-01-31 08:00:00'")
    parser.add_argument("--until", metavar="TIME", help="leave out what is later")
    parser.add_argument(
        "--rank", default="", metavar="R", help="only this rank, named as in the report (3, TP1, DP0.TP1)"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, metavar="N", help="processes (default: one a processor, at most 8)"
    )
    parser.add_argument(
        "--year", type=int, metavar="YYYY", help="year of stamps without one (default: from log or file)"
    )
    parser.add_argument("--host", default="", metavar="NAME", help="name of this host, for merging")
    parser.add_argument(
        "--threshold", action="append", default=[], metavar="NAME=VALUE",
        help="; ".join(f"{name}={value:g}: {meaning}" for name, (value, meaning) in THRESHOLDS.items()),
    )  # fmt: skip
    parser.add_argument("--partial", action="store_true", help="print a mergeable partial result (JSON) and no report")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="combine partial results instead of reading logs")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language of the report (default en)")
    parser.add_argument("--test", action="store_true", help="check the analyser on lines that it makes itself")
    return parser


def _limits(given: Sequence[str]) -> dict[str, float]:
    limits = defaults()
    for item in given:
        name, equals, value = item.partition("=")
        if name not in limits or not equals:
            raise cli.CommandError(f"--threshold {item!r}: expected NAME=VALUE with NAME one of {', '.join(limits)}")
        try:
            limits[name] = float(value)
        except ValueError:
            raise cli.CommandError(f"--threshold {item!r}: {value!r} is not a number") from None
    return limits


def _time(text: str | None, name: str) -> int | None:
    if not text:
        return None
    us = stamps.parse_time(text, stamps.Clock(stamps.local_now(), "now"))
    if us is None:
        raise cli.CommandError(f"{name} {text!r}: expected a time such as '2026-01-31 08:00:00' or '01-31 08:00:00'")
    return us


def _scanned(options: argparse.Namespace, since: int | None, until: int | None) -> partial.Partial:
    if not options.inputs:
        raise cli.CommandError("no input: name log files or a folder, or pipe a log to '-'")
    if options.inputs.count("-") > 1:
        raise cli.CommandError("'-' (standard input) was given twice; give it once")
    if "-" in options.inputs and (sys.stdin is None or sys.stdin.isatty()):
        raise cli.CommandError("'-' reads standard input, but nothing is piped in", cli.NO_INPUT)
    if "-" in options.inputs:
        reason = unreadable(peek_stdin())
        if reason:
            raise cli.CommandError(f"standard input is {reason}", cli.NO_INPUT)
    if options.jobs < 0:
        raise cli.CommandError(f"--jobs {options.jobs}: expected a number of processes, 1 or more")
    found = find_sources(options.inputs)
    if not found.sources:
        first = found.skipped[0] if found.skipped else None
        detail = f"{first.path}: {first.reason}" if first else "the folder holds no log file"
        raise cli.CommandError(f"nothing to read: {detail}; name a log file or a folder with logs", cli.NO_INPUT)
    jobs = options.jobs or engine.default_jobs()
    settings = engine.Options(jobs, since, until, options.year, options.host)
    result = engine.scan(found, settings, _Progress() if sys.stderr.isatty() else None)
    if not any(segment.lines for _, segment in result.sources()):
        if result.interrupted:
            raise KeyboardInterrupt
        reasons = sorted(f"{path}: {reason}" for _, path, reason in result.skipped)
        detail = reasons[0] if reasons else "the input is empty"
        raise cli.CommandError(f"nothing to read: {detail}", cli.NO_INPUT)
    return result


class _Progress:
    """Says on a terminal's stderr how far reading is."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._said = self._begun

    def __call__(self, read: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said < _PROGRESS_EVERY_S and read < total:
            return
        self._said = now
        speed = read / 1e6 / max(now - self._begun, 1e-6)
        end = "\n" if read >= total else ""
        print(
            f"\rread {read / 1e6:,.0f} of {total / 1e6:,.0f} MB, {speed:,.0f} MB/s ",
            end=end,
            file=sys.stderr,
            flush=True,
        )


def _merged(names: Sequence[str]) -> partial.Partial:
    parts = []
    for name in names:
        try:
            parts.append(partial.load(Path(name)))
        except ValueError as error:
            raise cli.CommandError(f"{name}: {error}; expected a file written by --partial", cli.NO_INPUT) from None
    return partial.merge(parts)


def _write_partial(found: partial.Partial, options: argparse.Namespace) -> int:
    failures = find_failures(found, build_timeline(found))
    attach_contexts(found, record.first_places(failures), options.host)
    cli.write_text(json.dumps(found.to_record(), ensure_ascii=False, separators=(",", ":")))
    return cli.DONE


def _check_rank(result: dict[str, Any], rank: str) -> None:
    ranks = sorted({item["rank"] for item in result["processes"]} - {""})
    if rank and rank not in ranks:
        known = ", ".join(ranks) or "none (no line names a rank)"
        raise cli.CommandError(f"--rank {rank}: no such rank in these logs; found: {known}", cli.NO_INPUT)


def _write(result: dict[str, Any], options: argparse.Namespace) -> int:
    negative = bool(result["first_failure"] or result["anomalies"])
    if options.excerpt:
        text = record.excerpt(result)
        if not text:
            raise cli.CommandError("no error line was found, so there is no excerpt", cli.NEGATIVE)
        cli.write_text(text)
        return cli.DONE
    if options.output == "json":
        # One line per field: the record can be large, and an indented one costs more time than reading the log.
        fields = (f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in result.items())
        cli.write_text("{\n" + ",\n".join(fields) + "\n}")
    elif options.output == "trace":
        cli.write_text(json.dumps(to_trace(result), ensure_ascii=False, separators=(",", ":")))
    else:
        text = render(result, options.lang or "en", options.output == "md", options.summary)
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.NEGATIVE if negative else cli.DONE


def _run_self_check() -> int:
    from npu_graph.logs.self_check import self_check

    print("self-check on lines made by this script, not on your logs")
    failures = self_check()
    for failure in failures:
        print(f"FAILED: {failure}")
    print("SELF TEST FAILED" if failures else "SELF TEST PASSED")
    return cli.NEGATIVE if failures else cli.DONE


if __name__ == "__main__":
    # A script in a pipeline is ended by the terminal's Ctrl-C as well; what was read by then is still reported.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.run(main)

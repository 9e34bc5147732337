#!/usr/bin/env python3
"""Turn a log record into one self-contained HTML page: timeline per rank, durations, anomalies, errors with lines.

Usage: render_report.py REPORT.json [-o report.html] [--lang en|zh]

REPORT.json is what `parse_npu_logs.py --output json` prints (- reads it from standard input). The page needs no network
and runs no script; text from the log is shown as text. Needs Jinja2 (`pip install jinja2`).
Exit codes: 0 written, 2 wrong usage, 3 no usable input, 4 Jinja2 is absent, 5 internal error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import cli
from npu_graph.logs.record import SCHEMA
from npu_graph.logs.stamps import show
from npu_graph.pages.charts import WIDTH, histogram
from npu_graph.pages.page import load_jinja2, render_page, write_page

EXAMPLES = (
    "python3 parse_npu_logs.py service.log --output json > report.json; python3 render_report.py report.json",
    "python3 parse_npu_logs.py ~/ascend/log --output json | python3 render_report.py - -o log.html --lang zh",
)
TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
MAX_RECORD_BYTES = 256 << 20

# Height of a row of the timeline, in pixels.
ROW = 26
# Events nearer to each other than this are one mark with a count: ten thousand of them stay a readable drawing.
COLUMN = 4
# What is drawn with which class, most important first where marks coincide.
MARKS = {
    "error": ("error",),
    "bad": ("capture_failed", "capture_open", "fallback", "eviction", "graph_break", "recompile_limit"),
    "capture": ("capture",),
    "compile": ("compile", "recompile", "ge_cost", "cache_load"),
    "phase": ("capture_total", "capture_bar"),
    "other": ("reset", "update"),
}
_KIND_OF = {kind: mark for mark, kinds in MARKS.items() for kind in kinds}
_HISTOGRAM_BINS = 24
_MAX_ROWS = 64
_MAX_TABLE = 10000


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Turn a log record into one self-contained HTML page.", EXAMPLES)
    parser.add_argument("record", metavar="REPORT.json", help="what parse_npu_logs.py --output json prints, or -")
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="page to write (report.html)")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the page")
    options = parser.parse_args(argv)
    record = read_record(options.record)
    size = write_page(options.out, render(record, options.lang))
    print(f"{options.out}: {size} bytes", file=sys.stderr)
    return cli.DONE


def read_record(name: str) -> dict[str, Any]:
    """Read and check a record.

    Raises:
        CommandError: exit code 3 when it is not one.
    """
    text = cli.read_inputs([name], MAX_RECORD_BYTES)[0]
    hint = "expected what parse_npu_logs.py --output json prints"
    if text.skipped_bytes:
        raise cli.CommandError(f"{name} is larger than {MAX_RECORD_BYTES >> 20} MB; {hint}", cli.NO_INPUT)
    try:
        record = json.loads(text.text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise cli.CommandError(f"{name} is not JSON ({error}); {hint}", cli.NO_INPUT) from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise cli.CommandError(f"{name} has no schema {SCHEMA}; {hint}", cli.NO_INPUT)
    return record


def render(record: dict[str, Any], language: str = "en") -> str:
    """Return the page.

    Raises:
        CommandError: exit code 4 without Jinja2, 3 when the record lacks a field.
    """
    load_jinja2("render_report.py")
    try:
        values = {
            "record": record,
            "rows": timeline_rows(record),
            "width": WIDTH,
            "row_height": ROW,
            "ticks": ticks(record),
            "histograms": histograms(record),
            "events": record["timeline"]["events"][:_MAX_TABLE],
            "hidden_events": max(0, len(record["timeline"]["events"]) - _MAX_TABLE),
        }
    except (KeyError, TypeError) as error:
        message = f"the record lacks a field ({error}); make it again with this version"
        raise cli.CommandError(message, cli.NO_INPUT) from None
    return render_page(TEMPLATES, "report.html.j2", language, values, {"time": show, "seconds": _seconds})


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f} s" if value >= 1 else f"{value * 1000:.3f} ms"


def _scale(record: dict[str, Any]) -> tuple[int, float]:
    first, last = record["span"]["first_us"], record["span"]["last_us"]
    if first is None or last is None or last <= first:
        return first or 0, 0.0
    return first, WIDTH / (last - first)


def timeline_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per process that has something to show: marks merged per column of the drawing."""
    start, scale = _scale(record)
    by_process: dict[str, list[tuple[float, float, str, str]]] = {}
    for item in record["timeline"]["events"]:
        if item["time_us"] is None:
            continue
        begin, length = item["time_us"], (item["seconds"] or 0) * 1_000_000
        if not item["kind"].startswith("capture") or item["kind"] in MARKS["phase"]:
            begin -= length  # such a line is written at the end of what it measures
        seconds = f" {_seconds(item['seconds'])}" if item["seconds"] is not None else ""
        label = f"{item['kind']}{seconds} {item['graph']}"
        mark = (max(0.0, (begin - start) * scale), length * scale, _KIND_OF.get(item["kind"], "other"), label)
        by_process.setdefault(item["process"], []).append(mark)
    for cluster in record["errors"]["clusters"]:
        for process in cluster["processes"]:
            if cluster["first_us"] is not None:
                mark = ((cluster["first_us"] - start) * scale, 0.0, "error", f"{cluster['count']}x {cluster['key']}")
                by_process.setdefault(process, []).append(mark)
    known = {item["process"]: item for item in record["processes"]}
    rows = []
    for process in sorted(by_process, key=lambda name: (known.get(name, {}).get("rank", ""), name)):
        info = known.get(process, {})
        rank = f"rank {info['rank']} · " if info.get("rank") else ""
        alive = []
        if info.get("first_us") is not None:
            alive = [(info["first_us"] - start) * scale, max((info["last_us"] - info["first_us"]) * scale, 1.0)]
        rows.append({"label": f"{rank}{process}", "alive": alive, "marks": _merged(by_process[process])})
    return rows[:_MAX_ROWS]


def _merged(marks: list[tuple[float, float, str, str]]) -> list[dict[str, Any]]:
    order = list(MARKS)
    columns: dict[tuple[int, int, str], dict[str, Any]] = {}
    for at, length, kind, label in marks:
        place = (int(at // COLUMN), int(length // COLUMN), kind)
        known = columns.get(place)
        if known is None:
            width = round(max(length, 2.0), 1)
            columns[place] = {"x": round(min(at, WIDTH - 2.0), 1), "w": width, "kind": kind, "label": label, "n": 1}
        else:
            known["n"] += 1
    return sorted(columns.values(), key=lambda mark: (-order.index(mark["kind"]), mark["x"]))


def ticks(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the labels of the time axis."""
    start, scale = _scale(record)
    if not scale:
        return []
    return [{"x": WIDTH * part // 4, "label": show(int(start + WIDTH * part / 4 / scale))[5:19]} for part in range(5)]


def histograms(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the distributions of capture and compile seconds."""
    found = []
    for name, items in (("captures", record["captures"]["list"]), ("compiles", record["compiles"])):
        values = sorted(item["seconds"] for item in items if item["seconds"] is not None)
        if len(values) < 2:
            continue
        top = values[-1] or 1.0
        bars = [
            {**column._asdict(), "label": f"{_seconds(column.low)} .. {_seconds(column.high)}: {column.n}"}
            for column in histogram(values, 0.0, top, _HISTOGRAM_BINS)
        ]
        found.append({"name": name, "bars": bars, "top": top, "count": len(values)})
    return found


if __name__ == "__main__":
    cli.run(main)

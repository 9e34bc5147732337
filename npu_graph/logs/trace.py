"""The record as Chrome Trace Event JSON, which Perfetto and MindStudio Insight open."""

from __future__ import annotations

from typing import Any

# Rows of a process in the viewer, top to bottom.
_ROWS = {"captures": 1, "compilations": 2, "service phases": 3, "events": 4, "errors": 5, "replays": 6}


def to_trace(record: dict[str, Any]) -> dict[str, Any]:
    """Return {"traceEvents": [...]}; times are microseconds from the start of the log.

    Replays appear as one slice per graph, from its first to its last enqueue: a log knows no duration of a replay.
    """
    start = record["span"]["first_us"] or 0
    numbers = {item["process"]: at for at, item in enumerate(record["processes"], 1)}
    events: list[dict[str, Any] | None] = []
    for item in record["processes"]:
        number = numbers[item["process"]]
        rank = f"rank {item['rank']} " if item["rank"] else ""
        name = f"{rank}process {item['process']} {' '.join(item['names'])}".strip()
        events.append(_meta("process_name", number, 0, name))
        events += [_meta("thread_name", number, row, label) for label, row in _ROWS.items()]
    for item in record["captures"]["list"]:
        events.append(_slice(item, numbers, "captures", f"capture {item['graph']} ({item['state']})", start))
    for item in record["compiles"]:
        ended = {**item, "time_us": _before(item)}
        events.append(_slice(ended, numbers, "compilations", f"{item['kind']} {item['graph']}", start))
    for item in record["capture_phases"]:
        ended = {**item, "time_us": _before(item)}
        events.append(_slice(ended, numbers, "service phases", f"{item['kind']} {item['graph']}", start))
    for item in record["timeline"]["events"]:
        if item["seconds"] is None and not item["kind"].startswith("capture"):
            events.append(_instant(item, numbers, "events", f"{item['kind']} {item['graph']}", start))
    for item in record["replays"]["graphs"]:
        if item["first_us"] is not None:
            seconds = (item["last_us"] - item["first_us"]) / 1e6
            placed = {
                **item,
                "time_us": item["first_us"],
                "seconds": seconds,
                "source": ",".join(item["sources"]),
                "line": None,
            }
            events.append(_slice(placed, numbers, "replays", f"{item['count']} replays of {item['graph']}", start))
    for item in record["errors"]["clusters"]:
        for process in item["processes"]:
            placed = {**item, "process": process, "time_us": item["first_us"]}
            events.append(_instant(placed, numbers, "errors", item["key"], start))
    return {"traceEvents": [event for event in events if event is not None], "displayTimeUnit": "ms"}


def _before(item: dict[str, Any]) -> int | None:
    """A line such as `takes 12 s` is written at the end of what it measures."""
    if item["time_us"] is None:
        return None
    return int(item["time_us"] - (item["seconds"] or 0) * 1_000_000)


def _meta(kind: str, process: int, row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "args": {"name": name}}


def _slice(item: dict[str, Any], numbers: dict[str, int], row: str, name: str, start: int) -> dict[str, Any] | None:
    if item["time_us"] is None:
        return None
    if item["seconds"] is None:
        return _instant(item, numbers, row, name, start)
    return {
        "ph": "X",
        "name": name[:120],
        "cat": row,
        "pid": numbers.get(item["process"], 0),
        "tid": _ROWS[row],
        "ts": item["time_us"] - start,
        "dur": round(item["seconds"] * 1_000_000),
        "args": {"source": item["source"], "line": item["line"]},
    }


def _instant(item: dict[str, Any], numbers: dict[str, int], row: str, name: str, start: int) -> dict[str, Any] | None:
    if item["time_us"] is None:
        return None
    return {
        "ph": "i",
        "s": "t",
        "name": name[:120],
        "cat": row,
        "pid": numbers.get(item["process"], 0),
        "tid": _ROWS[row],
        "ts": item["time_us"] - start,
        "args": {"source": item["source"], "line": item["line"]},
    }

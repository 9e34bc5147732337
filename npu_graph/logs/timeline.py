"""Pairs events into captures, compilations, updates and replays per process, each graph counted by one source only."""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple

from npu_graph.logs.partial import Partial, SourceInfo
from npu_graph.logs.processes import process_id
from npu_graph.logs.replays import Replays
from npu_graph.logs.segment import Event, Segment
from npu_graph.logs.stamps import SECOND

# The same capture or replay shows up in several logs. The first of these that a process has is used, the rest is only
# named: their begin and end are nearest to the call itself.
WAYS = ("torch_npu", "acl", "plog", "torchair", "python", "xllm")
WAY_MEANS = {
    "torch_npu": "TORCH_NPU_LOGS=+aclgraph lines",
    "acl": "TORCH_NPU_LOGS=acl lines (written before each call)",
    "plog": "CANN run/plog events",
    "torchair": "torchair log",
    "python": "Python lines of torch_npu",
    "xllm": "xLLM's lines",
}
_BEGINS = {
    "begin": "torch_npu",
    "acl_begin": "acl",
    "plog_begin": "plog",
    "fx_begin": "torchair",
    "python_begin": "python",
    "xllm_begin": "xllm",
}
_ENDS = {
    "end_done": "torch_npu",
    "acl_end": "acl",
    "plog_end": "plog",
    "fx_end": "torchair",
    "python_end": "python",
    "xllm_end": "xllm",
}
# The line at the end is written by default, the one at the begin is not: an end alone is a capture without a duration.
_END_ALONE = "xllm"
# Ways whose lines do not name the graph at the begin: the next end belongs to the open begin.
_ONE_AT_A_TIME = ("torch_npu", "acl", "python", "xllm")
# Kinds shown in the timeline as they are.
POINTS = (
    *("reset", "fallback", "eviction", "recompile", "graph_break", "recompile_limit", "capture_failed", "cache_load"),
    *("update",),
)


class Place(NamedTuple):
    """A line of a source."""

    source: str
    line: int


class Placed(NamedTuple):
    """An event with its process."""

    us: int | None
    order: int
    place: Place
    process: str
    event: Event


class Capture(NamedTuple):
    """One capture of one graph. Seconds are None when a stamp or the end is missing."""

    process: str
    way: str
    graph: str
    us: int | None
    end_us: int | None
    place: Place
    forward_s: float | None  # the Python forward under capture
    instantiate_s: float | None  # closing the capture: the graph is built
    total_s: float | None
    state: str  # complete, failed, open
    resolution_s: float


class GraphReplays(NamedTuple):
    """All replays of one captured graph."""

    process: str
    way: str
    graph: str
    generation: int
    replays: Replays
    sources: tuple[str, ...]


class Timeline(NamedTuple):
    """Everything that happened to graphs, in time order."""

    captures: list[Capture]
    compiles: list[Placed]
    totals: list[Placed]  # whole capture phases of a service start
    updates: list[tuple[Placed, float | None]]
    points: list[Placed]
    replays: list[GraphReplays]
    ways: dict[str, list[str]]  # process -> ways its captures are logged in
    dropped: int
    clock_steps: list[tuple[Place, float]]


def build_timeline(partial: Partial) -> Timeline:
    """Read the events of all sources together."""
    placed: list[Placed] = []
    dropped = 0
    steps: list[tuple[Place, float]] = []
    sources = partial.sources()
    for info, segment in sources:
        dropped += segment.dropped_events
        latest: dict[str, int] = {}
        names: dict[str, str] = {}
        for event in segment.events:
            process = names.get(event.pid, "")
            if not process:
                process = names[event.pid] = process_id(info, segment, event.pid)
            place = Place(info.id, event.line)
            placed.append(Placed(event.us, len(placed), place, process, event))
            if event.us is not None and not event.inherited:
                before = latest.get(process)
                if before is not None and event.us < before - SECOND:
                    steps.append((place, (before - event.us) / SECOND))
                latest[process] = event.us
    # A stable sort by time keeps file order inside one stamp; an event without a stamp follows the one before it.
    placed = _in_order(placed)
    by_process: dict[str, list[Placed]] = {}
    for item in placed:
        by_process.setdefault(item.process, []).append(item)
    captures: list[Capture] = []
    ways: dict[str, list[str]] = {}
    updates: list[tuple[Placed, float | None]] = []
    for process in sorted(by_process):
        found = _captures(process, by_process[process])
        present = [way for way in WAYS if any(item.way == way for item in found)]
        if present:
            ways[process] = present
        captures += [item for item in found if item.way == present[0]]
        updates += _updates(by_process[process])
    captures.sort(key=lambda item: (item.us is None, item.us or 0, item.place))
    return Timeline(
        captures,
        [item for item in placed if item.event.kind in ("compile", "ge_cost")] + _compile_pairs(by_process),
        [item for item in placed if item.event.kind in ("capture_total", "capture_bar")],
        updates,
        [item for item in placed if item.event.kind in POINTS],
        _replays(sources),
        ways,
        dropped,
        steps,
    )


def _in_order(placed: list[Placed]) -> list[Placed]:
    last: dict[str, int] = {}
    keyed = []
    for item in placed:
        us = item.us if item.us is not None else last.get(item.place.source, 0)
        last[item.place.source] = us
        keyed.append((us, item.order, item))
    return [item for _, _, item in sorted(keyed, key=lambda entry: entry[:2])]


def _captures(process: str, events: Iterable[Placed]) -> list[Capture]:
    """Pair begins with ends: a process writes in order, and captures one graph at a time per way."""
    open_by_way: dict[str, list[Placed]] = {}
    extra: dict[str, dict[str, Placed]] = {}
    found: list[Capture] = []
    for item in events:
        kind = item.event.kind
        if kind in _BEGINS:
            way = _BEGINS[kind]
            opened = open_by_way.setdefault(way, [])
            if way in _ONE_AT_A_TIME and opened:
                # A new capture begins while one is open: the open one never ended.
                found.append(_capture(process, way, opened.pop(), {}, None, "failed"))
            opened.append(item)
            extra[way] = {}
        elif kind in ("begin_done", "end"):
            extra.setdefault("torch_npu", {})[kind] = item
        elif kind in _ENDS:
            way = _ENDS[kind]
            opened = open_by_way.get(way, [])
            match = next(
                (at for at, begin in enumerate(opened) if way not in ("plog", "torchair") or _same_graph(begin, item)),
                None,
            )
            if match is not None:
                found.append(_capture(process, way, opened.pop(match), extra.get(way, {}), item, "complete"))
                extra[way] = {}
            elif way == _END_ALONE:
                found.append(_capture(process, way, item, {}, item, "complete")._replace(total_s=None))
        elif kind == "capture_failed":
            for way in ("torch_npu", "python", "xllm"):
                for begin in open_by_way.pop(way, []):
                    found.append(_capture(process, way, begin, extra.get(way, {}), None, "failed"))
    for way, opened in open_by_way.items():
        found += [_capture(process, way, begin, extra.get(way, {}), None, "open") for begin in opened]
    return found


def _same_graph(begin: Placed, end: Placed) -> bool:
    mine, theirs = begin.event.key, end.event.key
    return not mine or not theirs or mine == theirs or theirs.split(" ")[0] == mine.split(" ")[0]


def _capture(
    process: str, way: str, begin: Placed, extra: dict[str, Placed], end: Placed | None, state: str
) -> Capture:
    closing = extra.get("end")
    named = extra.get("begin_done") or end or begin
    graph = (end.event.key if end is not None else "") or named.event.key or begin.event.key
    forward = _between(begin, closing)
    return Capture(
        process,
        way,
        graph,
        begin.us,
        end.us if end is not None else None,
        begin.place,
        forward,
        _between(closing, end),
        _between(begin, end),
        state,
        max(begin.event.resolution, end.event.resolution if end is not None else 0) / SECOND,
    )


def _between(begin: Placed | None, end: Placed | None) -> float | None:
    if begin is None or end is None or begin.us is None or end.us is None or end.us < begin.us:
        return None
    return (end.us - begin.us) / SECOND


def _updates(events: Iterable[Placed]) -> list[tuple[Placed, float | None]]:
    found: list[tuple[Placed, float | None]] = []
    opened: Placed | None = None
    for item in events:
        if item.event.kind == "update_begin":
            opened = item
        elif item.event.kind == "update_end" and opened is not None:
            found.append((opened, _between(opened, item)))
            opened = None
    return found


def _compile_pairs(by_process: dict[str, list[Placed]]) -> list[Placed]:
    """Return `start compile graph` … `end compile graph` as compilations with a duration."""
    found: list[Placed] = []
    for events in by_process.values():
        opened: dict[str, Placed] = {}
        for item in events:
            if item.event.kind == "compile_begin":
                opened[item.event.key] = item
            elif item.event.kind == "compile_end":
                begin = opened.pop(item.event.key, None)
                seconds = _between(begin, item)
                if begin is not None and seconds is not None:
                    found.append(begin._replace(event=begin.event._replace(kind="compile", value=seconds)))
    return found


def _replays(sources: list[tuple[SourceInfo, Segment]]) -> list[GraphReplays]:
    """Chain the stretches of each graph through the files of its process, in the order of their times."""
    chains: dict[tuple[str, str, str], list[tuple[list[Replays], str, int]]] = {}
    for info, segment in sources:
        for (pid, way, graph), stretches in segment.replays.items():
            first = next((item.first[1] for item in stretches if item.first is not None), segment.first_us or 0)
            chains.setdefault((process_id(info, segment, pid), way, graph), []).append((stretches, info.id, first))
    found: list[GraphReplays] = []
    ways: dict[str, set[str]] = {}
    for process, way, _ in chains:
        ways.setdefault(process, set()).add(way)
    for (process, way, graph), parts in sorted(chains.items()):
        if way != next(name for name in WAYS if name in ways[process]):
            continue
        merged: list[tuple[Replays, list[str]]] = []
        for stretches, source, _ in sorted(parts, key=lambda item: (item[2], item[1])):
            for at, stretch in enumerate(stretches):
                if at == 0 and merged:
                    whole = Replays()  # a copy: the parts belong to their segments
                    whole.append(merged[-1][0], 0)
                    whole.append(stretch, 0)
                    merged[-1] = (whole, [*merged[-1][1], source])
                else:
                    merged.append((stretch, [source]))
        for generation, (replays, where) in enumerate(merged):
            if replays.count:
                found.append(GraphReplays(process, way, graph, generation, replays, tuple(sorted(set(where)))))
    return found


def point_record(item: Placed) -> dict[str, Any]:
    """Return a timeline entry of the report."""
    return {
        "time_us": item.us,
        "kind": item.event.kind,
        "process": item.process,
        "graph": item.event.key,
        "seconds": item.event.value,
        "source": item.place.source,
        "line": item.place.line,
        "inherited_time": item.event.inherited,
    }

"""Judges a timeline by thresholds: each finding says what was measured, against what, and where to look."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from npu_graph.logs.averages import median
from npu_graph.logs.replays import Distribution
from npu_graph.logs.segment import Process
from npu_graph.logs.stamps import SECOND
from npu_graph.logs.timeline import Capture, GraphReplays, Place, Timeline

# Name -> (default, meaning). Every one can be changed with --threshold NAME=VALUE.
THRESHOLDS: dict[str, tuple[float, str]] = {
    "capture_s": (10, "seconds one capture of one graph may take (not a service's whole capture phase)"),
    "compile_s": (30, "seconds one compilation may take"),
    "replay_ratio": (3, "P99 of the time between replays of a graph, as a multiple of P50"),
    "replay_min": (50, "replays a graph needs before that is judged"),
    "growth": (2, "how much longer the last third of a process's captures may take than the first third"),
    "storm": (10, "captures a process may make within 60 s once it replays"),
    "recompiles": (8, "recompilations of one function (torch's own limit is 8)"),
    "silent_s": (60, "seconds a rank may be silent while others go on"),
    "open_s": (60, "seconds after its begin from which a capture without an end is stuck"),
}
_STORM_WINDOW = 60 * SECOND
_GROWTH_MIN_CAPTURES = 9
_GROWTH_MIN_SECONDS = 0.5
# A pause of this length, or of 50 times the usual one, is a service without work, not a slow replay.
_IDLE_S = 1
_IDLE_RATIO = 50
_SILENT_MIN_LINES = 20
MAX_PER_KIND = 20


class Anomaly(NamedTuple):
    """A measured fact above its threshold; why it happened is for the reader to establish."""

    kind: str
    process: str
    graph: str
    value: float
    threshold: float
    unit: str
    us: int | None
    place: Place | None
    detail: str


def defaults() -> dict[str, float]:
    return {name: value for name, (value, _) in THRESHOLDS.items()}


def find_anomalies(
    timeline: Timeline,
    processes: dict[str, tuple[Process, str]],
    end_us: int | None,
    limits: dict[str, float],
    paces: Sequence[Cadence],
) -> list[Anomaly]:
    """Return all findings, worst first within each kind.

    Args:
        processes: per process what is known of it, and its rank.
        end_us: the latest time of all logs.
        paces: the cadence of each of the timeline's replays.
    """
    found: list[Anomaly] = []
    found += _slow_captures(timeline, limits["capture_s"])
    found += _open_captures(timeline, end_us, limits["open_s"])
    found += _growing_captures(timeline, limits["growth"])
    found += _storms(timeline, limits["storm"])
    found += _slow_compiles(timeline, limits["compile_s"])
    found += _uneven_replays(timeline, paces, limits["replay_ratio"], limits["replay_min"])
    found += _recompiles(timeline, limits["recompiles"])
    found += _silent_ranks(processes, limits["silent_s"])
    return found


def _slow_captures(timeline: Timeline, limit: float) -> list[Anomaly]:
    slow = [item for item in timeline.captures if item.total_s is not None and item.total_s > limit]
    slow.sort(key=lambda item: -(item.total_s or 0))
    return [
        Anomaly(
            "slow_capture", item.process, item.graph, round(item.total_s or 0, 3), limit, "s", item.us, item.place,
            _capture_detail(item),
        )
        for item in slow
    ]  # fmt: skip


def _capture_detail(item: Capture) -> str:
    if item.forward_s is None or item.instantiate_s is None:
        return ""
    return f"forward under capture {item.forward_s:.3f} s, building the graph {item.instantiate_s:.3f} s"


def _open_captures(timeline: Timeline, end_us: int | None, limit: float) -> list[Anomaly]:
    found = []
    for item in timeline.captures:
        if item.state == "complete":
            continue
        open_s = (end_us - item.us) / SECOND if item.us is not None and end_us is not None else 0.0
        if item.state == "failed":
            detail = (
                "the capture began and never ended, and the process went on: it failed; see the errors near this line"
            )
            found.append(Anomaly("failed_capture", item.process, item.graph, 1, 0, "", item.us, item.place, detail))
        elif open_s > limit:
            detail = "the capture began and no end follows in the log: it hangs, it failed, or the log stops here"
            value = round(open_s, 3)
            found.append(
                Anomaly("open_capture", item.process, item.graph, value, limit, "s", item.us, item.place, detail)
            )
    return found


def _growing_captures(timeline: Timeline, limit: float) -> list[Anomaly]:
    found = []
    by_process: dict[str, list[Capture]] = {}
    for item in timeline.captures:
        if item.total_s is not None:
            by_process.setdefault(item.process, []).append(item)
    for process, items in by_process.items():
        if len(items) < _GROWTH_MIN_CAPTURES:
            continue
        third = len(items) // 3
        early = median(item.total_s or 0 for item in items[:third])
        late = median(item.total_s or 0 for item in items[-third:])
        if early > 0 and late > limit * early and late - early > _GROWTH_MIN_SECONDS:
            detail = f"median of the first {third} captures {early:.3f} s, of the last {third} {late:.3f} s"
            last = items[-1]
            found.append(
                Anomaly("growing_capture", process, "", round(late / early, 2), limit, "x", last.us, last.place, detail)
            )
    return found


def _storms(timeline: Timeline, limit: float) -> list[Anomaly]:
    first_replay: dict[str, int] = {}
    for graph in timeline.replays:
        if graph.replays.first is not None:
            us = graph.replays.first[1]
            first_replay[graph.process] = min(first_replay.get(graph.process, us), us)
    found = []
    for process, start in first_replay.items():
        later = [
            item for item in timeline.captures if item.process == process and item.us is not None and item.us > start
        ]
        worst, at = 0, 0
        begin = 0
        for end, item in enumerate(later):
            while (item.us or 0) - (later[begin].us or 0) > _STORM_WINDOW:
                begin += 1
            if end - begin + 1 > worst:
                worst, at = end - begin + 1, begin
        if worst > limit:
            detail = (
                f"{len(later)} captures after the first replay in all, {len({item.graph for item in later})} graphs"
            )
            found.append(
                Anomaly(
                    "capture_storm",
                    process,
                    "",
                    worst,
                    limit,
                    "captures in 60 s",
                    later[at].us,
                    later[at].place,
                    detail,
                )
            )
    return found


def _slow_compiles(timeline: Timeline, limit: float) -> list[Anomaly]:
    slow = [item for item in timeline.compiles if item.event.value is not None and item.event.value > limit]
    slow.sort(key=lambda item: -(item.event.value or 0))
    return [
        Anomaly(
            "slow_compile", item.process, item.event.key, round(item.event.value or 0, 3), limit, "s", item.us,
            item.place, item.event.text[:160],
        )
        for item in slow
    ]  # fmt: skip


class Cadence(NamedTuple):
    """Time between replays of one graph, pauses without work left out. Microseconds."""

    p50: int | None
    p99: int | None
    idle_us: int
    idle_gaps: int
    judged: int


def cadence(item: GraphReplays) -> Cadence:
    """Return the percentiles of the time between enqueues; the log says nothing about the end of a replay."""
    gaps = Distribution(item.replays.buckets())
    rough = gaps.percentile(0.5)
    if rough is None:
        return Cadence(None, None, 0, 0, 0)
    idle = max(_IDLE_S * SECOND, _IDLE_RATIO * rough)
    judged = gaps.below(idle)
    return Cadence(gaps.percentile(0.5, judged), gaps.percentile(0.99, judged), idle, gaps.total - judged, judged)


def _uneven_replays(timeline: Timeline, paces: Sequence[Cadence], ratio: float, least: float) -> list[Anomaly]:
    found = []
    for item, pace in zip(timeline.replays, paces):
        if pace.p50 is None or pace.p99 is None or pace.judged + 1 < least or pace.p99 <= ratio * max(pace.p50, 1):
            continue
        worst = next((gap for gap in item.replays.longest if -gap[0] < pace.idle_us), None)
        detail = (
            f"time between enqueues: P50 {pace.p50 / 1000:.3f} ms, P99 {pace.p99 / 1000:.3f} ms over {pace.judged} gaps"
        )
        if worst is not None:
            detail += f"; longest {-worst[0] / 1000:.3f} ms"
        place = Place(item.sources[0], worst[1]) if worst is not None and len(item.sources) == 1 else None
        found.append(
            Anomaly(
                "uneven_replay", item.process, item.graph, round(pace.p99 / max(pace.p50, 1), 2), ratio, "x",
                worst[2] if worst else None, place, detail,
            )
        )  # fmt: skip
    return sorted(found, key=lambda item: -item.value)


def _recompiles(timeline: Timeline, limit: float) -> list[Anomaly]:
    counted: dict[tuple[str, str], list[Any]] = {}
    for item in timeline.points:
        if item.event.kind == "recompile":
            counted.setdefault((item.process, item.event.key), []).append(item)
    found = [
        Anomaly("recompiles", process, function, len(items), limit, "recompilations", items[0].us, items[0].place, "")
        for (process, function), items in counted.items()
        if len(items) > limit
    ]
    return sorted(found, key=lambda item: -item.value)


def _silent_ranks(processes: dict[str, tuple[Process, str]], limit: float) -> list[Anomaly]:
    ranked = [
        (name, process, rank)
        for name, (process, rank) in processes.items()
        if rank and process.last is not None and process.lines >= _SILENT_MIN_LINES
    ]
    found = []
    for name, process, rank in ranked:
        if process.last is None:
            continue
        peers = [
            other.last[1]
            for other_name, other, _ in ranked
            if other_name != name and other.last is not None and other.forms & process.forms
        ]
        if not peers:
            continue
        quiet = (median(peers) - process.last[1]) / SECOND
        if quiet > limit:
            detail = f"rank {rank}: its last line is {quiet:.0f} s before those of the other ranks"
            found.append(Anomaly("silent_rank", name, "", round(quiet, 1), limit, "s", process.last[1], None, detail))
    return sorted(found, key=lambda item: -item.value)

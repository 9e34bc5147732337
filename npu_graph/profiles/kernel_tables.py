"""Kernel tables of a report: what runs outside graphs, what takes the time, what is unusual, what is padding."""

from __future__ import annotations

from typing import Any

from npu_graph.profiles.blocks import leading
from npu_graph.profiles.gaps import ENTRY, IN_GRAPH, in_spans
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.scope import Scope
from npu_graph.profiles.tasks import AI_CPU_CORES, COMMUNICATION, EAGER_MODEL, is_mixed


def outside_kernels(profile: Profile, use: GraphUse, scope: Scope) -> list[dict[str, Any]]:
    """Return the kernel types outside graphs in scope, costliest first: own time plus the gap before each (us)."""
    table = profile.table
    rows: dict[str, list[int]] = {}
    for place, index in enumerate(use.order):
        if not use.in_graph[place] and in_spans(scope.spans, table.start[index]):
            entry = rows.setdefault(table.text("type", index), [0, 0, 0])
            entry[0] += 1
            entry[1] += table.duration[index]
    for gap in scope.gaps:
        # A type that occurs inside and outside is not charged with the gap before a replay.
        if gap.next_type in rows and gap.place not in (ENTRY, IN_GRAPH):
            rows[gap.next_type][2] += gap.length
    ordered = sorted(rows.items(), key=lambda item: (-(item[1][1] + item[1][2]), item[0]))
    return [
        {"type": name[:120], "count": count, "time_us": time / 1000, "gap_before_us": gap / 1000}
        for name, (count, time, gap) in ordered
    ]


def longest_kernels(profile: Profile, use: GraphUse, limit: int) -> list[dict[str, Any]]:
    """Return kernel types by summed time, with AI CPU and collective-bearing ones marked (us)."""
    table = profile.table
    rows: dict[tuple[str, str], list[int]] = {}
    for index in use.order:
        entry = rows.setdefault((table.text("type", index), table.text("core", index)), [0, 0, 0])
        entry[0] += 1
        entry[1] += table.duration[index]
        entry[2] = max(entry[2], table.duration[index])
    ordered = sorted(rows.items(), key=lambda item: (-item[1][1], item[0]))[:limit]
    return [
        {
            "type": type_[:120],
            "core": core,
            "count": count,
            "total_us": total / 1000,
            "mean_us": round(total / count / 1000, 3),
            "max_us": largest / 1000,
            "ai_cpu": core.upper() in AI_CPU_CORES,
            "holds_collective": is_mixed(type_),
        }
        for (type_, core), (count, total, largest) in ordered
    ]


def unusual_operators(profile: Profile, use: GraphUse) -> dict[str, Any]:
    """Return AI CPU kernels, kernels that hold a collective, and aclop host calls (which cannot be captured)."""
    table = profile.table
    ai_cpu: dict[str, list[int]] = {}
    mixed: dict[str, list[int]] = {}
    for index in use.order:
        type_ = table.text("type", index)
        if table.text("core", index).upper() in AI_CPU_CORES:
            _count(ai_cpu, type_, table.duration[index])
        elif is_mixed(type_) and table.kind[index] != COMMUNICATION:
            _count(mixed, type_, table.duration[index])
    aclop: dict[str, list[int]] = {}
    for call in profile.apis:
        if call.name.lower().startswith("aclop"):
            _count(aclop, call.name, call.total, call.count)
    return {"ai_cpu": _rows(ai_cpu), "aclop": _rows(aclop), "holds_collective": _rows(mixed)}


def _count(rows: dict[str, list[int]], name: str, time: int, count: int = 1) -> None:
    entry = rows.setdefault(name, [0, 0])
    entry[0] += count
    entry[1] += time


def _rows(rows: dict[str, list[int]]) -> list[dict[str, Any]]:
    ordered = sorted(rows.items(), key=lambda item: (-item[1][1], item[0]))[:20]
    return [{"type": name[:120], "count": count, "total_us": time / 1000} for name, (count, time) in ordered]


def padding_from_size(profile: Profile, use: GraphUse, real_size: float) -> dict[str, Any] | None:
    """Return how much of the in-graph work is padding when a step really holds `real_size` tokens.

    The captured size is the leading dimension that most in-graph kernel time has.
    """
    table = profile.table
    time_of: dict[int, int] = {}
    for place, index in enumerate(use.order):
        shapes = table.text("shapes", index)
        size = leading(shapes)
        if use.in_graph[place] and size and "," in shapes.partition(";")[0] and table.model[index] != EAGER_MODEL:
            time_of[size] = time_of.get(size, 0) + table.duration[index]
    if not time_of:
        return None
    captured = max(time_of, key=lambda size: (time_of[size], size))
    share = max(0.0, 1 - real_size / captured)
    return {"graph_size": captured, "eager_size": real_size, "padded_share": round(share, 4), "source": "real_size"}

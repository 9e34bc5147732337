"""Graph against eager: the same blocks side by side, and where their difference comes from."""

from __future__ import annotations

from typing import Any

from npu_graph.profiles.blocks import (
    ENOUGH_BLOCKS,
    TYPE,
    Block,
    BlockGroup,
    Blocks,
    Side,
    find_blocks,
)
from npu_graph.profiles.difference import Half, count_launches, explain_difference
from npu_graph.profiles.kernel_changes import KernelChange, change_rows, pair_kernels
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.ratios import median, ratio_interval
from npu_graph.profiles.tasks import plain_type
from npu_graph.profiles.timestamps import to_int, to_ns, to_us

_MAX_GROUPS = 6
_MAX_MEASURED = 5000
# Times that enter a bootstrap, taken evenly; more only make it slow.
_MAX_RESAMPLED = 400


def compare(graph: Side, eager: Side) -> dict[str, Any]:
    """Return the comparison record: whole windows, matched blocks, and the parts of the difference (times in us)."""
    blocks = find_blocks([graph, eager])
    groups = []
    for group in blocks.groups[:_MAX_GROUPS]:
        halves = [Half.of(side, found[:_MAX_MEASURED]) for side, found in zip((graph, eager), group.sides)]
        groups.append(_group(blocks, group, *halves))
    return {
        "window": _window(graph.profile, eager.profile),
        "same_work": _same_work(graph, eager),
        "match_level": blocks.level if groups else None,
        "anchor": blocks.anchor or None,
        "blocks": groups,
        "host": _host(graph.profile, eager.profile),
        "kernels_only_in_graph": _only(graph, eager),
        "kernels_only_in_eager": _only(eager, graph),
    }


def _group(blocks: Blocks, group: BlockGroup, graph: Half, eager: Half) -> dict[str, Any]:
    left, right = graph.blocks, eager.blocks
    graph_times, eager_times = graph.periods, eager.periods
    interval = ratio_interval(_thin(eager_times), _thin(graph_times)) if min(graph_times) > 0 else None
    parts = {name: to_us(graph.mean(name) - eager.mean(name)) for name in ("computing", "exposed", "free")}
    changes = pair_kernels(graph.side, eager.side, left, right, blocks.level)
    launches = eager.side.profile.launches
    launch_mean = to_us(launches[1] / launches[0]) if launches and launches[0] else None
    return {
        "kernels": group.kernels,
        "graph": _side_record(graph),
        "eager": _side_record(eager),
        "speedup": round(interval.value, 3) if interval else None,
        "speedup_interval": [round(interval.low, 3), round(interval.high, 3)] if interval else None,
        "conclusive": bool(
            interval
            and not interval.includes_one
            and min(len(graph_times), len(eager_times)) >= ENOUGH_BLOCKS
            and blocks.level != TYPE
        ),
        "difference_us": {"total": to_us(graph.mean("period") - eager.mean("period")), **parts},
        "causes": explain_difference(graph, eager, changes),
        "launches": count_launches(graph, eager, launch_mean),
        "coverage": {
            "by_model": round(graph.mean("by_model") / group.kernels, 4),
            "by_stream": round(graph.mean("by_stream") / group.kernels, 4),
        },
        "kernel_changes": change_rows(changes),
        "padding": _padding(changes),
        "largest_kernel": _largest(graph.side, left),
    }


def _thin(values: list[float]) -> list[float]:
    step = -(-len(values) // _MAX_RESAMPLED)
    return values[::step]


def _side_record(half: Half) -> dict[str, Any]:
    periods = half.periods
    return {
        "n": len(periods),
        "left_out_of_means": len(periods) - len(half.blocks),
        "median_us": to_us(median(periods)),
        "min_us": to_us(min(periods)),
        "max_us": to_us(max(periods)),
        "mean_us": to_us(half.mean("period")),
        "computing_us": to_us(half.mean("computing")),
        "exposed_communication_us": to_us(half.mean("exposed")),
        "free_us": to_us(half.mean("free")),
        "busy_share": round(1 - half.mean("free") / max(half.mean("period"), 1), 4),
    }


def _padding(changes: tuple[KernelChange, ...]) -> dict[str, Any] | None:
    """Compare leading dimensions of equal kernels: a graph runs its capture size, eager runs what there is.

    The sizes shown are those of the graph size that most kernel time has; the share is over all kernels.
    """
    paired = [
        change
        for change in changes
        if change.in_both and change.graph.size > 0 and change.eager.size > 0 and not change.graph.communication
    ]
    time_of: dict[float, int] = {}
    for change in paired:
        size = round(change.graph.size, 2)
        time_of[size] = time_of.get(size, 0) + change.graph.time
    total = sum(time_of.values())
    if not total:
        return None
    share = sum((1 - min(change.eager.size / change.graph.size, 1.0)) * change.graph.time for change in paired) / total
    captured = max(time_of, key=lambda size: (time_of[size], size))
    same = [change for change in paired if round(change.graph.size, 2) == captured]
    real = sum(change.eager.size * change.graph.time for change in same) / max(time_of[captured], 1)
    return {
        "graph_size": captured,
        "eager_size": round(real, 2),
        "padded_share": round(share, 4),
        "source": "eager_profile",
    }


def _largest(side: Side, blocks: list[Block]) -> str:
    block = blocks[0]
    index = max(side.use.order[block.first : block.last], key=lambda i: side.profile.table.duration[i])
    return side.profile.table.text("type", index)[:120]


def _window(graph: Profile, eager: Profile) -> dict[str, Any] | None:
    """The profiler's own whole-window sums. Shown because they are what people look at, and often mislead."""
    left, right = _stage(graph), _stage(eager)
    if left is None or right is None or not right["stage"] or not left["stage"]:
        return None
    return {
        "graph_us": {key: to_us(value) for key, value in left.items()},
        "eager_us": {key: to_us(value) for key, value in right.items()},
        "speedup": round(right["stage"] / left["stage"], 3),
        "n": 1,
    }


def _stage(profile: Profile) -> dict[str, int] | None:
    columns = {
        "computing": "Computing",
        "exposed_communication": "Communication(Not Overlapped)",
        "free": "Free",
        "stage": "Stage",
    }
    sums = dict.fromkeys(columns, 0)
    for row in profile.step_rows:
        for key, column in columns.items():
            sums[key] += to_ns(row.get(column, "")) or 0
    return sums if profile.step_rows else None


def _same_work(graph: Side, eager: Side) -> dict[str, Any]:
    """Whether both profiles ran the same number of kernels: replay must save launches, not work."""
    launches_g, launches_e = graph.profile.launches, eager.profile.launches
    counts = [_operator_counts(side) for side in (graph, eager)]
    differing = sorted(key for key in set(counts[0]) | set(counts[1]) if counts[0].get(key) != counts[1].get(key))
    return {
        "kernels_graph": sum(counts[0].values()),
        "kernels_eager": sum(counts[1].values()),
        "types_with_other_count": differing[:10],
        "launches_graph": launches_g[0] if launches_g else None,
        "launches_eager": launches_e[0] if launches_e else None,
        "replays_graph": graph.profile.replay_calls,
    }


def _operator_counts(side: Side) -> dict[str, int]:
    counts: dict[str, int] = {}
    if side.profile.operators:
        for row in side.profile.operators:
            key = plain_type(row.get("OP Type", ""))
            counts[key] = counts.get(key, 0) + (to_int(row.get("Count", "")) or 0)
        return counts
    table = side.profile.table
    for index in side.use.order:
        key = plain_type(table.text("type", index))
        counts[key] = counts.get(key, 0) + 1
    return counts


def _host(graph: Profile, eager: Profile) -> dict[str, Any] | None:
    """Host time spent handing over work: launches saved, replay calls added (whole windows)."""
    left, right = graph.launches, eager.launches
    if left is None or right is None:
        return None
    replays = graph.replay_calls or 0
    replay_time = graph.api_total("aclmdlRIExecuteAsync", "aclmdlRIExecute")
    return {
        "launches_saved": right[0] - left[0],
        "launch_time_saved_us": to_us(right[1] - left[1]),
        "replay_calls": replays,
        "replay_call_time_us": to_us(replay_time),
        "replay_call_mean_us": to_us(replay_time / replays) if replays else None,
    }


def _only(side: Side, other: Side) -> list[str]:
    counts, others = _operator_counts(side), _operator_counts(other)
    return sorted(set(counts) - set(others))[:10]

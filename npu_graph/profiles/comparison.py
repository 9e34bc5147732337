"""Graph against eager: the same blocks side by side, and where their difference comes from."""

from __future__ import annotations

from typing import Any

from npu_graph.profiles.blocks import (
    ENOUGH_BLOCKS,
    EXACT,
    TYPE,
    Block,
    BlockGroup,
    Blocks,
    Side,
    find_blocks,
    kernel_key,
    leading,
)
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.ratios import median, ratio_interval
from npu_graph.profiles.tasks import plain_type
from npu_graph.profiles.timestamps import to_int, to_ns, to_us

# Kernels whose change is below this share of the block's change are noise in a table.
_SHOWN_SHARE = 0.01
_MAX_ROWS = 20
_MAX_GROUPS = 6
_MAX_MEASURED = 5000
# Times that enter a bootstrap, taken evenly; more only make it slow.
_MAX_RESAMPLED = 400


def compare(graph: Side, eager: Side) -> dict[str, Any]:
    """Return the comparison record: whole windows, matched blocks, and the parts of the difference (times in us)."""
    blocks = find_blocks([graph, eager])
    groups = [_group(blocks, group, graph, eager) for group in blocks.groups[:_MAX_GROUPS]]
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


def _group(blocks: Blocks, group: BlockGroup, graph: Side, eager: Side) -> dict[str, Any]:
    left, right = (side[:_MAX_MEASURED] for side in group.sides)
    graph_times = [float(block.period) for block in left]
    eager_times = [float(block.period) for block in right]
    interval = ratio_interval(_thin(eager_times), _thin(graph_times)) if min(graph_times) > 0 else None
    parts = {name: to_us(_mean(left, name) - _mean(right, name)) for name in ("computing", "exposed", "free")}
    kernels = _kernel_changes(graph, eager, left, right, blocks.level)
    return {
        "kernels": group.kernels,
        "graph": _side_record(left),
        "eager": _side_record(right),
        "speedup": round(interval.value, 3) if interval else None,
        "speedup_interval": [round(interval.low, 3), round(interval.high, 3)] if interval else None,
        "conclusive": bool(
            interval
            and not interval.includes_one
            and min(len(left), len(right)) >= ENOUGH_BLOCKS
            and blocks.level != TYPE
        ),
        "difference_us": {"total": to_us(_mean(left, "period") - _mean(right, "period")), **parts},
        "coverage": {
            "by_model": _share(left, "by_model", group.kernels),
            "by_stream": _share(left, "by_stream", group.kernels),
        },
        "kernel_changes": kernels,
        "padding": _padding(graph, eager, left, right),
        "largest_kernel": _largest(graph, left),
    }


def _thin(values: list[float]) -> list[float]:
    step = -(-len(values) // _MAX_RESAMPLED)
    return values[::step]


def _side_record(blocks: list[Block]) -> dict[str, Any]:
    periods = [float(block.period) for block in blocks]
    return {
        "n": len(blocks),
        "median_us": to_us(median(periods)),
        "min_us": to_us(min(periods)),
        "max_us": to_us(max(periods)),
        "mean_us": to_us(_mean(blocks, "period")),
        "computing_us": to_us(_mean(blocks, "computing")),
        "exposed_communication_us": to_us(_mean(blocks, "exposed")),
        "free_us": to_us(_mean(blocks, "free")),
        "busy_share": round(1 - _mean(blocks, "free") / max(_mean(blocks, "period"), 1), 4),
    }


def _mean(blocks: list[Block], name: str) -> float:
    return float(sum(getattr(block, name) for block in blocks)) / len(blocks)


def _share(blocks: list[Block], name: str, kernels: int) -> float:
    return round(_mean(blocks, name) / kernels, 4)


def _per_key(side: Side, blocks: list[Block], level: str, exact: set[str]) -> dict[str, list[Any]]:
    """Return per kind of kernel: count, summed duration (ns), names, formats.

    Args:
        exact: kinds that both sides have with all shapes equal; the others are told apart only at `level`.
    """
    table, order = side.profile.table, side.use.order
    sums: dict[str, list[Any]] = {}
    for block in blocks:
        for index in order[block.first : block.last]:
            type_, shapes = table.text("type", index), table.text("shapes", index)
            key = kernel_key(type_, shapes, EXACT)
            if key not in exact:
                key = kernel_key(type_, shapes, level)
            entry = sums.setdefault(key, [0, 0, set(), set()])
            entry[0] += 1
            entry[1] += table.duration[index]
            entry[2].add(table.text("name", index))
            entry[3].add(table.text("formats", index))
    return sums


def _kernel_changes(
    graph: Side, eager: Side, left: list[Block], right: list[Block], level: str
) -> list[dict[str, Any]]:
    """Split the change of kernel time into more or fewer kernels, and longer or shorter ones (per block, us)."""
    equal = set(_per_key(graph, left, EXACT, set())) & set(_per_key(eager, right, EXACT, set()))
    sums, others = _per_key(graph, left, level, equal), _per_key(eager, right, level, equal)
    _join_bare(sums, others)
    rows = []
    for key in set(sums) | set(others):
        count_g, time_g, names_g, formats_g = sums.get(key, [0, 0, set(), set()])
        count_e, time_e, names_e, formats_e = others.get(key, [0, 0, set(), set()])
        per_g, per_e = count_g / len(left), count_e / len(right)
        mean_g = time_g / count_g if count_g else 0.0
        mean_e = time_e / count_e if count_e else 0.0
        by_count = (per_g - per_e) * (mean_e if count_e else mean_g)
        by_duration = per_g * (mean_g - mean_e) if count_e and count_g else 0.0
        rows.append(
            {
                "kernel": key[:160],
                "count_graph": round(per_g, 3),
                "count_eager": round(per_e, 3),
                "mean_graph_us": to_us(mean_g),
                "mean_eager_us": to_us(mean_e),
                "change_us": to_us(by_count + by_duration),
                "by_count_us": to_us(by_count),
                "by_duration_us": to_us(by_duration),
                "other_names": sorted(names_g ^ names_e)[:4] if count_g and count_e else [],
                "formats_differ": bool(formats_g and formats_e and formats_g - {""} and formats_e - {""})
                and formats_g - {""} != formats_e - {""},
            }
        )
    rows.sort(key=lambda row: (-abs(row["change_us"]), row["kernel"]))
    total = sum(abs(row["change_us"]) for row in rows) or 1.0
    return [row for row in rows if abs(row["change_us"]) >= _SHOWN_SHARE * total or row["formats_differ"]][:_MAX_ROWS]


def _join_bare(sums: dict[str, list[Any]], others: dict[str, list[Any]]) -> None:
    """Where one side has no shapes for a type (a Triton kernel in a graph), compare that type as a whole."""
    bare = {key for side in (sums, others) for key in side if " " not in key}
    for side in (sums, others):
        for key in [key for key in side if " " in key and key.partition(" ")[0] in bare]:
            count, time, names, formats = side.pop(key)
            entry = side.setdefault(key.partition(" ")[0], [0, 0, set(), set()])
            entry[0] += count
            entry[1] += time
            entry[2] |= names
            entry[3] |= formats


def _padding(graph: Side, eager: Side, left: list[Block], right: list[Block]) -> dict[str, Any] | None:
    """Compare leading dimensions of equal kernels: a graph runs its capture size, eager runs what there is."""
    rows: list[tuple[float, float, float]] = []
    sums, others = _leading(graph, left), _leading(eager, right)
    for key in set(sums) & set(others):
        size_g, size_e = sums[key][0] / sums[key][2], others[key][0] / others[key][2]
        if size_g > 0:
            rows.append((size_g, size_e, sums[key][1]))
    time = sum(row[2] for row in rows)
    if not rows or time <= 0:
        return None
    share = sum((1 - min(size_e / size_g, 1.0)) * weight for size_g, size_e, weight in rows) / time
    return {
        "graph_size": round(sum(row[0] * row[2] for row in rows) / time, 2),
        "eager_size": round(sum(row[1] * row[2] for row in rows) / time, 2),
        "padded_share": round(share, 4),
        "source": "eager_profile",
    }


def _leading(side: Side, blocks: list[Block]) -> dict[str, list[float]]:
    table, order = side.profile.table, side.use.order
    sums: dict[str, list[float]] = {}
    for block in blocks:
        for index in order[block.first : block.last]:
            shapes = table.text("shapes", index)
            size = leading(shapes)
            # One dimension is a weight or a bias; tokens come with a hidden dimension.
            if size is None or "," not in shapes.partition(";")[0]:
                continue
            entry = sums.setdefault(kernel_key(table.text("type", index), shapes, "padded"), [0.0, 0.0, 0.0])
            entry[0] += size
            entry[1] += table.duration[index]
            entry[2] += 1
    return sums


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

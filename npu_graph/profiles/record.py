"""The record of a profile (schema npu-graph/profile/1): everything the report prints, in fields a program can read."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from npu_graph.profiles import findings, kernel_tables, validity
from npu_graph.profiles.blocks import Side, find_blocks
from npu_graph.profiles.comparison import compare
from npu_graph.profiles.findings import Verdict
from npu_graph.profiles.gaps import PLACES, GapTable, find_gaps, group_gaps
from npu_graph.profiles.loading import Profile, load_profile
from npu_graph.profiles.ratios import median, percentile
from npu_graph.profiles.replays import GraphUse, find_graph_use
from npu_graph.profiles.scope import WHOLE_WINDOW, Scope, choose_scope
from npu_graph.profiles.steps import Step, Steps, find_steps
from npu_graph.profiles.timestamps import to_us
from npu_graph.profiles.validity import Missing

SCHEMA = "npu-graph/profile/1"
_MAX_STEPS = 50
_MAX_MODELS = 20
_MAX_GAPS = 10
_MAX_KERNELS = 15
_HISTOGRAM_EDGES = (0, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)


def analyze(
    root: str, against: str | None = None, real_size: float | None = None, read_trace: bool = True
) -> dict[str, Any]:
    """Return the record of the profile at or below `root`.

    Args:
        against: a second profile of the same work without graph mode; adds `comparison`.
        real_size: tokens that a replayed step really holds (batch size in decode), to judge padding.
        read_trace: False leaves trace_view.json unread (seconds per 100 MB) at the price of host evidence.

    Raises:
        CommandError: exit code 3 when a folder holds no profile.
    """
    profile = load_profile(root, read_trace)
    use = find_graph_use(profile.table, profile.replayed)
    steps = find_steps(profile, use)
    gaps = find_gaps(profile, use, steps)
    scope = choose_scope(steps, gaps)
    profile.warnings += validity.doubts(profile, use, steps)
    comparison = None
    padded = kernel_tables.padding_from_size(profile, use, real_size) if real_size else None
    if against is not None:
        eager = load_profile(against, read_trace)
        comparison = compare(Side(profile, use), Side(eager, find_graph_use(eager.table, eager.replayed)))
        comparison["eager_folder"] = str(eager.files.folder)
        comparison["warnings"] = eager.warnings + _against_warnings(eager, comparison)
        if padded is None and comparison["blocks"]:
            padded = comparison["blocks"][0]["padding"]
    verdicts = findings.judge(profile, use, steps, scope, padded)
    return {
        "schema": SCHEMA,
        "profile": _profile_record(profile),
        "verdict": verdicts[0].value if verdicts else "insufficient",
        "verdicts": [_verdict_record(verdict) for verdict in verdicts],
        "missing": [_missing_record(item) for item in validity.find_missing(profile, use, steps)],
        "scope": _scope_record(scope),
        "phases": _phases(steps),
        "steps": _steps_record(steps, gaps),
        "replays": _replays_record(profile, use, scope),
        "coverage": _coverage_record(use, scope),
        "gaps": _gaps_record(scope.gaps),
        "largest_gaps": _largest_gaps(scope.gaps),
        "gap_histogram": _gap_histogram(scope.gaps),
        "block": _block_record(Side(profile, use)),
        "outside": kernel_tables.outside_kernels(profile, use, scope)[:_MAX_KERNELS],
        "kernels": kernel_tables.longest_kernels(profile, use, _MAX_KERNELS),
        "operators": kernel_tables.unusual_operators(profile, use),
        "host": _host_record(profile),
        "communication": profile.communication or None,
        "profiler_sums": _profiler_sums(profile),
        "overlap_lane_us": _overlap_lane(profile),
        "padding": padded,
        "comparison": comparison,
    }


def _against_warnings(eager: Profile, comparison: dict[str, Any]) -> list[str]:
    warnings = []
    if eager.replay_calls or any(model not in (-1, 4294967295) for model in eager.table.model):
        warnings.append("the profile given as eager replays graphs too")
    work = comparison["same_work"]
    if work["types_with_other_count"]:
        warnings.append("the two profiles did not run the same kernels: " + ", ".join(work["types_with_other_count"]))
    return warnings


def _profile_record(profile: Profile) -> dict[str, Any]:
    return {
        "folder": str(profile.files.folder),
        "files": {kind: path.name for kind, path in sorted(profile.files.files.items())},
        "task_source": profile.task_source,
        "device_tasks": len(profile.table),
        "has_model_id": profile.has_models,
        "trace_events": profile.trace.events if profile.trace else None,
        "warnings": profile.warnings,
    }


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    return {
        "value": verdict.value,
        "scope": verdict.scope,
        "facts": [{"what": f.what, "value": f.value, "unit": f.unit, "n": f.n} for f in verdict.facts],
        "attribution": {"text": verdict.attribution, "confidence": verdict.confidence},
        "confirm": verdict.confirm,
    }


def _missing_record(item: Missing) -> dict[str, str]:
    return {"item": item.item, "why": item.why, "how": item.how}


def _scope_record(scope: Scope) -> dict[str, Any]:
    times = sorted(step.duration for step in scope.steps)
    return {
        "name": scope.name,
        "steps": len(scope.steps),
        "window_us": to_us(scope.window),
        "step_median_us": to_us(median(times)) if times else None,
        "step_p90_us": to_us(percentile(times, 0.9)) if times else None,
        "busy_us": to_us(scope.busy),
        "computing_us": to_us(scope.computing),
        "exposed_communication_us": to_us(scope.exposed),
        "free_us": to_us(scope.idle),
        "busy_share": round(scope.share(scope.busy), 4),
        "replays_per_step": _per_step(scope),
    }


def _phases(steps: Steps) -> list[dict[str, Any]]:
    """Steps with and without a replay, apart: a window of both (prefill and decode) has no meaningful mean."""
    found = []
    for name, replaying in (("steps with replay", True), ("steps without replay", False)):
        chosen = [step for step in steps.items if step.complete and bool(step.replays) == replaying]
        if chosen and steps.source != "none":
            window = sum(step.duration for step in chosen)
            found.append(
                {
                    "name": name,
                    "n": len(chosen),
                    "median_us": to_us(median([step.duration for step in chosen])),
                    "busy_share": round(sum(step.busy for step in chosen) / window, 4) if window else None,
                }
            )
    return found


def _between_replays(use: GraphUse) -> dict[str, Any] | None:
    """From the end of a replay to the start of the next, whatever runs there; overlapping ones have none."""
    pauses = []
    last_end: int | None = None
    for replay in sorted(use.replays, key=lambda replay: replay.start):
        if last_end is not None and replay.start > last_end:
            pauses.append(replay.start - last_end)
        last_end = max(replay.end, last_end or replay.end)
    if not pauses:
        return None
    return {
        "n": len(pauses),
        "median_us": to_us(median(pauses)),
        "p90_us": to_us(percentile(pauses, 0.9)),
        "max_us": to_us(max(pauses)),
    }


def _per_step(scope: Scope) -> float | None:
    if not scope.steps or scope.name == WHOLE_WINDOW:
        return None
    return round(scope.replays / len(scope.steps), 2)


def _steps_record(steps: Steps, gaps: GapTable) -> dict[str, Any]:
    return {
        "source": steps.source,
        "count": len(steps.items),
        "with_replay": sum(1 for step in steps.items if step.replays),
        "items": [_step_record(step, gaps) for step in steps.items[:_MAX_STEPS]],
        "left_out": max(0, len(steps.items) - _MAX_STEPS),
    }


def _step_record(step: Step, gaps: GapTable) -> dict[str, Any]:
    return {
        "step": step.number if step.number >= 0 else None,
        "duration_us": to_us(step.duration),
        "busy_us": to_us(step.busy),
        "computing_us": to_us(step.computing),
        "communication_us": to_us(step.communication),
        "exposed_communication_us": to_us(step.exposed),
        "free_us": to_us(step.free),
        "gaps_us": {place: to_us(total) for place, total in gaps.split(step.start, step.end).items()},
        "kernels": step.kernels,
        "kernels_in_graph": step.in_graph,
        "replays": step.replays,
        "host_launch_us": None if step.host_launch is None else to_us(step.host_launch),
        "complete": step.complete,
    }


def _replays_record(profile: Profile, use: GraphUse, scope: Scope) -> dict[str, Any]:
    calls = profile.replay_calls
    per_model: dict[int, list[int]] = {}
    for replay in use.replays:
        if replay.complete:
            per_model.setdefault(replay.model, []).append(replay.end - replay.start)
    models = [
        {
            "model_id": model,
            "replays": len(spans),
            "device_median_us": to_us(median(spans)),
            "device_p99_us": to_us(percentile(spans, 0.99)),
        }
        for model, spans in sorted(per_model.items(), key=lambda item: -len(item[1]))[:_MAX_MODELS]
    ]
    total = profile.api_total("aclmdlRIExecuteAsync", "aclmdlRIExecute")
    return {
        "host_calls": calls,
        "host_call_mean_us": to_us(total / calls) if calls else None,
        "executes_on_device": profile.executes,
        "on_device": len(use.replays),
        "cut_by_window": sum(1 for replay in use.replays if not replay.complete),
        "graphs": len({replay.model for replay in use.replays}),
        "per_step": _per_step(scope),
        "between_us": _between_replays(use),
        "captures_in_window": profile.captures,
        "unobservable": validity.is_unobservable(profile, use),
        "models": models,
    }


def _coverage_record(use: GraphUse, scope: Scope) -> dict[str, Any]:
    """Shares of kernels in graphs; None where there is nothing to take a share of."""
    c = use.coverage

    def share(part: int, whole: int) -> float | None:
        return round(part / whole, 4) if whole else None

    return {
        "kernels": c.kernels,
        "by_model": share(c.by_model, c.kernels),
        "by_stream": share(c.by_stream, c.kernels),
        "time_by_model": share(c.by_model_time, c.time),
        "time_by_stream": share(c.by_stream_time, c.time),
        "in_scope_by_stream": share(scope.in_graph, scope.kernels),
    }


def _gaps_record(gaps: GapTable) -> dict[str, Any]:
    groups = group_gaps(gaps)
    total = sum(group.total for group in groups.values())
    return {
        place: {
            "meaning": PLACES[place],
            "count": group.number,
            "total_us": to_us(group.total),
            "share_of_idle": round(group.total / total, 4) if total else 0.0,
            "median_us": to_us(group.median),
            "max_us": to_us(group.largest),
            "host_late_us": to_us(group.host_late),
            "device_or_dependency_us": to_us(group.device_late),
            "no_evidence_us": to_us(group.no_evidence),
        }
        for place, group in groups.items()
    }


def _gap_histogram(gaps: GapTable) -> list[dict[str, Any]]:
    """Count gaps by length, in steps of about half a decade, for a drawing."""
    counts = [dict.fromkeys(PLACES, 0) for _ in _HISTOGRAM_EDGES]
    for place in PLACES:
        for length in gaps.lengths(place):
            counts[bisect_right(_HISTOGRAM_EDGES, length) - 1][place] += 1
    ends = [to_us(edge) for edge in _HISTOGRAM_EDGES[1:]]
    return [
        {
            "from_us": to_us(_HISTOGRAM_EDGES[row]),
            "to_us": ends[row] if row < len(ends) else None,
            "counts": counts[row],
        }
        for row in range(len(counts))
        if any(counts[row].values())
    ]


def _largest_gaps(gaps: GapTable) -> list[dict[str, Any]]:
    return [
        {
            "start_us": to_us(gap.start),
            "length_us": to_us(gap.length),
            "place": gap.place,
            "evidence": gap.evidence,
            "next_kernel": gap.next_type[:120],
        }
        for gap in gaps.largest(_MAX_GAPS)
    ]


def _block_record(side: Side) -> dict[str, Any] | None:
    """The block that repeats most in this profile: its coverage does not depend on the window's ends."""
    blocks = find_blocks([side])
    if not blocks.groups:
        return None
    group = blocks.groups[0]
    periods = sorted(float(block.period) for block in group.sides[0])
    total = len(periods) * group.kernels
    return {
        "kernels": group.kernels,
        "n": len(periods),
        "median_us": to_us(median(periods)),
        "coverage_by_model": round(sum(block.by_model for block in group.sides[0]) / total, 4),
        "coverage_by_stream": round(sum(block.by_stream for block in group.sides[0]) / total, 4),
        "begins_with": blocks.anchor[:120],
    }


def _host_record(profile: Profile) -> dict[str, Any]:
    launches = profile.launches
    syncs = [call for call in profile.apis if call.name.startswith("aclrtSynchronize")]
    return {
        "launches": launches[0] if launches else None,
        "launch_time_us": to_us(launches[1]) if launches else None,
        "launch_mean_us": to_us(launches[1] / launches[0]) if launches and launches[0] else None,
        "synchronisations": [
            {"api": call.name, "count": call.count, "total_us": to_us(call.total)} for call in syncs[:10]
        ],
    }


def _overlap_lane(profile: Profile) -> dict[str, float] | None:
    """Sums of the profiler's Overlap Analysis lane, to check the sums made here."""
    if profile.trace is None or not profile.trace.overlap:
        return None
    return {name: to_us(total) for name, total in sorted(profile.trace.overlap.items())}


def _profiler_sums(profile: Profile) -> list[dict[str, str]]:
    """The profiler's own step_trace_time rows, as they are."""
    return profile.step_rows[:_MAX_STEPS]

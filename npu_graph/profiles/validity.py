"""What a profile can answer at all: replays without kernel rows, doubtful sums, missing profiler switches."""

from __future__ import annotations

from typing import NamedTuple

from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.steps import Steps

# Replay calls beyond this multiple of the replays seen on the device mean that kernel rows are missing.
_CALLS_TOLERANCE = 1.05
# Kernel rows and the profiler's Overlap Analysis lane describe the same time; more apart, one of them is incomplete.
_LANE_TOLERANCE = 0.05


class Missing(NamedTuple):
    """A profiler switch or file that is not there, why it matters, how to get it."""

    item: str
    why: str
    how: str


def is_unobservable(profile: Profile, use: GraphUse) -> bool:
    """Replays ran, but their kernels were not recorded: idle time and coverage of such a profile mean nothing."""
    return profile.replayed and not use.coverage.by_stream


def doubts(profile: Profile, use: GraphUse, steps: Steps) -> list[str]:
    """Return what the reader must know about the data before believing a number."""
    texts = []
    lane = profile.trace.overlap.get("Computing", 0) if profile.trace else 0
    ours = sum(step.computing for step in steps.items)
    if lane and abs(ours - lane) > _LANE_TOLERANCE * lane:
        texts.append(
            f"computing is {ours / 1000:.0f} us by kernel rows, {lane / 1000:.0f} us by the profiler's own lane"
        )
    if steps.source == "profiler_step":
        texts.append("steps are cut at marks of the host; kernels still queued at a mark count to the later step")
    calls = max(profile.replay_calls or 0, profile.executes)
    seen = len(use.replays)
    if seen and calls > seen * _CALLS_TOLERANCE:
        texts.append(f"{calls} replays ran, kernel rows show {seen}: coverage and idle hold for the recorded part only")
    if profile.task_source == "trace_view" and profile.table_columns and "model" not in profile.table_columns:
        texts.append("kernel_details has no Model ID (Level0): graph coverage comes from trace_view.json only")
    return texts


def find_missing(profile: Profile, use: GraphUse, steps: Steps) -> list[Missing]:
    """Return what the profile lacks for a full judgement, each with the switch that gives it."""
    missing: list[Missing] = []
    columns = profile.info.columns if profile.info else frozenset()
    if is_unobservable(profile, use):
        missing.append(
            Missing(
                "kernel rows of replays",
                "replays ran, but no kernel row lies inside a graph: such time looks idle and is not",
                "CANN >= 8.5.0 with torch_npu >= 7.3.0; start the profiler before the first capture; Level1",
            )
        )
    if not profile.has_models:
        missing.append(
            Missing(
                "Model ID",
                "graph and eager kernels look the same without it (Level0 tables have no such column)",
                "experimental_config=torch_npu.profiler._ExperimentalConfig(profiler_level="
                "torch_npu.profiler.ProfilerLevel.Level1), or keep trace_view.json beside the tables",
            )
        )
    if profile.replay_calls is None:
        missing.append(
            Missing(
                "host calls",
                "the number of replays (aclmdlRIExecuteAsync) is not recorded",
                "profiler_level Level1 (writes api_statistic.csv)",
            )
        )
    if profile.trace is None or not (profile.trace.has_flows or profile.trace.replay_calls):
        missing.append(
            Missing(
                "trace_view.json with host events",
                "without submission times nobody can say whether the host was late or the device waited",
                "activities=[ProfilerActivity.CPU, ProfilerActivity.NPU], Level1, keep trace_view.json in the folder",
            )
        )
    if profile.task_source in ("kernel_details", "op_summary") and "shapes" not in columns:
        missing.append(
            Missing("input shapes", "padding and equal work are judged by shapes", "record_shapes=True, Level1")
        )
    if steps.source == "none":
        missing.append(
            Missing(
                "steps",
                "one window mixes start-up, prefill and decode",
                "schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=10) and prof.step() after each step",
            )
        )
    return missing

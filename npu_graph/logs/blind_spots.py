"""What cannot be known from these logs because a switch was off, and which switch."""

from __future__ import annotations

from typing import Any, NamedTuple

from npu_graph.logs.partial import Partial
from npu_graph.logs.timeline import Timeline


class BlindSpot(NamedTuple):
    """Something the log does not hold."""

    what: str
    why: str
    switch: str


def find_blind_spots(partial: Partial, timeline: Timeline) -> list[dict[str, Any]]:
    """Return what is missing, most useful first. Versions: torch_npu releases."""
    forms = {form for _, segment in partial.sources() for form in segment.forms}
    captured_by = {item.way for item in timeline.captures}
    replayed_by = {item.way for item in timeline.replays}
    spots: list[BlindSpot] = []
    if not timeline.captures:
        spots.append(
            BlindSpot(
                "begin and end of each capture",
                "no line of a capture is in these logs",
                "TORCH_NPU_LOGS=+aclgraph (release 26.1.0 and later), TORCH_NPU_LOGS=acl (26.0.0); "
                "or the run/plog folder of CANN 8.5.0 and later (there by default, ASCEND_GLOBAL_EVENT_ENABLE=1)",
            )
        )
    elif captured_by == {"xllm"} and all(item.total_s is None for item in timeline.captures):
        spots.append(
            BlindSpot(
                "how long each capture takes",
                "xLLM logs the end of a capture by default, and its begin only verbosely",
                "GLOG_v=50 (many lines a step, so it slows the run), or TORCH_NPU_LOGS=+aclgraph (release 26.1.0 and "
                "later)",
            )
        )
    elif captured_by <= {"plog", "acl", "torchair", "python", "xllm"}:
        spots.append(
            BlindSpot(
                "how a capture divides into forward and building the graph",
                "this source has one line at the begin and one at the end",
                "TORCH_NPU_LOGS=+aclgraph (release 26.1.0 and later)",
            )
        )
    if not timeline.replays:
        spots.append(
            BlindSpot(
                "when graphs are replayed",
                "no replay line is in these logs",
                "TORCH_NPU_LOGS=+aclgraph (26.1.0 and later; one line a replay, so it slows the run), or "
                "ASCEND_MODULE_LOG_LEVEL=RUNTIME=1 (plog `capture model execute`)",
            )
        )
    if replayed_by or not timeline.replays:
        spots.append(
            BlindSpot(
                "how long a replay takes on the device",
                "logs hold the enqueue of a replay and never its end",
                "torch_npu.profiler at Level1 (graph-perf), or ASCEND_LAUNCH_BLOCKING=1 with "
                "TORCH_NPU_LOGS=+aclgraph on 26.1.0 and later as an upper bound",
            )
        )
    if not timeline.compiles:
        spots.append(
            BlindSpot(
                "compile times",
                "no compile line is in these logs",
                "TORCH_LOGS=dynamo (torch.compile), torchair.logger.setLevel(logging.INFO) (torchair, npugraph_ex)",
            )
        )
    if not any(item.event.kind in ("recompile", "graph_break") for item in timeline.points):
        spots.append(
            BlindSpot(
                "recompilations and graph breaks",
                "none is logged, which says nothing while the switch is off",
                "TORCH_LOGS=recompiles,graph_breaks; note that TORCH_NPU_LOGS replaces TORCH_LOGS when both are set",
            )
        )
    if "plog" not in forms:
        spots.append(
            BlindSpot(
                "the error inside CANN that a torch_npu error code stands for",
                "no plog is among these files",
                "give ~/ascend/log (or $ASCEND_PROCESS_LOG_PATH) as well; errors are in debug/plog",
            )
        )
    if timeline.dropped:
        spots.append(
            BlindSpot(
                f"{timeline.dropped} further graph events",
                "more events than are kept of one file",
                "narrow the window with --since and --until",
            )
        )
    return [spot._asdict() for spot in spots]

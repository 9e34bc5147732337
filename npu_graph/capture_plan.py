"""From what a user gives (options, a command line, a log) to the budget record with padding and better sizes."""

from __future__ import annotations

from typing import Any, Mapping

from npu_graph import cli
from npu_graph.batch_log import BatchLog
from npu_graph.capture_budget import MODES, Setup, plan
from npu_graph.capture_sizes import choose_sizes, default_largest, default_sizes, padding_cost

# The framework's own default (vllm-project/vllm-ascend main docs/source/user_guide/feature_guide/graph_mode.md, "How
# Graph Mode Works on Ascend").
DEFAULT_MODE = "FULL_AND_PIECEWISE"
MAX_SIZES = 10_000
# Numbers of sizes whose padding is shown beside the configured list.
_COUNTS = (4, 8, 16, 32)
_MOST_CHOSEN = 64


def plan_capture(
    settings: Mapping[str, Any], batches: Mapping[int, int] | None = None, log: BatchLog | None = None
) -> dict[str, Any]:
    """Return the record (schema npu-graph/capture-budget/1).

    Args:
        settings: fields of capture_budget.Setup, as far as known; `layers` is needed, sizes are derived if absent.
        batches: batch sizes (tokens) with the number of steps; else those of the log.
        log: what a service log said.

    Raises:
        CommandError: exit code 2 when layers or sizes are missing or impossible.
    """
    complete, sizes_from = complete_settings(settings)
    record = plan(Setup(**complete))
    record["sizes_from"] = sizes_from
    if log is not None:
        record["memory"]["from_log"] = log.record()
    tokens = 1 + complete.get("speculative_tokens", 0)
    found = dict(batches) if batches else batches_of(log, tokens)
    if found:
        record["padding"] = _padding(record, found, tokens)
    return record


def complete_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the settings with what a command leaves to the framework, and where the sizes come from."""
    complete = dict(settings)
    complete.setdefault("mode", DEFAULT_MODE)
    if complete["mode"] not in MODES:
        mode = cli.one_line(str(complete["mode"]), 40)
        raise cli.CommandError(f"cudagraph_mode {mode} is none of {', '.join(MODES)}")
    if not complete.get("layers"):
        raise cli.CommandError(
            "the number of layers is unknown: give --layers (num_hidden_layers in the model's config.json)"
        )
    for name in ("tp", "dp", "pp", "pcp", "dcp"):
        complete[name] = max(1, complete.get(name, 1))
    sizes_from = "given"
    if complete.get("sizes") is None:
        largest = complete.get("max_capture_size") or 0
        if not largest:
            if not complete.get("max_num_seqs"):
                raise cli.CommandError("no capture sizes: give --sizes, or --max-num-seqs to derive the usual ones")
            largest = default_largest(complete["max_num_seqs"], complete.get("speculative_tokens", 0))
        if largest > 16 * MAX_SIZES:
            raise cli.CommandError(f"a largest capture size of {largest} is out of range")
        complete["sizes"] = default_sizes(largest)
        # The framework builds this list from the maximum, so the two cannot contradict each other.
        complete["max_capture_size"] = 0
        sizes_from = f"framework default up to {largest}"
    if any(size < 1 for size in complete["sizes"]) or len(complete["sizes"]) > MAX_SIZES:
        raise cli.CommandError(f"capture sizes are whole numbers from 1 on, at most {MAX_SIZES} of them")
    return complete, sizes_from


def batches_of(log: BatchLog | None, tokens_per_request: int) -> dict[int, int]:
    """Return the batch sizes of a log in tokens: counted ones if there are any, else sampled requests."""
    if log is None:
        return {}
    if log.tokens:
        return dict(log.tokens)
    return {requests * tokens_per_request: count for requests, count in log.running.items()}


def _padding(record: Mapping[str, Any], batches: Mapping[int, int], multiple: int) -> dict[str, Any]:
    sizes = record["sizes"]
    fitting = record["old_stream_budget"]["max_sizes"]
    counts = sorted({count for count in (*_COUNTS, fitting, len(sizes)) if 0 < count <= _MOST_CHOSEN})
    rows = [_row("configured", sizes, batches)] if sizes else []
    for count in counts:
        chosen = choose_sizes(batches, count, multiple)
        if len(chosen) == count or count == counts[0]:
            rows.append(_row(f"best {len(chosen)}", chosen, batches))
    return {
        "steps": sum(batches.values()),
        "distinct_batches": len(batches),
        "largest_batch": max(batches),
        "choices": rows,
    }


def _row(name: str, sizes: list[int], batches: Mapping[int, int]) -> dict[str, Any]:
    cost = padding_cost(sizes, batches)
    return {
        "name": name,
        "sizes": sizes,
        "padded_share": round(cost.padded_share, 4),
        "eager_share": round(cost.eager_share, 4),
    }

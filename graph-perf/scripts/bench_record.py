"""Turns measured times into a conclusion, or into the refusal to draw one; compares two saved measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Mapping, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph.profiles.ratios import MIN_SAMPLES, break_even, describe, drift, median, ratio_interval

SCHEMA = "npu-graph/bench/1"
COMPARE_SCHEMA = "npu-graph/bench-compare/1"

FASTER, SLOWER, NONE = "graph_faster", "graph_slower", "no_conclusion"
# First and last third of a run that differ by more than this: the device changed its clock or was shared meanwhile.
MAX_DRIFT = 0.10
# What a measurement on other hardware is worth.
ON_SIMULATOR = "measured on npu_sim: its times prove nothing about the speed of an NPU"
ON_CPU = "measured on the CPU: nothing follows for an NPU"
OTHER_TARGET = "the two records measured different targets"
MAYBE_SLOWER = "no slowdown was found, but the interval allows one of more than 5 %: measure more samples"
FEW_SAMPLES = f"fewer than {MIN_SAMPLES} samples"
EAGER_CHANGED = "eager changed as well: the machine or its software changed, not the graph alone"
# A difference below this share is real perhaps, but nobody's problem; a comparison does not call it a regression.
SMALL_CHANGE = 0.02
# "No regression" is said with a doubt when the interval allows a slowdown beyond this.
BLIND_TO = 0.05


def conclude(
    eager_us: Sequence[float], graph_us: Sequence[float], capture_us: float | None, simulated: bool = False
) -> dict[str, Any]:
    """Return statistics, interval and conclusion of an interleaved measurement.

    Args:
        eager_us, graph_us: time of one call in microseconds; the i-th of both were measured side by side.
        capture_us: one-time cost of the capture, or None when unknown.
        simulated: the device was npu_sim, whose times allow no conclusion.
    """
    interval = ratio_interval(eager_us, graph_us, paired=True)
    drifts = {"eager": round(drift(eager_us), 4), "graph": round(drift(graph_us), 4)}
    reasons = [ON_SIMULATOR] if simulated else []
    if min(len(eager_us), len(graph_us)) < MIN_SAMPLES:
        reasons.append(FEW_SAMPLES)
    if interval.includes_one:
        reasons.append("the interval of the speed-up includes 1")
    if max(abs(value) for value in drifts.values()) > MAX_DRIFT:
        reasons.append("times drifted by more than 10 % during the run: the device was shared or changed its clock")
    conclusion = NONE if reasons else FASTER if interval.value > 1 else SLOWER
    repaid = None
    if capture_us is not None and conclusion == FASTER:
        repaid = break_even(capture_us, median(eager_us), median(graph_us))
    return {
        "conclusion": conclusion,
        "reasons": reasons,
        "speedup": round(interval.value, 4),
        "speedup_interval": [round(interval.low, 4), round(interval.high, 4)],
        "eager_us": rounded(describe(eager_us)),
        "graph_us": rounded(describe(graph_us)),
        "drift": drifts,
        "capture_us": None if capture_us is None else round(capture_us, 1),
        "break_even_replays": repaid,
    }


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return how two saved measurements differ, and what else differs between their machines.

    With `reasons` the two cannot be compared, and `regression` is false whatever the times.

    Raises:
        ValueError: a record without samples, or of another schema.
    """
    for record in (old, new):
        if not isinstance(record, Mapping) or record.get("schema") != SCHEMA or not _samples(record):
            raise ValueError(f"not a saved measurement (schema {SCHEMA} with samples)")
    changes = {}
    for kind in ("eager", "graph"):
        interval = ratio_interval(_samples(new)[kind], _samples(old)[kind])
        if interval.includes_one or abs(interval.value - 1) < SMALL_CHANGE:
            word = "same"
        else:
            word = "slower" if interval.value > 1 else "faster"
        changes[kind] = {
            "old_us": round(median(_samples(old)[kind]), 3),
            "new_us": round(median(_samples(new)[kind]), 3),
            "ratio": round(interval.value, 4),
            "interval": [round(interval.low, 4), round(interval.high, 4)],
            "change": word,
            "n": [len(_samples(old)[kind]), len(_samples(new)[kind])],
        }
    reasons = [ON_SIMULATOR] if any(_environment(record).get("simulator") for record in (old, new)) else []
    if old.get("target") != new.get("target"):
        reasons.append(OTHER_TARGET)
    if min(number for change in changes.values() for number in change["n"]) < MIN_SAMPLES:
        reasons.append(FEW_SAMPLES)
    notes = [EAGER_CHANGED] if changes["eager"]["change"] != "same" else []
    if changes["graph"]["change"] == "same" and changes["graph"]["interval"][1] > 1 + BLIND_TO:
        notes.append(MAYBE_SLOWER)
    return {
        "schema": COMPARE_SCHEMA,
        "regression": changes["graph"]["change"] == "slower" and not reasons,
        "reasons": reasons,
        "notes": notes,
        **changes,
        "environment_differs": _differences(old.get("environment", {}), new.get("environment", {})),
        "settings_differ": _differences(old.get("settings", {}), new.get("settings", {})),
    }


def _environment(record: Mapping[str, Any]) -> Mapping[str, Any]:
    environment = record.get("environment")
    return environment if isinstance(environment, Mapping) else {}


def _samples(record: Mapping[str, Any]) -> dict[str, list[float]]:
    samples = record.get("samples")
    if not isinstance(samples, Mapping):
        return {}
    kept = {}
    for kind in ("eager", "graph"):
        values = samples.get(kind)
        if not isinstance(values, list) or not values:
            return {}
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and 0 < v < 1e15 for v in values):
            return {}
        kept[kind] = [float(v) for v in values]
    return kept


def _differences(old: Any, new: Any) -> list[str]:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return []
    keys = sorted(set(old) | set(new), key=str)
    return [f"{key}: {old.get(key)} -> {new.get(key)}" for key in keys if old.get(key) != new.get(key)][:30]


def rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {key: round(value, 3) for key, value in numbers.items()}

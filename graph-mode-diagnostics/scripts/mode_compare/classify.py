# ruff: noqa: E501 (texts)
"""From where and when results differ to the class: stale, padding, address, order, kernel."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .running import Trace
from .tensors import Difference, compare


class Cell(NamedTuple):
    """The comparison of one output in one step (1-based)."""

    step: int
    name: str
    difference: Difference


class Verdict(NamedTuple):
    """The class with its confidence (0..1) and evidence in sentences."""

    value: str
    confidence: float
    evidence: list[str]


class Texts(NamedTuple):
    """What a class means, what confirms it, what to do."""

    title: str
    meaning: str
    confirm: str
    fix: str


CLASSES = {
    "stale": Texts(
        "stale input or rebound tensor",
        "The graph goes on reading what it saw at capture: an input that is not copied into the static buffer, a host number, or state rebound with =.",
        "probe_capture.py on the callable names the rebound tensor or the baked number.",
        "copy_ every input into the tensor of the capture; write state in place.",
    ),
    "padding": Texts(
        "padded rows only",
        "Rows beyond the real batch differ; real rows agree. They matter only where something later reads or reduces over them.",
        "Results of the real rows stay equal with another fill value in the padding.",
        "Mask or slice padded rows before reductions, caches and sampling.",
    ),
    "address": Texts(
        "changed address",
        "Right until a tensor that the graph reads was replaced by one at another address (weight reload, new buffer, memory of the pool reused).",
        "data_ptr() of the weights and buffers before and after the step at which it starts.",
        "Reload in place (param.copy_), or capture again after a reload.",
    ),
    "order": Texts(
        "missing ordering",
        "The same inputs give other results from run to run: two streams, or host and device, touch one tensor without an event between them.",
        "With torch.npu.synchronize() around copy_ and replay (or ASCEND_LAUNCH_BLOCKING=1) the results become stable and right.",
        "Order the streams with events or wait_stream; do not refill an input while the last replay still runs.",
    ),
    "kernel": Texts(
        "kernel or numerics",
        "Different from the first step on: the graph runs another kernel, format, precision, fusion or random numbers than eager.",
        "The first module or operator that differs, run alone in both modes with the same input.",
        "Align precision switches and fusion passes; report the operator with its shapes.",
    ),
    "late": Texts(
        "starts later, cause not established",
        "Right for some steps, then wrong, without a reload at that step: memory of a graph's pool reused, or a state that changed address.",
        "Give --reload and --reload-step when weights change; otherwise compare data_ptr() of all inputs around the first wrong step.",
        "Keep outputs of one graph alive (clone) until they were read.",
    ),
    "unstable": Texts(
        "eager itself varies",
        "Two eager runs with the same inputs differ, so a difference to the graph says nothing yet: kept state, random numbers or non-deterministic kernels.",
        "Two eager runs agree with --reset and a fixed seed.",
        "Give --reset (restoring state in place), seed inside the callable, or torch.use_deterministic_algorithms(True).",
    ),
}


def grid(expected: Trace, actual: Trace, rtol: float | None, atol: float | None) -> list[Cell]:
    """Compare all outputs of all steps that both traces have."""
    cells: list[Cell] = []
    for step, (left, right) in enumerate(zip(expected.outputs, actual.outputs), 1):
        cells += [Cell(step, name, compare(left[name], right[name], rtol, atol)) for name in left if name in right]
    return cells


def classify(
    eager: Sequence[Trace],
    graph: Sequence[Trace],
    cells: Sequence[Cell],
    valid_rows: int,
    reload_at: int,
    rtol: float | None,
    atol: float | None,
) -> Verdict | None:
    """Return the class of the differences, None when there are none.

    Args:
        eager: one or two eager runs with the same inputs.
        graph: one or more graph runs with the same inputs.
        cells: the first graph run against the first eager run.
        valid_rows: rows of the first dimension that are not padding; 0 when unknown.
        reload_at: the step before which weights were reloaded; 0 when none was.
        rtol, atol: tolerances, None for those of the dtype.
    """
    if len(eager) > 1 and any(cell.difference.differs for cell in grid(eager[0], eager[1], rtol, atol)):
        return Verdict("unstable", 0.9, ["two eager runs with the same inputs differ beyond the tolerance"])
    wrong = [cell for cell in cells if cell.difference.differs]
    varying = [
        (number, cell)
        for number, other in enumerate(graph[1:], 2)
        for cell in grid(graph[0], other, rtol, atol)
        if cell.difference.differs
    ]
    first = min((cell.step for cell in wrong), default=0)
    if reload_at > 1 and first == reload_at and all(cell.step >= reload_at for _, cell in varying):
        evidence = [f"steps 1 to {reload_at - 1} agree; it starts at step {reload_at}, where the reload is"]
        if varying:  # what stands at the old address now is anybody's
            evidence.append("from there on, graph runs differ from each other too: the old memory was given to others")
        return Verdict("address", 0.9, evidence)
    if varying:
        number, cell = varying[0]
        text = f"graph runs 1 and {number} differ at step {cell.step}, {cell.name}, with the same inputs; two eager runs agree"
        return Verdict("order", 0.9 if len(eager) > 1 else 0.7, [text])
    if not wrong:
        return None
    steps = len(eager[0].outputs)
    if valid_rows and all(cell.difference.rows and min(cell.difference.rows) >= valid_rows for cell in wrong):
        return Verdict(
            "padding",
            0.9,
            [f"all differing rows are {valid_rows} or above; rows 0 to {valid_rows - 1} agree in every step"],
        )
    if first == 1:
        evidence = ["step 1 differs: the inputs are those of the capture, so nothing can be stale yet"]
        if all(cell.difference.mismatched == 0 or cell.difference.max_rel < 0.1 for cell in wrong):
            evidence.append("the deviation is small: precision rather than a wrong operand")
        return Verdict("kernel", 0.85, evidence)
    if first == 2:
        return _stale(eager[0], graph[0], wrong, steps)
    return Verdict("late", 0.6, [f"steps 1 to {first - 1} agree, step {first} differs, and no reload was named there"])


def _stale(eager: Trace, graph: Trace, wrong: Sequence[Cell], steps: int) -> Verdict:
    evidence = ["step 1 agrees and step 2 differs"]
    confidence = 0.75
    names = {cell.name for cell in wrong}
    for name in sorted(names):
        captured = _equal(graph.outputs[1].get(name), eager.outputs[0].get(name))
        frozen = steps > 2 and all(_equal(step.get(name), graph.outputs[0].get(name)) for step in graph.outputs)
        if frozen or captured:
            text = "never changes" if frozen else "at step 2 is that of step 1"
            evidence.append(f"{name} of the graph {text}: it still computes from the inputs of the capture")
            confidence = 0.95
            break
    return Verdict("stale", confidence, evidence)


def _equal(left: Any, right: Any) -> bool:
    return left is not None and right is not None and compare(left, right, 0.0, 0.0).bitwise

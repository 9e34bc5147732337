"""Rules about operators whose output size depends on the data, or that draw on the host."""

from __future__ import annotations

from typing import Iterator

from .rule import rule
from .trace import Event, Trace
from .values import words

Hits = Iterator["tuple[Event, str]"]

_SIZED_BY_DATA = words("nonzero argwhere unique unique_consecutive masked_select bincount")


@rule(
    "G006",
    "boolean-mask-index",
    "error",
    "P-CAP-001",
    "indexing with a boolean device mask has a size only the data knows",
)
def boolean_mask_index(trace: Trace) -> Hits:
    """`x[mask]` with a boolean device tensor inside a captured region.

    Why: the number of rows is known only after the mask has been computed, so torch runs `nonzero` and waits for it.
    Fix: keep the size: `torch.where(mask, x, fill)`, or multiply by the mask; gather the rows outside the graph.

    Bad:
        with torch.npu.graph(g):
            mask = scores > 0.5
            kept = scores[mask]

    Good:
        with torch.npu.graph(g):
            kept = torch.where(scores > 0.5, scores, 0.0)
    """
    for event in trace.captured("index"):
        yield event, event.name


@rule(
    "G007", "boolean-mask-store", "warning", "P-CAP-001", "assignment through a boolean device mask may run `nonzero`"
)
def boolean_mask_store(trace: Trace) -> Hits:
    """`x[mask] = tensor` with a boolean device mask inside a captured region.

    Why: with a tensor on the right side torch turns the mask into indices (`nonzero`), which waits for the device. A
    plain number on the right side is a masked fill and is not reported.
    Fix: `x.copy_(torch.where(mask, values, x))`, or `x.masked_fill_(mask, number)`.

    Bad:
        with torch.npu.graph(g):
            mask = x > 0
            x[mask] = y.reshape(-1)

    Good:
        with torch.npu.graph(g):
            x.copy_(torch.where(x > 0, y, x))
    """
    for event in trace.captured("store_index"):
        if event.value.on_device:
            yield event, event.name


@rule("G008", "size-from-data", "error", "P-CAP-001", "`{}` gives a tensor whose size depends on the data")
def size_from_data(trace: Trace) -> Hits:
    """`nonzero`, `unique`, `masked_select`, `bincount`, one-argument `torch.where` and their kin in a captured region.

    Why: the output has to be allocated, so the host waits for its size. A graph could not hold another size anyway.
    Fix: use an operator of fixed size: `torch.where(mask, a, b)`, `topk` with a fixed k, `nonzero_static(size=…)`,
    `bincount` replaced by `scatter_add_` into a buffer of fixed length.

    Bad:
        with torch.npu.graph(g):
            idx = torch.nonzero(x)

    Good:
        with torch.npu.graph(g):
            values, idx = torch.topk(x, k=4)
    """
    for event in trace.captured("call"):
        function = event.name.startswith("torch.")
        if event.method in _SIZED_BY_DATA and (function or event.receiver.on_device):
            yield event, event.method
        elif event.name == "torch.where" and len(event.args) == 1 and not event.keywords:
            yield event, "torch.where(condition)"


@rule(
    "G009",
    "repeat-interleave-without-size",
    "error",
    "P-CAP-001",
    "`repeat_interleave` with a tensor of repeats and no output_size",
)
def repeat_interleave_without_size(trace: Trace) -> Hits:
    """`repeat_interleave` whose repeats are a device tensor, without `output_size`.

    Why: the output's length is the sum of the repeats, which the host reads from the device.
    Fix: pass `output_size=` (a Python number known before the capture), or use an integer number of repeats.

    Bad:
        with torch.npu.graph(g):
            y = torch.repeat_interleave(x, counts.npu())

    Good:
        with torch.npu.graph(g):
            y = torch.repeat_interleave(x, counts.npu(), output_size=128)
    """
    for event in trace.captured("call"):
        if event.method != "repeat_interleave" or "output_size" in event.keywords:
            continue
        position = 1 if event.name.startswith("torch.") else 0
        repeats = event.keywords.get("repeats")
        if repeats is None and len(event.args) > position:
            repeats = event.args[position]
        if repeats is None and len(event.args) == 1 and position:
            repeats = event.args[0]
        if repeats is not None and repeats.on_device:
            yield event, event.name


@rule("G010", "randperm-in-capture", "warning", "P-CAP-012", "`randperm` inside the region draws its seed on the host")
def randperm_in_capture(trace: Trace) -> Hits:
    """`torch.randperm` inside a captured region.

    Why: it is not among the random operators with a graph-safe path; the permutation is drawn at capture (or the
    generator refuses), and every replay would shuffle alike.
    Fix: draw the permutation outside and `copy_` it into a static index buffer before each replay.

    Bad:
        with torch.npu.graph(g):
            order = torch.randperm(8, device="npu")
            y = x[order]

    Good:
        with torch.npu.graph(g):
            y = x[order]
        order.copy_(torch.randperm(8, device="npu"))
        g.replay()
    """
    for event in trace.captured("call", bare=True):
        if event.name == "torch.randperm":
            yield event, event.name

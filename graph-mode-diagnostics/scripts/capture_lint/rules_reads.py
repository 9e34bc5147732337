"""Rules about values that the host reads back from the device."""

from __future__ import annotations

from typing import Iterator

from .rule import rule
from .trace import Event, Trace
from .values import READING_FUNCTIONS, names_npu

Hits = Iterator["tuple[Event, str]"]

# Objects that answer .item(), .items() or .tolist() and hold no device tensor.
_HOST_OWNERS = ("np.", "numpy.")


def _could_be_device(event: Event) -> bool:
    return event.receiver.kind in ("device", "mask", "unknown", "iterable") and not event.owner.startswith(_HOST_OWNERS)


@rule("G001", "item-in-capture", "error", "P-CAP-001", "`{}` reads a device value while the graph is being captured")
def item_in_capture(trace: Trace) -> Hits:
    """`.item()` or `.tolist()` inside a captured region.

    Why: the host has to wait for the stream to get the value, and a stream in capture may not be waited for in any
    capture mode. Where it does not fail (a value already on the host), the number is baked into the graph.
    Fix: move the read before or after the region; inside it keep the value as a tensor (`torch.where`, `index_select`,
    `clamp`) or pass the number in as a Python argument that is the same at every replay.

    Bad:
        with torch.npu.graph(g):
            scale = x.max().item()
            y = x / scale

    Good:
        with torch.npu.graph(g):
            y = x / x.max()
    """
    for event in trace.captured("call"):
        if event.method in ("item", "tolist") and not event.args and _could_be_device(event):
            yield event, f".{event.method}()"


@rule("G002", "device-to-host-copy", "error", "P-CAP-001", "`{}` copies a device tensor to the host during capture")
def device_to_host_copy(trace: Trace) -> Hits:
    """`.cpu()`, `.numpy()` or `.to("cpu")` of a device tensor inside a captured region.

    Why: the copy is synchronous: it waits for the capturing stream, which the runtime refuses.
    Fix: read the result after `replay()`; for a copy that belongs to the graph use a pinned host buffer and
    `host.copy_(device, non_blocking=True)`.

    Bad:
        with torch.npu.graph(g):
            probs = model(x).softmax(-1).cpu()

    Good:
        with torch.npu.graph(g):
            probs = model(x).softmax(-1)
        g.replay()
        result = probs.cpu()
    """
    for event in trace.captured("call"):
        if event.method in ("cpu", "numpy") and not event.args:
            if event.receiver.on_device or (event.receiver.kind == "unknown" and event.method == "cpu"):
                yield event, f".{event.method}()"
        elif event.method == "to" and event.receiver.on_device and _to_host(event):
            yield event, '.to("cpu")'


def _to_host(event: Event) -> bool:
    return any(names_npu(value) is False for value in (*event.args, *event.keywords.values()))


@rule("G003", "print-device-tensor", "error", "P-CAP-001", "{} formats a device tensor, which reads it back")
def print_device_tensor(trace: Trace) -> Hits:
    """A device tensor printed, logged or put into a string inside a captured region.

    Why: formatting a tensor copies it to the host. A debug print is the most frequent reason for a capture that fails
    only when logging is on.
    Fix: print shapes and dtypes (they are host values), or print after the replay.

    Bad:
        with torch.npu.graph(g):
            y = x * 2
            print(f"y = {y}")

    Good:
        with torch.npu.graph(g):
            y = x * 2
            print(f"y has shape {y.shape}")
    """
    for event in trace.captured("format"):
        yield event, f"`{event.name}`"


@rule("G004", "tensor-as-condition", "error", "P-CAP-001", "the truth of a device tensor is asked for ({})")
def tensor_as_condition(trace: Trace) -> Hits:
    """`if`, `while`, `assert`, `and`, `not`, `bool()`, `in`, `torch.equal` on a device tensor inside a captured region.

    Why: Python needs True or False on the host, so the stream is waited for. Were it possible, the branch taken at
    capture would be the branch of every replay.
    Fix: compute both sides and choose with `torch.where`, or decide outside and capture one graph for each branch.

    Bad:
        with torch.npu.graph(g):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x

    Good:
        with torch.npu.graph(g):
            y = torch.where(x.sum() > 0, x * 2, x)
    """
    for event in trace.captured("test"):
        yield event, event.name or type(event.node).__name__
    for event in trace.captured("call"):
        reads = event.name.startswith("torch.") and event.method in READING_FUNCTIONS
        if reads and any(value.on_device for value in event.args):
            yield event, event.name


@rule("G005", "tensor-as-number", "error", "P-CAP-001", "a device tensor is turned into a Python number ({})")
def tensor_as_number(trace: Trace) -> Hits:
    """`int()`, `float()`, `range()`, a slice bound or a list index made from a device tensor inside a captured region.

    Why: Python calls `__int__`, `__float__` or `__index__`, each of which is an `.item()` that does not show.
    Fix: keep sizes and positions as Python numbers that are known before the capture; use `index_select` or a mask of
    fixed size for what depends on the data.

    Bad:
        with torch.npu.graph(g):
            n = x.argmax()
            y = x[:n]

    Good:
        with torch.npu.graph(g):
            y = torch.where(torch.arange(x.numel(), device="npu") < x.argmax(), x, 0)
    """
    for event in trace.captured("convert"):
        yield event, event.name

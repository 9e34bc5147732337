"""Rules about host memory that enters a captured region: copies, constants, pinned buffers."""

from __future__ import annotations

import ast
from typing import Iterator

from .names import GRAPH_CONTEXT
from .rule import rule
from .trace import Event, Trace, Value

Hits = Iterator["tuple[Event, str]"]


def _keyword(event: Event, name: str) -> Value:
    return event.keywords.get(name, Value("none"))


@rule(
    "G011",
    "tensor-from-host-values",
    "error",
    "P-CAP-002",
    "`{}` makes a device tensor from host values: a copy during capture",
)
def tensor_from_host_values(trace: Trace) -> Hits:
    """`torch.tensor(…, device=npu)`, `torch.as_tensor`, `new_tensor` from Python values inside a captured region.

    Why: the values are built on the host and copied with a synchronous copy, which the capture mode refuses. In relaxed
    mode the copy is not part of the graph: replays see the values of the capture.
    Fix: make the constant before the capture, or make it on the device with `torch.full`, `zeros`, `arange`.

    Bad:
        with torch.npu.graph(g):
            y = x * torch.tensor([1.0, 2.0], device="npu")

    Good:
        factors = torch.tensor([1.0, 2.0], device="npu")
        with torch.npu.graph(g):
            y = x * factors
    """
    for event in trace.captured("call", bare=True):
        if event.name in ("torch.tensor", "torch.as_tensor"):
            host = not event.args or not event.args[0].on_device and event.args[0].kind != "unknown"
            made_there = event.value.on_device
            if host and made_there and not (event.name == "torch.as_tensor" and event.args and event.args[0].on_device):
                yield event, event.name
        elif event.method == "new_tensor" and event.receiver.on_device:
            yield event, "new_tensor"


@rule("G012", "host-to-device-copy", "error", "P-CAP-002", "`{}` copies host memory to the device during capture")
def host_to_device_copy(trace: Trace) -> Hits:
    """`.npu()`, `.to("npu")` or `copy_` of a host tensor inside a captured region.

    Why: a copy from pageable memory is synchronous and refused (107030 or 107041). Only an asynchronous copy from
    pinned memory (`non_blocking=True`) can be captured, and then each replay reads that same host buffer again.
    Fix: copy into the static device buffer before `replay()`; or keep one pinned host buffer and copy with
    `non_blocking=True`.

    Bad:
        host = torch.zeros(8)
        with torch.npu.graph(g):
            y = x + host.npu()

    Good:
        host = torch.zeros(8)
        static.copy_(host)
        with torch.npu.graph(g):
            y = x + static
    """
    for event in trace.captured("call", bare=True):
        asynchronous = _keyword(event, "non_blocking").detail is True or (
            len(event.args) > 1 and event.args[1].detail is True
        )
        moved = event.method in ("npu", "cuda") or (event.method == "to" and event.value.on_device)
        if moved and event.receiver.kind == "cpu":
            source = event.receiver
        elif event.method == "copy_" and event.receiver.on_device and event.args and event.args[0].kind == "cpu":
            source = event.args[0]
        else:
            continue
        if not (source.detail == "pinned" and asynchronous):
            yield event, f".{event.method}()"


@rule("G013", "pinned-allocation", "warning", "P-CAP-017", "`{}` allocates pinned host memory during capture")
def pinned_allocation(trace: Trace) -> Hits:
    """`pin_memory()` or `pin_memory=True` inside a captured region.

    Why: pinned memory is registered with the driver, a call that may wait for the device; and the buffer made at
    capture is the one that every replay uses. torch_npu's development branch of August 2026 gives it a private pool
    and allows it (test/npu/test_aclgraph_pin_memory.py there); releases before do not.
    Fix: allocate the pinned buffer once, before the capture.

    Bad:
        with torch.npu.graph(g):
            buffer = torch.empty(8, pin_memory=True)
            buffer.copy_(x, non_blocking=True)

    Good:
        buffer = torch.empty(8, pin_memory=True)
        with torch.npu.graph(g):
            buffer.copy_(x, non_blocking=True)
    """
    for event in trace.captured("call", bare=True):
        asked = _keyword(event, "pin_memory").detail is True
        if event.method == "pin_memory" or (asked and event.name.startswith("torch.")):
            yield event, "pin_memory"


@rule(
    "G014",
    "global-mode-with-pinning-thread",
    "warning",
    "P-CAP-016",
    "capture in mode `global` in a file whose DataLoader pins memory in a thread",
)
def global_mode_with_pinning_thread(trace: Trace) -> Hits:
    """`torch.npu.graph(...)` without `capture_error_mode` while a DataLoader with `pin_memory=True` is alive.

    Why: in the default mode `global` a synchronous copy or a pinned allocation in any thread of the process breaks the
    capture; the loader's pin-memory thread does both at times of its own choosing, so the failure comes and goes.
    Fix: `torch.npu.graph(g, capture_error_mode="thread_local")`, or capture before the loader's iterator is made.

    Bad:
        loader = torch.utils.data.DataLoader(data, pin_memory=True)
        with torch.npu.graph(g):
            y = x * 2

    Good:
        loader = torch.utils.data.DataLoader(data, pin_memory=True)
        with torch.npu.graph(g, capture_error_mode="thread_local"):
            y = x * 2
    """
    if "pinning loader" not in trace.facts:
        return
    for event in trace.of("enter"):
        node = event.node
        if not isinstance(node, ast.Call):
            continue
        modes = [item.value for item in node.keywords if item.arg == "capture_error_mode"]
        starred = any(item.arg is None for item in node.keywords)
        if starred or len(node.args) > 4:
            continue
        if not modes or (isinstance(modes[0], ast.Constant) and modes[0].value == "global"):
            yield event, GRAPH_CONTEXT

"""Rules about settings made in the file itself that a capture cannot live with."""

from __future__ import annotations

from typing import Iterator

from .rule import rule
from .trace import Event, Trace

Hits = Iterator["tuple[Event, str]"]


def _settings(trace: Trace) -> Iterator[tuple[Event, str, str]]:
    """Yield (event, variable, value) for os.environ[...] = ..., setdefault and putenv with plain strings."""
    if "captures" not in trace.facts:
        return
    for event in trace.events:
        if event.kind == "store" and event.name == "os.environ" and event.args:
            name, value = event.args[0].detail, event.value.detail
        elif event.kind == "call" and event.name in ("os.environ.setdefault", "os.putenv") and len(event.args) > 1:
            name, value = event.args[0].detail, event.args[1].detail
        else:
            continue
        if isinstance(name, str) and isinstance(value, str):
            yield event, name, value


@rule("G036", "task-queue-level-2", "error", "P-CAP-008", "{} forbids capture")
def task_queue_level_2(trace: Trace) -> Hits:
    """`TASK_QUEUE_ENABLE=2` set in a file that captures.

    Why: level 2 moves workspace work off the thread that captures, and torch_npu refuses to capture with it.
    Fix: `TASK_QUEUE_ENABLE=1` (0 while debugging).

    Bad:
        os.environ["TASK_QUEUE_ENABLE"] = "2"
        with torch.npu.graph(g):
            y = x * 2

    Good:
        os.environ["TASK_QUEUE_ENABLE"] = "1"
        with torch.npu.graph(g):
            y = x * 2
    """
    for event, name, value in _settings(trace):
        if name == "TASK_QUEUE_ENABLE" and value == "2":
            yield event, "TASK_QUEUE_ENABLE=2"


@rule("G037", "launch-blocking", "warning", "P-CAP-009", "{} breaks capture on torch_npu releases up to 7.2.0")
def launch_blocking(trace: Trace) -> Hits:
    """`ASCEND_LAUNCH_BLOCKING=1` set in a file that captures.

    Why: up to release 7.2.0 every operator then waits for the stream, which a capture forbids.
    Fix: leave it unset; for an exact stack use TASK_QUEUE_ENABLE=0.

    Bad:
        os.environ["ASCEND_LAUNCH_BLOCKING"] = "1"
        with torch.npu.graph(g):
            y = x * 2

    Good:
        os.environ["TASK_QUEUE_ENABLE"] = "0"
        with torch.npu.graph(g):
            y = x * 2
    """
    for event, name, value in _settings(trace):
        if name == "ASCEND_LAUNCH_BLOCKING" and value == "1":
            yield event, "ASCEND_LAUNCH_BLOCKING=1"


@rule("G038", "expandable-pinned-memory", "error", "P-CAP-010", "{} forbids capture")
def expandable_pinned_memory(trace: Trace) -> Hits:
    """`pin_memory_expandable_segments:True` in PYTORCH_NPU_ALLOC_CONF in a file that captures.

    Why: that host allocator takes no part in the private pool of a capture, so torch_npu (release 26.1.0, PyTorch 2.11
    and later) refuses.
    Fix: take the key out; `expandable_segments:True` may stay.

    Bad:
        os.environ["PYTORCH_NPU_ALLOC_CONF"] = "pin_memory_expandable_segments:True"
        with torch.npu.graph(g):
            y = x * 2

    Good:
        os.environ["PYTORCH_NPU_ALLOC_CONF"] = "expandable_segments:True"
        with torch.npu.graph(g):
            y = x * 2
    """
    for event, name, value in _settings(trace):
        if name == "PYTORCH_NPU_ALLOC_CONF" and "pin_memory_expandable_segments:true" in value.lower().replace(" ", ""):
            yield event, "pin_memory_expandable_segments:True"

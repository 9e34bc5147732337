"""Rules about side streams inside a captured region: forked from the capture, joined back before its end."""

from __future__ import annotations

from typing import Iterator

from .entry_streams import short_name, unjoined_in_entry, waiting_on
from .rule import Remark, rule
from .trace import ENTRY, Event, Region, Trace

Hits = Iterator["tuple[Event, str | Remark]"]


def _regions(trace: Trace) -> list[tuple[Region, list[Event]]]:
    """Return each bare region with the events inside it, in order."""
    found: dict[int, tuple[Region, list[Event]]] = {}
    for event in trace.events:
        if event.region is not None and event.region.bare:
            found.setdefault(id(event.region), (event.region, []))[1].append(event)
    return list(found.values())


def _used(events: list[Event], entered: Event) -> bool:
    """Say whether anything runs on the stream that was entered."""
    return any(
        event.kind in ("call", "assign")
        and entered.name in event.streams
        and event.method not in ("wait_stream", "wait_event")
        for event in events
    )


@rule(
    "G026",
    "side-stream-not-joined",
    "error",
    "P-CAP-005",
    "stream `{}` is used in the region and nothing waits for it before the end",
)
def side_stream_not_joined(trace: Trace) -> Hits:
    """A side stream used inside a captured region and not joined before its end.

    Why: the capture stream never waits for that work, so the graph cannot be closed (107025). In an --entry it is an
    error where the work's result is used unawaited or the stream is the function's own, and a warning where the entry
    forks the stream or returns the result: its caller, which was not seen, could still join.
    Fix: after the last work on the side stream: `torch.npu.current_stream().wait_stream(side)`, inside the region.

    Bad:
        with torch.npu.graph(g):
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                y = x * 2

    Good:
        with torch.npu.graph(g):
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                y = x * 2
            torch.npu.current_stream().wait_stream(side)
    """
    for region, events in _regions(trace):
        for position, event in enumerate(events):
            if event.kind != "stream_exit" or not event.name or _is_capture_stream(event):
                continue
            joined = any(_joins(later, event.name) for later in events[position:])
            if joined or not _used(events[:position], event):
                continue
            if region.kind != ENTRY:
                yield event, event.name
                continue
            remark = unjoined_in_entry(events, position)
            if remark is not None:
                yield event, remark


def _is_capture_stream(event: Event) -> bool:
    """Say whether the stream entered is the capture's own (given to torch.npu.graph, or the current one)."""
    return event.name in event.streams or event.name in ("torch.npu.current_stream()", "?")


def _joins(event: Event, stream: str) -> bool:
    if event.kind != "call":
        return False
    if event.method == "wait_stream":
        return not event.arg_names or short_name(event.arg_names[0]) == short_name(stream) or not event.arg_names[0]
    # Which stream an event was recorded on is not followed: any wait for an event may be the join.
    return event.method in ("wait_event", "wait", "join", "join_after_forward", "join_all")


@rule(
    "G027",
    "side-stream-not-forked",
    "error",
    "P-CAP-004",
    "stream `{}` is used in the region without waiting for the capture stream first",
)
def side_stream_not_forked(trace: Trace) -> Hits:
    """Work on a side stream inside a captured region that the capture never reached.

    Why: a stream becomes part of the capture only by waiting for an event of it. Work on any other stream runs at once,
    outside the graph, and the first dependency between the two is refused.
    Fix: `side.wait_stream(torch.npu.current_stream())` inside the region, before the first use of the side stream.

    Bad:
        with torch.npu.graph(g):
            with torch.npu.stream(side):
                y = x * 2
            torch.npu.current_stream().wait_stream(side)

    Good:
        with torch.npu.graph(g):
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                y = x * 2
            torch.npu.current_stream().wait_stream(side)
    """
    for region, events in _regions(trace):
        if region.kind == ENTRY:
            continue
        for position, event in enumerate(events):
            if event.kind != "stream_enter" or not event.name or _is_capture_stream(event):
                continue
            before = [waiting_on(earlier) for earlier in events[:position] if earlier.kind == "call"]
            inside = [
                waiting_on(later)
                for later in events[position:]
                if later.kind == "call"
                and later.method in ("wait_event", "wait", "wait_stream")
                and event.name in later.streams
            ]
            first_inside = next((e for e in events[position + 1 :] if e.kind == "call"), None)
            forked = (
                short_name(event.name) in before
                or "" in [w for w in before if w]
                or (bool(inside) and first_inside is not None and bool(_waiting_or_current(first_inside)))
            )
            if not forked and _used(events[position:], event):
                yield event, event.name


def _waiting_or_current(event: Event) -> str:
    return waiting_on(event) or ("current" if event.method == "current_stream" else "")


@rule(
    "G028", "event-from-outside", "error", "P-CAP-004", "the region waits for event `{}`, which was recorded outside it"
)
def event_from_outside(trace: Trace) -> Hits:
    """`wait_event` inside a captured region for an event recorded before the capture began.

    Why: the event belongs to work that is not in this capture (107024). An ExternalEvent is made for this and is not
    reported.
    Fix: order before the capture (`capture_stream.wait_event(e)` ahead of capture_begin), or record the event inside.

    Bad:
        e = torch.npu.Event()
        e.record()
        with torch.npu.graph(g):
            torch.npu.current_stream().wait_event(e)
            y = x * 2

    Good:
        e = torch.npu.Event()
        e.record()
        torch.npu.current_stream().wait_event(e)
        with torch.npu.graph(g):
            y = x * 2
    """
    outside: set[tuple[int, str]] = set()
    for event in trace.of("call"):
        recorded = ""
        if event.method == "record" and event.receiver.kind == "event" and event.receiver.detail != "ExternalEvent":
            recorded = event.owner
        elif event.method == "record_event" and event.args and event.args[0].kind == "event":
            recorded = event.arg_names[0] if event.args[0].detail != "ExternalEvent" else ""
        if recorded:
            if event.region is None:
                outside.add((event.frame, recorded))
            else:
                outside.discard((event.frame, recorded))
        elif event.region is not None and event.region.bare:
            awaited = ""
            if event.method == "wait_event" and event.arg_names:
                awaited = event.arg_names[0]
            elif event.method == "wait" and event.receiver.kind == "event":
                awaited = event.owner
            if awaited and (event.frame, awaited) in outside:
                yield event, awaited

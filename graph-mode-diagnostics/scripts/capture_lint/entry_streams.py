"""What an entry leaves unjoined on a side stream: how sure that is, when its caller is not among what was read."""

from __future__ import annotations

import ast

from .rule import Remark
from .trace import Event, exclude_each_other
from .values import HOST_METHODS

# Kinds of values that no work on a stream makes.
_NO_TENSOR = frozenset(("host", "none", "stream", "event", "graph", "generator", "module", "function", "class", "cpu"))
_JOIN_WORDS = ("wait", "join", "sync")


def short_name(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]


def waiting_on(event: Event) -> str:
    """Return the stream that waits in this call, '' when the call is no wait."""
    if event.method in ("wait_stream", "wait_event"):
        return short_name(event.owner)
    if event.method == "wait" and event.arg_names:
        return short_name(event.arg_names[0])
    return ""


def unjoined_in_entry(events: list[Event], position: int) -> Remark | None:
    """Judge the leaving of a side stream that nothing in the entry waits for afterwards.

    Args:
        events: the events of the entry, in order.
        position: where the stream is left (a `stream_exit`).

    Returns: the finding's words, or None where the stream is the caller's to fork and to join.
    """
    left, before, after = events[position], events[:position], events[position + 1 :]
    stream = left.name
    if any(_may_join(event, stream) for event in after):
        return None
    made_here = [
        event.value.detail for event in before if event.kind == "assign" and event.name == stream and _same(event, left)
    ]
    if "current_stream" in made_here:
        return None
    entries = [at for at, event in enumerate(before) if event.kind == "stream_enter" and event.name == stream]
    entered = entries[-1] if entries else 0
    results = _results(before[entered:], left)
    returned = _returned_names(events, left)
    use = _first_use(after, left, results)
    if use is not None:
        line = getattr(use.node, "lineno", 0)
        return Remark(
            f"`{use.name}`, made on stream `{stream}`, is used in line {line} and nothing waits for it", "error"
        )
    reachable = any(event.kind == "global" and event.name == stream and _same(event, left) for event in events)
    if "Stream" in made_here and "." not in stream and stream not in returned and not reachable:
        return Remark(
            f"stream `{stream}`, made in this function, is used and nothing waits for it before the end", "error"
        )
    who = "only the caller of the entry, which was not seen, could still join it before the capture ends"
    if "Stream" in made_here or _forked(before, stream):
        return Remark(f"stream `{stream}` is forked here and nothing in the entry waits for it: {who}", "warning")
    given = sorted(results & returned)
    if given:
        return Remark(
            f"`{given[0]}`, made on stream `{stream}`, is returned and nothing in the entry waits for it: {who}",
            "warning",
        )
    return None


def _same(event: Event, left: Event) -> bool:
    return event.frame == left.frame


def _may_join(event: Event, stream: str) -> bool:
    """Say whether a call may be the join: one that is given the stream, or whose name says so."""
    if event.kind != "call":
        return False
    given = any(short_name(name) == short_name(stream) for name in event.arg_names)
    return given or (any(word in event.method for word in _JOIN_WORDS) and not event.name.startswith("torch.npu."))


def _forked(before: list[Event], stream: str) -> bool:
    """Say whether the stream is made to wait for another before or while it is used."""
    return any(
        event.kind == "call"
        and bool(waiting_on(event))
        and (waiting_on(event) == short_name(stream) or stream in event.streams)
        for event in before
    )


def _results(inside: list[Event], left: Event) -> set[str]:
    """Return the names that the work on the stream leaves a tensor in: bound, stored to, or written in place."""
    names: set[str] = set()
    for event in inside:
        if left.name not in event.streams or not _same(event, left):
            continue
        if event.kind in ("assign", "store") and event.value.kind not in _NO_TENSOR:
            names.add(event.name)
        elif event.kind == "call" and event.method.endswith("_") and not event.method.endswith("__"):
            names.add(event.owner)
    return {name for name in names if name and "(" not in name}


def _returned_names(events: list[Event], left: Event) -> set[str]:
    """Return the names that the function returns as they are, alone or in a tuple."""
    names: set[str] = set()
    for event in events:
        if event.kind == "return" and _same(event, left):
            names.update(item.id for item in _returned_nodes(event.node))
    return names


def _returned_nodes(node: ast.AST) -> list[ast.Name]:
    value = getattr(node, "value", None)
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    return [part for part in parts if isinstance(part, ast.Name)]


def _reads_no_contents(event: Event) -> bool:
    """Say whether an attribute or method is answered without the tensor's contents (its shape, record_stream)."""
    return event.kind == "host_attribute" or (event.kind == "call" and event.method in HOST_METHODS)


def _first_use(after: list[Event], left: Event, results: set[str]) -> Event | None:
    """Return the first read of a result on another stream, other than handing it back."""
    handed = {id(node) for event in after if event.kind == "return" for node in _returned_nodes(event.node)}
    open_names = set(results)
    for number, event in enumerate(after):
        if not _same(event, left) or left.name in event.streams or exclude_each_other(left, event):
            continue
        if event.kind == "assign":
            open_names.discard(event.name)
        elif event.kind == "load" and event.name in open_names and id(event.node) not in handed:
            following = after[number + 1] if number + 1 < len(after) else event
            if following.owner == event.name and _reads_no_contents(following):
                continue
            return event
    return None

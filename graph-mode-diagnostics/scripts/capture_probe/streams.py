"""Follow work over streams: which side streams were forked from the main one, and which came back."""

from __future__ import annotations

from typing import Any, Hashable, NamedTuple

from .frames import Place


class StreamFault(NamedTuple):
    """A side stream that never joined, or ran without being forked."""

    rule: str
    stream: str
    place: Place | None
    stack: list[Place]
    index: int


class StreamTracker:
    """Ordering of streams by what each has seen of the others (a vector clock for each stream and event)."""

    def __init__(self) -> None:
        self.main: Hashable | None = None
        self._count: dict[Hashable, int] = {}
        self._seen: dict[Hashable, dict[Hashable, int]] = {}
        self._events: dict[Hashable, dict[Hashable, int]] = {}
        self._last: dict[Hashable, tuple[list[Place], int]] = {}
        self._first: dict[Hashable, tuple[list[Place], int, bool]] = {}

    def start(self, main: Hashable) -> None:
        """Begin a run on the stream that would capture."""
        self.main = main
        for table in (self._count, self._seen, self._events, self._last, self._first):
            table.clear()

    def on_operator(self, stream: Hashable, stack: list[Place], index: int) -> None:
        """An operator was queued on a stream."""
        self._count[stream] = self._count.get(stream, 0) + 1
        self._last[stream] = (stack, index)
        if stream not in self._first:
            self._first[stream] = (stack, index, stream == self.main or self.main in self._known(stream))

    def on_record(self, event: Hashable, stream: Hashable) -> None:
        """An event was recorded: it carries what the stream has done and seen."""
        known = dict(self._known(stream))
        known[stream] = self._count.get(stream, 0)
        self._events[event] = known

    def on_wait(self, event: Hashable, stream: Hashable) -> None:
        """A stream waits for an event."""
        mine = self._known(stream)
        for other, count in self._events.get(event, {}).items():
            mine[other] = max(mine.get(other, 0), count)

    def on_wait_stream(self, stream: Hashable, other: Hashable) -> None:
        """A stream waits for all that another has done."""
        event = object()
        self.on_record(event, other)
        self.on_wait(event, stream)

    def faults(self) -> list[StreamFault]:
        """Return side streams whose last operator the main stream does not wait for, or that were never forked."""
        found: list[StreamFault] = []
        joined = self._known(self.main) if self.main is not None else {}
        for stream, count in self._count.items():
            if stream == self.main:
                continue
            stack, index, forked = self._first[stream]
            if not forked:
                found.append(StreamFault("stream_not_forked", str(stream), stack[0] if stack else None, stack, index))
                continue
            stack, index = self._last[stream]
            if joined.get(stream, 0) < count:
                found.append(StreamFault("stream_not_joined", str(stream), stack[0] if stack else None, stack, index))
        return sorted(found, key=lambda fault: fault.index)

    def _known(self, stream: Any) -> dict[Hashable, int]:
        return self._seen.setdefault(stream, {})

"""Reads replay lines column by column: most lines of a busy service's log are replays, and none becomes an object."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from itertools import count
from operator import add, itemgetter
from typing import Callable, Dict, Sequence, Tuple

from npu_graph.logs.dispatch import GLOG_FROM
from npu_graph.logs.lines import parse_line
from npu_graph.logs.replays import Replays
from npu_graph.logs.segment import Segment
from npu_graph.logs.signatures import find_event
from npu_graph.logs.stamps import Clock

Graph = Tuple[str, str, str]  # (pid, way of logging, graph)

# `V1203 11:20:42`, the second of a stamp; `582991`, its microseconds.
_SECOND_SIZE = 14
_MICRO = (15, 21)
_NO_TIME = -(1 << 62)
NO_REPLAY, TO_READ = 0, -1
# Replays wait until there are this many, so that those of one graph are added in one go.
_WAITING_MOST = 1 << 15
_MAX_CACHED = 1 << 16


class ReplayLines:
    """Collects the replays of one stretch in its segment.

    Args:
        segment: where replays are counted.
        clock: reads the stamps.
        offset: where a line's head begins.
        since, until: microseconds; replays outside are left out.
    """

    def __init__(self, segment: Segment, clock: Clock, offset: int, since: int | None, until: int | None) -> None:
        self._segment = segment
        self._clock = clock
        self._offset = offset
        self._since, self._until = since, until
        self._second = _Seconds(clock).__getitem__
        self._second_text = itemgetter(slice(offset, offset + _SECOND_SIZE))
        self._micro_text = itemgetter(slice(offset + _MICRO[0], offset + _MICRO[1]))
        self._tail_text = itemgetter(slice(offset + GLOG_FROM, None))
        tails = _Tails(self._new_slot)
        self._slot = tails.__getitem__
        # Number 0 stands for no graph. Per graph: the positions of its replays among all that wait. Arrays, because
        # as many number objects would not stay in the processor's cache.
        self._names: list[Graph] = [("", "", "")]
        self._numbers: dict[Graph, int] = {}
        self._positions: list[array[int]] = [array("i")]
        self._times = array("q")
        # Where each taken group of lines begins among those that wait, and its lines: (first line number, indexes).
        self._group_starts: list[int] = []
        self._groups: list[tuple[int, Sequence[int]]] = []
        self._captures: dict[int, list[int]] = {}

    def numbers(self, lines: Sequence[bytes]) -> list[int]:
        """Return of lines of torch_npu's graph files the number of the graph that is replayed, NO_REPLAY or TO_READ."""
        return list(map(self._slot, map(self._tail_text, lines)))

    def take(self, lines: list[bytes], slots: list[int], where: list[int], base: int) -> None:
        """Take replays, in the order of their lines.

        Args:
            lines: whole lines.
            slots: number of each line's graph.
            where: index of each line; `base` is the line number of index 0.
        """
        times = self._read_times(lines)
        if times is None or self._since is not None or self._until is not None:
            self._take_one_by_one(slots, lines, where, base)
            return
        start = self._begin_group(base, where)
        self._times.extend(times)
        # array.append for every replay, without a step of the interpreter.
        deque(map(array.append, map(self._positions.__getitem__, slots), count(start)), maxlen=0)

    def begin_capture(self, graph: Graph, line: int) -> bool:
        """Note that a graph is captured at a line: its replays after it are counted anew. False if it is not known."""
        number = self._numbers.get(graph)
        if number is None:
            return False
        self._captures.setdefault(number, []).append(line)
        return True

    def commit_when_due(self) -> None:
        """Add the replays of graphs that were captured again, and all of them when there are many."""
        for number in self._captures:
            self._commit(number)
        self._captures.clear()
        if len(self._times) > _WAITING_MOST:
            self.commit()

    def commit(self) -> None:
        """Add the waiting replays to their graphs."""
        for number, positions in enumerate(self._positions):
            if positions:
                self._commit(number)
        del self._times[:]
        self._group_starts.clear()
        self._groups.clear()

    def _commit(self, number: int) -> None:
        """Add one graph's waiting replays; where it was captured meanwhile, a new count starts at that line."""
        positions = self._positions[number]
        stretches = self._segment.replays.setdefault(self._names[number], [Replays()])
        own_times = list(map(self._times.__getitem__, positions))
        done = 0
        begins = self._captures.get(number)
        if begins:
            own_lines = list(map(self._line_at, positions))
            for begin in begins:
                upto = bisect_right(own_lines, begin)
                if upto > done:
                    stretches[-1].add_many(positions[done:upto], own_times[done:upto], self._line_at)
                stretches.append(Replays())
                done = upto
        if len(positions) > done:
            stretches[-1].add_many(positions[done:], own_times[done:], self._line_at)
        del positions[:]

    def _begin_group(self, base: int, where: Sequence[int]) -> int:
        start = len(self._times)
        self._group_starts.append(start)
        self._groups.append((base, where))
        return start

    def _line_at(self, position: int) -> int:
        at = bisect_right(self._group_starts, position) - 1
        base, where = self._groups[at]
        return base + where[position - self._group_starts[at]]

    def _read_times(self, lines: list[bytes]) -> list[int] | None:
        try:
            times = list(
                map(add, map(self._second, map(self._second_text, lines)), map(int, map(self._micro_text, lines)))
            )
        except ValueError:
            return None
        return None if min(times) < 0 else times

    def _take_one_by_one(self, slots: list[int], lines: list[bytes], where: list[int], base: int) -> None:
        for slot, line, index in zip(slots, lines, where):
            stamp = self._clock.glog(line[self._offset + 1 :])
            if stamp is None:
                self._segment.replays.setdefault(self._names[slot], [Replays()])[-1].add(index + base, None)
            elif not self._is_outside(stamp.us):
                self._positions[slot].append(self._begin_group(base, (index,)))
                self._times.append(stamp.us)

    def _is_outside(self, us: int) -> bool:
        return (self._since is not None and us < self._since) or (self._until is not None and us > self._until)

    def _new_slot(self, tail: bytes) -> int:
        parsed = parse_line(b"V0101 00:00:00.000000 " + tail, self._clock)
        event = find_event(parsed.text)
        key = event[1].group("key").decode("latin-1") if event is not None else ""
        name = (parsed.pid, "python" if b"graph_id=" in tail else "torch_npu", key)
        process = self._segment.process(parsed.pid)
        if parsed.rank:
            process.ranks.add(parsed.rank)
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
            self._positions.append(array("i"))
        return number


class _Seconds(Dict[bytes, int]):
    """`V1203 11:20:42` to microseconds, computed once a second."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def __missing__(self, text: bytes) -> int:
        stamp = self._clock.glog(text[1:] + b".000000")
        us = stamp.us if stamp is not None else _NO_TIME
        if len(self) > _MAX_CACHED:
            self.clear()
        self[text] = us
        return us


class _Tails(Dict[bytes, int]):
    """The rest of a graph line after its stamp to a graph's number, or NO_REPLAY or TO_READ."""

    def __init__(self, slot: Callable[[bytes], int]) -> None:
        super().__init__()
        self._slot = slot

    def __missing__(self, tail: bytes) -> int:
        at = tail.find(b"NPUGRAPH ")
        word = tail[at + 9 : at + 12] if at >= 0 else b""
        if word == b"Rep":
            number = self._slot(tail)
        elif word == b"All" or b"Child AllocateToPool" in tail:
            number = NO_REPLAY
        else:
            return TO_READ
        if len(self) > _MAX_CACHED:
            self.clear()
        self[tail] = number
        return number

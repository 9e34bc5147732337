"""Reads replay lines column by column: most lines of a busy service's log are replays, and none becomes an object."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from operator import add, itemgetter
from typing import Callable, Dict, Sequence, Tuple

from npu_graph.logs.dispatch import GLOG_FROM
from npu_graph.logs.lines import parse_line
from npu_graph.logs.replays import Replays
from npu_graph.logs.second_codes import Seconds
from npu_graph.logs.segment import Segment
from npu_graph.logs.signatures import find_event
from npu_graph.logs.stamps import Clock

Graph = Tuple[str, str, str]  # (pid, way of logging, graph)

# `V1203 11:20:42`, the second of a stamp; `582991`, its microseconds.
_SECOND_SIZE = 14
_MICRO = (15, 21)
# When a graph was replayed that never was; a longer gap than any between two stamps says so.
_NEVER, _SINCE_EVER = -(1 << 62), 1 << 61
NO_REPLAY, TO_READ = 0, -1
# Where a line's microseconds are those since 1970.
_NO_SECONDS = ((sys.maxsize, 0),)
# Gaps wait until there are this many, so that those of one graph are added in one go.
_WAITING_MOST = 1 << 16
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
        self._second = _SecondTable(clock).__getitem__
        self._second_text = itemgetter(slice(offset, offset + _SECOND_SIZE))
        self._micro_text = itemgetter(slice(offset + _MICRO[0], offset + _MICRO[1]))
        self._tail_text = itemgetter(slice(offset + GLOG_FROM, None))
        self._number = _Tails(self._number_of).__getitem__
        self._numbers: dict[Graph, int] = {}
        # By the number of a graph, 0 standing for none: its replays since it was last captured, when the last of them
        # was, the gap above which a gap is among the longest, and the gaps that are not in its replays yet. Arrays, as
        # so many number objects would not stay in the processor's cache.
        self._names: list[Graph] = [("", "", "")]
        self._replays = [Replays()]
        self._last = [_NEVER]
        self._floors = [-1]
        self._gaps = [array("f")]
        self._appends: list[Callable[[float], None]] = [self._gaps[0].append]
        self._waiting = 0
        self._seconds: Seconds | None = None
        self._block_seconds: Seconds = ()
        self._start_block()

    def _start_block(self) -> None:
        # The replays of a block in the order of its lines: number of the graph, microseconds (in the block's seconds),
        # index of the line.
        self._block: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._odd: list[tuple[int, int, int]] = []  # (index, number, us) of replays whose lines are of no usual form
        self._captures: list[tuple[int, int]] = []  # (index, number)

    def numbers(self, lines: Sequence[bytes]) -> list[int]:
        """Return of lines of torch_npu's graph files the number of the graph that is replayed, NO_REPLAY or TO_READ."""
        return list(map(self._number, map(self._tail_text, lines)))

    def begin_block(self, base: int) -> None:
        """Begin a block whose first line has this number."""
        self._base = base

    def begin_times(self, seconds: Seconds | None) -> None:
        """Take the seconds of the block's lines; None where they are not in order, and each line's is looked up."""
        self._seconds = seconds

    def take(self, lines: list[bytes], numbers: list[int], where: list[int]) -> None:
        """Take the block's replays, in the order of their lines.

        Args:
            lines: whole lines.
            numbers: of each line's graph.
            where: index of each line.
        """
        times = self._read_times(lines)
        if times is None or self._since is not None or self._until is not None:
            numbers, us, where = self._read_one_by_one(lines, numbers, where)
            times = us, _NO_SECONDS
        self._block = (numbers, times[0], where)
        self._block_seconds = times[1]

    def add(self, graph: Graph, line: int, us: int | None) -> None:
        """Add one replay of the block whose line was read for itself."""
        number = self._numbers.get(graph)
        if number is None or us is None:
            self._segment.replays.setdefault(graph, [Replays()])[-1].add(line, us)
        else:
            self._odd.append((line - self._base, number, us))

    def begin_capture(self, graph: Graph, line: int) -> None:
        """Note that a graph is captured at a line of the block: its replays after it are counted anew."""
        number = self._numbers.get(graph)
        if number is None:
            self._segment.replays.setdefault(graph, [Replays()]).append(Replays())
        else:
            self._captures.append((line - self._base, number))

    def end_block(self) -> None:
        """Count the replays of the block."""
        numbers, micros, where = self._block
        done = 0
        if self._odd or self._captures:
            numbers, times, where = self._in_order()
            for index, number in self._captures:
                at = bisect_left(where, index)
                self._count(numbers[done:at], 0, times[done:at], where[done:at])
                self._start_over(number)
                done = at
            self._count(numbers[done:], 0, times[done:], where[done:])
        else:
            for end, second in self._block_seconds:
                at = bisect_left(where, end)
                self._count(numbers[done:at], second, micros[done:at], where[done:at])
                done = at
        self._waiting += len(numbers)
        if self._waiting > _WAITING_MOST:
            self.commit()
        self._start_block()

    def _in_order(self) -> tuple[list[int], list[int], list[int]]:
        """Return numbers, times and indexes of the block's replays with those whose lines are of no usual form."""
        numbers, micros, where = self._block
        times: list[int] = []
        for end, second in self._block_seconds:
            at = bisect_left(where, end)
            times += map(second.__add__, micros[len(times) : at])
        if self._odd:
            rows = sorted([*zip(where, numbers, times), *self._odd])
            where, numbers, times = (list(column) for column in zip(*rows))
        return numbers, times, where

    def commit(self) -> None:
        """Add all gaps to their graphs' replays."""
        for number, gaps in enumerate(self._gaps):
            if gaps:
                self._commit(number)
        self._waiting = 0

    def finish(self) -> None:
        """Add what is left; no more blocks may follow."""
        self.commit()
        for replays, last in zip(self._replays, self._last):
            if last != _NEVER:
                replays.last = last

    def _count(self, numbers: list[int], second: int, micros: list[int], where: list[int]) -> None:
        # A loop of few steps: quicker than sorting the replays by graph with C functions and reading them again.
        last, floors, appends = self._last, self._floors, self._appends
        for number, micro, index in zip(numbers, micros, where):
            us = second + micro
            gap = us - last[number]
            last[number] = us
            if 0 <= gap <= floors[number]:
                appends[number](gap)
            else:
                self._count_unusual(number, gap, index + self._base, us)

    def _count_unusual(self, number: int, gap: int, line: int, us: int) -> None:
        """Count a first replay, one before which the clock went back, or one after one of the longest gaps."""
        replays = self._replays[number]
        if gap > _SINCE_EVER:
            replays.first = replays.first or (line, us)
            replays.count += 1
        elif gap < 0:
            replays.back += 1
            replays.count += 1
        else:
            self._gaps[number].append(gap)
            self._floors[number] = replays.keep_longest(gap, line, us)

    def _commit(self, number: int) -> None:
        replays, gaps = self._replays[number], self._gaps[number]
        replays.add_gaps(gaps)
        replays.last = self._last[number]
        del gaps[:]

    def _start_over(self, number: int) -> None:
        """Count a graph's further replays as those of a new capture."""
        if self._last[number] != _NEVER:
            self._commit(number)
        self._replays[number] = Replays()
        self._segment.replays[self._names[number]].append(self._replays[number])
        self._last[number] = _NEVER
        self._floors[number] = -1

    def _read_times(self, lines: list[bytes]) -> tuple[list[int], Seconds] | None:
        """Return microseconds and what is to be added to them, None where a stamp is none."""
        try:
            micros = list(map(int, map(self._micro_text, lines)))
            if self._seconds is not None:
                return micros, self._seconds
            return list(map(add, map(self._second, map(self._second_text, lines)), micros)), _NO_SECONDS
        except ValueError:
            return None

    def _read_one_by_one(
        self, lines: list[bytes], numbers: list[int], where: list[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return numbers, microseconds and indexes of the lines that have a stamp inside the window."""
        rows = []
        for number, line, index in zip(numbers, lines, where):
            stamp = self._clock.glog(line[self._offset + 1 :])
            if stamp is None:
                self._replays[number].add(index + self._base, None)
            elif not self._is_outside(stamp.us):
                rows.append((number, stamp.us, index))
        return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]

    def _is_outside(self, us: int) -> bool:
        return (self._since is not None and us < self._since) or (self._until is not None and us > self._until)

    def _number_of(self, tail: bytes) -> int:
        parsed = parse_line(b"V0101 00:00:00.000000 " + tail, self._clock)
        event = find_event(parsed.text)
        if event is None or event[0].kind != "replay":
            return TO_READ  # torn: another record stands in the line
        key = (event[1].group("key") or b"").decode("latin-1")
        name = (parsed.pid, "python" if b"graph_id=" in tail else "torch_npu", key)
        process = self._segment.process(parsed.pid)
        if parsed.rank:
            process.ranks.add(parsed.rank)
        number = self._numbers.setdefault(name, len(self._replays))
        if number == len(self._replays):
            replays = self._segment.replays.setdefault(name, [Replays()])[-1]
            self._names.append(name)
            self._replays.append(replays)
            self._last.append(_NEVER if replays.last is None else replays.last)
            self._floors.append(replays.floor)
            self._gaps.append(array("f"))
            self._appends.append(self._gaps[-1].append)
        return number


class _SecondTable(Dict[bytes, int]):
    """`V1203 11:20:42` to microseconds, computed once a second."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def __missing__(self, text: bytes) -> int:
        stamp = self._clock.glog(text[1:] + b".000000")
        if stamp is None:
            raise ValueError(f"no time: {text!r}")
        if len(self) > _MAX_CACHED:
            self.clear()
        self[text] = stamp.us
        return stamp.us


class _Tails(Dict[bytes, int]):
    """The rest of a graph line after its stamp to a graph's number, or NO_REPLAY or TO_READ."""

    def __init__(self, number_of: Callable[[bytes], int]) -> None:
        super().__init__()
        self._number_of = number_of

    def __missing__(self, tail: bytes) -> int:
        at = tail.find(b"NPUGRAPH ")
        word = tail[at + 9 : at + 12] if at >= 0 else b""
        if word == b"Rep":
            number = self._number_of(tail)
        elif word == b"All" or b"Child AllocateToPool" in tail:
            number = NO_REPLAY
        else:
            return TO_READ
        if len(self) > _MAX_CACHED:
            self.clear()
        self[tail] = number
        return number

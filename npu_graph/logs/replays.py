"""Replays of one graph: count and the distribution of the time between them, in bounded memory, mergeable in order."""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate
from operator import sub
from typing import Any, Callable, Iterable, Mapping, Sequence

# The longest gaps are kept with their line, so that a claim about the tail can be looked up.
KEPT_GAPS = 8
# The upper half of a 4-byte float (sign, exponent, seven binary digits) is a logarithmic bucket that the standard
# library computes for a whole list at once: percentiles are within 0.8 percent, and one graph needs a few hundred
# buckets whatever the number of replays.
_UPPER_HALF = 1 if sys.byteorder == "little" else 0
_NEGATIVE = 0x8000


def bucket(gap: int) -> int:
    """Return the bucket of a gap in microseconds."""
    return int(_buckets([gap])[0])


def edge(code: int) -> int:
    """Return the smallest gap of a bucket, in microseconds."""
    return int(struct.unpack(">f", struct.pack(">HH", code, 0))[0])


def _buckets(gaps: Sequence[int]) -> array[int]:
    return array("H", array("f", gaps).tobytes())[_UPPER_HALF::2]


class Replays:
    """Replays of one graph in one stretch of a log, in line order."""

    __slots__ = ("back", "buckets", "count", "first", "last", "longest", "unstamped")

    def __init__(self) -> None:
        self.count = 0
        self.unstamped = 0
        self.back = 0  # times the clock went back between two replays
        self.first: tuple[int, int] | None = None  # (line, us)
        self.last: tuple[int, int] | None = None
        self.buckets: Counter[int] = Counter()
        self.longest: list[tuple[int, int, int]] = []  # (-gap, line of the later replay, us)

    def add(self, line: int, us: int | None) -> None:
        """Add one replay."""
        self.count += 1
        if us is None:
            self.unstamped += 1
            return
        if self.first is None:
            self.first = (line, us)
        if self.last is not None:
            self._gap(us - self.last[1], line, us)
        self.last = (line, us)

    def add_many(self, positions: Sequence[int], times: Sequence[int], line_at: Callable[[int], int]) -> None:
        """Add replays in line order, all of them stamped; `line_at` gives the line of a position."""
        if self.last is None:
            gaps = list(map(sub, times[1:], times))
            positions_of_gaps, their_times = positions[1:], times[1:]
        else:
            gaps = list(map(sub, times, [self.last[1], *times]))
            positions_of_gaps, their_times = positions, times
        if gaps:
            self.buckets.update(_buckets(gaps))
            if max(self.buckets) >= _NEGATIVE:
                for code in [code for code in self.buckets if code >= _NEGATIVE]:
                    self.back += self.buckets.pop(code)
            self._keep_longest(gaps, positions_of_gaps, their_times, line_at)
        self.count += len(times)
        if self.first is None:
            self.first = (line_at(positions[0]), times[0])
        self.last = (line_at(positions[-1]), times[-1])

    def _keep_longest(
        self, gaps: list[int], positions: Sequence[int], times: Sequence[int], line_at: Callable[[int], int]
    ) -> None:
        """Keep the longest of the gaps; positions and times are those of the later replays."""
        if len(self.longest) == KEPT_GAPS:
            floor = -self.longest[-1][0]
            if max(gaps) < floor:
                return
        else:  # of a long list only the longest few are wanted: find the floor before building tuples
            floor = max(0, sorted(gaps)[-KEPT_GAPS:][0])
        self._keep((-gap, line_at(at), us) for gap, at, us in zip(gaps, positions, times) if gap >= floor)

    def append(self, other: Replays, shift: int) -> None:
        """Append what follows in the same file; `shift` is the number of lines before it."""
        self.count += other.count
        self.unstamped += other.unstamped
        self.back += other.back
        self.buckets.update(other.buckets)
        self._keep((gap, line + shift, us) for gap, line, us in other.longest)
        if other.first is not None:
            line, us = other.first
            if self.last is not None:
                self._gap(us - self.last[1], line + shift, us)
            if self.first is None:
                self.first = (line + shift, us)
        if other.last is not None:
            self.last = (other.last[0] + shift, other.last[1])

    def _gap(self, gap: int, line: int, us: int) -> None:
        if gap < 0:
            self.back += 1
            return
        code = bucket(gap)
        self.buckets[code] += 1
        self._keep([(-gap, line, us)])

    def _keep(self, longest: Iterable[tuple[int, int, int]]) -> None:
        self.longest = sorted([*self.longest, *longest])[:KEPT_GAPS]

    def to_record(self) -> list[Any]:
        buckets = [[code, self.buckets[code]] for code in sorted(self.buckets)]
        return [self.count, self.unstamped, self.back, self.first, self.last, buckets, self.longest]

    @classmethod
    def from_record(cls, record: list[Any]) -> Replays:
        made = cls()
        made.count, made.unstamped, made.back = record[:3]
        made.first = tuple(record[3]) if record[3] else None
        made.last = tuple(record[4]) if record[4] else None
        made.buckets = Counter({int(code): int(number) for code, number in record[5]})
        made.longest = [(int(a), int(b), int(c)) for a, b, c in record[6]]
        return made


class Distribution:
    """Percentiles of counted gaps; buckets are in the order of their gaps, so none has to be decoded to be compared."""

    def __init__(self, buckets: Mapping[int, int]) -> None:
        self._codes = sorted(buckets)
        self._passed = list(accumulate(map(buckets.__getitem__, self._codes)))

    def below(self, gap: int) -> int:
        """Return how many gaps are in buckets below that of `gap` (microseconds)."""
        at = bisect_left(self._codes, bucket(gap))
        return self._passed[at - 1] if at else 0

    def percentile(self, share: float, number: int | None = None) -> int | None:
        """Return the gap (µs, smallest of its bucket) under which `share` of the lowest `number` gaps lie."""
        total = number if number is not None else (self._passed[-1] if self._passed else 0)
        if not total:
            return None
        return edge(self._codes[bisect_right(self._passed, share * (total - 1))])

    @property
    def total(self) -> int:
        return self._passed[-1] if self._passed else 0

"""Replays of one graph: count and the distribution of the time between them, in bounded memory, mergeable in order."""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from itertools import accumulate
from typing import Any, Iterable, Mapping, Sequence

# The longest gaps are kept with their line, so that a claim about the tail can be looked up.
KEPT_GAPS = 8
# The upper half of a 4-byte float (sign, exponent, seven binary digits) is a logarithmic bucket that the standard
# library computes for a whole list at once: percentiles are within 0.8 percent, and one graph needs a few hundred
# buckets whatever the number of replays.
_UPPER_HALF = 1 if sys.byteorder == "little" else 0
# Gaps are counted in portions of this size: one graph's counts then stay in the processor's cache.
_FRESH_MOST, _FRESH_FEW = 4096, 1024
_PARTS_MOST = 16


def bucket(gap: int) -> int:
    """Return the bucket of a gap in microseconds."""
    return int(_buckets([gap])[0])


def edge(code: int) -> int:
    """Return the smallest gap of a bucket, in microseconds."""
    return int(struct.unpack(">f", struct.pack(">HH", code, 0))[0])


def _buckets(gaps: Sequence[int]) -> array[int]:
    return _upper_halves(array("f", gaps))


def _upper_halves(gaps: array[float]) -> array[int]:
    return array("H", gaps.tobytes())[_UPPER_HALF::2]


def _part(buckets: Mapping[int, int]) -> tuple[array[int], array[int]]:
    codes = array("H", sorted(buckets))
    return codes, array("Q", map(buckets.__getitem__, codes))


class Replays:
    """Replays of one graph in one stretch of a log, in line order."""

    __slots__ = ("_counted", "_fresh", "back", "count", "first", "last", "longest", "unstamped")

    def __init__(self) -> None:
        self.count = 0
        self.unstamped = 0
        self.back = 0  # times the clock went back between two replays
        self.first: tuple[int, int] | None = None  # (line, us)
        self.last: int | None = None  # us
        self.longest: list[tuple[int, int, int]] = []  # (-gap, line of the later replay, us)
        # Buckets of gaps: those not yet counted in line order, and the counted ones as parts of (codes, numbers), which
        # are added up when there are some. Arrays, because there is one distribution per capture: as dictionaries,
        # 3,000 of them take 100 MB.
        self._fresh = array("H")
        self._counted: list[tuple[array[int], array[int]]] = []

    def buckets(self) -> Mapping[int, int]:
        """Return how many gaps lie in each bucket."""
        total = Counter(dict(zip(*self._counted[0]))) if self._counted else Counter()
        for codes, numbers in self._counted[1:]:
            for code, number in zip(codes, numbers):
                total[code] = total.get(code, 0) + number
        total.update(self._fresh)
        return total

    def settle(self) -> None:
        """Count what is many, so that whoever joins stretches need not."""
        if len(self._fresh) > _FRESH_FEW:
            self._count_fresh()

    def _add_buckets(self, codes: array[int]) -> None:
        self._fresh.extend(codes)
        if len(self._fresh) > _FRESH_MOST:
            self._count_fresh()

    def _count_fresh(self) -> None:
        if self._fresh:
            fresh, self._fresh = self._fresh, array("H")
            self._add_parts([_part(Counter(fresh))])

    def _add_parts(self, parts: Sequence[tuple[array[int], array[int]]]) -> None:
        self._counted = [*self._counted, *parts]
        if len(self._counted) > _PARTS_MOST:
            self._counted, self._fresh = [_part(self.buckets())], array("H")

    def add(self, line: int, us: int | None) -> None:
        """Add one replay."""
        self.count += 1
        if us is None:
            self.unstamped += 1
            return
        if self.first is None:
            self.first = (line, us)
        if self.last is not None:
            self._gap(us - self.last, line, us)
        self.last = us

    def add_gaps(self, gaps: array[float]) -> None:
        """Add replays by the gaps before them (of type "f"), none negative; `keep_longest` keeps the longest of all."""
        self.count += len(gaps)
        self._add_buckets(_upper_halves(gaps))

    def keep_longest(self, gap: int, line: int, us: int) -> int:
        """Keep a gap, with the line and time of the later replay, among the longest; returns the new `floor`."""
        insort(self.longest, (-gap, line, us))
        del self.longest[KEPT_GAPS:]
        return self.floor

    @property
    def floor(self) -> int:
        """The gap above which a further gap is among the longest."""
        return -self.longest[-1][0] if len(self.longest) == KEPT_GAPS else -1

    def append(self, other: Replays, shift: int) -> None:
        """Append what follows in the same file; `shift` is the number of lines before it."""
        self.count += other.count
        self.unstamped += other.unstamped
        self.back += other.back
        self._add_parts(other._counted)
        self._add_buckets(other._fresh)
        self._keep((gap, line + shift, us) for gap, line, us in other.longest)
        if other.first is not None:
            line, us = other.first
            if self.last is not None:
                self._gap(us - self.last, line + shift, us)
            if self.first is None:
                self.first = (line + shift, us)
        if other.last is not None:
            self.last = other.last

    def _gap(self, gap: int, line: int, us: int) -> None:
        if gap < 0:
            self.back += 1
            return
        self._add_buckets(_buckets([gap]))
        self._keep([(-gap, line, us)])

    def _keep(self, longest: Iterable[tuple[int, int, int]]) -> None:
        self.longest = sorted([*self.longest, *longest])[:KEPT_GAPS]

    def to_record(self) -> list[Any]:
        buckets = [list(item) for item in sorted(self.buckets().items())]
        last = [0, self.last] if self.last is not None else None  # a line number was there, of which nobody asked
        return [self.count, self.unstamped, self.back, self.first, last, buckets, self.longest]

    @classmethod
    def from_record(cls, record: list[Any]) -> Replays:
        made = cls()
        made.count, made.unstamped, made.back = record[:3]
        made.first = tuple(record[3]) if record[3] else None
        made.last = record[4][1] if record[4] else None
        made._counted = [_part({int(code): int(number) for code, number in record[5]})]
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

"""Replays of one graph: count and the distribution of the time between them, in bounded memory, mergeable in order."""

from __future__ import annotations

from typing import Any, Iterable

# A gap keeps its seven leading binary digits: percentiles are within 0.8 percent, and one graph needs a few hundred
# buckets whatever the number of replays.
_MANTISSA_BITS = 7
# The longest gaps are kept with their line, so that a claim about the tail can be looked up.
KEPT_GAPS = 8


class Bucket(dict):  # type: ignore[type-arg]
    """Gap in microseconds to its bucket's lower edge, computed once per distinct gap."""

    def __missing__(self, gap: int) -> int:
        shift = gap.bit_length() - _MANTISSA_BITS
        edge = gap if shift <= 0 else (gap >> shift) << shift
        if len(self) > 65536:
            self.clear()
        self[gap] = edge
        return edge


BUCKETS = Bucket()


class Replays:
    """Replays of one graph in one stretch of a log, in line order."""

    __slots__ = ("back", "buckets", "count", "first", "last", "longest", "unstamped")

    def __init__(self) -> None:
        self.count = 0
        self.unstamped = 0
        self.back = 0  # times the clock went back between two replays
        self.first: tuple[int, int] | None = None  # (line, us)
        self.last: tuple[int, int] | None = None
        self.buckets: dict[int, int] = {}
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

    def add_gaps(self, counted: Iterable[tuple[int, int]], longest: Iterable[tuple[int, int, int]]) -> None:
        """Add gaps already counted per bucket, with the candidates for the longest."""
        buckets = self.buckets
        for edge, number in counted:
            if edge < 0:
                self.back += number
            else:
                buckets[edge] = buckets.get(edge, 0) + number
        self._keep(longest)

    def append(self, other: Replays, shift: int) -> None:
        """Append what follows in the same file; `shift` is the number of lines before it."""
        self.count += other.count
        self.unstamped += other.unstamped
        self.back += other.back
        for edge, number in other.buckets.items():
            self.buckets[edge] = self.buckets.get(edge, 0) + number
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
        edge = BUCKETS[gap]
        self.buckets[edge] = self.buckets.get(edge, 0) + 1
        self._keep([(-gap, line, us)])

    def _keep(self, longest: Iterable[tuple[int, int, int]]) -> None:
        self.longest = sorted([*self.longest, *longest])[:KEPT_GAPS]

    def to_record(self) -> list[Any]:
        buckets = [[edge, self.buckets[edge]] for edge in sorted(self.buckets)]
        return [self.count, self.unstamped, self.back, self.first, self.last, buckets, self.longest]

    @classmethod
    def from_record(cls, record: list[Any]) -> Replays:
        made = cls()
        made.count, made.unstamped, made.back = record[:3]
        made.first = tuple(record[3]) if record[3] else None
        made.last = tuple(record[4]) if record[4] else None
        made.buckets = {int(edge): int(number) for edge, number in record[5]}
        made.longest = [(int(a), int(b), int(c)) for a, b, c in record[6]]
        return made


def percentile(buckets: dict[int, int], share: float, below: int | None = None) -> int | None:
    """Return the gap (µs, lower edge of its bucket) under which `share` of the gaps lie, of those below `below`."""
    edges = sorted(edge for edge in buckets if below is None or edge < below)
    total = sum(buckets[edge] for edge in edges)
    if not total:
        return None
    wanted = share * (total - 1)
    passed = 0
    for edge in edges:
        passed += buckets[edge]
        if passed > wanted:
            return edge
    return edges[-1]

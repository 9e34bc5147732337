"""Arithmetic on time intervals: union, overlap, and what is left."""

from __future__ import annotations

from typing import Iterable, Sequence, Tuple

Interval = Tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals that are sorted by start; empty intervals vanish."""
    merged: list[Interval] = []
    for start, end in intervals:
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    """Return the summed length."""
    return sum(end - start for start, end in intervals)


def overlap(left: Sequence[Interval], right: Sequence[Interval]) -> int:
    """Return the length common to two unions."""
    total = i = j = 0
    while i < len(left) and j < len(right):
        total += max(0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return total

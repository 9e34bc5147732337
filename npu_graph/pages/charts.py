"""Geometry of the report's drawings, in units that the page scales to the width of the screen."""

from __future__ import annotations

from typing import NamedTuple, Sequence

WIDTH = 1000
# Narrower than this and a segment cannot be seen.
_LEAST = 1.5


class Segment(NamedTuple):
    """A piece of a bar: where it begins, how wide it is, which class colours it, what it says when pointed at."""

    x: float
    w: float
    kind: str
    label: str


def stack(parts: Sequence[tuple[str, float, str]], largest: float) -> list[Segment]:
    """Return a bar of (kind, value, label) pieces end to end; `largest` fills the width.

    Pieces of 0 or less are left out; a small one is drawn as wide as can be seen.
    """
    segments, at = [], 0.0
    for kind, value, label in parts:
        if not value > 0 or not largest > 0:
            continue
        width = value / largest * WIDTH
        segments.append(Segment(round(min(at, WIDTH - _LEAST), 2), round(max(width, _LEAST), 2), kind, label))
        at += width
    return segments


class Fall(NamedTuple):
    """A bar of a waterfall: a total from 0, or a change between two levels; `level` is where the next one starts."""

    x: float
    w: float
    kind: str
    level: float


def waterfall(start: float, changes: Sequence[float]) -> list[Fall]:
    """Return the bars of a waterfall: the start from 0, each change from where the last ended, the end from 0.

    Kinds: `total`, `less` (a change below 0), `more`. The scale holds every level on the way, also one below 0.
    """
    levels = [0.0, start]
    for change in changes:
        levels.append(levels[-1] + change)
    low, high = min(levels), max(levels)
    span = high - low or 1.0

    def place(value: float) -> float:
        return (value - low) / span * WIDTH

    def bar(first: float, last: float, kind: str) -> Fall:
        left, right = sorted((place(first), place(last)))
        width = max(right - left, _LEAST)
        return Fall(round(min(left, WIDTH - width), 2), round(width, 2), kind, round(place(last), 2))

    bars = [bar(0.0, start, "total")]
    for before, after in zip(levels[1:], levels[2:]):
        bars.append(bar(before, after, "less" if after < before else "more"))
    return [*bars, bar(0.0, levels[-1], "total")]


class Column(NamedTuple):
    """A column of a histogram: place and width in the drawing, height out of 100, how many values, their range."""

    x: float
    w: float
    h: float
    n: int
    low: float
    high: float


def histogram(values: Sequence[float], low: float, high: float, bins: int, tallest: int | None = None) -> list[Column]:
    """Return the columns of equal bins between two values; empty ones are left out.

    Args:
        tallest: the count that fills the height, for two histograms side by side; default: this one's largest.
    """
    counts = count_bins(values, low, high, bins)
    most = tallest or max(counts, default=0) or 1
    step, span = WIDTH / bins, (high - low) / bins
    return [
        Column(
            round(at * step, 1),
            round(step - 2, 1),
            round(100 * number / most, 1),
            number,
            low + at * span,
            low + (at + 1) * span,
        )
        for at, number in enumerate(counts)
        if number
    ]


def count_bins(values: Sequence[float], low: float, high: float, bins: int) -> list[int]:
    """Return how many values lie in each of `bins` equal bins from `low` to `high` (its end included)."""
    counts = [0] * bins
    span = (high - low) or 1.0
    for value in values:
        counts[min(max(int((value - low) / span * bins), 0), bins - 1)] += 1
    return counts


def line(values: Sequence[float], low: float, high: float, height: float) -> str:
    """Return the points of a polyline through values in order, `high` at the top."""
    span = (high - low) or 1.0
    step = WIDTH / max(len(values) - 1, 1)
    return " ".join(f"{at * step:.1f},{height - (value - low) / span * height:.1f}" for at, value in enumerate(values))

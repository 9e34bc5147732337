"""The median of some numbers, without the statistics module: importing that takes longer than reading a small log."""

from __future__ import annotations

from typing import Iterable


def median(numbers: Iterable[float]) -> float:
    """Return the middle number, or the mean of the middle two; there must be one at least."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

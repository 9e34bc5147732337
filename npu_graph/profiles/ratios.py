"""Statistics of two sets of times: percentiles, a bootstrap interval of their ratio, drift. Seeded, so they repeat."""

from __future__ import annotations

import random
from typing import NamedTuple, Sequence

DEFAULT_RESAMPLES = 2000
DEFAULT_LEVEL = 0.95
_SEED = 20240601
# Below this many pairs an interval of a median says nothing.
MIN_SAMPLES = 5
# Values that enter a bootstrap; of a million samples each resample would take a second.
MAX_RESAMPLED = 1000


class Interval(NamedTuple):
    """A ratio with its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def includes_one(self) -> bool:
        """Say whether "no difference" lies inside: then nothing may be concluded."""
        return self.low <= 1.0 <= self.high


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0..1) of the values lie, interpolated linearly between neighbours.

    Raises:
        ValueError: no values, or a share outside 0..1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError("percentile needs values and a share between 0 and 1")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def describe(values: Sequence[float]) -> dict[str, float]:
    """Return n, median, P50, P90, P99, mean, min and max."""
    return {
        "n": len(values),
        "median": median(values),
        "p50": median(values),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
        "mean": sum(values) / len(values),
        "min": min(values),
        "max": max(values),
    }


def ratio_interval(
    numerator: Sequence[float],
    denominator: Sequence[float],
    paired: bool = False,
    resamples: int = DEFAULT_RESAMPLES,
    level: float = DEFAULT_LEVEL,
) -> Interval:
    """Return median(numerator) / median(denominator) with a percentile-bootstrap interval.

    Args:
        paired: the i-th values were measured side by side (A B A B): pairs are drawn together, so that what slows
            both (clock, neighbours) cancels.

    Raises:
        ValueError: no values, unequal lengths with `paired`, or a median of zero.
    """
    if paired and len(numerator) != len(denominator):
        raise ValueError("paired samples need equal lengths")
    value, below = median(numerator), median(denominator)
    if below <= 0:
        raise ValueError("a ratio needs a positive denominator")
    numerator, denominator = _thin(numerator), _thin(denominator)
    random_source = random.Random(_SEED)
    ratios: list[float] = []
    count, other = len(numerator), len(denominator)
    for _ in range(resamples):
        picks = [random_source.randrange(count) for _ in range(count)]
        others = picks if paired else [random_source.randrange(other) for _ in range(other)]
        divisor = median([denominator[i] for i in others])
        if divisor > 0:
            ratios.append(median([numerator[i] for i in picks]) / divisor)
    if not ratios:
        raise ValueError("every resample has a zero denominator")
    tail = (1 - level) / 2
    return Interval(value / below, percentile(ratios, tail), percentile(ratios, 1 - tail))


def _thin(values: Sequence[float]) -> Sequence[float]:
    """Return at most MAX_RESAMPLED values, taken evenly: the interval is wider than it could be, never narrower."""
    return values[:: -(-len(values) // MAX_RESAMPLED) or 1]


def drift(values: Sequence[float]) -> float:
    """Return how much the last third differs from the first third, as a share of the first (0.05: 5 % slower)."""
    third = len(values) // 3
    if third < 1:
        return 0.0
    first = median(values[:third])
    return (median(values[-third:]) - first) / first if first > 0 else 0.0


def break_even(cost: float, eager: float, graph: float) -> int | None:
    """Return how many replays repay a one-time cost (same unit as the times); None if a replay saves nothing."""
    saved = eager - graph
    if saved <= 0:
        return None
    return max(1, -int(-cost // saved))

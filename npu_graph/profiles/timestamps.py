"""Profiler numbers as integer nanoseconds: a float's step is 0.25 us at today's timestamps; in-graph gaps are less."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

NS_PER_US = 1000
# A longer text is no number that a profiler wrote; it also bounds the work of Decimal.
_LONGEST_NUMBER = 40
_LARGEST_POWER = 17
# Start plus duration must fit 64 bits. This is the year 2043 in nanoseconds; a later time is a broken number.
_LARGEST_NS = 1 << 61


def to_ns(text: object) -> int | None:
    """Return microseconds (text or number, as profilers write them) as whole nanoseconds; None if it is no number.

    Profilers write `1790585112443444.459\\t`, with or without quotes, and durations with 3 to 6 decimals.
    """
    cleaned = str(text).strip().strip('"').strip()
    value = _fast_to_ns(cleaned)
    if value is None:
        value = _slow_to_ns(cleaned)
    return value if value is not None and abs(value) <= _LARGEST_NS else None


def _fast_to_ns(cleaned: str) -> int | None:
    whole, dot, fraction = cleaned.partition(".")
    if whole.isdigit() and len(cleaned) <= _LONGEST_NUMBER and cleaned.isascii():
        if not dot:
            return int(whole) * NS_PER_US
        if fraction.isdigit():
            value = int(whole) * NS_PER_US + int((fraction + "000")[:3])
            return value + 1 if fraction[3:4] >= "5" else value
    return None


def _slow_to_ns(cleaned: str) -> int | None:
    if not cleaned.isascii() or len(cleaned) > _LONGEST_NUMBER:
        return None
    try:
        value = Decimal(cleaned)
    except InvalidOperation:
        return None
    if not value.is_finite() or value.adjusted() > _LARGEST_POWER:
        return None
    return int((value * NS_PER_US).to_integral_value())


def to_us(nanoseconds: float) -> float:
    """Return nanoseconds as microseconds with 3 decimals, for records and texts."""
    return round(nanoseconds / NS_PER_US, 3)


def to_int(text: object) -> int | None:
    """Return a whole number written as text, or None (N/A, empty, hostile length)."""
    cleaned = str(text).strip()
    digits = cleaned[1:] if cleaned.startswith("-") else cleaned
    if digits.isdigit() and digits.isascii() and len(digits) <= 18:
        return int(cleaned)
    return None

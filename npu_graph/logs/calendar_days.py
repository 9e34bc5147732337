"""Dates as days since 1970-01-01, without the datetime module: importing that takes longer than a log's own dates."""

from __future__ import annotations

_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# A period of the Gregorian calendar, counted from a 1 March, so that the leap day is the last of a year.
_YEARS, _DAYS = 400, 146097
# From 0000-03-01 to 1970-01-01.
_TO_EPOCH = 719468


def days_before(year: int, month: int, day: int) -> int | None:
    """Return the days from 1970-01-01 to a date, None where there is no such date (years 1 to 9999)."""
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= _LENGTHS[month - 1] + _leap(year, month)):
        return None
    years = year - (month <= 2)
    days = 365 * years + years // 4 - years // 100 + years // 400
    return days + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - _TO_EPOCH


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    periods, rest = divmod(days + _TO_EPOCH, _DAYS)
    years = (rest - rest // 1460 + rest // 36524 - rest // 146096) // 365
    rest -= 365 * years + years // 4 - years // 100
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    return _YEARS * periods + years + (month >= 10), month + 3 - 12 * (month >= 10), day


def _leap(year: int, month: int) -> bool:
    return month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)

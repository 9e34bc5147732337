"""Times as integer microseconds of the log's own clock: every stamp format, years that are not written, time zones."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from npu_graph.expressions import compile_on_use
from npu_graph.logs.calendar_days import date_of, days_before

SECOND = 1_000_000
DAY = 86400 * SECOND
# A stamp may lie this far after the reference (a clock that runs ahead, a copied file) and still be of its year.
_YEAR_SLACK = 2 * DAY
# A dated line in the file says which year it is for the days after it, up to nearly a year (less the slack above).
_DATED_REACH = 350 * DAY

_DATED = compile_on_use(
    rb"(20\d\d)-(\d\d)-(\d\d)[-T ](\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,3})(?:\.(\d{3})|(\d{1,6}))?)? ?(Z|[+-]\d\d:?\d\d)?"
)
_GLOG = compile_on_use(rb"(20\d\d)?(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})")
_SHORT = compile_on_use(rb"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_SYSLOG = compile_on_use(rb"([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)")
_MONTHS = {m: i for i, m in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}


class Stamp(NamedTuple):
    """A time and how fine it is: the event lies in [us, us + resolution)."""

    us: int
    resolution: int


class Clock:
    """Reads stamps; a year that is not written follows from a reference time, line by line and without state.

    Args:
        reference: latest plausible time of the log (microseconds): the file's own time, or now for a stream.
        source: what the reference is, said in the report.
        zone: offset of the log's local clock from UTC in microseconds, where a file shows both; None when unknown.
    """

    def __init__(self, reference: int, source: str, zone: int | None = None) -> None:
        self.reference = reference
        self.source = source
        self.zone = zone
        self._days: dict[tuple[int, int], int] = {}

    @classmethod
    def after_dated_line(cls, stamp: int, zone: int | None = None) -> Clock:
        """Return the clock of a file that holds a line with a year."""
        return cls(stamp + _DATED_REACH, "dated lines in the file", zone)

    def day(self, month: int, day: int) -> int | None:
        """Return the start of the latest such day that is not after the reference, or None for no such day."""
        known = self._days.get((month, day))
        if known is not None:
            return known
        year = date_of(self.reference // DAY)[0]
        for candidate in range(year + 1, year - 9, -1):  # nine years reach a 29 February
            start = _day_start(candidate, month, day)
            if start is not None and start <= self.reference + _YEAR_SLACK:
                self._days[(month, day)] = start
                return start
        return None

    def dated(self, data: bytes) -> Stamp | None:
        """Parse a stamp with a year at the start of data (plog, PTA, SGLang, Python logging, ISO 8601)."""
        found = _DATED.match(data)
        if found is None:
            return None
        year, month, day, hour, minute, second, milli, micro, more, zone = found.groups()
        start = _day_start(int(year), int(month), int(day))
        if start is None:
            return None
        us = start + _time_of_day(hour, minute, second)
        resolution = SECOND
        if milli:
            digits = (milli + (micro or more or b""))[:6]
            us += int(digits.ljust(6, b"0"))
            resolution = 1 if len(digits) == 6 else 10 ** (6 - len(digits))
        if zone:
            us += (self.zone or 0) - _offset(zone)
        return Stamp(us, resolution)

    def glog(self, data: bytes) -> Stamp | None:
        """Parse `[YYYY]MMDD HH:MM:SS.uuuuuu` at the start of data."""
        found = _GLOG.match(data)
        if found is None:
            return None
        year, month, day, hour, minute, second, micro = found.groups()
        start = _day_start(int(year), int(month), int(day)) if year else self.day(int(month), int(day))
        return None if start is None else Stamp(start + _time_of_day(hour, minute, second) + int(micro), 1)

    def short(self, data: bytes) -> Stamp | None:
        """Parse `MM-DD HH:MM:SS` (vLLM) at the start of data."""
        found = _SHORT.match(data)
        if found is None:
            return None
        month, day, hour, minute, second = found.groups()
        start = self.day(int(month), int(day))
        return None if start is None else Stamp(start + _time_of_day(hour, minute, second), SECOND)

    def syslog(self, data: bytes) -> Stamp | None:
        """Parse `Mon DD HH:MM:SS` (dmesg, syslog) at the start of data."""
        found = _SYSLOG.match(data)
        if found is None or found.group(1) not in _MONTHS:
            return None
        start = self.day(_MONTHS[found.group(1)], int(found.group(2)))
        return None if start is None else Stamp(start + _time_of_day(*found.group(3, 4, 5)), SECOND)


def zone_between(prefix: bytes, inner: Stamp) -> int | None:
    """Return the local clock's offset from UTC, from a zoned prefix stamp and the naive stamp of the same line."""
    found = _DATED.match(prefix)
    if found is None or not found.group(10):
        return None
    utc = Clock(0, "").dated(prefix)
    if utc is None:
        return None
    quarter = 15 * 60 * SECOND
    return round((inner.us - utc.us) / quarter) * quarter


def parse_time(text: str, clock: Clock) -> int | None:
    """Parse what a user types for --since/--until: a full stamp, `MM-DD HH:MM[:SS]`, or a glog stamp."""
    data = text.strip().encode()
    for candidate in (data, data + b":00"):
        for read in (clock.dated, clock.short, clock.glog):
            stamp = read(candidate)
            if stamp is not None:
                return stamp.us
    found = re.fullmatch(rb"(20\d\d)-(\d\d)-(\d\d)", data)
    return _day_start(*map(int, found.groups())) if found else None


def show(us: int | None, resolution: int = 1) -> str:
    """Return a time as text, or '-' when it is not known; a stamp of whole seconds (resolution in µs) as such."""
    if us is None:
        return "-"
    seconds, micro = divmod(us, SECOND)
    days, seconds = divmod(seconds, 86400)
    year, month, day = date_of(days)
    if not 1 <= year <= 9999:
        return "-"
    shown = f"{year:04d}-{month:02d}-{day:02d} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return shown if resolution >= SECOND and not micro else f"{shown}.{micro:06d}"


def local_now() -> int:
    """Return the local time as the naive microseconds that logs are written in."""
    return local_time(time.time())


def local_time(seconds: float) -> int:
    """Return a file time as naive local microseconds."""
    return int((seconds + time.localtime(seconds).tm_gmtoff) * SECOND)


def _day_start(year: int, month: int, day: int) -> int | None:
    days = days_before(year, month, day)
    return days * DAY if days is not None else None


def _time_of_day(hour: bytes, minute: bytes, second: bytes) -> int:
    return (int(hour) * 3600 + int(minute) * 60 + int(second)) * SECOND


def _offset(zone: bytes) -> int:
    if zone == b"Z":
        return 0
    digits = zone.replace(b":", b"")
    minutes = int(digits[1:3]) * 60 + int(digits[3:5])
    return (minutes if zone[:1] == b"+" else -minutes) * 60 * SECOND

"""How the lines of one file begin: a constant prefix before the log's own head, which process mix, which clock."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from npu_graph.expressions import compile_on_use
from npu_graph.logs import stamps
from npu_graph.logs.inputs import Source
from npu_graph.logs.lines import parse_line
from npu_graph.logs.stamps import Clock

# A head of one of the frequent formats, wherever it stands in the first part of a line.
_HEAD = compile_on_use(
    rb"\[(?:DEBUG|INFO|WARNING|ERROR|EVENT|TRACE)\] [A-Za-z_]{2,16}\(\d{1,9}[,:]"
    rb"|[VIWEF]\d{4} \d\d:\d\d:\d\d\.\d{6}"
    rb"|(?:\([A-Za-z][\w .:-]{0,40} pid=\d{1,9}\) ?){1,3}(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:"
    rb"|(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \["
    rb"|\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"
)
_MAX_OFFSET = 160
_PLOG_HEAD = compile_on_use(rb"\[(?:DEBUG|INFO|WARNING|ERROR|EVENT|TRACE)\] [A-Za-z_]{2,16}\(\d")
# With this share of plog lines one look-up on a longer head serves all lines; otherwise plog gets a second one.
_PLOG_SHARE = 0.9
_MIN_PREFIX_SHARE = 0.5


class Layout(NamedTuple):
    """The reading of one file.

    Attributes:
        offset: length of the constant prefix; lines that begin otherwise are read one by one.
        stripped: the prefix has no constant length, so every line's prefix is taken off before dispatch.
        long_heads: nearly all lines are plog.
        clock: reads the stamps.
    """

    offset: int
    stripped: bool
    long_heads: bool
    clock: Clock


def calibrate(head: bytes, source: Source, year: int | None = None) -> Layout:
    """Read the layout off the first bytes of a file; every stretch of the file is read with the same one."""
    lines = head.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # usually cut
    offsets: Counter[int] = Counter()
    plog = known = 0
    for line in lines:
        found = _HEAD.search(line, 0, _MAX_OFFSET + 60)
        if found is None or found.start() > _MAX_OFFSET:
            continue
        known += 1
        offsets[found.start()] += 1
        plog += bool(_PLOG_HEAD.match(line, found.start()))
    offset, stripped = 0, False
    if known:
        best, number = max(offsets.items(), key=lambda item: (item[1], -item[0]))
        moved = known - offsets[0]
        if number >= _MIN_PREFIX_SHARE * known:
            offset = best
        elif moved >= _MIN_PREFIX_SHARE * known:
            stripped = True
    return Layout(offset, stripped, plog >= _PLOG_SHARE * max(len(lines), 1), _clock(lines, source, year))


def _clock(lines: list[bytes], source: Source, year: int | None) -> Clock:
    if year is not None:
        end = stamps.parse_time(f"{year}-12-31", Clock(0, "")) or 0
        return Clock(end, "--year")
    now = Clock(stamps.local_now(), "now")
    if source.path != "-" and source.mtime:
        now = Clock(stamps.local_time(source.mtime), "the file's time")
    zone = None
    dated = None
    sample = lines[:400]
    is_zoned = any(line.startswith(b"20") for line in sample)
    for line in sample:
        if dated is not None and (zone is not None or not is_zoned):
            break
        parsed = parse_line(line, now)
        if parsed.stamp is None:
            continue
        if zone is None:
            zone = stamps.zone_between(line, parsed.stamp)
        if dated is None and parsed.form in ("plog", "pta", "sglang", "python", "torch_npu_old"):
            dated = parsed.stamp.us
    if dated is not None:
        return Clock.after_dated_line(dated, zone)
    now.zone = zone
    return now

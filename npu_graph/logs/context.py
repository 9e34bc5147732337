"""The lines around a place that the report quotes, read again from the file they stand in."""

from __future__ import annotations

import gzip
import zlib
from itertools import islice
from pathlib import Path
from typing import Sequence

from npu_graph.logs.inputs import BLOCK
from npu_graph.logs.lines import parse_line
from npu_graph.logs.partial import Partial
from npu_graph.logs.stamps import SECOND, Clock
from npu_graph.logs.timeline import Place

BEFORE, AFTER = 20, 60
# Lines stamped outside this window around the failure belong to something else.
_EARLIER, _LATER = 30 * SECOND, 10 * SECOND
_MAX_SHOWN = 2000


def attach_contexts(partial: Partial, places: Sequence[tuple[Place, int | None]], host: str) -> None:
    """Read the lines around each place (and time) of this host's files that is not known yet.

    A file that has gone since is left out.
    """
    marks = {info.id: segment.marks for info, segment in partial.sources()}
    for place, us in places:
        info = partial.infos.get(place.source)
        if (place.source, place.line) in partial.contexts or info is None or info.host != host or info.path == "-":
            continue
        lines = read_around(Path(info.path), place.line, marks=marks.get(place.source, ()))
        if lines:
            partial.contexts[(place.source, place.line)] = _of_one_time(lines, place.line, us)


def _of_one_time(lines: list[tuple[int, str]], line: int, us: int | None) -> list[tuple[int, str]]:
    """Drop lines from before and after the window; a line without a stamp belongs to the one before it."""
    if us is None:
        return lines
    clock = Clock.after_dated_line(us)
    first, last = lines[0][0], lines[-1][0]
    for number, text in lines:
        stamp = parse_line(text.encode(), clock).stamp
        if stamp is None:
            continue
        if number < line and stamp.us < us - _EARLIER:
            first = number + 1
        elif number > line and stamp.us > us + _LATER:
            last = number - 1
            break
    return [item for item in lines if first <= item[0] <= last]


def read_around(
    path: Path, line: int, before: int = BEFORE, after: int = AFTER, marks: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, str]]:
    """Return (number, text) of the lines around a line (1-based) of a plain or gzip file; [] when it cannot be read.

    Args:
        marks: (lines before, offset) of some lines of a plain file, in order: reading begins at the last that will do.
    """
    first = max(1, line - before)
    passed, start = next((mark for mark in reversed(marks) if mark[0] < first), (0, 0))
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        opened = gzip.open(path, "rb") if packed else path.open("rb")  # noqa: SIM115
        with opened as stream:
            stream.seek(start)
            rest = b""
            while True:
                block = stream.read(BLOCK)
                if not block:
                    break
                ends = block.count(b"\n")
                if passed + ends >= first - 1:
                    rest = block
                    break
                passed += ends
            at = 0
            while passed < first - 1:
                at = rest.find(b"\n", at) + 1
                if not at:
                    return []
                passed += 1
            text = rest[at:]
            wanted = before + after + 1
            while text.count(b"\n") < wanted and len(text) < (8 << 20):
                block = stream.read(BLOCK)
                if not block:
                    break
                text += block
    except (OSError, EOFError, zlib.error):
        return []
    pieces = text.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    shown = islice(pieces, min(wanted, line + after - first + 1))
    return [(first + at, _shown(raw)) for at, raw in enumerate(shown)]


def _shown(raw: bytes) -> str:
    return raw[:_MAX_SHOWN].rstrip(b"\r").decode("utf-8", "replace")

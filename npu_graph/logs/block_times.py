"""When the lines of a block were written: a line without a stamp has that of the last stamped line before it."""

from __future__ import annotations

from typing import Iterable, Sequence

from npu_graph.logs.dispatch import FIRST_ENTRY
from npu_graph.logs.lines import LogLine, read_stamp
from npu_graph.logs.stamps import Clock

# Heads of formats that have a stamp: all but UNKNOWN and SKIP.
_STAMPED = frozenset([*range(1, 5), *range(6, 10), *range(FIRST_ENTRY, 256)])


class BlockTimes:
    """Finds the stamps of a block's lines; those that nobody asks for are not read.

    Args:
        clock: reads the stamps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin([], b"", None)

    def begin(self, raw: Sequence[bytes], codes: bytes, before: tuple[int, int] | None) -> None:
        """Take the lines of the next block and the codes of their heads; `before` is the last stamp before them."""
        self._raw, self._codes, self._before = raw, codes, before
        self._ahead: tuple[int, int, tuple[int, int] | None] = (0, 0, None)  # what `after` found last
        self.start_over()

    def start_over(self) -> None:
        """Forget where the walk through the block is: the next line asked for may be any."""
        self._walked, self._walked_stamp = -1, self._before

    def first(self, order: Iterable[int]) -> tuple[int, int] | None:
        """Return the stamp of the first line in this order whose head is of a stamped format."""
        for index in order:
            if self._codes[index] in _STAMPED:
                stamp = read_stamp(self._raw[index], self._clock)
                if stamp is not None:
                    return stamp.us, stamp.resolution
        return None

    def last(self) -> tuple[int, int] | None:
        """Return the stamp of the block's last stamped line, or of what was before the block."""
        return self.first(range(len(self._raw) - 1, -1, -1)) or self._before

    def after(self, index: int) -> tuple[int, int] | None:
        """Return the stamp of the next stamped line of the block; the lines passed are not read again."""
        start, at, stamp = self._ahead
        if not start <= index < at:
            stamp = None
            for at in range(index + 1, len(self._raw)):
                stamp = self.first((at,))
                if stamp is not None:
                    break
            self._ahead = (index, at if stamp is not None else len(self._raw), stamp)
        return stamp

    def of_line(self, index: int, line: LogLine) -> tuple[int | None, int, bool]:
        """Return microseconds, resolution, and whether they are an earlier line's; indexes are asked for in order."""
        if line.stamp is not None:
            return line.stamp.us, line.stamp.resolution, False
        stamp = self.first(range(index - 1, self._walked, -1)) or self._walked_stamp
        self._walked, self._walked_stamp = index - 1, stamp
        return (None, 0, False) if stamp is None else (stamp[0], stamp[1], True)

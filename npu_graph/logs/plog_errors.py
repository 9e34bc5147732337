"""Errors of plog that were met before: counted by process and place in the source, and not read again."""

from __future__ import annotations

from typing import Sequence

from npu_graph.logs.lines import parse_line
from npu_graph.logs.segment import Segment
from npu_graph.logs.stamps import Clock

MARK = b"[ERROR] "
# What a rank writes into the line of another process.
TORN_IN = b"[rank"
# After MARK come the process with a stamp of 27 bytes, and the place; a process whose name has a space is read.
_STAMP = -27
_HEAD_MOST = 180


class _Known:
    """An error whose module, process and place in the source were met before."""

    __slots__ = ("count", "key", "last", "line", "pid")

    def __init__(self, pid: str, key: str) -> None:
        self.pid, self.key = pid, key
        self.count = self.line = 0
        self.last = b""


class PlogErrors:
    """Counts errors of one stretch.

    Args:
        offset: where a line's head begins.
        counts_processes: whether the heads of lines were counted for their process already.
        most: how many kinds of errors are known at the same time.
    """

    def __init__(self, offset: int, counts_processes: bool, most: int) -> None:
        self._offset = offset
        self._counts_processes = counts_processes
        self._most = most
        # `RUNTIME(12345,python3):` and `[stream.cpp:181`
        self._known: dict[tuple[bytes, bytes], _Known] = {}

    def count(self, lines: Sequence[bytes], where: Sequence[int], base: int) -> list[int]:
        """Count lines that begin with MARK; returns the indexes of those that are to be read.

        Args:
            where: index of each line; `base` is the line number of index 0.
        """
        begin, end = self._offset + len(MARK), self._offset + _HEAD_MOST
        known = self._known
        unknown = []
        for line, index in zip(lines, where):
            head = line[begin:end].split(b" ", 2)
            error = known.get((head[0][:_STAMP], head[1][: head[1].find(b"]")])) if len(head) == 3 else None
            if error is None or line.find(MARK, begin) > 0 or line.find(TORN_IN, begin) > 0:
                unknown.append(index)
                continue
            error.count += 1
            error.line = index + base
            error.last = line
        return unknown

    def is_counted(self, line: bytes) -> bool:
        """Say whether a line with MARK in it is one that `count` counts or has returned."""
        o = self._offset
        return line.startswith(MARK, o) and line.count(MARK) == 1 and line[o + 8 : o + 9].isalpha()

    def remember(self, line: bytes, module: str, pid: str, key: str) -> None:
        """Make further errors of the same module, process and place known, if such a line tells them all."""
        o = self._offset
        head = line[o + len(MARK) : o + _HEAD_MOST].split(b" ", 2)
        if not line.startswith(MARK, o) or len(head) < 3 or len(self._known) >= self._most:
            return
        process, place = head[0][:_STAMP], head[1][: head[1].find(b"]")]
        if process.startswith(module.encode() + b"(") and key.encode() == module.encode() + b" " + place[1:]:
            self._known.setdefault((process, place), _Known(pid, key))

    def flush(self, segment: Segment, clock: Clock) -> None:
        """Add what was counted to the segment."""
        for error in self._known.values():
            segment.errors += error.count
            if not error.count:
                continue
            line = parse_line(error.last, clock)
            segment.describe(error.pid, error.line, line)
            segment.process(error.pid).lines += 0 if self._counts_processes else error.count
            cluster = segment.clusters.get((error.pid, error.key))
            if cluster is not None:
                cluster.count += error.count
                if error.line > cluster.last[0] and line.stamp is not None:
                    cluster.last = (error.line, line.stamp.us, line.stamp.resolution, False)

"""Errors of plog that were met before: counted by process and place in the source, and not read again."""

from __future__ import annotations

from itertools import compress
from operator import itemgetter, methodcaller
from typing import Callable, Dict, Sequence, Tuple

from npu_graph.logs.lines import parse_line
from npu_graph.logs.segment import Segment
from npu_graph.logs.stamps import Clock

MARK = b"[ERROR] "
# What a rank writes into the line of another process.
TORN_IN = b"[rank"
# After MARK come the process with a stamp of 27 bytes, and the place; a process whose name has a space is read.
_STAMP = -27
_HEAD_MOST = 180
# Codes of errors that were met before, one byte each: further kinds are looked up line by line.
_UNKNOWN, _FURTHER, _FIRST, _LAST = 0, 1, 2, 255
_MAX_CACHED = 1 << 14


class _Known:
    """An error whose module, process and place in the source were met before."""

    __slots__ = ("count", "key", "last", "line", "pid")

    def __init__(self, pid: str, key: str) -> None:
        self.pid, self.key = pid, key
        self.count = self.line = 0
        self.last = b""


_SPLIT, _FIRST_WORD, _SECOND_WORD, _WITHOUT_STAMP = (
    methodcaller("split", b" ", 2),
    itemgetter(0),
    itemgetter(1),
    itemgetter(slice(None, _STAMP)),
)
_IS_UNKNOWN, _IS_FURTHER = (bytes(code == chosen for code in range(256)) for chosen in (_UNKNOWN, _FURTHER))


class _Codes(Dict[Tuple[bytes, bytes], int]):
    """The first two words after MARK, the process without its stamp, to the code of an error."""

    def __init__(self, code: Callable[[bytes, bytes], int]) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, words: tuple[bytes, bytes]) -> int:
        code = self._code(*words)
        if code != _UNKNOWN:
            if len(self) >= _MAX_CACHED:  # the second word ends in a thread's number
                self.clear()
            self[words] = code
        return code


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
        self._by_code: list[_Known] = []
        self._code = _Codes(self._code_of).__getitem__
        self._after_mark = itemgetter(slice(offset + len(MARK), offset + _HEAD_MOST))

    def count(self, lines: Sequence[bytes], where: Sequence[int], base: int) -> list[int]:
        """Count lines that begin with MARK; returns the indexes of those that are to be read.

        Args:
            where: index of each line; `base` is the line number of index 0.
        """
        codes = self._codes(lines)
        if codes is None:
            return self._count_one_by_one(lines, where, base)
        for code in set(codes):
            if code >= _FIRST:
                error = self._by_code[code - _FIRST]
                error.count += codes.count(code)
                last = codes.rfind(code)
                error.line, error.last = where[last] + base, lines[last]
        further = codes.translate(_IS_FURTHER)
        unknown = list(compress(where, codes.translate(_IS_UNKNOWN)))
        if 1 in further:
            unknown += self._count_one_by_one(list(compress(lines, further)), list(compress(where, further)), base)
        return unknown

    def _codes(self, lines: Sequence[bytes]) -> bytes | None:
        """Return one code per line, or None where a line may hold more than one record or is of another form."""
        text = b"".join(lines)
        if text.count(MARK) != len(lines) or TORN_IN in text:
            return None
        words = list(map(_SPLIT, map(self._after_mark, lines)))
        if min(map(len, words)) < 3:
            return None
        processes = map(_WITHOUT_STAMP, map(_FIRST_WORD, words))
        return bytes(map(self._code, zip(processes, map(_SECOND_WORD, words))))

    def _code_of(self, process: bytes, place: bytes) -> int:
        error = self._known.get((process, place[: place.find(b"]")]))
        if error is None:
            return _UNKNOWN
        if error in self._by_code:
            return _FIRST + self._by_code.index(error)
        if _FIRST + len(self._by_code) > _LAST:
            return _FURTHER
        self._by_code.append(error)
        return _FIRST + len(self._by_code) - 1

    def _count_one_by_one(self, lines: Sequence[bytes], where: Sequence[int], base: int) -> list[int]:
        begin = self._offset + len(MARK)
        known = self._known
        unknown = []
        for line, index in zip(lines, where):
            head = self._after_mark(line).split(b" ", 2)
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

"""Decides from the first bytes of a line what it can tell: tables that are asked once per distinct head."""

from __future__ import annotations

from itertools import chain
from typing import Dict, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.logs.second_codes import FIRST_SECOND, SecondCodes
from npu_graph.logs.signatures import (
    EVENT_SIGNALS,
    GLOG_CHECKED_FILES,
    GLOG_CHECKS,
    GLOG_NOISE_FILES,
    GLOG_SIGNAL_FILES,
    PLOG_SIGNALS,
)

# Codes of a line's head. 16 to 191 stand for an Entry: lines of one program, level and process; those above stand for a
# second of torch_npu's lines.
UNKNOWN, GLOG_DEBUG, GLOG_INFO, GLOG_WARNING, PLOG, SKIP, SLOW, SERVICE, SGLANG, BAD = range(10)
FIRST_ENTRY = 16
LAST_ENTRY = FIRST_SECOND - 1
# `V1203 11:20:42`
SHORT_HEAD = 14
LONG_HEAD = 32
# After `V1203 11:20:42.582991 ` come the process id and the source file.
GLOG_FROM, GLOG_TO = 22, 80
_MAX_CACHED = 1 << 16
# A line that begins with so many spaces says nothing of its own.
_INDENT = 12

NOISE, ERROR, CHECK, SIGNAL = "noise", "error", "check", "signal"

_PLOG_HEAD = compile_on_use(rb"\[([A-Z_]{3,12})\] ?([A-Za-z_]\w{0,23})\((\d{1,9})[,:]")
_GLOG_REST = compile_on_use(rb"(\d{1,9})(?: ([^\]\s]{1,300}))?\]?")
GLOG = frozenset([GLOG_DEBUG, GLOG_INFO, GLOG_WARNING])
_GLOG_CODES = {b"V": GLOG_DEBUG, b"D": GLOG_DEBUG, b"I": GLOG_INFO, b"W": GLOG_WARNING}
_MONTHS = frozenset(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
_LEVELS = frozenset([b"DEBUG", b"INFO", b"WARNING", b"ERROR", b"EVENT", b"TRACE", b"RUN_INFO"])


class Entry:
    """Lines of one program, level and process: what to do with them, and where they were first and last seen."""

    __slots__ = (
        "action",
        "code",
        "count",
        "errors",
        "first",
        "first_line",
        "form",
        "last",
        "last_line",
        "level",
        "literals",
        "module",
        "pid",
    )

    def __init__(self, form: str, level: str, module: str, pid: str, action: str, literals: tuple[bytes, ...]) -> None:
        self.form, self.level, self.module, self.pid = form, level, module, pid
        self.action, self.literals = action, literals
        self.code = SLOW
        self.count = 0
        self.first: bytes | None = None
        self.last: bytes = b""
        self.first_line = self.last_line = 0


class Entries:
    """All entries of a scan by code; when the codes run out, further heads are read line by line.

    Attributes:
        checked: literals -> the codes whose lines are searched for them.
        of_action: action -> codes.
    """

    def __init__(self) -> None:
        self.by_code: dict[int, Entry] = {}
        self.checked: dict[tuple[bytes, ...], list[int]] = {}
        self.of_action: dict[str, set[int]] = {NOISE: set(), ERROR: set(), CHECK: set(), SIGNAL: set()}
        self._by_name: dict[tuple[str, str, str, str, str], int] = {}

    def present(self, codes: bytes) -> set[int]:
        """Return which codes occur; quicker than a set of the bytes, of which there are many."""
        return {code for code in chain(range(FIRST_ENTRY), self.by_code) if code in codes}

    def note(
        self, codes: bytes, present: set[int], where: Sequence[int], raw: Sequence[bytes], base: int
    ) -> dict[int, int]:
        """Count each entry's lines, and remember the first and the last; returns the counts by code.

        Args:
            codes: of consecutive lines; `present` is their set.
            where: index in `raw` of each of the lines; `base` is the line number of the first of `raw`.
        """
        by_code = self.by_code
        counts = {}
        for code in present:
            if code >= FIRST_ENTRY:
                entry = by_code[code]
                counts[code] = codes.count(code)
                entry.count += counts[code]
                last = where[codes.rfind(code)]
                entry.last, entry.last_line = raw[last], last + base
                if entry.first is None:
                    first = where[codes.find(code)]
                    entry.first, entry.first_line = raw[first], first + base
        return counts

    def code(self, entry: Entry) -> int:
        name = (entry.form, entry.level, "".join(map(repr, entry.literals)), entry.pid, entry.action)
        known = self._by_name.get(name)
        if known is not None:
            return known
        code = FIRST_ENTRY + len(self.by_code)
        if code > LAST_ENTRY:
            return SLOW
        entry.code = code
        self.by_code[code] = entry
        self._by_name[name] = code
        self.of_action[entry.action].add(code)
        if entry.action == CHECK:
            self.checked.setdefault(entry.literals, []).append(code)
        return code


class _Table(Dict[bytes, int]):
    """A dict that computes a missing value once, and starts over rather than grow without bound."""

    def __missing__(self, head: bytes) -> int:
        code = self.decide(head)
        if len(self) >= _MAX_CACHED:
            self.clear()
        self[head] = code
        return code

    def decide(self, head: bytes) -> int:
        raise NotImplementedError


class FormatTable(_Table):
    """Short heads: which format, and which second."""

    def __init__(self, seconds: SecondCodes) -> None:
        super().__init__()
        self._seconds = seconds

    def decide(self, head: bytes) -> int:
        code = head_code(head)
        return self._seconds.code(head, code) if code in GLOG and len(head) == SHORT_HEAD else code

    def begin_block(self) -> None:
        """Make room for the seconds of a block."""
        if self._seconds.is_short:
            for head in self._seconds.start_over():
                self.pop(head, None)


class HeadTable(FormatTable):
    """Short heads: which format, and for plog what its level and module can tell.

    A short head does not reach the process id, so routine plog lines count for no process here; in a file that is
    nearly all plog, PlogTable reads it.
    """

    def __init__(self, entries: Entries, seconds: SecondCodes) -> None:
        super().__init__(seconds)
        self._entries = entries

    def decide(self, head: bytes) -> int:
        code = super().decide(head)
        if code != PLOG:
            return code
        level, _, module = head[1:].partition(b"] ")
        return self._entries.code(_plog_entry(level, module.partition(b"(")[0], b""))


def _plog_entry(level: bytes, module: bytes, pid: bytes) -> Entry:
    """Return what lines of a level and a module (or the first letters of one) are good for."""
    action, literals = NOISE, ()  # type: tuple[str, tuple[bytes, ...]]
    if level == b"ERROR":
        action = ERROR
    elif level in (b"EVENT", b"RUN_INFO") and b"RUNTIME".startswith(module):
        action, literals = CHECK, EVENT_SIGNALS
    else:
        for name, signals in PLOG_SIGNALS.items():
            if name.startswith(module) and len(module) > 1:
                action, literals = CHECK, signals
    # Noise and errors are counted per process and level; the module of an error is read from its line.
    return Entry("plog", level.decode(), "", pid.decode(), action, literals)


class PlogTable(_Table):
    """Long heads: for plog the entry, for the rest the format."""

    def __init__(self, entries: Entries, seconds: SecondCodes) -> None:
        super().__init__()
        self._entries = entries
        self._formats = FormatTable(seconds)
        self.begin_block = self._formats.begin_block

    def __missing__(self, head: bytes) -> int:
        # Only heads of plog are kept: those of other formats hold a stamp or a number, so that no two are the same.
        code = self._formats[head[:SHORT_HEAD]]
        return super().__missing__(head) if code == PLOG else code

    def decide(self, head: bytes) -> int:
        found = _PLOG_HEAD.match(head)
        if found is None:
            return SLOW
        return self._entries.code(_plog_entry(*found.groups()))


class GlogTable(_Table):
    """What follows the stamp of a torch_npu or torch line: the entry of its process and kind of file."""

    def __init__(self, entries: Entries) -> None:
        super().__init__()
        self._entries = entries

    def decide(self, head: bytes) -> int:
        found = _GLOG_REST.match(head)
        if found is None:
            return SLOW
        pid, file = found.groups()
        literals: tuple[bytes, ...] = ()
        if file is None:
            if b"[ACL CALL] " not in head:
                return SLOW
            action = SLOW if b"aclmdlRI" in head or head.endswith(b"acl") else NOISE
            if action == SLOW:
                return SLOW
        elif any(name in file for name in GLOG_SIGNAL_FILES):
            action = SIGNAL
        elif any(name in file for name in GLOG_NOISE_FILES):
            action = NOISE
        elif any(name in file for name in GLOG_CHECKED_FILES):
            action, literals = CHECK, GLOG_CHECKS
        else:
            return SLOW
        return self._entries.code(Entry("torch_npu", "", "", pid.decode(), str(action), literals))


def head_code(head: bytes) -> int:
    """Return the format of a line from its first bytes."""
    first = head[:1]
    if first == b"[":
        end = head.find(b"]")
        if head[1:end] in _LEVELS and head[end + 1 : end + 2] == b" " and not head[end + 2 : end + 3].isdigit():
            return PLOG
        if head[1:4] in (b"202", b"203") and head[5:6] == b"-":
            return SGLANG
        return SLOW
    if head[5:6] == b" " and first in b"VDIWEF" and head[1:5].isdigit():
        return _GLOG_CODES.get(first, BAD)
    if first == b"(" or head.startswith((b"INFO ", b"DEBUG ", b"WARNING ")):
        return SERVICE
    if head.startswith((b"ERROR ", b"CRITICAL ", b"FATAL ")):
        return BAD
    if not head[:_INDENT].strip() or head.startswith((b'  File "', b'    File "', b"INFO:     1")):
        return SKIP
    if head[:2] == b"20" and head[4:5] == b"-":  # Python's logging
        return SLOW
    if first in b"DIWEF" and first and head[1:9].isdigit():  # glog with a year
        return SLOW if first not in {b"E", b"F"} else BAD
    if head[:3] in _MONTHS and head[3:4] == b" ":
        return SLOW
    if first in b"EW" and head[2:6].isdigit():  # EZ9999: ..., E39999[PID: ...
        return BAD if first == b"E" else SLOW
    return UNKNOWN

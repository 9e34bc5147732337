"""One pass over a stretch of a log: noise is told from signal by line heads, at the speed of the C loops beneath."""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, compress, repeat
from operator import add, itemgetter
from typing import Callable, Dict, Sequence

from npu_graph.logs import dispatch
from npu_graph.logs.dispatch import CHECK, ERROR, SIGNAL, Entries, Entry, GlogTable, HeadTable, PlogTable
from npu_graph.logs.errors import error_key, is_error, is_retraction
from npu_graph.logs.layout import Layout
from npu_graph.logs.lines import BAD_LEVELS, MAX_TEXT, LogLine, parse_line
from npu_graph.logs.replays import Replays
from npu_graph.logs.segment import MAX_CLUSTERS, MAX_EVENTS, TEXT_KEPT, Cluster, Event, Segment
from npu_graph.logs.signatures import HUBS, SERVICE_NOISE_FILES, SGLANG_NOISE, find_event
from npu_graph.logs.stamps import Clock

_NO_TIME = -(1 << 62)
_WAITING_MOST = 1 << 17
_UNCOUNTED_MOST = 1 << 20
_PREFIX = re.compile(
    rb"(?:20\d\d-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (?:(?:stdout|stderr) [FP] )?)?"
    rb"(?:[A-Za-z0-9][\w.-]{0,60} {0,30}\| ?|\[(?:pod|container)/[\w./-]{1,200}\] "
    rb"|\[(?:rank|default|stdout|stderr) ?\d{1,5}\]:? ?(?!\[W))?"
)
_GLUED = re.compile(rb"\[(?:ERROR|WARNING|INFO|EVENT)\] [A-Z]{2,16}\(\d{1,9},")
# What is asked of every block, to be sure that no error hides in a line that its head called noise.
_VERIFIED = b"[ERROR] "


def _mask(*codes: int) -> bytes:
    return bytes(1 if code in codes else 0 for code in range(256))


@lru_cache(maxsize=256)
def _cached_mask(codes: tuple[int, ...]) -> bytes:
    return _mask(*codes)


_IS_GLOG = _mask(dispatch.GLOG_DEBUG, dispatch.GLOG_INFO, dispatch.GLOG_WARNING)
_IS_SERVICE = _mask(dispatch.SERVICE)
_IS_SGLANG = _mask(dispatch.SGLANG)
_IS_RESIDUE = _mask(dispatch.UNKNOWN, dispatch.SLOW)
_IS_BAD = _mask(dispatch.BAD)
_STAMPED = frozenset([*range(1, 5), *range(6, 10), *range(dispatch.FIRST_ENTRY, 256)])
_GLOG_LEVELS = ((dispatch.GLOG_DEBUG, "DEBUG"), (dispatch.GLOG_INFO, "INFO"), (dispatch.GLOG_WARNING, "WARNING"))


class _Seconds(Dict[bytes, int]):
    """`MMDD HH:MM:SS` to microseconds, computed once a second."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def __missing__(self, text: bytes) -> int:
        stamp = self._clock.glog(text + b".000000")
        us = stamp.us if stamp is not None else _NO_TIME
        if len(self) > 100000:
            self.clear()
        self[text] = us
        return us


class _Tails(Dict[bytes, int]):
    """The rest of a graph line after its stamp to a graph's number; 0 is noise, -1 asks for a reading of the line."""

    def __init__(self, slot: Callable[[bytes], int]) -> None:
        super().__init__()
        self._slot = slot

    def __missing__(self, tail: bytes) -> int:
        at = tail.find(b"NPUGRAPH ")
        word = tail[at + 9 : at + 12] if at >= 0 else b""
        if word == b"All" or b"Child AllocateToPool" in tail:
            return 0
        if word != b"Rep":
            return -1
        number = self._slot(tail)
        if len(self) > 65536:
            self.clear()
        self[tail] = number
        return number


class _Repeated:
    """An error whose line was met before, letter by letter apart from its stamp."""

    __slots__ = ("count", "form", "index", "key", "level", "pid")

    def __init__(self, form: str, level: str, pid: str, key: str) -> None:
        self.form, self.level, self.pid, self.key = form, level, pid, key
        self.count = 0
        self.index = 0


class _KnownError:
    """An error of plog whose module, process and place in the source were met before."""

    __slots__ = ("count", "key", "last", "line", "pid")

    def __init__(self, pid: str, key: str) -> None:
        self.pid, self.key = pid, key
        self.count = self.line = 0
        self.last = b""


class Scanner:
    """Scans consecutive blocks of one stretch of one file.

    Args:
        layout: the file's layout.
        start: offset of the stretch in the file.
        since, until: microseconds; events and errors outside are left out.
    """

    def __init__(self, layout: Layout, start: int = 0, since: int | None = None, until: int | None = None) -> None:
        self.segment = Segment(start)
        self._layout = layout
        self._clock = layout.clock
        self._since = since
        self._until = until
        self._entries = Entries()
        o = self._o = 0 if layout.stripped else layout.offset
        plog = PlogTable(self._entries)
        self._long = layout.long_heads
        self._head_code = plog.__getitem__ if self._long else HeadTable(self._entries).__getitem__
        self._head = itemgetter(slice(o, o + (dispatch.LONG_HEAD if self._long else dispatch.SHORT_HEAD)))
        self._glog_code = GlogTable(self._entries).__getitem__
        self._glog_head = itemgetter(slice(o + dispatch.GLOG_FROM, o + dispatch.GLOG_TO))
        self._second = _Seconds(layout.clock).__getitem__
        self._second_text = itemgetter(slice(o + 1, o + 14))
        self._micro_text = itemgetter(slice(o + 15, o + 21))
        self._tail_text = itemgetter(slice(o + dispatch.GLOG_FROM, None))
        self._tail = _Tails(self._new_slot).__getitem__
        self._slots: list[tuple[str, str, str]] = [("", "", "")]
        # Replays wait here until there are many, so that one graph's are added in one go: per graph, positions in
        # the two lists of all waiting replays.
        self._waiting: list[list[int]] = [[]]
        self._push: list[Callable[[int], None]] = [self._waiting[0].append]
        self._waiting_lines: list[int] = []
        self._waiting_times: list[int] = []
        self._service: dict[bytes, Entry] = {}
        self._uncounted = bytearray()
        self._repeats: dict[bytes, _Repeated] = {}
        self._known_errors: dict[tuple[bytes, bytes], _KnownError] = {}

    # -- one block ---------------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """Scan a block of whole lines."""
        raw = io.BytesIO(block).readlines()
        lines = [line[_PREFIX.match(line).end() :] for line in raw] if self._layout.stripped else raw  # type: ignore[union-attr]
        self._raw, self._lines, self._base = raw, lines, self.segment.lines + 1
        self._before_block = self.segment.last_stamp
        self._walked, self._walked_stamp = -1, self._before_block
        number = len(lines)
        codes = bytes(map(self._head_code, map(self._head, lines)))
        self._codes = codes
        present = set(codes)
        hits: set[int] = set()
        self._captures: dict[tuple[str, str, str], list[int]] = {}
        counted = self._plog(lines, codes, present, hits)
        residue: list[int] = []
        if present & {1, 2, 3}:
            self._glog(codes, hits, residue)
        if dispatch.SERVICE in present:
            self._service_lines(compress(range(number), codes.translate(_IS_SERVICE)), hits, residue)
        if dispatch.SGLANG in present:
            self._sglang_lines(compress(range(number), codes.translate(_IS_SGLANG)), hits, residue)
        if dispatch.BAD in present:
            hits.update(compress(range(number), codes.translate(_IS_BAD)))
        if dispatch.UNKNOWN in present or dispatch.SLOW in present:
            residue += compress(range(number), codes.translate(_IS_RESIDUE))
        if residue:
            self._search_residue(residue, hits)
        if _VERIFIED in block and self._hidden_errors(block, hits, counted):
            for index, line in enumerate(lines):
                if _VERIFIED in line and index not in hits and not self._is_counted_error(index):
                    hits.add(index)
        for index in sorted(hits):
            self._read(index)
        self._count_repeats()
        if self._captures or len(self._waiting_lines) > _WAITING_MOST:
            self._commit_replays(self._captures)
        self._finish_block(number)

    def _hidden_errors(self, block: bytes, hits: set[int], counted: int) -> bool:
        """Say whether the block holds more error marks than were found by the heads of lines."""
        return block.count(_VERIFIED) > counted + sum(self._lines[index].count(_VERIFIED) for index in hits)

    def _is_counted_error(self, index: int) -> bool:
        line = self._lines[index]
        return (
            line.startswith(b"[ERROR] ", self._o)
            and line.count(_VERIFIED) == 1
            and line[self._o + 8 : self._o + 9].isalpha()
        )

    def _finish_block(self, number: int) -> None:
        segment = self.segment
        if segment.first_us is None:
            stamp = self._first_stamp(range(number))
            segment.first_us = stamp[0] if stamp is not None else None
        segment.last_stamp = self._first_stamp(range(number - 1, -1, -1)) or segment.last_stamp
        segment.lines += number
        if len(segment.clusters) > 2 * MAX_CLUSTERS:
            segment.trim_clusters()
        if len(segment.events) > MAX_EVENTS:
            segment.dropped_events += len(segment.events) - MAX_EVENTS
            del segment.events[MAX_EVENTS:]

    def _first_stamp(self, order: Sequence[int]) -> tuple[int, int] | None:
        """Return the stamp of the first line in this order whose head is of a stamped format."""
        for index in order:
            if self._codes[index] in _STAMPED:
                parsed = parse_line(self._raw[index], self._clock)
                if parsed.stamp is not None:
                    return parsed.stamp.us, parsed.stamp.resolution
        return None

    # -- formats ------------------------------------------------------------------------------------------------

    def _note_entries(self, codes: bytes, where: Sequence[int], present: set[int]) -> None:
        """Remember each entry's first and last line; the counting waits until there is much to count."""
        raw, base, by_code = self._raw, self._base, self._entries.by_code
        for code in present:
            if code >= dispatch.FIRST_ENTRY:
                entry = by_code[code]
                last = where[codes.rfind(code)]
                entry.last, entry.last_line = raw[last], last + base
                if entry.first is None:
                    first = where[codes.find(code)]
                    entry.first, entry.first_line = raw[first], first + base
        self._uncounted += codes
        if len(self._uncounted) > _UNCOUNTED_MOST:
            self._count_entries()

    def _count_entries(self) -> None:
        for code in set(self._uncounted):
            entry = self._entries.by_code.get(code)
            if entry is not None:
                entry.count += self._uncounted.count(code)
        self._uncounted.clear()

    def _plog(self, lines: Sequence[bytes], codes: bytes, present: set[int], hits: set[int]) -> int:
        """Count plog lines per entry; collect errors and lines with a signal. Returns how many errors were counted."""
        entries = self._entries
        where = range(len(lines))
        self._note_entries(codes, where, present)
        counted = 0
        bad = present & entries.of_action[ERROR]
        if bad:
            mask = codes.translate(_cached_mask(tuple(sorted(bad))))
            counted = self._plog_errors(list(compress(lines, mask)), list(compress(where, mask)), hits)
        if present & entries.of_action[CHECK]:
            for literals, codes_mask in entries.checked.items():
                self._search(lines, where, codes.translate(codes_mask), literals, hits)
        return counted

    def _plog_errors(self, lines: list[bytes], where: list[int], hits: set[int]) -> int:
        """Count errors known by their place in the source; the others are to be read. Returns how many were counted."""
        o = self._o
        counted = 0
        known = self._known_errors
        windowed = self._since is not None or self._until is not None
        for line, index in zip(lines, where):
            start = line.find(b" [", o + 20, o + 140) + 2
            process = line[o + 8 : line.find(b",", o + 8, o + 40)]
            place = line[start : line.find(b"]", start, start + 120)]
            error = known.get((process, place))
            if error is None or windowed or line.find(_VERIFIED, o + 8) > 0:
                hits.add(index)
                continue
            counted += 1
            error.count += 1
            error.line = index + self._base
            error.last = line
        return counted

    def _glog(self, codes: bytes, hits: set[int], residue: list[int]) -> None:
        number = len(codes)
        mask = codes.translate(_IS_GLOG)
        lines = list(compress(self._lines, mask))
        where = list(compress(range(number), mask))
        for code, level in _GLOG_LEVELS:
            self._level(level, codes.count(code))
        kinds = bytes(map(self._glog_code, map(self._glog_head, lines)))
        present = set(kinds)
        entries = self._entries
        self._note_entries(kinds, where, present)
        if dispatch.SLOW in present:
            residue += compress(where, kinds.translate(_cached_mask((dispatch.SLOW,))))
        signal = present & entries.of_action[SIGNAL]
        if signal:
            chosen = kinds.translate(_cached_mask(tuple(sorted(signal))))
            self._graph_lines(list(compress(lines, chosen)), list(compress(where, chosen)), hits)
        if present & entries.of_action[CHECK]:
            for literals, codes_mask in entries.checked.items():
                self._search(lines, where, kinds.translate(codes_mask), literals, hits)

    def _graph_lines(self, lines: list[bytes], where: list[int], hits: set[int]) -> None:
        slots = list(map(self._tail, map(self._tail_text, lines)))
        if min(slots) <= 0:
            hits.update(index for index, slot in zip(where, slots) if slot < 0)
            chosen = [slot > 0 for slot in slots]
            lines = list(compress(lines, chosen))
            where = list(compress(where, chosen))
            slots = list(compress(slots, chosen))
            if not slots:
                return
        times = self._times(lines)
        if times is None or self._since is not None or self._until is not None:
            self._replay_one_by_one(slots, lines, where)
            return
        start = len(self._waiting_lines)
        self._waiting_lines += map(add, where, repeat(self._base))
        self._waiting_times += times
        push = self._push
        for position, slot in enumerate(slots, start):
            push[slot](position)

    def _new_slot(self, tail: bytes) -> int:
        parsed = parse_line(b"V0101 00:00:00.000000 " + tail, self._clock)
        event = find_event(parsed.text)
        key = event[1].group("key").decode("latin-1") if event is not None else ""
        way = "python" if b"graph_id=" in tail else "torch_npu"
        name = (parsed.pid, way, key)
        self.segment.process(parsed.pid)
        if parsed.rank:
            self.segment.process(parsed.pid).ranks.add(parsed.rank)
        if name in self._slots:
            return self._slots.index(name)
        self._slots.append(name)
        self._waiting.append([])
        self._push.append(self._waiting[-1].append)
        return len(self._slots) - 1

    def _service_lines(self, where: object, hits: set[int], residue: list[int]) -> None:
        """vLLM's lines: statistics are noise by their source file, errors are read, the rest is searched."""
        o = self._o
        lines = self._lines
        for index in where:  # type: ignore[attr-defined]
            line = lines[index]
            start = line.find(b" [", o + 8, o + 140)
            if start < 0:
                residue.append(index)
                continue
            head = line[o : start - 15]
            entry = self._service.get(head)
            if entry is None:
                entry = self._new_service(head, index)
            entry.count += 1
            entry.last, entry.last_line = line, index + self._base
            if entry.action == ERROR:
                hits.add(index)
            elif line[start + 2 : line.find(b":", start + 2, start + 60)] not in SERVICE_NOISE_FILES:
                residue.append(index)

    def _sglang_lines(self, where: object, hits: set[int], residue: list[int]) -> None:
        o = self._o
        lines = self._lines
        for index in where:  # type: ignore[attr-defined]
            line = lines[index]
            end = line.find(b"]", o + 20, o + 70)
            if end < 0:
                residue.append(index)
                continue
            head = line[o + 20 : end]
            entry = self._service.get(head)
            if entry is None:
                entry = self._new_service(head, index)
            entry.count += 1
            entry.last, entry.last_line = line, index + self._base
            if not line.startswith(SGLANG_NOISE, end + 2):
                residue.append(index)

    def _new_service(self, head: bytes, index: int) -> Entry:
        parsed = parse_line(self._raw[index], self._clock)
        action = ERROR if parsed.level in BAD_LEVELS else CHECK
        entry = Entry(parsed.form, parsed.level, "", _process_name(parsed), action, ())
        entry.first, entry.first_line = self._raw[index], index + self._base
        if len(self._service) > 4096:  # heads that hold a changing number
            self._flush_entries(self._service.values())
            self._service.clear()
        self._service[head] = entry
        return entry

    def _search(
        self, lines: Sequence[bytes], where: Sequence[int], mask: bytes, literals: Sequence[bytes], hits: set[int]
    ) -> None:
        """Add the lines chosen by the mask that hold one of the literals."""
        text = b"".join(compress(lines, mask))
        if not text:
            return
        found = [literal for literal in literals if literal in text]
        if not found:
            return
        ends = list(accumulate(map(len, compress(lines, mask))))
        chosen = list(compress(where, mask))
        for literal in found:
            at = text.find(literal)
            while at >= 0:
                row = bisect_right(ends, at)
                hits.add(chosen[row])
                at = text.find(literal, ends[row])

    def _search_residue(self, residue: list[int], hits: set[int]) -> None:
        lines = [self._lines[index] for index in residue]
        long_lines = sum(1 for length in map(len, lines) if length > MAX_TEXT)
        if long_lines:
            self.segment.count("long_lines", long_lines)
            lines = [line if len(line) <= MAX_TEXT else line[:MAX_TEXT] + b"\n" for line in lines]
        self._search(lines, residue, b"\1" * len(lines), HUBS, hits)

    # -- lines that matter ---------------------------------------------------------------------------------------

    def _read(self, index: int) -> None:
        raw = self._raw[index]
        repeated = self._repeats.get(_without_stamp(raw))
        if repeated is not None:
            repeated.count += 1
            repeated.index = index
            return
        line = parse_line(raw, self._clock)
        self._record(index, line)
        if line.form == "plog" and line.text.find(b"] ") >= 0:
            for glued in list(_GLUED.finditer(line.text))[:4]:
                self.segment.count("glued_records")
                self._record(index, parse_line(line.text[glued.start() :], self._clock), is_glued=True)

    def _record(self, index: int, line: LogLine, is_glued: bool = False) -> None:
        us, resolution, inherited = self._time(index, line)
        pid = _process_name(line)
        if self._outside(us):
            return
        segment = self.segment
        number = index + self._base
        code = self._codes[index]
        uncounted = not is_glued and code in (dispatch.UNKNOWN, dispatch.SLOW, dispatch.BAD)
        if uncounted:
            segment.forms[line.form] = segment.forms.get(line.form, 0) + 1
            if line.level:
                self._level(line.level, 1)
        if pid:
            entry = self._entries.by_code.get(code)
            of_no_process = entry is not None and not entry.pid and not is_glued
            segment.process(pid).lines += uncounted or of_no_process
            self._describe(pid, number, line)
        event = find_event(line.text) if line.form not in ("pta", "cann") else None
        if event is not None and not (line.level in BAD_LEVELS and event[0].kind == "fallback"):
            self._event(index, number, line, pid, us, resolution, inherited, event)
            if line.level not in BAD_LEVELS:
                return
        if is_retraction(line.text):
            segment.retracted[pid] = number
        elif is_error(line):
            self._error(index, number, line, pid, us, resolution, inherited)

    def _count_repeats(self) -> None:
        segment = self.segment
        for repeated in self._repeats.values():
            if not repeated.count:
                continue
            index = repeated.index
            number = index + self._base
            line = parse_line(self._raw[index], self._clock)
            self._walked, self._walked_stamp = -1, self._before_block
            us, resolution, inherited = self._time(index, line)
            segment.errors += repeated.count
            segment.forms[repeated.form] = segment.forms.get(repeated.form, 0) + repeated.count
            if repeated.level:
                self._level(repeated.level, repeated.count)
            if repeated.pid:
                segment.process(repeated.pid).lines += repeated.count
                self._describe(repeated.pid, number, line)
            cluster = segment.clusters.get((repeated.pid, repeated.key))
            if cluster is not None:
                cluster.count += repeated.count
                cluster.last = max(cluster.last, (number, us, resolution, inherited), key=lambda place: place[0])
            repeated.count = 0

    def _describe(self, pid: str, number: int, line: LogLine) -> None:
        process = self.segment.process(pid)
        process.seen(number, line.stamp.us if line.stamp is not None else None)
        process.forms.add(line.form)
        if line.name and len(process.names) < 8:
            process.names.add(line.name)
        if line.rank and len(process.ranks) < 8:
            process.ranks.add(line.rank)

    def _event(self, index, number, line, pid, us, resolution, inherited, event) -> None:  # type: ignore[no-untyped-def]
        signature, match = event
        groups = match.groupdict()
        key = (groups.get("key") or b"").decode("utf-8", "replace").strip()
        if signature.kind == "replay":
            way = _replay_way(line, key)
            self._replay((pid, way, key), number, us)
            return
        value = None
        if groups.get("value"):
            try:
                value = float(groups["value"]) * signature.unit
            except ValueError:
                value = None
        if signature.kind == "capture_bar":
            value = _clock_seconds(groups["clock"])
            key = f"{key} x{int(groups['count'])}"
        if signature.kind in ("begin_done", "plog_begin"):
            way = "torch_npu" if signature.kind == "begin_done" else "plog"
            if (pid, way, key) in self._slots:
                self._captures.setdefault((pid, way, key), []).append(number)
            else:
                self.segment.replays.setdefault((pid, way, key), [Replays()]).append(Replays())
        text = line.text.decode("utf-8", "replace")[:TEXT_KEPT]
        self.segment.events.append(Event(number, us, resolution, inherited, pid, signature.kind, key, value, text))

    def _replay(self, name: tuple[str, str, str], number: int, us: int | None) -> None:
        self.segment.replays.setdefault(name, [Replays()])[-1].add(number, us)

    def _error(self, index, number, line, pid, us, resolution, inherited) -> None:  # type: ignore[no-untyped-def]
        segment = self.segment
        key = error_key(line)
        segment.errors += 1
        place = (number, us, resolution, inherited)
        cluster = segment.clusters.get((pid, key))
        if cluster is None:
            text = line.text.decode("utf-8", "replace")[:TEXT_KEPT]
            cluster = segment.clusters[(pid, key)] = Cluster(line.form, line.level or "ERROR", line.module, text)
            cluster.first = place
        cluster.count += 1
        cluster.last = place
        self._remember(index, line, pid, key)

    def _remember(self, index: int, line: LogLine, pid: str, key: str) -> None:
        """Make the next equal error cheap: a plog line by its place in the source, others by their text."""
        if self._since is not None or self._until is not None:
            return
        if line.form in ("text", "pta") and find_event(line.text) is None:
            if len(self._repeats) < MAX_CLUSTERS:
                self._repeats[_without_stamp(self._raw[index])] = _Repeated(line.form, line.level, pid, key)
            return
        body = self._lines[index]
        o = self._o
        if line.form != "plog" or not body.startswith(b"[ERROR] ", o) or len(self._known_errors) >= MAX_CLUSTERS:
            return
        start = body.find(b" [", o + 20, o + 140) + 2
        place = body[start : body.find(b"]", start, start + 120)]
        process = body[o + 8 : body.find(b",", o + 8, o + 40)]
        if key.encode() == line.module.encode() + b" " + place:
            self._known_errors.setdefault((process, place), _KnownError(pid, key))

    def _time(self, index: int, line: LogLine) -> tuple[int | None, int, bool]:
        if line.stamp is not None:
            return line.stamp.us, line.stamp.resolution, False
        stamp = self._first_stamp(range(index - 1, self._walked, -1)) or self._walked_stamp
        self._walked, self._walked_stamp = index - 1, stamp
        return (None, 0, False) if stamp is None else (stamp[0], stamp[1], True)

    def _outside(self, us: int | None) -> bool:
        if us is None:
            return False
        return (self._since is not None and us < self._since) or (self._until is not None and us > self._until)

    # -- replays -------------------------------------------------------------------------------------------------

    def _commit_replays(self, captured: dict[tuple[str, str, str], list[int]]) -> None:
        """Add the waiting replays to their graphs; a graph captured meanwhile starts a new count at that line."""
        lines, times = self._waiting_lines, self._waiting_times
        for slot, positions in enumerate(self._waiting):
            name = self._slots[slot]
            begins = captured.pop(name, [])
            if not positions and not begins:
                continue
            stretches = self.segment.replays.setdefault(name, [Replays()])
            own_lines = list(map(lines.__getitem__, positions))
            own_times = list(map(times.__getitem__, positions))
            done = 0
            for begin in begins:
                upto = bisect_right(own_lines, begin)
                if upto > done:
                    stretches[-1].add_many(own_lines[done:upto], own_times[done:upto])
                stretches.append(Replays())
                done = upto
            if len(own_lines) > done:
                stretches[-1].add_many(own_lines[done:], own_times[done:])
            positions.clear()
        for name, begins in captured.items():
            self.segment.replays.setdefault(name, [Replays()]).extend(Replays() for _ in begins)
        lines.clear()
        times.clear()

    def _times(self, lines: list[bytes]) -> list[int] | None:
        seconds = map(self._second, map(self._second_text, lines))
        try:
            times = list(map(add, seconds, map(int, map(self._micro_text, lines))))
        except ValueError:
            return None
        return None if min(times) < 0 else times

    def _replay_one_by_one(self, slots: list[int], lines: list[bytes], where: list[int]) -> None:
        for slot, line, index in zip(slots, lines, where):
            stamp = self._clock.glog(line[self._o + 1 :])
            if stamp is None:
                self.segment.replays.setdefault(self._slots[slot], [Replays()])[-1].add(index + self._base, None)
            elif not self._outside(stamp.us):
                self._push[slot](len(self._waiting_lines))
                self._waiting_lines.append(index + self._base)
                self._waiting_times.append(stamp.us)

    # -- end -----------------------------------------------------------------------------------------------------

    def finish(self, end: int) -> Segment:
        """Return the segment; no more blocks may follow."""
        segment = self.segment
        self._commit_replays({})
        self._count_entries()
        self._flush_known_errors()
        self._flush_entries([*self._entries.by_code.values(), *self._service.values()])
        segment.replays = {name: found for name, found in segment.replays.items() if len(found) > 1 or found[0].count}
        segment.trim_clusters()
        segment.end = end
        return segment

    def _flush_entries(self, entries: object) -> None:
        segment = self.segment
        for entry in entries:  # type: ignore[attr-defined]
            if not entry.count:
                continue
            if entry.level:
                self._level(entry.level, entry.count)
            segment.forms[entry.form] = segment.forms.get(entry.form, 0) + entry.count
            if entry.pid:
                process = segment.process(entry.pid)
                process.lines += entry.count
                for number, raw in ((entry.first_line, entry.first), (entry.last_line, entry.last)):
                    self._describe(entry.pid, number, parse_line(raw, self._clock))

    def _flush_known_errors(self) -> None:
        segment = self.segment
        for error in self._known_errors.values():
            segment.errors += error.count
            cluster = segment.clusters.get((error.pid, error.key))
            line = parse_line(error.last, self._clock)
            if error.count:
                self._describe(error.pid, error.line, line)
                segment.process(error.pid).lines += 0 if self._long else error.count
            if error.count and cluster is not None:
                cluster.count += error.count
                if error.line > cluster.last[0] and line.stamp is not None:
                    cluster.last = (error.line, line.stamp.us, line.stamp.resolution, False)

    def _level(self, level: str, count: int) -> None:
        if count:
            self.segment.levels[level] = self.segment.levels.get(level, 0) + count


def _without_stamp(raw: bytes) -> bytes:
    """Return a line without the stamp of a torch_npu error block at its head; other lines as they are."""
    return raw[27:] if raw.startswith(b"[ERROR] 20") else raw


def _process_name(line: LogLine) -> str:
    """Return what identifies the process: its id, else the rank that a launcher printed."""
    return line.pid or (f"rank {line.rank}" if line.rank else "")


def _replay_way(line: LogLine, key: str) -> str:
    if line.form == "plog":
        return "torchair" if line.module == "TORCHAIR" else "plog"
    if b"[ACL CALL]" in line.text:
        return "acl"
    return "python" if b"graph_id=" in line.text else "torch_npu"


def _clock_seconds(text: bytes) -> float:
    seconds = 0
    for part in text.split(b":"):
        seconds = seconds * 60 + int(part or b"0")
    return float(seconds)

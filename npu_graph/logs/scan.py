"""One pass over a stretch of a log: noise is told from signal by line heads, at the speed of the C loops beneath."""

from __future__ import annotations

import io
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, compress, islice
from operator import itemgetter, not_
from typing import Callable, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.logs import dispatch
from npu_graph.logs.dispatch import CHECK, ERROR, SIGNAL, Entries, GlogTable, HeadTable, PlogTable
from npu_graph.logs.errors import error_key, is_error, is_retraction
from npu_graph.logs.layout import Layout
from npu_graph.logs.lines import BAD_LEVELS, MAX_TEXT, LogLine, parse_line
from npu_graph.logs.literals import present_literals
from npu_graph.logs.replay_lines import NO_REPLAY, TO_READ, ReplayLines
from npu_graph.logs.replays import Replays
from npu_graph.logs.segment import MAX_CLUSTERS, MAX_EVENTS, TEXT_KEPT, Cluster, Event, Segment
from npu_graph.logs.service_lines import SGLANG_KEY, VLLM_KEY, ServiceLines
from npu_graph.logs.signatures import HUBS, find_event

_PREFIX = compile_on_use(
    rb"(?:20\d\d-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (?:(?:stdout|stderr) [FP] )?)?"
    rb"(?:[A-Za-z0-9][\w.-]{0,60} {0,30}\| ?|\[(?:pod|container)/[\w./-]{1,200}\] "
    rb"|\[(?:rank|default|stdout|stderr) ?\d{1,5}\]:? ?(?!\[W))?"
)
# The head of another record inside a line: a record whose line end was cut off (plog cuts at 1,024 bytes), or ranks
# that write to one stream at the same time.
_GLUED = compile_on_use(
    rb"\[(?:ERROR|WARNING|INFO|EVENT)\] (?:[A-Z]{2,16}\(\d{1,9},|20\d\d-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:)"
    rb"|\[rank\d{1,5}\]: (?=[A-Z]\w{2,60}(?:Error|Exception): )"
)
_GLUED_MOST = 4
_GLUED_FORMS = frozenset(["plog", "pta", "text"])
# What is asked of every block, to be sure that no error hides in a line that its head called noise.
_VERIFIED = b"[ERROR] "
# Where so large a share (1/8) of the lines is searched, it is asked first whether the block holds a literal at all:
# that is quicker than joining the lines.
_LARGE_SHARE = 8
# Fewer than one line in so many is few.
_FEW = 24
# Lines in a block, unless they are very short.
_LINES_MOST = 8192


def _mask(*codes: int) -> bytes:
    return bytes(1 if code in codes else 0 for code in range(256))


@lru_cache(maxsize=256)
def _cached_mask(codes: tuple[int, ...]) -> bytes:
    return _mask(*codes)


_IS_GLOG = _mask(dispatch.GLOG_DEBUG, dispatch.GLOG_INFO, dispatch.GLOG_WARNING)
_IS_RESIDUE = _mask(dispatch.UNKNOWN, dispatch.SLOW)
_IS_BAD = _mask(dispatch.BAD)
_STAMPED = frozenset([*range(1, 5), *range(6, 10), *range(dispatch.FIRST_ENTRY, 256)])
_GLOG_LEVELS = ((dispatch.GLOG_DEBUG, "DEBUG"), (dispatch.GLOG_INFO, "INFO"), (dispatch.GLOG_WARNING, "WARNING"))


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
        self._services = Entries()
        o = self._o = 0 if layout.stripped else layout.offset
        self._long = layout.long_heads
        table = PlogTable(self._entries) if self._long else HeadTable(self._entries)
        self._head_code = table.__getitem__
        self._head = itemgetter(slice(o, o + (dispatch.LONG_HEAD if self._long else dispatch.SHORT_HEAD)))
        self._glog_code = GlogTable(self._entries).__getitem__
        self._glog_head = itemgetter(slice(o + dispatch.GLOG_FROM, o + dispatch.GLOG_TO))
        self._replays = ReplayLines(self.segment, self._clock, o, since, until)
        self._service_formats = tuple(
            (
                code,
                _mask(code),
                ServiceLines(code == dispatch.SGLANG, self._services, _process_name),
                itemgetter(slice(o + key.start, o + key.stop)),
            )
            for code, key in ((dispatch.SERVICE, VLLM_KEY), (dispatch.SGLANG, SGLANG_KEY))
        )
        # Of 0, 1, 2 ...: a list, as taking numbers from it costs half of making them.
        self._indexes: Sequence[int] = list(range(_LINES_MOST))
        self._is_one_record = True  # whether the line that is being read holds one record only
        self._repeats: dict[bytes, _Repeated] = {}
        self._known_errors: dict[tuple[bytes, bytes], _KnownError] = {}
        self._open_clusters: list[Cluster] = []  # whose first line has no stamp, nor any line after it in its block

    # -- one block ---------------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """Scan a block of whole lines."""
        self.feed_lines(io.BytesIO(block).readlines(), (block,))

    def feed_lines(self, raw: list[bytes], texts: Sequence[bytes]) -> None:
        """Scan whole lines; whatever stands in one of them stands in one of the texts as well."""
        lines = [line[_PREFIX.match(line).end() :] for line in raw] if self._layout.stripped else raw  # type: ignore[union-attr]
        self._raw, self._lines, self._texts, self._base = raw, lines, texts, self.segment.lines + 1
        self._before_block = self.segment.last_stamp
        self._walked, self._walked_stamp = -1, self._before_block
        self._ahead: tuple[int, int, tuple[int, int] | None] = (0, 0, None)  # what _stamp_after found last
        codes = self._codes = bytes(map(self._head_code, map(self._head, lines)))
        self._close_clusters()
        number = len(lines)
        if number > len(self._indexes):
            self._indexes = range(number)
        present = self._entries.present(codes)
        hits: set[int] = set()
        counted = self._plog(lines, codes, present, hits)
        residue: list[int] = []
        if present & {dispatch.GLOG_DEBUG, dispatch.GLOG_INFO, dispatch.GLOG_WARNING}:
            self._glog(codes, hits, residue)
        for code, mask, service, key in self._service_formats:
            if code in present:
                self._service(self._marked(codes.translate(mask)), service, key, hits, residue)
        if dispatch.BAD in present:
            hits.update(self._marked(codes.translate(_IS_BAD)))
        if dispatch.UNKNOWN in present or dispatch.SLOW in present:
            residue += self._marked(codes.translate(_IS_RESIDUE))
        if residue:
            self._search_residue(residue, hits)
        suspected = [text for text in texts if present_literals(text, (_VERIFIED,))]
        if suspected and self._hidden_errors(suspected, hits, counted):
            for index, line in enumerate(lines):
                if _VERIFIED in line and index not in hits and not self._is_counted_error(index):
                    hits.add(index)
        for index in sorted(hits):
            self._read(index)
        self._count_repeats()
        self._replays.commit_when_due()
        self._finish_block(number)

    def _marked(self, mask: bytes) -> list[int]:
        """Return the positions of the ones; few are found one by one, as many are quicker taken from all numbers."""
        if mask.count(1) * _FEW > len(mask):
            return list(compress(self._indexes, mask))
        found = []
        at = mask.find(1)
        while at >= 0:
            found.append(at)
            at = mask.find(1, at + 1)
        return found

    def _hidden_errors(self, texts: Sequence[bytes], hits: set[int], counted: int) -> bool:
        """Say whether the texts hold more error marks than were found by the heads of lines."""
        marks = sum(text.count(_VERIFIED) for text in texts)
        return marks > counted + sum(self._lines[index].count(_VERIFIED) for index in hits)

    def _is_counted_error(self, index: int) -> bool:
        line = self._lines[index]
        return (
            line.startswith(b"[ERROR] ", self._o)
            and line.count(_VERIFIED) == 1
            and line[self._o + 8 : self._o + 9].isalpha()
        )

    def _close_clusters(self) -> None:
        stamp = self._first_stamp(range(len(self._raw))) if self._open_clusters else None
        if stamp is not None:
            for cluster in self._open_clusters:
                cluster.close(stamp)
            self._open_clusters.clear()

    def _finish_block(self, number: int) -> None:
        segment = self.segment
        if segment.first_stamp is None:
            segment.first_stamp = self._first_stamp(range(number))
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

    def _stamp_after(self, index: int) -> tuple[int, int] | None:
        """Return the stamp of the next stamped line of the block; the lines passed are not read again."""
        start, at, stamp = self._ahead
        if not start <= index < at:
            stamp = None
            for at in range(index + 1, len(self._raw)):
                stamp = self._first_stamp((at,))
                if stamp is not None:
                    break
            self._ahead = (index, at if stamp is not None else len(self._raw), stamp)
        return stamp

    # -- formats ------------------------------------------------------------------------------------------------

    def _plog(self, lines: Sequence[bytes], codes: bytes, present: set[int], hits: set[int]) -> int:
        """Count plog lines per entry; collect errors and lines with a signal. Returns how many errors were counted."""
        entries = self._entries
        where = self._indexes
        counts = entries.note(codes, present, where, self._raw, self._base)
        counted = 0
        bad = present & entries.of_action[ERROR]
        if bad:
            mask = codes.translate(_cached_mask(tuple(sorted(bad))))
            counted = self._plog_errors(list(compress(lines, mask)), list(compress(where, mask)), hits)
        self._check(lines, where, codes, counts, hits)
        return counted

    def _check(
        self, lines: Sequence[bytes], where: Sequence[int], codes: bytes, counts: dict[int, int], hits: set[int]
    ) -> None:
        """Search the lines of entries that matter only with one of their literals; `counts` are those of the codes."""
        for literals, searched in self._entries.checked.items():
            number = sum(counts.get(code, 0) for code in searched)
            wanted = literals
            if number * _LARGE_SHARE > len(self._lines):
                wanted = tuple({item for text in self._texts for item in present_literals(text, literals)})
            if number and wanted:
                self._search(lines, where, codes.translate(_cached_mask(tuple(searched))), wanted, hits)

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
        """Take the replays, which most of these lines can be; sort the others by process and file."""
        mask = codes.translate(_IS_GLOG)
        where = self._marked(mask)
        lines = list(map(self._lines.__getitem__, where))
        for code, level in _GLOG_LEVELS:
            self._level(level, codes.count(code))
        known = self._replays.known(lines)
        others, other_places = lines, where
        replayed = known.count(NO_REPLAY) < len(known)
        if replayed:
            is_other = list(map(not_, known))
            others = list(compress(lines, is_other))
            other_places = list(compress(where, is_other))
        new = self._other_glog(others, other_places, hits, residue) if others else {}
        if not replayed and not new:
            return
        if new:
            known = [new.get(index, slot) for index, slot in zip(where, known)]
        taken = list(compress(lines, known))
        slots = list(compress(known, known))
        if slots:
            self._replays.take(taken, slots, list(compress(where, known)), self._base)

    def _other_glog(
        self, lines: Sequence[bytes], where: Sequence[int], hits: set[int], residue: list[int]
    ) -> dict[int, int]:
        """Sort lines by process and file; returns the replays of graphs met for the first time, index to number."""
        found = bytearray(map(self._glog_code, map(self._glog_head, lines)))
        entries = self._entries
        signal = set(found) & entries.of_action[SIGNAL]
        new: dict[int, int] = {}
        if signal:
            chosen = list(compress(range(len(found)), found.translate(_cached_mask(tuple(sorted(signal))))))
            for at, slot in zip(chosen, self._replays.learn([lines[at] for at in chosen])):
                if slot > 0:
                    new[where[at]] = slot
                    found[at] = dispatch.UNKNOWN  # counted with the replays
                elif slot == TO_READ:
                    hits.add(where[at])
        kinds = bytes(found)
        present = entries.present(kinds)
        counts = entries.note(kinds, present, where, self._raw, self._base)
        if dispatch.SLOW in present:
            residue += compress(where, kinds.translate(_cached_mask((dispatch.SLOW,))))
        self._check(lines, where, kinds, counts, hits)
        return new

    def _service(
        self,
        where: list[int],
        service: ServiceLines,
        key: Callable[[bytes], bytes],
        hits: set[int],
        residue: list[int],
    ) -> None:
        """Statistics of a service are noise, its errors are read, the rest is searched."""
        lines, raw = self._lines, self._raw
        o = self._o
        codes = service.codes(
            list(map(key, map(lines.__getitem__, where))),
            lambda at: lines[where[at]][o:],
            lambda at: parse_line(raw[where[at]], self._clock),
        )
        entries = self._services
        present = entries.present(codes)
        entries.note(codes, present, where, raw, self._base)
        bad = present & entries.of_action[ERROR]
        if bad:
            hits.update(compress(where, codes.translate(_cached_mask(tuple(sorted(bad))))))
        others = (present & entries.of_action[CHECK]) | (present & {dispatch.SLOW})
        if others:
            residue += compress(where, codes.translate(_cached_mask(tuple(sorted(others)))))

    def _search(
        self, lines: Sequence[bytes], where: Sequence[int], mask: bytes, literals: Sequence[bytes], hits: set[int]
    ) -> None:
        """Add the lines chosen by the mask that hold one of the literals."""
        text = b"".join(compress(lines, mask))
        if not text:
            return
        found = present_literals(text, literals)
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
        glued = self._glued(line)
        self._is_one_record = not glued
        self._record(index, line)
        for start in glued:
            self.segment.count("glued_records")
            self._record(index, parse_line(line.text[start:], self._clock), is_glued=True)

    def _glued(self, line: LogLine) -> list[int]:
        """Return where further records begin in the text of a line."""
        if line.form not in _GLUED_FORMS or line.text.find(b"] ", 1) < 0 and line.text.find(b"]: ", 1) < 0:
            return []
        return [found.start() for found in islice(_GLUED.finditer(line.text, 1), _GLUED_MOST)]

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
            self.segment.replays.setdefault((pid, way, key), [Replays()])[-1].add(number, us)
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
            if not self._replays.begin_capture((pid, way, key), number):
                self.segment.replays.setdefault((pid, way, key), [Replays()]).append(Replays())
        text = line.text.decode("utf-8", "replace")[:TEXT_KEPT]
        self.segment.events.append(Event(number, us, resolution, inherited, pid, signature.kind, key, value, text))

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
            if cluster.is_open:
                following = self._stamp_after(index)
                if following is not None:
                    cluster.close(following)
                else:
                    self._open_clusters.append(cluster)
        cluster.count += 1
        cluster.last = place
        if self._is_one_record:
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

    # -- end -----------------------------------------------------------------------------------------------------

    def finish(self, end: int) -> Segment:
        """Return the segment; no more blocks may follow."""
        segment = self.segment
        self._replays.commit()
        self._flush_known_errors()
        self._flush_entries([*self._entries.by_code.values(), *self._services.by_code.values()])
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
    if b"AclGraphExecutorImpl" in line.text:
        return "xllm"
    return "python" if b"graph_id=" in line.text else "torch_npu"


def _clock_seconds(text: bytes) -> float:
    seconds = 0
    for part in text.split(b":"):
        seconds = seconds * 60 + int(part or b"0")
    return float(seconds)

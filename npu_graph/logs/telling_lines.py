"""Reads the lines that matter, one by one, into a segment: graph events, errors, retractions; and equal errors once."""

from __future__ import annotations

from itertools import islice
from typing import Iterable, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.logs import dispatch
from npu_graph.logs.block_times import BlockTimes
from npu_graph.logs.dispatch import Entries
from npu_graph.logs.errors import error_key, is_error, is_retraction
from npu_graph.logs.lines import BAD_LEVELS, LogLine, parse_line
from npu_graph.logs.plog_errors import PlogErrors
from npu_graph.logs.processes import line_process
from npu_graph.logs.replay_lines import ReplayLines
from npu_graph.logs.segment import MAX_EVENTS, TEXT_KEPT, Cluster, Event, Segment
from npu_graph.logs.signatures import find_event
from npu_graph.logs.stamps import Clock

# The head of another record inside a line: a record whose line end was cut off (plog cuts at 1,024 bytes), or ranks
# that write to one stream at the same time.
_GLUED = compile_on_use(
    rb"\[(?:ERROR|WARNING|INFO|EVENT)\] (?:[A-Z]{2,16}\(\d{1,9},|20\d\d-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:)"
    rb"|\[rank\d{1,5}\]: (?=[A-Z]\w{2,60}(?:Error|Exception): )"
    rb"|[VDIWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} {1,8}\d{1,9} [\w./-]{1,80}:\d{1,6}\] "
)
_GLUED_MOST = 4
_GLUED_FORMS = frozenset(["plog", "pta", "text", "torch_npu"])
# Lines whose head told neither process nor level are counted when they are read.
_UNCOUNTED = frozenset([dispatch.UNKNOWN, dispatch.SLOW, dispatch.BAD])


class _Repeated:
    """An error whose line was met before, letter by letter apart from its stamp."""

    __slots__ = ("count", "form", "index", "key", "level", "pid")

    def __init__(self, form: str, level: str, pid: str, key: str) -> None:
        self.form, self.level, self.pid, self.key = form, level, pid, key
        self.count = 0
        self.index = 0


class TellingLines:
    """Reads lines of consecutive blocks.

    Args:
        segment: where events and errors go.
        clock: reads the stamps.
        entries: of the heads of lines, with what is counted by them.
        replays: the replays of the same lines.
        known_errors: plog errors that need not be read again.
        since, until: microseconds; events and errors outside are left out.
        most: how many kinds of errors are kept.
    """

    def __init__(
        self,
        segment: Segment,
        clock: Clock,
        entries: Entries,
        replays: ReplayLines,
        known_errors: PlogErrors,
        since: int | None,
        until: int | None,
        most: int,
    ) -> None:
        self._segment = segment
        self._clock = clock
        self._entries = entries
        self._replays = replays
        self._known_errors = known_errors
        self._since, self._until = since, until
        self._most = most
        self._times = BlockTimes(clock)
        self._is_one_record = True  # whether the line that is being read holds one record only
        self._repeats: dict[bytes, _Repeated] = {}
        self._open_clusters: list[Cluster] = []  # whose first line has no stamp, nor any line after it in its block

    # -- one block ---------------------------------------------------------------------------------------------

    def begin(self, raw: list[bytes], lines: Sequence[bytes], codes: bytes, base: int) -> None:
        """Take the lines of the next block, whole and without their prefix, their codes and the first line's number."""
        self._raw, self._lines, self._codes, self._base = raw, lines, codes, base
        self._times.begin(raw, codes, self._segment.last_stamp)
        stamp = self._times.first(range(len(raw))) if self._open_clusters else None
        if stamp is not None:
            for cluster in self._open_clusters:
                cluster.close(stamp)
            self._open_clusters.clear()

    def read(self, indexes: Iterable[int]) -> None:
        """Read lines of the block, in order."""
        for index in indexes:
            raw = self._raw[index]
            repeated = self._repeats.get(_without_stamp(raw))
            if repeated is not None:
                repeated.count += 1
                repeated.index = index
                continue
            line = parse_line(raw, self._clock)
            glued = _glued_in(line)
            self._is_one_record = not glued
            self._record(index, line._replace(text=line.text[: glued[0]]) if glued else line)
            for start, end in zip(glued, [*glued[1:], None]):
                self._segment.count("glued_records")
                self._record(index, parse_line(line.text[start:end], self._clock), is_glued=True)

    def is_repeated(self, raw: bytes) -> bool:
        """Say whether such a line was met before as an error, and is only counted when it is read."""
        return _without_stamp(raw) in self._repeats

    def end(self) -> None:
        """Count what was met again in the block, and note its times."""
        self._count_repeats()
        segment = self._segment
        if segment.first_stamp is None:
            segment.first_stamp = self._times.first(range(len(self._raw)))
        segment.last_stamp = self._times.last()
        segment.lines += len(self._raw)
        if len(segment.clusters) > 2 * self._most:
            segment.trim_clusters()
        if len(segment.events) > MAX_EVENTS:
            segment.dropped_events += len(segment.events) - MAX_EVENTS
            del segment.events[MAX_EVENTS:]
        self._raw, self._lines, self._codes = [], [], b""
        self._times.begin([], b"", None)

    # -- one line ----------------------------------------------------------------------------------------------

    def _record(self, index: int, line: LogLine, is_glued: bool = False) -> None:
        us, resolution, inherited = self._times.of_line(index, line)
        pid = line_process(line)
        if self._outside(us):
            return
        segment = self._segment
        number = index + self._base
        code = self._codes[index]
        uncounted = not is_glued and code in _UNCOUNTED
        if uncounted:
            segment.forms[line.form] = segment.forms.get(line.form, 0) + 1
            if line.level:
                segment.count_level(line.level, 1)
        if pid:
            entry = self._entries.by_code.get(code)
            of_no_process = entry is not None and not entry.pid and not is_glued
            segment.process(pid).lines += uncounted or of_no_process
            segment.describe(pid, number, line)
        event = find_event(line.text) if line.form not in ("pta", "cann") else None
        if event is not None and not (line.level in BAD_LEVELS and event[0].kind == "fallback"):
            self._event(number, line, pid, us, resolution, inherited, event)
            if line.level not in BAD_LEVELS:
                return
        if is_retraction(line.text):
            segment.retracted[pid] = number
        elif is_error(line):
            self._error(index, number, line, pid, us, resolution, inherited)

    def _event(self, number, line, pid, us, resolution, inherited, event) -> None:  # type: ignore[no-untyped-def]
        signature, match = event
        groups = match.groupdict()
        key = (groups.get("key") or b"").decode("utf-8", "replace").strip()
        if signature.kind == "replay":
            way = _replay_way(line, key)
            self._replays.add((pid, way, key), number, us)
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
            self._replays.begin_capture((pid, way, key), number)
        text = line.text.decode("utf-8", "replace")[:TEXT_KEPT]
        self._segment.events.append(Event(number, us, resolution, inherited, pid, signature.kind, key, value, text))

    def _error(self, index, number, line, pid, us, resolution, inherited) -> None:  # type: ignore[no-untyped-def]
        segment = self._segment
        key = error_key(line)
        segment.errors += 1
        place = (number, us, resolution, inherited)
        cluster = segment.clusters.get((pid, key))
        if cluster is None:
            text = line.text.decode("utf-8", "replace")[:TEXT_KEPT]
            cluster = segment.clusters[(pid, key)] = Cluster(line.form, line.level or "ERROR", line.module, text)
            cluster.first = place
            if cluster.is_open:
                following = self._times.after(index)
                if following is not None:
                    cluster.close(following)
                else:
                    self._open_clusters.append(cluster)
        cluster.count += 1
        cluster.last = place
        if self._is_one_record and self._since is None and self._until is None:
            self._remember(index, line, pid, key)

    def _outside(self, us: int | None) -> bool:
        if us is None:
            return False
        return (self._since is not None and us < self._since) or (self._until is not None and us > self._until)

    # -- equal errors ------------------------------------------------------------------------------------------

    def _remember(self, index: int, line: LogLine, pid: str, key: str) -> None:
        """Make the next equal error cheap: a plog line by its place in the source, others by their text."""
        if line.form in ("text", "pta") and find_event(line.text) is None:
            if len(self._repeats) < self._most:
                self._repeats[_without_stamp(self._raw[index])] = _Repeated(line.form, line.level, pid, key)
        elif line.form == "plog":
            self._known_errors.remember(self._lines[index], line.module, pid, key)

    def _count_repeats(self) -> None:
        segment = self._segment
        for repeated in self._repeats.values():
            if not repeated.count:
                continue
            index = repeated.index
            number = index + self._base
            line = parse_line(self._raw[index], self._clock)
            self._times.start_over()
            us, resolution, inherited = self._times.of_line(index, line)
            segment.errors += repeated.count
            segment.forms[repeated.form] = segment.forms.get(repeated.form, 0) + repeated.count
            if repeated.level:
                segment.count_level(repeated.level, repeated.count)
            if repeated.pid:
                segment.process(repeated.pid).lines += repeated.count
                segment.describe(repeated.pid, number, line)
            cluster = segment.clusters.get((repeated.pid, repeated.key))
            if cluster is not None:
                cluster.count += repeated.count
                cluster.last = max(cluster.last, (number, us, resolution, inherited), key=lambda place: place[0])
            repeated.count = 0


def _without_stamp(raw: bytes) -> bytes:
    """Return a line without the stamp of a torch_npu error block at its head; other lines as they are."""
    return raw[27:] if raw.startswith(b"[ERROR] 20") else raw


def _glued_in(line: LogLine) -> list[int]:
    """Return where further records begin in the text of a line."""
    if line.form not in _GLUED_FORMS or line.text.find(b"] ", 1) < 0 and line.text.find(b"]: ", 1) < 0:
        return []
    return [found.start() for found in islice(_GLUED.finditer(line.text, 1), _GLUED_MOST)]


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

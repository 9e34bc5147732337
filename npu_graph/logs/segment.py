"""What one stretch of one file says: the unit that is scanned in parallel, merged in any order and stored as JSON."""

from __future__ import annotations

import zlib
from typing import Any, Iterable, NamedTuple

from npu_graph.logs.lines import LogLine
from npu_graph.logs.replays import Replays

# Bounds for hostile logs; each is far above what a real one holds, and reaching one is said in the report.
MAX_CLUSTERS = 4096  # kept by smallest hash, so that what is kept does not depend on the order of merging
MAX_EVENTS = 60000  # kept from the start of the stretch
MAX_PROCESSES = 4096
MAX_NAMES = 8  # of one process, and as many ranks
TEXT_KEPT = 600
# How often it is noted where a line begins (bytes), so that lines can be read again without counting from the start.
_MARK_EVERY = 4 << 20


class Event(NamedTuple):
    """A graph event. `us` is None when no stamp precedes it; `inherited` says that the stamp is an earlier line's."""

    line: int
    us: int | None
    resolution: int
    inherited: bool
    pid: str
    kind: str
    key: str
    value: float | None
    text: str


class Cluster:
    """Errors of one process that differ only in numbers, pointers and ids."""

    __slots__ = ("before", "count", "first", "form", "last", "level", "module", "text")

    def __init__(self, form: str, level: str, module: str, text: str) -> None:
        self.form, self.level, self.module, self.text = form, level, module, text
        self.count = 0
        # (line, us or None, resolution, inherited)
        self.first: tuple[int, int | None, int, bool] = (0, None, 0, False)
        self.last: tuple[int, int | None, int, bool] = (0, None, 0, False)
        # Of a first line without a stamp of its own: when it was written at the latest (µs), by the next stamped line.
        self.before: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing bounds the time of the first line from above."""
        return self.before is None and (self.first[1] is None or self.first[3])

    def close(self, stamp: tuple[int, int]) -> None:
        """Take the stamp (µs, resolution) of the next stamped line: the first line was written before it."""
        self.before = max(stamp[0] + stamp[1] - 2, self.first[1] or 0)

    def to_record(self) -> list[Any]:
        return [self.form, self.level, self.module, self.text, self.count, self.first, self.last, self.before]

    @classmethod
    def from_record(cls, record: list[Any]) -> Cluster:
        made = cls(*record[:4])
        made.count = record[4]
        made.first, made.last = tuple(record[5]), tuple(record[6])
        made.before = record[7]
        return made


class Process:
    """A process as its lines show it."""

    __slots__ = ("first", "forms", "last", "lines", "names", "ranks")

    def __init__(self) -> None:
        self.lines = 0
        # (line, us) of the first and the last stamped line, in the order of the file
        self.first: tuple[int, int] | None = None
        self.last: tuple[int, int] | None = None
        self.names: set[str] = set()
        self.ranks: set[str] = set()
        self.forms: set[str] = set()

    def seen(self, line: int, us: int | None) -> None:
        if us is not None:
            self.first = (line, us) if self.first is None else min(self.first, (line, us))
            self.last = (line, us) if self.last is None else max(self.last, (line, us))

    def absorb(self, other: Process, shift: int) -> None:
        self.lines += other.lines
        for place in (other.first, other.last):
            if place is not None:
                self.seen(place[0] + shift, place[1])
        self.names |= other.names
        self.ranks |= other.ranks
        self.forms |= other.forms

    def to_record(self) -> list[Any]:
        return [self.lines, self.first, self.last, sorted(self.names), sorted(self.ranks), sorted(self.forms)]

    @classmethod
    def from_record(cls, record: list[Any]) -> Process:
        made = cls()
        made.lines = record[0]
        made.first, made.last = (tuple(item) if item else None for item in record[1:3])
        made.names, made.ranks, made.forms = (set(item) for item in record[3:6])
        return made


class Segment:
    """Findings of the bytes [start, end) of one source, with line numbers counted from its first line."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.end = start
        self.lines = 0
        self.events: list[Event] = []
        self.dropped_events = 0
        self.clusters: dict[tuple[str, str], Cluster] = {}
        self.other_errors = 0
        self.errors = 0
        # (pid, way of logging, graph) -> one Replays per capture of that pointer
        self.replays: dict[tuple[str, str, str], list[Replays]] = {}
        self.processes: dict[str, Process] = {}
        self.levels: dict[str, int] = {}
        self.forms: dict[str, int] = {}
        self.counts: dict[str, int] = {}  # cut lines, glued records, clock steps ...
        self.first_stamp: tuple[int, int] | None = None  # (us, resolution) of the first stamped line
        self.last_stamp: tuple[int, int] | None = None  # (us, resolution) of the last stamped line
        # (lines before, offset in the file) of some lines; where a result was stored and loaded there are none
        self.marks: list[tuple[int, int]] = []
        self.retracted: dict[str, int] = {}  # pid -> line of "error log can be ignored"

    @property
    def first_us(self) -> int | None:
        return self.first_stamp[0] if self.first_stamp is not None else None

    def count(self, what: str, number: int = 1) -> None:
        if number:
            self.counts[what] = self.counts.get(what, 0) + number

    def mark(self, offset: int) -> None:
        """Note where the next line begins in the file."""
        if not self.marks or offset - self.marks[-1][1] >= _MARK_EVERY:
            self.marks.append((self.lines, offset))

    def process(self, pid: str) -> Process:
        found = self.processes.get(pid)
        if found is None:
            if len(self.processes) >= MAX_PROCESSES:
                pid = ""
            found = self.processes.setdefault(pid, Process())
        return found

    def count_level(self, level: str, number: int) -> None:
        if number:
            self.levels[level] = self.levels.get(level, 0) + number

    def describe(self, pid: str, number: int, line: LogLine) -> None:
        """Note of a process what a line of it, by its number, tells."""
        process = self.process(pid)
        process.seen(number, line.stamp.us if line.stamp is not None else None)
        process.forms.add(line.form)
        if line.name and len(process.names) < MAX_NAMES:
            process.names.add(line.name)
        if line.rank and len(process.ranks) < MAX_NAMES:
            process.ranks.add(line.rank)

    def settle(self) -> None:
        """Do what can be done before the segment is joined to others: that is done in one process only."""
        for stretches in self.replays.values():
            for replays in stretches:
                replays.settle()

    def append(self, other: Segment) -> None:
        """Append the segment that starts where this one ends."""
        shift = self.lines
        inherited = self.last_stamp
        for event in other.events:
            moved = event._replace(line=event.line + shift)
            if moved.us is None and inherited is not None:
                moved = moved._replace(us=inherited[0], resolution=inherited[1], inherited=True)
            self.events.append(moved)
        self._trim_events()
        self.dropped_events += other.dropped_events
        if other.first_stamp is not None:
            for cluster in self.clusters.values():
                if cluster.is_open:
                    cluster.close(other.first_stamp)
        for key, cluster in other.clusters.items():
            first, last = _moved(cluster.first, shift, inherited), _moved(cluster.last, shift, inherited)
            own = self.clusters.get(key)
            if own is None:
                own = self.clusters[key] = Cluster(cluster.form, cluster.level, cluster.module, cluster.text)
                own.first, own.before = first, cluster.before
            own.count += cluster.count
            own.last = last
        self.errors += other.errors
        self.trim_clusters()
        for graph, stretches in other.replays.items():
            own_stretches = self.replays.setdefault(graph, [Replays()])
            own_stretches[-1].append(stretches[0], shift)
            for stretch in stretches[1:]:
                fresh = Replays()
                fresh.append(stretch, shift)
                own_stretches.append(fresh)
        for pid, process in other.processes.items():
            self.process(pid).absorb(process, shift)
        for mine, theirs in ((self.levels, other.levels), (self.forms, other.forms), (self.counts, other.counts)):
            for name, number in theirs.items():
                mine[name] = mine.get(name, 0) + number
        for pid, line in other.retracted.items():
            self.retracted[pid] = max(self.retracted.get(pid, 0), line + shift)
        if self.first_stamp is None:
            self.first_stamp = other.first_stamp
        self.last_stamp = other.last_stamp or self.last_stamp
        self.marks += [(lines + shift, offset) for lines, offset in other.marks]
        self.lines += other.lines
        self.end = other.end

    def trim_clusters(self) -> None:
        """Keep the clusters with the smallest hashes: exact counts, whatever the order of merging."""
        if len(self.clusters) > MAX_CLUSTERS:
            kept = sorted(self.clusters, key=_hash)[:MAX_CLUSTERS]
            self.clusters = {key: self.clusters[key] for key in kept}
        self.other_errors = self.errors - sum(cluster.count for cluster in self.clusters.values())

    def _trim_events(self) -> None:
        if len(self.events) > MAX_EVENTS:
            self.dropped_events += len(self.events) - MAX_EVENTS
            del self.events[MAX_EVENTS:]

    def to_record(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "lines": self.lines,
            "events": [list(event) for event in self.events],
            "dropped_events": self.dropped_events,
            "errors": self.errors,
            "clusters": [[*key, *self.clusters[key].to_record()] for key in sorted(self.clusters)],
            "replays": [[*key, [item.to_record() for item in self.replays[key]]] for key in sorted(self.replays)],
            "processes": {pid: self.processes[pid].to_record() for pid in sorted(self.processes)},
            "levels": dict(sorted(self.levels.items())),
            "forms": dict(sorted(self.forms.items())),
            "counts": dict(sorted(self.counts.items())),
            "last_stamp": self.last_stamp,
            "first_stamp": self.first_stamp,
            "retracted": dict(sorted(self.retracted.items())),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Segment:
        made = cls(record["start"])
        made.end, made.lines = record["end"], record["lines"]
        made.events = [Event(*item) for item in record["events"]]
        made.dropped_events, made.errors = record["dropped_events"], record["errors"]
        made.clusters = {(item[0], item[1]): Cluster.from_record(item[2:]) for item in record["clusters"]}
        made.replays = {
            (item[0], item[1], item[2]): [Replays.from_record(part) for part in item[3]] for item in record["replays"]
        }
        made.processes = {pid: Process.from_record(item) for pid, item in record["processes"].items()}
        made.levels, made.forms, made.counts = (dict(record[name]) for name in ("levels", "forms", "counts"))
        made.last_stamp = tuple(record["last_stamp"]) if record["last_stamp"] else None
        made.first_stamp = tuple(record["first_stamp"]) if record["first_stamp"] else None
        made.retracted = dict(record["retracted"])
        made.trim_clusters()
        return made


def _moved(
    place: tuple[int, int | None, int, bool], shift: int, inherited: tuple[int, int] | None
) -> tuple[int, int | None, int, bool]:
    line, us, resolution, was_inherited = place
    if us is None and inherited is not None:
        return line + shift, inherited[0], inherited[1], True
    return line + shift, us, resolution, was_inherited


def _hash(key: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    return zlib.crc32("\0".join(key).encode("utf-8", "replace")), key


def joined(segments: Iterable[Segment]) -> Segment:
    """Append consecutive segments into one; a single one is returned as it is."""
    parts = list(segments)
    if len(parts) == 1:
        return parts[0]
    result: Segment | None = None
    for segment in parts:
        if result is None:
            result = Segment(segment.start)
        result.append(segment)
    return result if result is not None else Segment()

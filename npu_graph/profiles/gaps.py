"""Idle time of the device, by where it lies (entry, in-graph, seam, eager, tail) and by whether the host was late."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from typing import Iterator, NamedTuple, Sequence

from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.steps import Steps

ENTRY, IN_GRAPH, SEAM, EAGER, TAIL = "entry", "in_graph", "seam", "eager", "tail"
PLACES = {
    ENTRY: "before the first kernel of a replay",
    IN_GRAPH: "between two kernels of one replay",
    SEAM: "after a replay, before an eager kernel",
    EAGER: "between two eager kernels",
    TAIL: "from the last kernel of a step to the first of the next",
}
HOST_LATE, DEVICE_LATE, NO_EVIDENCE = "host_late", "device_or_dependency", "no_evidence"
# A replay's own MODEL_EXECUTE lies this close before its first kernel.
_EXECUTE_WINDOW = 200_000
_LATEST = 1 << 62


class Gap(NamedTuple):
    """One idle stretch of the whole device: start, length (ns), place, host evidence, type of the next kernel."""

    start: int
    length: int
    place: str
    evidence: str
    next_type: str


_PLACE_NAMES = tuple(PLACES)
_EVIDENCE_NAMES = (HOST_LATE, DEVICE_LATE, NO_EVIDENCE)


class GapTable:
    """Gaps in columns: there are as many as kernels."""

    def __init__(self, types: Sequence[str] = ()) -> None:
        self._types = types
        self._start = array("q")
        self._length = array("q")
        self._place = array("b")
        self._evidence = array("b")
        self._next = array("i")

    def __len__(self) -> int:
        return len(self._start)

    def __getitem__(self, index: int) -> Gap:
        place, evidence = _PLACE_NAMES[self._place[index]], _EVIDENCE_NAMES[self._evidence[index]]
        return Gap(self._start[index], self._length[index], place, evidence, self._types[self._next[index]])

    def __iter__(self) -> Iterator[Gap]:
        return (self[index] for index in range(len(self)))

    def add(self, start: int, length: int, place: str, evidence: str, next_type: int) -> None:
        """Append a gap; `next_type` is the type's number in the texts of the profile's table."""
        self._start.append(start)
        self._length.append(length)
        self._place.append(_PLACE_NAMES.index(place))
        self._evidence.append(_EVIDENCE_NAMES.index(evidence))
        self._next.append(next_type)

    def inside(self, spans: Sequence[tuple[int, int]]) -> GapTable:
        """Return the gaps that begin inside one of the sorted, disjoint spans."""
        kept = GapTable(self._types)
        for index in range(len(self)):
            if in_spans(spans, self._start[index]):
                gap = self[index]
                kept.add(gap.start, gap.length, gap.place, gap.evidence, self._next[index])
        return kept

    def split(self, first: int, last: int) -> dict[str, int]:
        """Return the idle time (ns) between two times, by place. Gaps that cross either are cut there."""
        sums: dict[str, int] = {}
        for index in range(max(0, bisect_right(self._start, first) - 1), bisect_right(self._start, last)):
            start, end = self._start[index], self._start[index] + self._length[index]
            length = min(end, last) - max(start, first)
            if length > 0:
                place = _PLACE_NAMES[self._place[index]]
                sums[place] = sums.get(place, 0) + length
        return sums

    def largest(self, count: int) -> list[Gap]:
        """Return the longest gaps, longest first."""
        places = heapq.nsmallest(count, range(len(self)), key=lambda i: (-self._length[i], self._start[i]))
        return [self[index] for index in places]

    def lengths(self, place: str) -> list[int]:
        """Return the lengths of the gaps at a place, sorted."""
        wanted = _PLACE_NAMES.index(place)
        return sorted(length for length, where in zip(self._length, self._place) if where == wanted)

    def totals(self, place: str) -> dict[str, int]:
        """Return the summed length per host evidence of the gaps at a place."""
        wanted = _PLACE_NAMES.index(place)
        sums = [0] * len(_EVIDENCE_NAMES)
        for length, where, evidence in zip(self._length, self._place, self._evidence):
            if where == wanted:
                sums[evidence] += length
        return dict(zip(_EVIDENCE_NAMES, sums))


class GapGroup(NamedTuple):
    """All gaps of one place (ns)."""

    number: int
    total: int
    median: int
    largest: int
    host_late: int
    device_late: int
    no_evidence: int


def find_gaps(profile: Profile, use: GraphUse, steps: Steps) -> GapTable:
    """Return every idle stretch between kernels, over all streams together."""
    table = profile.table
    gaps = GapTable(table.texts.values)
    if not len(use.order):
        return gaps
    borders = [step.start for step in steps.items[1:]]
    submissions = _Submissions(profile)
    previous, busy_until = 0, table.end(use.order[0])
    for place in range(1, len(use.order)):
        index = use.order[place]
        start = table.start[index]
        if start > busy_until:
            where = _place(use, previous, place)
            if bisect_right(borders, start) > bisect_right(borders, busy_until):
                where = TAIL
            # A graph is handed over whole: what idles inside it waits for itself, whatever the host does.
            evidence = DEVICE_LATE
            if where != IN_GRAPH:
                evidence = submissions.judge(busy_until, start, use.replay_of[place] >= 0)
            gaps.add(busy_until, start - busy_until, where, evidence, table.number_of("type", index))
        if table.end(index) >= busy_until:
            previous, busy_until = place, table.end(index)
    return gaps


def idle_between(profile: Profile, use: GraphUse, first: int, last: int) -> dict[str, int]:
    """Return the idle time (ns) from the kernel at place `first` in the order to the start of that at `last`, by place.

    Steps do not matter here: a pause between two of them is one before a replay, or between eager kernels.
    """
    table, order = profile.table, use.order
    sums: dict[str, int] = {}
    previous, busy_until = first, table.end(order[first])
    for place in range(first + 1, last + 1):
        start = table.start[order[place]]
        if start > busy_until:
            where = _place(use, previous, place)
            sums[where] = sums.get(where, 0) + start - busy_until
        if table.end(order[place]) >= busy_until:
            previous, busy_until = place, table.end(order[place])
    return sums


def _place(use: GraphUse, previous: int, following: int) -> str:
    before, after = use.replay_of[previous], use.replay_of[following]
    if after >= 0:
        return IN_GRAPH if before == after else ENTRY
    return SEAM if before >= 0 else EAGER


class _Submissions:
    """When the host handed over the work that ends a gap."""

    def __init__(self, profile: Profile) -> None:
        trace = profile.trace
        self._trace = trace
        self._executes = trace.model_executes if trace else []
        self._execute_starts = [call.start for call in self._executes]
        calls = trace.replay_calls if trace else []
        self._call_of = {call.connection: call for call in calls if call.connection >= 0}

    def judge(self, opened: int, closed: int, is_replay: bool) -> str:
        """Say whether the next work was submitted after the device had gone idle, or was already waiting."""
        submitted = self._trace.submitted_at(closed) if self._trace else None
        if submitted is None and is_replay:
            place = bisect_right(self._execute_starts, closed) - 1
            if place >= 0 and closed - self._execute_starts[place] <= _EXECUTE_WINDOW:
                call = self._call_of.get(self._executes[place].connection)
                submitted = call.start if call else None
        if submitted is None:
            return NO_EVIDENCE
        return HOST_LATE if submitted >= opened else DEVICE_LATE


def group_gaps(gaps: GapTable) -> dict[str, GapGroup]:
    """Return the gaps per place."""
    groups: dict[str, GapGroup] = {}
    for place in PLACES:
        lengths = gaps.lengths(place)
        if not lengths:
            continue
        late = gaps.totals(place)
        groups[place] = GapGroup(
            len(lengths),
            sum(lengths),
            lengths[len(lengths) // 2],
            lengths[-1],
            late[HOST_LATE],
            late[DEVICE_LATE],
            late[NO_EVIDENCE],
        )
    return groups


def in_spans(spans: Sequence[tuple[int, int]], time: int) -> bool:
    """Say whether a time lies in one of the sorted, disjoint spans."""
    place = bisect_right(spans, (time, _LATEST)) - 1
    return place >= 0 and time < spans[place][1]

"""Steps of a profile, and for each: busy, free, communication, replays. A whole window hides what a step shows."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from npu_graph.profiles import intervals
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.tasks import COMMUNICATION, COMPUTE, UNKNOWN

# A pause between two replays this many times the usual one begins a new step even if no graph repeats
# (two capture sizes in turn: their graphs differ, so nothing repeats inside either step).
_PAUSE_FACTOR = 10


class Step(NamedTuple):
    """One step, start to start of the next (times in ns).

    `host_launch` is the host's time in kernel launches begun meanwhile, None without a trace that has them. `complete`
    is false for the last step and for what lies before the first.
    """

    number: int
    start: int
    end: int
    busy: int
    computing: int
    communication: int
    exposed: int
    kernels: int
    in_graph: int
    replays: int
    host_launch: int | None
    complete: bool

    @property
    def free(self) -> int:
        return self.end - self.start - self.busy

    @property
    def duration(self) -> int:
        return self.end - self.start


class Steps(NamedTuple):
    """Where the step borders come from, the steps, and the step number of each kernel in order."""

    source: str
    items: list[Step]


def find_steps(profile: Profile, use: GraphUse) -> Steps:
    """Return steps by the best evidence there is.

    Sources, best first: `step_id` (column written by the profiler's schedule), `profiler_step` (ProfilerStep marks of
    the host, in the trace), `replay_cycle` (a graph replayed again begins the next step), `none` (one window).
    """
    if not len(use.order):
        return Steps("none", [])
    for source, borders in (
        ("step_id", _borders_by_column(profile, use)),
        ("profiler_step", _borders_by_marks(profile)),
        ("replay_cycle", _borders_by_replay(use)),
    ):
        if len(borders) > 1 or (source == "step_id" and borders):
            return Steps(source, _measure(profile, use, borders))
    first = profile.table.start[use.order[0]]
    return Steps("none", _measure(profile, use, [(first, 0)]))


def _borders_by_column(profile: Profile, use: GraphUse) -> list[tuple[int, int]]:
    starts: dict[int, int] = {}
    for index in use.order:
        number = profile.table.step[index]
        if number != UNKNOWN:
            starts.setdefault(number, profile.table.start[index])
    return sorted((start, number) for number, start in starts.items())


def _borders_by_marks(profile: Profile) -> list[tuple[int, int]]:
    if profile.trace is None:
        return []
    return [(start, number) for start, _, number in profile.trace.steps]


def _borders_by_replay(use: GraphUse) -> list[tuple[int, int]]:
    """A step begins at the first replay whose graph the current step has replayed before."""
    replays = [replay for replay in use.replays if replay.complete]
    pauses = sorted(later.start - earlier.end for earlier, later in zip(replays, replays[1:]))
    usual = pauses[len(pauses) // 2] if pauses else 0
    borders: list[tuple[int, int]] = []
    seen: dict[int, bool] = {}
    previous = None
    for replay in replays:
        long_pause = previous is not None and usual > 0 and replay.start - previous.end > _PAUSE_FACTOR * usual
        if previous is None or replay.model in seen or long_pause:
            borders.append((replay.start, len(borders)))
            seen = {}
        seen[replay.model] = True
        previous = replay
    return borders


def _measure(profile: Profile, use: GraphUse, borders: list[tuple[int, int]]) -> list[Step]:
    table = profile.table
    starts = [start for start, _ in borders]
    if starts[0] > table.start[use.order[0]]:
        # Kernels before the first border belong to no step; they are kept as step -1 (prefill, warm-up).
        borders = [(table.start[use.order[0]], UNKNOWN), *borders]
        starts = [start for start, _ in borders]
    last_end = max(table.end(index) for index in use.order)
    ends = [*starts[1:], max(last_end, starts[-1])]
    replays = [0] * len(borders)
    for replay in use.replays:
        replays[max(0, bisect_right(starts, replay.start) - 1)] += 1
    steps: list[Step] = []
    place = 0
    for slot, (start, number) in enumerate(borders):
        first = place
        while place < len(use.order) and (slot + 1 == len(borders) or table.start[use.order[place]] < ends[slot]):
            place += 1
        computing, talking, shared = _busy(profile, use, first, place, ends[slot])
        steps.append(
            Step(
                number,
                start,
                ends[slot],
                computing + talking - shared,
                computing,
                talking,
                talking - shared,
                place - first,
                sum(use.in_graph[first:place]),
                replays[slot],
                profile.trace.launch_time(start, ends[slot]) if profile.trace else None,
                slot + 1 < len(borders) and number != UNKNOWN,
            )
        )
    return steps


def _busy(profile: Profile, use: GraphUse, first: int, last: int, end: int) -> tuple[int, int, int]:
    """Return computing, communication and their overlap (ns) of the kernels at places [first, last).

    A kernel that runs past the step's end counts up to it, so that busy never exceeds the step.
    """
    table = profile.table

    def spans(kind: int) -> list[intervals.Interval]:
        ordered = (use.order[place] for place in range(first, last))
        chosen = (index for index in ordered if table.kind[index] == kind)
        return intervals.union((table.start[index], min(table.end(index), end)) for index in chosen)

    computing, communication = spans(COMPUTE), spans(COMMUNICATION)
    shared = intervals.overlap(computing, communication)
    return intervals.length(computing), intervals.length(communication), shared

"""Which kernels ran inside a captured graph, and where each replay begins and ends on the device."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

from npu_graph.profiles.tasks import COMMUNICATION, COMPUTE, EAGER_MODEL, UNKNOWN, TaskTable

# A custom (Triton) kernel carries the eager Model ID although it was captured. It is told from an eager kernel by its
# Task ID, which continues the graph's own count on that stream; control tasks between them use up a few numbers.
_MAX_TASK_STEP = 16


# Stands for the Model ID of graphs that hold custom kernels only: all their rows carry the eager ID. Seen in a recorded
# CANN 9.0 Level1 profile (three replay calls; two streams whose Task IDs 4 and 1 recur three times).
CUSTOM_MODEL = -2
# An eager stream counts its tasks up; the share of Task IDs that must recur for a stream to be a graph's.
_RECURRING_SHARE = 0.8
# Task IDs are 16 bits wide: a long eager stream meets its numbers again after 65535.
_LAST_TASK_BEFORE_WRAP = 60_000


class Replay(NamedTuple):
    """One replay of one graph on the device: times in ns, its kernels, and whether all of it was recorded.

    `model` is CUSTOM_MODEL for graphs without any Model ID of their own.
    """

    model: int
    start: int
    end: int
    kernels: int
    complete: bool


class Coverage(NamedTuple):
    """Kernels inside graphs by two rules, as counts and device time (ns)."""

    kernels: int
    time: int
    by_model: int
    by_model_time: int
    by_stream: int
    by_stream_time: int


class GraphUse(NamedTuple):
    """The device side of graph replay: kernels in order, which are in a graph, which replay each belongs to."""

    order: array[int]
    in_graph: bytearray
    replay_of: array[int]
    replays: list[Replay]
    coverage: Coverage


def find_graph_use(table: TaskTable, replays_ran: bool = False) -> GraphUse:
    """Attribute every compute and communication kernel to a replay, or to none.

    Args:
        replays_ran: the host called replay; then streams whose Task IDs recur are graphs of custom kernels.
    """
    order = table.ordered((COMPUTE, COMMUNICATION))
    in_graph, owner = _mark_captured(table, order, replays_ran)
    replay_of, replays = _cut_replays(table, order, owner)
    by_model = [i for i in order if table.model[i] not in (EAGER_MODEL, UNKNOWN)]
    by_stream = [i for place, i in enumerate(order) if in_graph[place]]
    coverage = Coverage(
        len(order),
        sum(table.duration[i] for i in order),
        len(by_model),
        sum(table.duration[i] for i in by_model),
        len(by_stream),
        sum(table.duration[i] for i in by_stream),
    )
    return GraphUse(order, in_graph, replay_of, replays, coverage)


def _mark_captured(table: TaskTable, order: array[int], replays_ran: bool) -> tuple[bytearray, array[int]]:
    """Return per kernel (in order) whether it is in a graph, and the graph's Model ID."""
    owner = array("q", [UNKNOWN]) * len(order)
    by_stream: dict[int, list[int]] = {}
    for place, index in enumerate(order):
        model = table.model[index]
        if model not in (EAGER_MODEL, UNKNOWN):
            owner[place] = model
        by_stream.setdefault(table.number_of("stream", index), []).append(place)
    for places in by_stream.values():
        if any(owner[place] != UNKNOWN for place in places):
            _adopt(table, order, owner, places, 1)
            _adopt(table, order, owner, places[::-1], -1)
        elif replays_ran and _tasks_recur([table.task[order[place]] for place in places]):
            for place in places:
                owner[place] = CUSTOM_MODEL
    return bytearray(model != UNKNOWN for model in owner), owner


def _tasks_recur(tasks: list[int]) -> bool:
    """Say whether a stream runs the same Task IDs again and again, which only a replayed graph does."""
    if UNKNOWN in tasks or max(tasks) >= _LAST_TASK_BEFORE_WRAP:
        return False
    counts = Counter(tasks)
    return sum(1 for count in counts.values() if count > 1) >= _RECURRING_SHARE * len(counts)


def _adopt(table: TaskTable, order: array[int], owner: array[int], places: list[int], direction: int) -> None:
    """Give a kernel with the eager Model ID to the graph whose Task IDs it continues, walking one stream one way.

    Args:
        direction: 1 forward in time, -1 backward.
    """
    last_task = last_owner = UNKNOWN
    for place in places:
        index = order[place]
        task = table.task[index]
        open_ = owner[place] == UNKNOWN and last_owner != UNKNOWN and UNKNOWN not in (task, last_task)
        # Forward in time the numbers rise, backward they fall; an equal number belongs to another replay.
        if open_ and 0 < (task - last_task) * direction <= _MAX_TASK_STEP:
            owner[place] = last_owner
        last_owner, last_task = owner[place], task


def _cut_replays(table: TaskTable, order: array[int], owner: array[int]) -> tuple[array[int], list[Replay]]:
    """Cut each graph's kernels into replays: a new one begins where a stream's Task IDs start again."""
    replay_of = array("l", [-1]) * len(order)
    current: dict[int, int] = {}
    last: dict[int, dict[int, int]] = {}
    seen: dict[int, set[tuple[int, int, int]]] = {}
    spans: list[list[int]] = []
    for place, index in enumerate(order):
        model = owner[place]
        if model == UNKNOWN:
            continue
        stream, task = table.number_of("stream", index), table.task[index]
        key = (stream, task, table.number_of("context", index))
        tasks = last.setdefault(model, {})
        again = task != UNKNOWN and (task < tasks.get(stream, UNKNOWN) or key in seen.setdefault(model, set()))
        if model not in current or again:
            current[model] = len(spans)
            spans.append([model, table.start[index], table.end(index), 0])
            last[model] = tasks = {}
            seen[model] = set()
        span = spans[current[model]]
        span[2] = max(span[2], table.end(index))
        span[3] += 1
        tasks[stream] = task
        seen[model].add(key)
        replay_of[place] = current[model]
    return replay_of, _judge_complete(spans)


def _judge_complete(spans: list[list[int]]) -> list[Replay]:
    """A replay that was already running when the profiler opened, or still ran at its end, has fewer kernels."""
    usual: dict[int, int] = {}
    for model, _, _, kernels in spans:
        usual[model] = max(usual.get(model, 0), kernels)
    return [Replay(model, start, end, kernels, kernels == usual[model]) for model, start, end, kernels in spans]

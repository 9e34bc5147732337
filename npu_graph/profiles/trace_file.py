"""trace_view.json, read event by event: a gigabyte of trace in a few megabytes of memory."""

from __future__ import annotations

import codecs
import json
import re
from array import array
from bisect import bisect_left
from itertools import accumulate
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from npu_graph import cli
from npu_graph.profiles.tasks import UNKNOWN, Task, TaskTable
from npu_graph.profiles.timestamps import to_int, to_ns

_BLOCK = 1 << 20
_SEPARATORS = re.compile(r"[ \t\r\n,]*")
# One event is below a kilobyte; with a Python stack tens of kilobytes. More is no trace event.
_MAX_EVENT = 4 << 20
# Flows kept while their other half is awaited, and calls kept with their times.
_MAX_FLOWS = 200_000
_MAX_CALLS = 200_000
_MAX_LAUNCHES = 500_000

# The host call that starts a replay. The second is its blocking form.
REPLAY_CALLS = ("aclmdlRIExecuteAsync", "aclmdlRIExecute")
CAPTURE_BEGIN = "aclmdlRICaptureBegin"
LAUNCH = "Node@launch"
SYNC_STARTS = ("AscendCL@aclrtSynchronize",)
# Lanes of the profiler's own arithmetic, kept to check ours against it.
_OVERLAP_NAMES = frozenset(("Computing", "Communication", "Communication(Not Overlapped)", "Free"))
_OVERLAP_PROCESS = "Overlap Analysis"


class TruncatedTraceError(Exception):
    """The file ends inside the array (the profiler was killed, or the copy is partial)."""


class HostCall(NamedTuple):
    """One host call: start and end in nanoseconds, and the number that ties it to its device task."""

    start: int
    end: int
    connection: int


class TraceFacts:
    """What the analysis needs of a trace beyond its device tasks."""

    def __init__(self) -> None:
        self.events = 0
        self.device_tasks = 0
        self.truncated = False
        self.has_host_calls = False
        self.replay_calls: list[HostCall] = []
        self.capture_begins = 0
        self.syncs: list[HostCall] = []
        self.host_totals: dict[str, tuple[int, int]] = {}
        self.steps: list[tuple[int, int, int]] = []
        self.model_executes: list[HostCall] = []
        self._launch_times = array("q")
        self._launch_sums = array("q")
        self._device_times = array("q")
        self._host_times = array("q")
        self.flows_dropped = 0
        self.overlap: dict[str, int] = {}

    @property
    def has_flows(self) -> bool:
        """Say whether the trace tells when tasks were submitted."""
        return len(self._device_times) > 0

    def add_flow(self, host: int, device: int) -> None:
        """Keep that the task starting at `device` was submitted at `host` (ns)."""
        if len(self._device_times) < _MAX_FLOWS:
            self._device_times.append(device)
            self._host_times.append(host)

    def add_launch(self, start: int, duration: int) -> None:
        """Keep one kernel launch of the host (ns); `sort` turns the durations into running sums."""
        if len(self._launch_times) < _MAX_LAUNCHES:
            self._launch_times.append(start)
            self._launch_sums.append(duration)

    def launch_time(self, start: int, end: int) -> int | None:
        """Return the host's launch time (ns) of launches begun in [start, end); None if the trace has none at all."""
        if not len(self._launch_times):
            return None
        first, last = bisect_left(self._launch_times, start), bisect_left(self._launch_times, end)
        return (self._launch_sums[last - 1] if last else 0) - (self._launch_sums[first - 1] if first else 0)

    def sort(self) -> None:
        """Order everything by time, once the file is read."""
        places = sorted(range(len(self._launch_times)), key=self._launch_times.__getitem__)
        self._launch_times, durations = (
            array("q", (column[place] for place in places)) for column in (self._launch_times, self._launch_sums)
        )
        self._launch_sums = array("q", accumulate(durations))
        for calls in (self.replay_calls, self.syncs, self.model_executes):
            calls.sort()
        self.steps.sort()
        places = sorted(range(len(self._device_times)), key=self._device_times.__getitem__)
        self._device_times, self._host_times = (
            array("q", (column[place] for place in places)) for column in (self._device_times, self._host_times)
        )

    def submitted_at(self, device: int) -> int | None:
        """Return when the task that starts at `device` was submitted (ns), if the trace tells."""
        place = bisect_left(self._device_times, device)
        if place < len(self._device_times) and self._device_times[place] == device:
            return self._host_times[place]
        return None


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array, or of the `traceEvents` array of an object, one at a time.

    Raises:
        TruncatedTraceError: when the array does not end; the events before that were yielded.
        CommandError: exit code 3 when the file holds no array of objects.
    """
    decode = json.JSONDecoder().raw_decode
    utf8 = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        source = path.open("rb")
    except OSError as error:
        raise cli.CommandError(f"{path} cannot be read: {error.strerror}", cli.NO_INPUT) from None
    with source:
        text = utf8.decode(source.read(_BLOCK))
        position = text.find("[") + 1
        if not position:
            raise cli.CommandError(f"{path.name} holds no JSON array of events", cli.NO_INPUT)
        ended = False
        while True:
            position = _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]  # matches nothing, too
            if position < len(text):
                if text[position] == "]":
                    return
                try:
                    event, position = decode(text, position)
                except ValueError:  # cut by the end of the block, or broken
                    pass
                except RecursionError:
                    raise cli.CommandError(f"{path.name}: an event is nested too deep", cli.NO_INPUT) from None
                else:
                    if isinstance(event, dict):
                        yield event
                    continue
            if ended or len(text) - position > _MAX_EVENT:
                raise TruncatedTraceError(path.name)
            block = source.read(_BLOCK)
            ended = not block
            text = text[position:] + utf8.decode(block, ended)
            position = 0


def read_trace(path: Path, table: TaskTable | None) -> TraceFacts:
    """Read a trace once: device tasks into `table` (None: count only), host facts into the result."""
    facts = TraceFacts()
    pending: dict[int, int] = {}
    lanes: dict[tuple[object, str], int] = {}
    processes: dict[object, str] = {}
    try:
        for event in read_events(path):
            facts.events += 1
            phase = event.get("ph")
            if phase == "X":
                _take_complete(event, facts, table, lanes)
            elif phase in ("s", "f"):
                if event.get("cat") == "HostToDevice":
                    _take_flow(event, phase, facts, pending)
            elif phase == "M" and event.get("name") == "process_name":
                arguments = event.get("args")
                if isinstance(arguments, dict):
                    processes[_hashable(event.get("pid"))] = str(arguments.get("name"))
    except TruncatedTraceError:
        facts.truncated = True
    for (pid, name), total in lanes.items():
        if processes.get(pid) == _OVERLAP_PROCESS:
            facts.overlap[name] = facts.overlap.get(name, 0) + total
    facts.sort()
    return facts


def _take_complete(
    event: dict[str, Any],
    facts: TraceFacts,
    table: TaskTable | None,
    lanes: dict[tuple[object, str], int],
) -> None:
    name = event.get("name")
    if not isinstance(name, str):
        return
    arguments = event.get("args")
    if isinstance(arguments, dict) and "Task Type" in arguments:
        _take_task(event, name, arguments, facts, table)
    elif name.startswith(("AscendCL@", "Node@")):
        _take_host_call(event, name, arguments, facts)
    elif name.startswith("ProfilerStep"):
        start, duration = to_ns(event.get("ts")), to_ns(event.get("dur"))
        number = to_int(name.partition("#")[2])
        if start is not None and duration is not None and number is not None:
            facts.steps.append((start, start + duration, number))
    elif name in _OVERLAP_NAMES:
        duration = to_ns(event.get("dur"))
        if duration is not None:
            key = (_hashable(event.get("pid")), name)
            lanes[key] = lanes.get(key, 0) + duration
    elif name.startswith("hcom_") and table is not None:
        start, duration = to_ns(event.get("ts")), to_ns(event.get("dur"))
        if start is not None and duration is not None and duration >= 0:
            kind = name.partition("__")[0]
            table.add(Task(start, duration, kind, kind, "HCCL", "", UNKNOWN, UNKNOWN, "", "", "", UNKNOWN, ""))


def _take_task(
    event: dict[str, Any], name: str, arguments: dict[str, Any], facts: TraceFacts, table: TaskTable | None
) -> None:
    start, duration = to_ns(event.get("ts")), to_ns(event.get("dur"))
    if start is None or duration is None or duration < 0:
        return
    facts.device_tasks += 1
    type_ = str(arguments.get("Task Type"))
    if type_ == "MODEL_EXECUTE" and len(facts.model_executes) < _MAX_CALLS:
        connection = to_int(arguments.get("connection_id"))
        facts.model_executes.append(HostCall(start, start + duration, UNKNOWN if connection is None else connection))
    if table is None:
        return
    if table.full:
        table.dropped += 1
        return
    stream = arguments.get("Physic Stream Id", arguments.get("Stream Id", event.get("tid", "")))
    model = to_int(arguments.get("Model Id", UNKNOWN))
    task = to_int(arguments.get("Task Id", UNKNOWN))
    table.add(
        Task(
            start,
            duration,
            name,
            name,
            type_,
            str(stream),
            UNKNOWN if model is None else model,
            UNKNOWN if task is None else task,
            str(arguments.get("Subtask Id", "")),
            "",
            "",
            UNKNOWN,
            str(event.get("pid", "")),
        )
    )


def _take_host_call(event: dict[str, Any], name: str, arguments: object, facts: TraceFacts) -> None:
    start, duration = to_ns(event.get("ts")), to_ns(event.get("dur"))
    if start is None or duration is None:
        return
    facts.has_host_calls = True
    if name in facts.host_totals or len(facts.host_totals) < _MAX_CALLS:
        count, total = facts.host_totals.get(name, (0, 0))
        facts.host_totals[name] = (count + 1, total + duration)
    connection = to_int(arguments.get("connection_id", UNKNOWN)) if isinstance(arguments, dict) else None
    call = HostCall(start, start + duration, UNKNOWN if connection is None else connection)
    api = name.partition("@")[2]
    if api in REPLAY_CALLS:
        if len(facts.replay_calls) < _MAX_CALLS:
            facts.replay_calls.append(call)
    elif api == CAPTURE_BEGIN:
        facts.capture_begins += 1
    elif name == LAUNCH:
        facts.add_launch(start, duration)
    elif name.startswith(SYNC_STARTS) and len(facts.syncs) < _MAX_CALLS:
        facts.syncs.append(call)


def _take_flow(event: dict[str, Any], phase: object, facts: TraceFacts, pending: dict[int, int]) -> None:
    """Join the two ends of a HostToDevice flow: when the host submitted the task that starts at a given time."""
    number, time = to_int(event.get("id")), to_ns(event.get("ts"))
    if number is None or time is None:
        return
    other = pending.pop(number, None)
    if other is None:
        if len(pending) >= _MAX_FLOWS:
            facts.flows_dropped += 1
        else:
            pending[number] = time if phase == "s" else -time
    elif (other < 0) != (phase == "f"):
        facts.add_flow(other if phase == "f" else time, time if phase == "f" else -other)


def _hashable(value: object) -> object:
    return value if isinstance(value, (int, str)) else str(value)

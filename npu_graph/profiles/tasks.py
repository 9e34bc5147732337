"""Device tasks in columns, which keeps a large trace in memory: what ran, when, on which stream, in which graph."""

from __future__ import annotations

import re
from array import array
from typing import NamedTuple

# Model ID of a task that belongs to no captured graph: 0xFFFFFFFF (msprof analysis/common_func/constant.py
# GE_OP_MODEL_ID; seen as 4294967295 in every eager row).
EAGER_MODEL = 4294967295
UNKNOWN = -1

# Device tasks kept of one profile; their columns and the analysis of them stay below 150 MB at this number.
MAX_TASKS = 500_000
# Distinct texts kept per profile (names, shapes); hostile or per-call names end in one bucket.
MAX_TEXTS = 100_000
OTHER_TEXT = "(other)"

COMPUTE, COMMUNICATION, COPY, CONTROL = range(4)

# Tasks that wait, signal or steer. They occupy a stream without computing, so counting them as work turns every wait
# of a graph into device time. CAPTURE_*: cross-stream events inside a captured graph; MEM_*_VALUE: external events.
_CONTROL_WORDS = frozenset(
    (
        "MODEL_EXECUTE",
        "MODEL_WAIT_COMPLETE",
        "MODEL_MAINTAINCE",
        "MODEL_MAINTENANCE",
        "MODEL_END_GRAPH",
        "PROFILING_ENABLE",
        "PROFILING_DISABLE",
        "MEM_WAIT_VALUE",
        "MEM_WRITE_VALUE",
        "PLACE_HOLDER_SQE",
        "STREAM_ACTIVE",
        "STREAM_SWITCH",
        "LABEL_SET",
        "LABEL_SWITCH",
        "LABEL_GOTO",
        "FLIP_TASK",
        "DATADUMP_LOADINFO",
    )
)
_CONTROL_ENDINGS = ("_WAIT", "_RECORD", "_RESET", "_WAIT_SQE", "_RECORD_SQE")
_COPY_WORDS = ("MEMCPY", "SDMA", "MEMSET")
_COMMUNICATION_CORES = frozenset(("HCCL", "COMMUNICATION", "HCOM"))
_COMMUNICATION_STARTS = ("hcom_", "hccl_", "hcclaicpu", "allreduceaicpukernel", "allgatheraicpukernel")
# Kernels that hold a collective: their duration is work plus the wait for the slowest rank, and a single profile cannot
# part the two (measured: 3-17 ms "dispatch kernels" that were all wait).
MIXED_TYPES = (
    "moedistributedispatch",
    "moedistributecombine",
    "allgathermatmul",
    "matmulreducescatter",
    "matmulallreduce",
    "alltoallv",
    "dispatchffncombine",
)
AI_CPU_CORES = frozenset(("AI_CPU", "AICPU", "KERNEL_AICPU"))

_TRAILING_NUMBER = re.compile(r"_\d{1,9}$")


class Texts:
    """Texts as small numbers, each stored once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.values: list[str] = []

    def number(self, text: str) -> int:
        """Return the text's number; after MAX_TEXTS distinct texts the rest share one bucket."""
        known = self._numbers.get(text)
        if known is not None:
            return known
        if len(self.values) >= MAX_TEXTS:
            return self.number(OTHER_TEXT) if OTHER_TEXT in self._numbers else self._add(OTHER_TEXT)
        return self._add(text)

    def _add(self, text: str) -> int:
        self._numbers[text] = len(self.values)
        self.values.append(text)
        return len(self.values) - 1


class Task(NamedTuple):
    """One device task. Times in nanoseconds; model, task and step are UNKNOWN (-1) where the profile does not say."""

    start: int
    duration: int
    name: str
    type: str
    core: str
    stream: str
    model: int
    task: int
    context: str
    shapes: str
    formats: str
    step: int
    device: str

    @property
    def end(self) -> int:
        return self.start + self.duration


class TaskTable:
    """Device tasks of one profile, column by column, sorted by start once `finish` was called."""

    def __init__(self) -> None:
        self.start = array("q")
        self.duration = array("q")
        self.model = array("q")
        self.task = array("q")
        self.step = array("i")
        self.kind = array("b")
        self._texts: dict[str, array[int]] = {
            key: array("i") for key in ("name", "type", "core", "stream", "context", "shapes", "formats", "device")
        }
        self.texts = Texts()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.start)

    @property
    def full(self) -> bool:
        """Say whether further tasks are only counted."""
        return len(self.start) >= MAX_TASKS

    def add(self, task: Task) -> None:
        """Append a task; beyond MAX_TASKS it is counted in `dropped` only."""
        if self.full:
            self.dropped += 1
            return
        self.start.append(task.start)
        self.duration.append(task.duration)
        self.model.append(task.model)
        self.task.append(task.task)
        # A step number beyond 32 bits is a broken cell.
        self.step.append(task.step if 0 <= task.step < 1 << 31 else UNKNOWN)
        self.kind.append(task_kind(task.name, task.type, task.core))
        for key, column in self._texts.items():
            column.append(self.texts.number(getattr(task, key)))

    def text(self, key: str, index: int) -> str:
        """Return a text column's value: name, type, core, stream, context, shapes, formats or device."""
        return self.texts.values[self._texts[key][index]]

    def number_of(self, key: str, index: int) -> int:
        """Return the number that stands for a text, for grouping without building strings."""
        return self._texts[key][index]

    def row(self, index: int) -> Task:
        """Return one task with its texts."""
        return Task(
            self.start[index],
            self.duration[index],
            self.text("name", index),
            self.text("type", index),
            self.text("core", index),
            self.text("stream", index),
            self.model[index],
            self.task[index],
            self.text("context", index),
            self.text("shapes", index),
            self.text("formats", index),
            self.step[index],
            self.text("device", index),
        )

    def end(self, index: int) -> int:
        return self.start[index] + self.duration[index]

    def ordered(self, kinds: tuple[int, ...]) -> array[int]:
        """Return the indexes of the tasks of these kinds, by start."""
        chosen = [i for i in range(len(self.start)) if self.kind[i] in kinds]
        start = self.start
        if any(start[chosen[i]] > start[chosen[i + 1]] for i in range(len(chosen) - 1)):
            chosen.sort(key=start.__getitem__)
        return array("l", chosen)


def task_kind(name: str, type_: str, core: str) -> int:
    """Return COMPUTE, COMMUNICATION, COPY or CONTROL for a task."""
    # A kernel's name is the user's choice; only the core column (msprof: task type) speaks the device's words.
    word = core.upper()
    if word in _CONTROL_WORDS or word.endswith(_CONTROL_ENDINGS):
        return CONTROL
    if word.startswith(_COPY_WORDS):
        return COPY
    named = any(text.lower().startswith(_COMMUNICATION_STARTS) for text in (type_, name))
    return COMMUNICATION if named or word in _COMMUNICATION_CORES else COMPUTE


def is_mixed(type_: str) -> bool:
    """Say whether a kernel holds a collective, so that its duration is part wait."""
    return type_.lower().startswith(MIXED_TYPES)


def plain_type(type_: str) -> str:
    """Return a kernel's type without the `_1` that a second compilation of a Triton kernel carries.

    The same kernel is `_triton_rope` in eager and `_triton_rope_1` in a graph; a join on the full name loses it.
    """
    return _TRAILING_NUMBER.sub("", type_)

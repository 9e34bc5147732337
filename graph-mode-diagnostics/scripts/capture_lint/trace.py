"""What the walk of one function leaves behind: regions and the events inside and around them, in order."""

from __future__ import annotations

import ast
from typing import NamedTuple

# How a region came to be. In `compiled` regions Dynamo reads the code first, so that Python state is guarded and
# constants are lifted: rules about the bare capture do not hold there.
MANUAL, GRAPHED, COMPILED, ENTRY = "manual", "graphed", "compiled", "entry"


class Value(NamedTuple):
    """What is known of an expression's value without running it.

    kind: device (a tensor on the NPU), mask (the same, boolean), cpu (a tensor on the host), host (any other Python
    value), stream, event, graph, generator, module, chain (a container of modules), function, class, tuple, iterable,
    none, unknown.
    """

    kind: str
    detail: object = None
    # Where the storage came from: names of the same origin share memory (views).
    fresh: bool = False

    @property
    def items(self) -> list[Value]:
        """Return the parts of a tuple or list, as far as they are known."""
        return [item for item in self.detail if isinstance(item, Value)] if isinstance(self.detail, list) else []

    @property
    def on_device(self) -> bool:
        return self.kind in ("device", "mask")


UNKNOWN = Value("unknown")
HOST = Value("host")
DEVICE = Value("device")
MASK = Value("mask")
CPU = Value("cpu")
NONE = Value("none")


class Region:
    """Code that runs while a capture is open."""

    def __init__(
        self, kind: str, file: str, line: int, label: str, graph: str = "", node: ast.AST | None = None
    ) -> None:
        self.kind = kind
        self.file = file
        self.line = line
        self.label = label
        self.graph = graph
        self.node = node

    @property
    def bare(self) -> bool:
        """Say whether the code runs as it is written, without Dynamo in between."""
        return self.kind != COMPILED


class Event:
    """One thing the code does, in the order of execution."""

    __slots__ = (
        "arg_names",
        "args",
        "arms",
        "expected_failure",
        "file",
        "frame",
        "guarded",
        "keywords",
        "kind",
        "loops",
        "name",
        "node",
        "path",
        "receiver",
        "region",
        "streams",
        "target",
        "value",
    )

    def __init__(
        self, kind: str, node: ast.AST, name: str = "", receiver: Value = UNKNOWN, value: Value = UNKNOWN
    ) -> None:
        self.kind = kind
        self.node = node
        self.name = name
        self.receiver = receiver
        self.value = value
        self.args: list[Value] = []
        self.arg_names: list[str] = []
        self.keywords: dict[str, Value] = {}
        self.target = UNKNOWN
        # The arms of `if` statements around the event: (number of the if, arm taken).
        self.arms: tuple[tuple[int, int], ...] = ()
        self.file = ""
        self.frame = 0
        self.loops: tuple[int, ...] = ()
        self.region: Region | None = None
        self.path: tuple[str, ...] = ()
        self.streams: tuple[str, ...] = ()
        self.guarded = False
        self.expected_failure = False

    @property
    def method(self) -> str:
        """Return the last part of a called name."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """Return what stands before the last dot of a called name."""
        return self.name.rpartition(".")[0]


def exclude_each_other(first: Event, second: Event) -> bool:
    """Say whether two events stand in different arms of one `if`, so that never both happen."""
    taken = dict(first.arms)
    return any(number in taken and taken[number] != arm for number, arm in second.arms)


class Trace:
    """The events of one function (and of what it calls inside its regions)."""

    def __init__(self, file: str, function: str) -> None:
        self.file = file
        self.function = function
        self.events: list[Event] = []
        # What the whole file says: "captures", "pinning loader".
        self.facts: set[str] = set()

    def captured(self, *kinds: str, bare: bool = False) -> list[Event]:
        """Return the events of these kinds inside a region; with `bare` only where Dynamo does not read first."""
        return [
            event
            for event in self.events
            if event.kind in kinds and event.region is not None and (event.region.bare or not bare)
        ]

    def of(self, *kinds: str) -> list[Event]:
        """Return the events of these kinds, inside a region or not."""
        return [event for event in self.events if event.kind in kinds]

"""Rules about code that captures, and then replays wrongly: rebinding, frozen Python state, overwritten outputs."""

from __future__ import annotations

import ast
from typing import Iterator

from .rule import rule
from .trace import MANUAL, Event, Region, Trace

Hits = Iterator["tuple[Event, str]"]

_HOST_CLOCKS = ("random.", "numpy.random.", "np.random.", "time.", "datetime.", "secrets.", "uuid.")
_COPYING = frozenset(("clone", "cpu", "copy", "deepcopy", "detach_copy", "tolist", "item", "numpy"))


class Capture:
    """One manual capture in a trace: its graph, the names it reads from outside and the names it makes."""

    def __init__(self, region: Region, start: int) -> None:
        self.region = region
        self.start = start
        self.end = start
        self.frame = 0
        self.inputs: dict[str, Event] = {}
        self.outputs: set[str] = set()


def find_captures(trace: Trace) -> list[Capture]:
    """Return the manual captures of a trace with what goes in and what comes out, by name."""
    captures: dict[int, Capture] = {}
    for position, event in enumerate(trace.events):
        if event.kind == "enter" and isinstance(event.value.detail, Region):
            capture = captures.setdefault(id(event.value.detail), Capture(event.value.detail, position))
            capture.frame = event.frame
        region = event.region
        if region is None or region.kind != MANUAL or id(region) not in captures:
            continue
        capture = captures[id(region)]
        capture.end = position
        shared = event.name.startswith("self.")
        if event.frame != capture.frame and not shared:
            continue
        if event.kind == "load" and event.name not in capture.outputs:
            capture.inputs.setdefault(event.name, event)
        elif event.kind in ("assign", "augassign"):
            capture.outputs.add(event.name)
    return list(captures.values())


def _same(first: int, second: int, name: str) -> bool:
    return first == second or name.startswith("self.")


def _replays(trace: Trace, capture: Capture) -> list[tuple[int, Event]]:
    """Return (position, event) of the replays of a capture's graph after its end."""
    return [
        (position, event)
        for position, event in enumerate(trace.events)
        if position > capture.end
        and event.kind == "call"
        and event.method == "replay"
        and event.owner == capture.region.graph
        and _same(event.frame, capture.frame, event.owner)
    ]


@rule(
    "G029",
    "input-rebound",
    "error",
    "P-ACC-003",
    "`{}` is bound to a new tensor; the graph goes on reading the old one",
)
def input_rebound(trace: Trace) -> Hits:
    """An input of the graph assigned anew before `replay()`, instead of written in place.

    Why: the graph holds addresses, not names. Each replay reads the tensor that was there at capture, and the result is
    that of the old input, without any error.
    Fix: `static.copy_(new)`.

    Bad:
        with torch.npu.graph(g):
            y = x * 2
        x = torch.ones(8, device="npu")
        g.replay()

    Good:
        with torch.npu.graph(g):
            y = x * 2
        x.copy_(torch.ones(8, device="npu"))
        g.replay()
    """
    captures = find_captures(trace)
    for capture in captures:
        own = _replays(trace, capture)
        kept = own or _replays_of_kept_graphs(trace, capture, captures)
        for position, event in enumerate(trace.events[capture.end + 1 :], capture.end + 1):
            if event.kind != "assign" or event.name not in capture.inputs or event.region is not None:
                continue
            replays = kept if event.name.startswith("self.") else own
            if not _same(event.frame, capture.frame, event.name) or event.path[-1:] == ("__init__",):
                continue
            known = capture.inputs[event.name].value.on_device or event.name.startswith("self.")
            if not (event.value.on_device or (known and event.value.kind == "unknown" and not _is_view(event))):
                continue
            if not known and not event.value.on_device:
                continue
            later = [
                at for at, replay in replays if at > position or (replay.loops and set(replay.loops) & set(event.loops))
            ]
            recaptured = any(other.start > position and other.start < (later[-1] if later else 0) for other in captures)
            if later and not recaptured:
                yield event, event.name


def _replays_of_kept_graphs(trace: Trace, capture: Capture, captures: list[Capture]) -> list[tuple[int, Event]]:
    """Return replays of a graph fetched from a table, when this capture's graph was put into one."""
    graphs = {(other.frame, other.region.graph) for other in captures}
    local = "." not in capture.region.graph
    return [
        (position, event)
        for position, event in enumerate(trace.events)
        if local and position > capture.end and event.kind == "call" and event.method == "replay"
        if (event.frame, event.owner) not in graphs and event.frame != capture.frame
    ]


def _is_view(event: Event) -> bool:
    """Say whether `x = something[...]` or `x = x.view()` keeps the storage."""
    value = getattr(event.node, "value", None)
    return isinstance(value, (ast.Subscript, ast.Attribute))


@rule(
    "G030",
    "accumulation-by-rebinding",
    "error",
    "P-ACC-003",
    "`{}` is rebound inside the region: replays start from the old tensor each time",
)
def accumulation_by_rebinding(trace: Trace) -> Hits:
    """`total = total + x` or `self.cache = torch.cat([self.cache, x])` inside a captured region.

    Why: the new tensor lives in the graph's pool; the next replay reads the old one again, so nothing accumulates (or
    grows). The name afterwards refers to the graph's output, and writing to it does not reach the input.
    Fix: write in place: `total.add_(x)`, `self.cache.copy_(...)`; for a cache that grows, allocate it at its largest
    size and write at an index.

    Bad:
        total = torch.zeros(8, device="npu")
        with torch.npu.graph(g):
            total = total + x

    Good:
        total = torch.zeros(8, device="npu")
        with torch.npu.graph(g):
            total.add_(x)
    """
    made_inside: set[tuple[int, int, str]] = set()
    outputs: set[tuple[int, str]] = set()
    captures = {id(capture.region): capture for capture in find_captures(trace)}
    for event in trace.captured("assign", "call", bare=True):
        region = event.region
        if event.kind == "call":
            # Filled anew inside the region: every replay starts from the same content on purpose.
            if event.method in ("fill_", "zero_", "copy_", "normal_", "uniform_"):
                made_inside.add((id(region), event.frame, event.owner))
            continue
        key = (id(region), event.frame, event.name)
        # What an earlier graph puts out is computed anew by its replay.
        first = key not in made_inside and (event.frame, event.name) not in outputs
        made_inside.add(key)
        outputs.add((event.frame, event.name))
        if not first or not isinstance(event.node, ast.Assign):
            continue
        shared = event.name.startswith("self.") and event.name.count(".") == 1
        capture = captures.get(id(region))
        in_frame = capture is not None and event.frame == capture.frame
        if not (shared or in_frame) or not _reads(event.node.value, event.name):
            continue
        if event.receiver.on_device or (shared and event.value.on_device and event.receiver.kind == "unknown"):
            yield event, event.name


def _reads(node: ast.expr, name: str, plain: bool = False) -> bool:
    """Say whether an expression computes from a name (a view or a slice of it is no computation, unless `plain`)."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not plain:
        return False
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("view", "reshape", "to")
    ):
        return False
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id == name:
            return True
        if (
            isinstance(child, ast.Attribute)
            and isinstance(child.value, ast.Name)
            and f"{child.value.id}.{child.attr}" == name
        ):
            return True
    return False


@rule(
    "G031",
    "output-kept-without-copy",
    "error",
    "P-REP-008",
    "`{}` is kept across replays, but the next replay overwrites it",
)
def output_kept_without_copy(trace: Trace) -> Hits:
    """A graph's output put aside without `.clone()`, then overwritten by the next `replay()`.

    Why: the output is one tensor in the graph's pool. A list of ten of them is ten times the last result.
    Fix: `.clone()` (or copy to the host) after each replay what is kept.

    Bad:
        with torch.npu.graph(g):
            y = x * 2
        for batch in batches:
            x.copy_(batch)
            g.replay()
            results.append(y)

    Good:
        with torch.npu.graph(g):
            y = x * 2
        for batch in batches:
            x.copy_(batch)
            g.replay()
            results.append(y.clone())
    """
    for capture in find_captures(trace):
        replays = _replays(trace, capture)
        for position, event in enumerate(trace.events[capture.end + 1 :], capture.end + 1):
            if event.region is not None or not replays:
                continue
            name = _kept_name(event)
            if not name or name not in capture.outputs or not _same(event.frame, capture.frame, name):
                continue
            in_loop = any(set(replay.loops) & set(event.loops) for at, replay in replays)
            if event.kind != "assign":
                if in_loop:
                    yield event, name
            elif any(at < position for at, _ in replays) and _read_after_next(trace, capture, event, position, replays):
                yield event, name


def _kept_name(event: Event) -> str:
    """Return the name that an event puts aside: list.append(y), results[i] = y, first = y."""
    if event.kind == "call" and event.method in ("append", "add", "put", "appendleft") and len(event.arg_names) == 1:
        return event.arg_names[0]
    if event.kind == "store" and event.receiver.kind in ("host", "tuple", "unknown"):
        return event.arg_names[0]
    if event.kind == "assign" and isinstance(event.node, ast.Assign) and isinstance(event.node.value, ast.Name):
        return event.node.value.id
    return ""


def _read_after_next(
    trace: Trace, capture: Capture, event: Event, position: int, replays: list[tuple[int, Event]]
) -> bool:
    following = [at for at, _ in replays if at > position]
    if not following:
        return False
    for later in trace.events[following[0] :]:
        if later.kind == "assign" and later.name == event.name:
            return False
        if later.kind == "load" and later.name == event.name and later.frame == event.frame:
            return True
    return False


@rule(
    "G032",
    "shared-pool-replay-order",
    "warning",
    "P-REP-008",
    "graphs that share a pool are replayed in another order than captured ({})",
)
def shared_pool_replay_order(trace: Trace) -> Hits:
    """Two graphs captured into one pool, the later one replayed before the earlier one.

    Why: the second capture may use memory that the first one freed at its end. That is right only while the graphs run
    in the order of their capture and never at the same time.
    Fix: replay in the order of capture, or give each graph its own pool.

    Bad:
        with torch.npu.graph(g1):
            y = x * 2
        with torch.npu.graph(g2, pool=g1.pool()):
            z = x * 3
        g2.replay()
        g1.replay()
        print(z)

    Good:
        with torch.npu.graph(g1):
            y = x * 2
        with torch.npu.graph(g2, pool=g1.pool()):
            z = x * 3
        g1.replay()
        g2.replay()
    """
    captures = find_captures(trace)
    for second in captures:
        node = second.region.node
        pools = [item.value for item in getattr(node, "keywords", ()) if item.arg == "pool"]
        if not pools or not isinstance(pools[0], ast.Call) or not isinstance(pools[0].func, ast.Attribute):
            continue
        owner = pools[0].func.value
        shared_with = owner.id if isinstance(owner, ast.Name) else ""
        for first in captures:
            if first.region.graph != shared_with or first.frame != second.frame or first is second:
                continue
            firsts, seconds = _replays(trace, first), _replays(trace, second)
            if not firsts or not seconds or seconds[0][0] > firsts[0][0]:
                continue
            after = trace.events[firsts[0][0] :]
            if any(e.kind == "load" and e.name in second.outputs and e.frame == second.frame for e in after):
                yield firsts[0][1], f"{second.region.graph} before {first.region.graph}"


@rule("G033", "capture-without-warm-up", "warning", "P-CAP-017", "`{}` runs for the first time inside the capture")
def capture_without_warm_up(trace: Trace) -> Hits:
    """A module or a backward pass whose first run is the captured one.

    Why: what happens once at first use (caches, workspaces, communicators, kernel compilation) then happens during
    capture, where it is refused or is recorded into the graph.
    Fix: run the same call two or three times on a side stream before the capture.

    Bad:
        layer = torch.nn.Linear(8, 8).npu()
        with torch.npu.graph(g):
            y = layer(x)

    Good:
        layer = torch.nn.Linear(8, 8).npu()
        for _ in range(3):
            layer(x)
        with torch.npu.graph(g):
            y = layer(x)
    """
    warm: set[str] = set()
    frames = {id(capture.region): capture.frame for capture in find_captures(trace)}
    for event in trace.of("call"):
        backward = event.method == "backward"
        name = "backward()" if backward else event.name
        if event.region is None:
            warm.add(name)
            # A function that is handed the module may run it.
            warm.update(word for word in event.arg_names if word)
        elif event.frame == frames.get(id(event.region)) and name not in warm and (backward or _is_module(event)):
            warm.add(name)
            yield event, name


def _is_module(event: Event) -> bool:
    """Say whether what is called is an nn.Module (or a Sequential of them)."""
    return event.target.kind in ("module", "chain")


@rule("G034", "python-state-frozen", "warning", "P-ACC-008", "`{}` changes at capture only; replays do not run Python")
def python_state_frozen(trace: Trace) -> Hits:
    """A counter or step kept in Python and advanced inside a captured region.

    Why: Python runs once, at capture. The counter stays at its next value for ever, and whatever was chosen by it is
    part of the graph.
    Fix: advance it outside, next to `replay()`; what the graph needs of it goes into a device tensor that is updated in
    place (`step.add_(1)`).

    Bad:
        with torch.npu.graph(g):
            y = x * self.step
            self.step += 1

    Good:
        with torch.npu.graph(g):
            y = x * step
            step.add_(1)
    """
    made_inside: set[tuple[int, str]] = set()
    for event in trace.events:
        region = event.region
        if region is None or not region.bare:
            continue
        counts = event.kind == "augassign" or (event.kind == "assign" and _counts_up(event))
        if event.kind == "assign" and not counts:
            made_inside.add((event.frame, event.name))
        elif counts and (event.frame, event.name) not in made_inside:
            number = getattr(event.node, "value", None)
            number = number.right if isinstance(number, ast.BinOp) else number
            plain = isinstance(number, ast.Constant) and isinstance(number.value, (int, float))
            kept = event.name.startswith("self.") or len(event.path) <= 1 or _outlives(event)
            python = event.receiver.kind in ("host", "none") or event.name.startswith("self.")
            if plain and kept and python and not event.receiver.on_device and "[]" not in event.name:
                yield event, event.name


def _counts_up(event: Event) -> bool:
    """Say whether an assignment has the form `n = n + 1`."""
    value = getattr(event.node, "value", None)
    return (
        isinstance(value, ast.BinOp) and isinstance(value.right, ast.Constant) and _reads(value.left, event.name, True)
    )


def _outlives(event: Event) -> bool:
    """Say whether the changed name belongs to the frame that opened the region."""
    return event.region is not None and event.region.kind == MANUAL and not event.loops


@rule(
    "G035",
    "host-clock-or-random",
    "warning",
    "P-ACC-008",
    "`{}` is asked once, at capture; each replay uses that answer",
)
def host_clock_or_random(trace: Trace) -> Hits:
    """Python's `random`, `numpy.random` or `time` inside a captured region.

    Why: the number is a constant of the graph.
    Fix: draw or read it outside and copy it into a static tensor, or use torch's device generator.

    Bad:
        with torch.npu.graph(g):
            y = x * random.random()

    Good:
        with torch.npu.graph(g):
            y = x * torch.rand(1, device="npu")
    """
    for event in trace.captured("call", bare=True):
        if event.name.startswith(_HOST_CLOCKS) and event.method not in ("sleep", "seed"):
            yield event, event.name

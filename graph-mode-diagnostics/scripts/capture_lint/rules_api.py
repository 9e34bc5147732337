"""Rules about the capture API itself: waiting, seeds, memory, nesting, replay and update."""

from __future__ import annotations

import ast
from typing import Iterator

from .rule import rule
from .trace import UNKNOWN, Event, Trace, exclude_each_other

Hits = Iterator["tuple[Event, str]"]

_WAITS = frozenset(("synchronize", "query", "elapsed_time"))
_SEEDS = frozenset(("manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed"))
_STATES = frozenset(("set_rng_state", "get_rng_state", "set_rng_state_all", "get_rng_state_all", "fork_rng"))
_GENERATOR_STATES = frozenset(("set_state", "get_state", "clone_state", "set_offset", "get_offset"))
_MEMORY = frozenset(("empty_cache", "reset_peak_memory_stats", "set_per_process_memory_fraction", "memory_snapshot"))


@rule("G015", "wait-in-capture", "error", "P-CAP-014", "`{}` waits for or asks the device during capture")
def wait_in_capture(trace: Trace) -> Hits:
    """`synchronize()`, `query()` or `elapsed_time()` inside a captured region.

    Why: a stream or event in capture can be neither waited for nor asked (107027, 107028).
    Fix: take the call out of the region, or guard it with `if not torch.npu.is_current_stream_capturing():`.

    Bad:
        with torch.npu.graph(g):
            y = x * 2
            torch.npu.synchronize()

    Good:
        with torch.npu.graph(g):
            y = x * 2
        torch.npu.synchronize()
    """
    for event in trace.captured("call"):
        if event.method not in _WAITS:
            continue
        of_device = event.name.startswith("torch.npu.") or event.receiver.kind in ("stream", "event")
        word = event.owner.rpartition(".")[2].lower()
        if of_device or any(part in word for part in ("stream", "event")):
            yield event, event.name


@rule("G016", "seed-in-capture", "error", "P-CAP-012", "`{}` seeds the random generator during capture")
def seed_in_capture(trace: Trace) -> Hits:
    """`manual_seed` or a new Generator inside a captured region.

    Why: during capture the generator's seed and offset live in device memory of the graph; a generator that is not
    registered with the graph is refused, and a seed would make every replay draw the same numbers.
    Fix: seed before the capture; the default generator advances at each replay by itself.

    Bad:
        with torch.npu.graph(g):
            torch.manual_seed(0)
            y = torch.nn.functional.dropout(x, 0.1)

    Good:
        torch.manual_seed(0)
        with torch.npu.graph(g):
            y = torch.nn.functional.dropout(x, 0.1)
    """
    for event in trace.captured("call", bare=True):
        of_torch = event.name.startswith(("torch.npu.", "torch.random.")) or event.owner == "torch"
        seeds = event.method in _SEEDS and (of_torch or event.receiver.kind == "generator")
        if seeds or event.name == "torch.Generator":
            yield event, event.name


@rule("G039", "rng-state-in-capture", "warning", "P-CAP-012", "`{}` reads or sets the generator's state during capture")
def rng_state_in_capture(trace: Trace) -> Hits:
    """`get_rng_state`, `set_rng_state` or a Generator's `get_state`, `set_state` inside a captured region.

    Why: most releases refuse it, since the state lives in device memory of the graph. torch_npu's development branch of
    August 2026 allows it (test/npu/test_aclgraph_rng_state.py there). Activation checkpointing does it unseen.
    Fix: save and restore the state around the capture; checkpoint with `preserve_rng_state=False`.

    Bad:
        with torch.npu.graph(g):
            state = torch.npu.get_rng_state()
            y = torch.nn.functional.dropout(x, 0.1)

    Good:
        state = torch.npu.get_rng_state()
        with torch.npu.graph(g):
            y = torch.nn.functional.dropout(x, 0.1)
    """
    for event in trace.captured("call", bare=True):
        of_torch = event.name.startswith(("torch.npu.", "torch.random.")) or event.owner == "torch"
        of_generator = event.receiver.kind == "generator" and event.method in _GENERATOR_STATES
        if of_generator or (of_torch and event.method in _STATES):
            yield event, event.name


@rule("G017", "memory-call-in-capture", "error", "P-MEM-006", "`{}` manages the allocator while a capture is open")
def memory_call_in_capture(trace: Trace) -> Hits:
    """`torch.npu.empty_cache()` and other allocator calls inside a captured region.

    Why: releasing cached blocks waits for events of the streams that used them, which a capture forbids.
    Fix: `gc.collect(); torch.npu.empty_cache()` before the capture.

    Bad:
        with torch.npu.graph(g):
            y = x * 2
            torch.npu.empty_cache()

    Good:
        torch.npu.empty_cache()
        with torch.npu.graph(g):
            y = x * 2
    """
    for event in trace.captured("call"):
        if event.name.startswith("torch.npu.") and event.method in _MEMORY:
            yield event, event.name


@rule("G018", "capture-on-default-stream", "error", "P-CAP-003", "capture_begin of `{}` runs on the default stream")
def capture_on_default_stream(trace: Trace) -> Hits:
    """`capture_begin()` outside `with torch.npu.stream(...)`.

    Why: torch_npu refuses to capture on the default stream, since work there orders itself against all other streams.
    Fix: make a side stream, let it wait for the current one, and begin inside `with torch.npu.stream(side):`; or use
    `with torch.npu.graph(g):`, which does so itself.

    Bad:
        g = torch.npu.NPUGraph()
        g.capture_begin()
        y = x * 2
        g.capture_end()

    Good:
        g = torch.npu.NPUGraph()
        with torch.npu.stream(torch.npu.Stream()):
            g.capture_begin()
            y = x * 2
            g.capture_end()
    """
    for event in trace.of("call"):
        if (
            event.method == "capture_begin"
            and event.receiver.kind == "graph"
            and not event.streams
            and not event.region
        ):
            yield event, event.owner


@rule("G019", "nested-capture", "error", "P-CAP-007", "a capture of `{}` begins while another one is open")
def nested_capture(trace: Trace) -> Hits:
    """A capture begun inside a captured region.

    Why: captures cannot be nested, and torch_npu allows one at a time in a process.
    Fix: capture the inner part first and on its own, or call it eagerly inside the outer capture.

    Bad:
        with torch.npu.graph(outer):
            with torch.npu.graph(inner):
                y = x * 2

    Good:
        with torch.npu.graph(inner):
            y = x * 2
        with torch.npu.graph(outer):
            z = x + 1
    """
    for event in trace.captured("enter", bare=True):
        yield event, event.name


@rule("G020", "replay-in-capture", "error", "P-REP-007", "`{}.replay()` runs while a capture is open")
def replay_in_capture(trace: Trace) -> Hits:
    """A graph replayed inside a captured region.

    Why: executing a graph on a capturing stream is refused (107027).
    Fix: end the capture first; inside it call the eager function.

    Bad:
        with torch.npu.graph(g1):
            y = x * 2
        with torch.npu.graph(g2):
            g1.replay()

    Good:
        with torch.npu.graph(g1):
            y = x * 2
        with torch.npu.graph(g2):
            z = x * 2
        g1.replay()
    """
    for event in trace.captured("call"):
        if event.method == "replay" and (event.receiver.kind == "graph" or "graph" in event.owner.lower()):
            yield event, event.owner


@rule("G021", "graph-captured-twice", "error", "P-CAP-018", "`{}` already holds a graph when it is captured again")
def graph_captured_twice(trace: Trace) -> Hits:
    """The same NPUGraph object captured twice without `reset()`.

    Why: `capture_begin` on an object that holds a graph raises.
    Fix: make a new `NPUGraph()` for each capture, or call `reset()` before.

    Bad:
        g = torch.npu.NPUGraph()
        with torch.npu.graph(g):
            y = x * 2
        with torch.npu.graph(g):
            z = x * 3

    Good:
        with torch.npu.graph(torch.npu.NPUGraph()):
            y = x * 2
        with torch.npu.graph(torch.npu.NPUGraph()):
            z = x * 3
    """
    holding: dict[tuple[int, str], Event] = {}
    made: dict[tuple[int, str], Event] = {}
    for event in trace.events:
        if event.guarded or event.expected_failure:
            continue
        key = _place(event, event.name)
        if event.kind == "assign":
            holding.pop(key, None)
            made.pop(key, None)
            if _makes_graph(event):
                made[key] = event
        elif event.kind == "call" and event.method == "reset":
            holding.pop(_place(event, event.owner), None)
            made.pop(_place(event, event.owner), None)
        elif event.kind == "enter" and event.name and not event.name.endswith(("()", "[]", "?")):
            first = holding.setdefault(key, event)
            twice = first.node is not event.node and not exclude_each_other(first, event)
            again = key in made and _again_in_loop(made[key], event) and not _reset_in_loop(trace, event)
            if twice or again:
                yield event, event.name


def _again_in_loop(made: Event, captured: Event) -> bool:
    """Say whether a loop captures, without a condition, into an object that was made outside it."""
    return len(captured.loops) > len(made.loops) and captured.arms == made.arms


def _reset_in_loop(trace: Trace, event: Event) -> bool:
    """Say whether the loop that captures also resets the graph, or leaves after the first time."""
    return any(
        other.kind == "call"
        and other.method == "reset"
        and other.owner == event.name
        and set(other.loops) & set(event.loops)
        for other in trace.events
    )


@rule("G022", "replay-without-capture", "error", "P-REP-002", "`{}` is replayed, but nothing captured it")
def replay_without_capture(trace: Trace) -> Hits:
    """`replay()` of an NPUGraph made in the same function and never captured there.

    Why: the object holds no graph; after a swallowed capture error or a `reset()` it is the same.
    Fix: capture first, and let errors of the capture through.

    Bad:
        g = torch.npu.NPUGraph()
        g.replay()

    Good:
        g = torch.npu.NPUGraph()
        with torch.npu.graph(g):
            y = x * 2
        g.replay()
    """
    made: set[tuple[int, str]] = set()
    for event in trace.events:
        if event.kind == "assign":
            if isinstance(event.node, ast.Assign) and _makes_graph(event):
                made.add(_place(event, event.name))
            else:
                made.discard(_place(event, event.name))
        elif event.kind == "enter":
            made.discard(_place(event, event.name))
        elif event.kind == "call":
            if event.method == "replay" and _place(event, event.owner) in made:
                yield event, event.owner
            elif event.method == "reset" and event.receiver.kind == "graph":
                made.add(_place(event, event.owner))
            else:
                # The object handed to other code may be captured there.
                handed = [keyword.value for keyword in getattr(event.node, "keywords", ())]
                names = [item.id for item in handed if isinstance(item, ast.Name)]
                made -= {_place(event, name) for name in (*names, *event.arg_names)}


def _makes_graph(event: Event) -> bool:
    """Say whether an assignment makes a new, empty graph (and does not fetch one from elsewhere)."""
    value = getattr(event.node, "value", None)
    name = getattr(value, "func", None)
    word = getattr(name, "attr", getattr(name, "id", ""))
    return event.value.kind == "graph" and word in ("NPUGraph", "CUDAGraph")


def _place(event: Event, name: str) -> tuple[int, str]:
    """Return the key of a name: attributes of self are shared by the methods of a trace."""
    return (0 if name.startswith("self.") else event.frame, name)


@rule(
    "G023",
    "update-without-dispatch-capture",
    "error",
    "P-UPD-001",
    "`{}.update()` needs a capture with auto_dispatch_capture=True",
)
def update_without_dispatch_capture(trace: Trace) -> Hits:
    """`g.update(...)` of a graph captured without `auto_dispatch_capture=True`.

    Why: only operators recorded by the dispatch mode can be updated. A capture mode given as the fourth positional
    argument of `torch.npu.graph` lands in that place and hides the mistake.
    Fix: `with torch.npu.graph(g, auto_dispatch_capture=True):`, other arguments by keyword.

    Bad:
        with torch.npu.graph(g):
            y = attention(x, actual_seq_lengths=[1])
        g.update(cpu_update_input=[{"actual_seq_lengths": [2]}])

    Good:
        with torch.npu.graph(g, auto_dispatch_capture=True):
            y = attention(x, actual_seq_lengths=[1])
        g.update(cpu_update_input=[{"actual_seq_lengths": [2]}])
    """
    plain: dict[tuple[int, str], bool] = {}
    for event in trace.events:
        if event.kind == "enter" and isinstance(event.node, ast.Call) and event.name:
            node = event.node
            named = {item.arg for item in node.keywords}
            fourth = len(node.args) > 3 and not isinstance(node.args[3], ast.Constant)
            truthy = len(node.args) > 3 and getattr(node.args[3], "value", None) is True
            plain[_place(event, event.name)] = not (named & {"auto_dispatch_capture", None} or fourth or truthy)
        elif (
            event.method == "update" and "cpu_update_input" in event.keywords and plain.get(_place(event, event.owner))
        ):
            yield event, event.owner


@rule(
    "G024",
    "capture-mode-in-fourth-place",
    "error",
    "P-UPD-001",
    "the fourth positional argument is auto_dispatch_capture, not the capture mode ({})",
)
def capture_mode_in_fourth_place(trace: Trace) -> Hits:
    """`torch.npu.graph(g, pool, stream, "thread_local")`.

    Why: from release 7.1.0 the fourth positional argument is `auto_dispatch_capture`; the string counts as true and the
    capture mode stays `global`.
    Fix: `capture_error_mode="thread_local"` by keyword.

    Bad:
        with torch.npu.graph(g, pool, side, "thread_local"):
            y = x * 2

    Good:
        with torch.npu.graph(g, pool, side, capture_error_mode="thread_local"):
            y = x * 2
    """
    for event in trace.of("enter"):
        arguments = event.node.args if isinstance(event.node, ast.Call) else []
        if len(arguments) > 3 and isinstance(getattr(arguments[3], "value", None), str):
            yield event, repr(getattr(arguments[3], "value", ""))


@rule(
    "G025",
    "tnd-attention-with-dropout",
    "error",
    "P-CAP-024",
    "fused attention with layout TND and keep_prob below 1 cannot be captured",
)
def tnd_attention_with_dropout(trace: Trace) -> Hits:
    """`npu_fusion_attention*` with `input_layout="TND"` and `keep_prob < 1` inside a captured region.

    Why: the capture handler of the operator refuses this combination.
    Fix: leave that attention out of the captured region, or set keep_prob to 1.0.

    Bad:
        with torch.npu.graph(g):
            y = torch_npu.npu_fusion_attention(x, x, x, 8, input_layout="TND", keep_prob=0.9)

    Good:
        with torch.npu.graph(g):
            y = torch_npu.npu_fusion_attention(x, x, x, 8, input_layout="TND", keep_prob=1.0)
    """
    for event in trace.captured("call", bare=True):
        if not event.method.startswith("npu_fusion_attention"):
            continue
        keep = event.keywords.get("keep_prob", UNKNOWN).detail
        layout = event.keywords.get("input_layout", UNKNOWN).detail
        if layout == "TND" and isinstance(keep, float) and keep < 1:
            yield event, event.name

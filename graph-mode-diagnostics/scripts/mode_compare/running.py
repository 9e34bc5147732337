"""Run a callable eagerly and as a graph over several steps with changing inputs, and keep what each step gave."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.user_callables import Inputs, Target

from .graphs import Factory, Replay
from .modules import ModuleWatch, SavedModules
from .tensors import flatten, snapshot


class Plan(NamedTuple):
    """What to run. `reload_at` is the step (1-based) before which `reload` is called; 0 for never."""

    target: Target
    inputs: Sequence[Inputs]
    reset: Callable[[], Any] | None
    reload: Callable[[], Any] | None
    reload_at: int
    watch: Callable[[], Any] | None
    module: Any


class Trace(NamedTuple):
    """Results of one run: for each step the outputs (and watched state) and, with hooks, the modules' outputs."""

    outputs: list[dict[str, Any]]
    modules: list[dict[str, Any]]


def run_eager(plan: Plan, watch: ModuleWatch | None = None) -> Trace:
    """Run every step eagerly, after a reset; `watch` keeps the outputs of the submodules."""
    _reset(plan)
    trace = Trace([], [])
    with watch or contextlib.nullcontext():
        for step, inputs in enumerate(plan.inputs, 1):
            _reload(plan, step)
            if watch is not None:
                watch.before_eager()
            output = _guarded(plan, "eager", step, lambda item=inputs: plan.target.call(*item.args, **item.kwargs))
            trace.outputs.append(_outputs(plan, output))
            trace.modules.append({} if watch is None else watch.values())
    return trace


def run_graph(
    plan: Plan, factory: Factory, repeats: int, watch: ModuleWatch | SavedModules | None = None
) -> list[Trace]:
    """Make the graph once with the first step's inputs, then run all steps `repeats` times, each after a reset."""
    _reset(plan)
    first = plan.inputs[0]
    traces: list[Trace] = []
    with watch or contextlib.nullcontext():
        replay: Replay = _guarded(plan, "capture", 0, lambda: factory(plan.target.call, first.args, first.kwargs))
        for _ in range(repeats):
            _reset(plan)
            trace = Trace([], [])
            for step, inputs in enumerate(plan.inputs, 1):
                _reload(plan, step)
                if watch is not None:
                    watch.before_replay()
                output = _guarded(plan, "graph", step, lambda item=inputs: replay(*item.args, **item.kwargs))
                trace.outputs.append(_outputs(plan, output))
                trace.modules.append({} if watch is None else watch.values())
            traces.append(trace)
    return traces


def _outputs(plan: Plan, output: Any) -> dict[str, Any]:
    found = flatten(output)
    if plan.watch is not None:
        found.update(flatten(plan.watch(), "state"))
    return snapshot(found)


def _reset(plan: Plan) -> None:
    if plan.reset is not None:
        plan.reset()


def _reload(plan: Plan, step: int) -> None:
    if plan.reload is not None and step == plan.reload_at:
        plan.reload()


def _guarded(plan: Plan, mode: str, step: int, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except cli.CommandError:
        raise
    except (Exception, SystemExit) as error:
        reason = cli.one_line(f"{type(error).__name__}: {error}", 240)
        when = f"step {step}" if step else "while the graph is made"
        hint = "run diagnose.py on the full stack" if mode != "eager" else "make it run eagerly first"
        raise cli.CommandError(
            f"{plan.target.name} fails in {mode} mode, {when}: {reason}; {hint}", cli.NO_INPUT
        ) from error

"""Run a callable eagerly and as a graph over several steps with changing inputs, and keep what each step gave."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.user_callables import Inputs, Target

from .graphs import Factory, Replay
from .tensors import flatten

Tensors = "dict[str, Any]"


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


class ModuleWatch:
    """Forward hooks on every submodule. In a capture they keep the static outputs that each replay overwrites."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handles: list[Any] = []
        self.seen: dict[str, Any] = {}

    def __enter__(self) -> ModuleWatch:
        if self._module is not None:
            for name, child in self._module.named_modules():
                self._handles.append(child.register_forward_hook(self._hook(name or "(root)")))
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, name: str) -> Callable[..., None]:
        def keep(_: Any, __: Any, output: Any) -> None:
            self.seen.pop(name, None)  # the order is that of the last call
            self.seen[name] = output

        return keep

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, output in self.seen.items():
            found.update(flatten(output, name))
        return snapshot(found)


def run_eager(plan: Plan, with_modules: bool = False) -> Trace:
    """Run every step eagerly, after a reset."""
    _reset(plan)
    trace = Trace([], [])
    with ModuleWatch(plan.module if with_modules else None) as watch:
        for step, inputs in enumerate(plan.inputs, 1):
            _reload(plan, step)
            watch.seen.clear()
            output = _guarded(plan, "eager", step, lambda item=inputs: plan.target.call(*item.args, **item.kwargs))
            trace.outputs.append(_outputs(plan, output))
            trace.modules.append(watch.values())
    return trace


def run_graph(plan: Plan, factory: Factory, repeats: int, with_modules: bool = False) -> list[Trace]:
    """Make the graph once with the first step's inputs, then run all steps `repeats` times, each after a reset."""
    _reset(plan)
    first = plan.inputs[0]
    with ModuleWatch(plan.module if with_modules else None) as watch:
        replay: Replay = _guarded(plan, "capture", 0, lambda: factory(plan.target.call, first.args, first.kwargs))
    traces: list[Trace] = []
    for _ in range(repeats):
        _reset(plan)
        trace = Trace([], [])
        for step, inputs in enumerate(plan.inputs, 1):
            _reload(plan, step)
            output = _guarded(plan, "graph", step, lambda item=inputs: replay(*item.args, **item.kwargs))
            trace.outputs.append(_outputs(plan, output))
            trace.modules.append(watch.values() if with_modules else {})
        traces.append(trace)
    return traces


def snapshot(tensors: dict[str, Any]) -> dict[str, Any]:
    """Copy tensors to the host: a graph's output is overwritten by the next replay."""
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


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

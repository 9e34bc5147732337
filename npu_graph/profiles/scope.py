"""The part of a profile that is judged: complete steps that replay, else steps, else everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_graph.profiles.gaps import GapTable
from npu_graph.profiles.steps import Step, Steps

WHOLE_WINDOW = "whole window"
# Beyond this many steps the first, which holds start-up, can be spared.
MIN_STEPS = 5


@dataclass
class Scope:
    """The part of the profile that is judged, and its sums (ns)."""

    name: str
    spans: list[tuple[int, int]]
    steps: list[Step]
    window: int = 0
    busy: int = 0
    computing: int = 0
    exposed: int = 0
    kernels: int = 0
    in_graph: int = 0
    replays: int = 0
    gaps: GapTable = field(default_factory=GapTable)

    @property
    def unit(self) -> str:
        """What shares of this scope are shares of."""
        return "of window" if self.name == WHOLE_WINDOW else "of step"

    @property
    def idle(self) -> int:
        return self.window - self.busy

    def share(self, part: int) -> float:
        return part / self.window if self.window else 0.0


def choose_scope(steps: Steps, gaps: GapTable) -> Scope:
    """Judge complete steps that replay a graph; else complete steps; else everything.

    Steps without a replay (prefill, a batch beyond the capture sizes) answer another question. The first step of many
    and the last are left out: one holds start-up, the other has no end.
    """
    complete = [step for step in steps.items if step.complete]
    replaying = [step for step in complete if step.replays]
    chosen, name = (replaying, "steps with replay") if replaying else (complete, "steps")
    if len(chosen) > MIN_STEPS:
        chosen = chosen[1:]
    if not chosen or steps.source == "none":
        chosen, name = steps.items, WHOLE_WINDOW
    spans = [(step.start, step.end) for step in chosen]
    scope = Scope(name, spans, list(chosen))
    for step in chosen:
        scope.window += step.duration
        scope.busy += step.busy
        scope.computing += step.computing
        scope.exposed += step.exposed
        scope.kernels += step.kernels
        scope.in_graph += step.in_graph
        scope.replays += step.replays
    scope.gaps = gaps.inside(spans)
    return scope

"""Compare two runs with different inputs: what a graph of the first would get wrong in the second."""

from __future__ import annotations

from typing import Any, NamedTuple

from .frames import Place
from .recorder import Operator, Run


class Difference(NamedTuple):
    """One difference; `place` is the user's line in the first run, `other` in the second."""

    rule: str
    operator: str
    detail: str
    place: Place | None
    other: Place | None
    index: int


class Comparison(NamedTuple):
    """The verdicts of the comparison and the differences in order."""

    same_operators: bool
    same_shapes: bool
    differences: list[Difference]


def compare_runs(first: Run, second: Run) -> Comparison:
    """Compare operator by operator, up to the first that differs."""
    differences: list[Difference] = []
    common = 0
    same_shapes = True
    for index, (left, right) in enumerate(zip(first.operators, second.operators)):
        if left.name != right.name:
            break
        common = index + 1
        if left.shapes != right.shapes:
            if same_shapes:
                detail = f"{_shape(left)} then {_shape(right)}"
                differences.append(Difference("shape", left.name, detail, left.place, right.place, index))
            same_shapes = False
        elif left.scalars != right.scalars:
            detail = _changed(left.scalars, right.scalars)
            differences.append(Difference("baked_scalar", left.name, detail, left.place, right.place, index))
        moved = _moved(left, right, first.inputs, second.inputs)
        if moved >= 0:
            detail = f"argument {moved}"
            differences.append(Difference("moved_address", left.name, detail, left.place, right.place, index))
    same = common == len(first.operators) == len(second.operators)
    if not same:
        differences.append(_branch(first, second, common))
    return Comparison(same, same_shapes, sorted(differences, key=lambda item: item.index))


def _branch(first: Run, second: Run, at: int) -> Difference:
    left = first.operators[at] if at < len(first.operators) else None
    right = second.operators[at] if at < len(second.operators) else None
    shown = [f"{item.name} at {_where(item.place)}" if item else "the end" for item in (left, right)]
    before = first.operators[at - 1].place if at else None
    place = left.place if left else before
    name = left.name if left else "end"
    return Difference(
        "branch", name, f"{shown[0]}; with other input {shown[1]}", place, right.place if right else None, at
    )


def _moved(left: Operator, right: Operator, *inputs: set[int]) -> int:
    """Return the position of an argument that came from outside both runs at different addresses, or -1."""
    before, after = dict(left.external), dict(right.external)
    for at in sorted(before.keys() & after.keys()):
        if before[at] != after[at] and before[at] not in inputs[0] and after[at] not in inputs[1]:
            return at
    return -1


def survivors(runs: list[Run]) -> list[Any]:
    """Return (bytes, stack) of storages that outlive their run for good: alive in each of the runs given.

    The storages of one run may be alive because the state was rebound; only those of an earlier run that are still
    alive after two more runs are growth.
    """
    alive = [[(size, stack) for reference, size, stack in run.made if _is_alive(reference) and size] for run in runs]
    if len(alive) < 3 or not all(alive[-3:]):
        return []
    return alive[-3]


def _is_alive(reference: Any) -> bool:
    return reference is not None and not reference.expired()


def _shape(item: Operator) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in item.shapes[:4])


def _changed(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    pairs = [f"{a} then {b}" for a, b in zip(left, right) if a != b]
    return "; ".join(pairs[:4]) or f"{len(left)} numbers then {len(right)}"


def _where(place: Place | None) -> str:
    return f"{place.file}:{place.line}" if place else "no Python line"

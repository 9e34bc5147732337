"""Build the comparison record (schema npu-graph/compare/1)."""

from __future__ import annotations

from typing import Any, Sequence

from npu_graph import cli

from .classify import CLASSES, Cell, Verdict, classify, grid
from .dumps import read_pair
from .graphs import Compiled, Factory
from .modules import REASONS, ModuleWatch, SavedModules, can_save_in_graph
from .running import Plan, run_eager, run_graph
from .tensors import Difference, compare

SCHEMA = "npu-graph/compare/1"
MAX_CELLS = 200


class Options:
    """Tolerances, repeats and language of a comparison."""

    def __init__(
        self, rtol: float | None, atol: float | None, valid_rows: int, repeats: int, language: str = "en"
    ) -> None:
        self.rtol, self.atol, self.valid_rows, self.repeats = rtol, atol, valid_rows, repeats
        self.language = language


def compare_callable(plan: Plan, factory: Factory, options: Options) -> dict[str, Any]:
    """Run both modes and return the record; the first diverging module is looked for only when they differ."""
    eager = [run_eager(plan), run_eager(plan)]
    graph = run_graph(plan, factory, options.repeats)
    if not any(eager[0].outputs):
        raise cli.CommandError(
            f"{plan.target.name} returned no tensor, so nothing was compared; return one or give --watch", cli.NO_INPUT
        )
    cells = grid(eager[0], graph[0], options.rtol, options.atol)
    verdict = classify(eager, graph, cells, options.valid_rows, plan.reload_at, options.rtol, options.atol)
    # Hooks add copies to the graph, which can hide a missing order: they come after the verdict.
    module, why = (None, "") if verdict is None else _first_module(plan, factory, verdict, options)
    steps = [str(step) for step in range(1, len(plan.inputs) + 1)]
    record = _record("callable", plan.target.name, verdict, cells, steps, options, [])
    return {**record, "first_module": module, "first_module_missing": why or None}


def compare_dumps(eager: str, graph: str, options: Options) -> dict[str, Any]:
    """Compare two folders of saved tensors. Which names come first in a step is not known: they are in name order."""
    left, right, steps, alone = read_pair(eager, graph)
    cells = grid(left, right, options.rtol, options.atol)
    verdict = classify([left], [right], cells, options.valid_rows, 0, options.rtol, options.atol)
    return _record("dumps", f"{eager} and {graph}", verdict, cells, steps, options, alone)


def _first_module(
    plan: Plan, factory: Factory, verdict: Verdict, options: Options
) -> tuple[dict[str, Any] | None, str]:
    """Run both modes again, submodules watched; return the first that differs, or None and why there is none."""

    def because(key: str, **values: str) -> tuple[None, str]:
        return None, REASONS[key][1 if options.language == "zh" else 0].format(**values)

    if verdict.value == "unstable":
        return because("unstable")
    if plan.module is None:
        return because("no_module")
    compiled = isinstance(factory, Compiled)
    if compiled and not can_save_in_graph():
        return because("cannot_save")
    try:
        watch = SavedModules(plan.module) if compiled else ModuleWatch(plan.module)
        graph = run_graph(plan, factory, 1, watch)[0].modules
        eager = run_eager(plan, ModuleWatch(plan.module)).modules
    except cli.CommandError as error:
        return because("fails", error=cli.one_line(str(error), 300))
    seen = False
    for step, (left, right) in enumerate(zip(eager, graph), 1):
        for name in left:
            if name not in right:
                continue
            seen = True
            difference = compare(left[name], right[name], options.rtol, options.atol)
            if difference.differs:
                return {"step": step, "module": name, **_difference(difference)}, ""
    return because("all_agree" if seen else "none_seen")


def _record(
    mode: str,
    target: str,
    verdict: Verdict | None,
    cells: Sequence[Cell],
    steps: Sequence[str],
    options: Options,
    alone: Sequence[str],
) -> dict[str, Any]:
    import torch

    wrong = [cell for cell in cells if cell.difference.differs]
    first = min(wrong, key=lambda cell: cell.step) if wrong else None
    return {
        "schema": SCHEMA,
        "mode": mode,
        "language": options.language,
        "target": target,
        "verdict": "equal" if verdict is None else "different",
        "torch": str(torch.__version__),
        "class": None if verdict is None else _class(verdict, options.language),
        "first": None
        if first is None
        else {"step": steps[first.step - 1], "output": first.name, **_difference(first.difference)},
        "first_module": None,
        "first_module_missing": None,
        "bitwise_equal": all(cell.difference.bitwise for cell in cells),
        "steps": [
            {
                "step": name,
                "compared": sum(cell.step == number for cell in cells),
                "different": [cell.name for cell in wrong if cell.step == number][:20],
                "max_abs": max((cell.difference.max_abs for cell in cells if cell.step == number), default=0.0),
            }
            for number, name in enumerate(steps, 1)
        ][:MAX_CELLS],
        "compared": len(cells),
        "tolerance": {
            "rtol": options.rtol,
            "atol": options.atol,
            "by_dtype": options.rtol is None and options.atol is None,
        },
        "valid_rows": options.valid_rows,
        "one_side_only": list(alone)[:50],
    }


def _class(verdict: Verdict, language: str) -> dict[str, Any]:
    title, meaning, confirm, fix = CLASSES[verdict.value].in_language(language)
    return {
        "value": verdict.value,
        "title": title,
        "confidence": verdict.confidence,
        "evidence": verdict.sentences(language),
        "meaning": meaning,
        "confirm": confirm,
        "fix": fix,
    }


def _difference(item: Difference) -> dict[str, Any]:
    return {
        "reason": item.reason,
        "dtype": item.dtype,
        "shape": list(item.shape),
        "mismatched": item.mismatched,
        "total": item.total,
        "max_abs": item.max_abs,
        "max_rel": item.max_rel,
        "first_index": list(item.first_index),
        "rows": list(item.rows[:20]),
        "new_nan": item.new_nan,
        "new_inf": item.new_inf,
    }

#!/usr/bin/env python3
"""Compare eager with graph results over several steps and say where, when and in which class they differ.

Usage: compare_modes.py MODULE:FUNCTION [--inputs MAKER] [--graph npugraph|npugraphs|npugraph_ex|MODULE:FACTORY]
       compare_modes.py --dumps EAGER_DIR GRAPH_DIR

The input maker gets a step number from 0 and returns the arguments; step 1 has the inputs of the capture. Classes:
stale (right at step 1, wrong from step 2), padding (only rows from --valid-rows on), address (from the --reload step
on), order (another result in every run), kernel (from step 1), late, unstable (eager itself varies). A factory gets
(callable, args, kwargs) and returns what replays. Tolerances are those of torch.testing for each dtype.
Exit codes: 0 equal, 1 different, 2 wrong usage, 3 nothing to compare or the callable fails, 4 torch or an NPU is
absent, 5 internal error.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from mode_compare.graphs import BACKENDS, Factory, built_in
from mode_compare.record import Options, compare_callable, compare_dumps
from mode_compare.report import render
from mode_compare.running import Plan

from npu_graph import cli
from npu_graph.user_callables import load_target, make, need_torch

EXAMPLES = (
    "python3 compare_modes.py model.py:decode_step --module model.py:model --steps 6",
    "python3 compare_modes.py --dumps dump_eager dump_graph --output json",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Compare eager with graph results (needs torch).", EXAMPLES)
    parser.add_argument("target", nargs="?", metavar="MODULE:FUNCTION", help="the callable, or FILE.py:FUNCTION")
    parser.add_argument(
        "--dumps", nargs=2, metavar=("EAGER", "GRAPH"), help="compare two folders of .pt/.npy/.npz files"
    )
    parser.add_argument("--inputs", default="", metavar="MAKER", help="function that returns the arguments for a step")
    parser.add_argument(
        "--graph", default="npugraph", metavar="MODE", help="graph mode, or MODULE:FACTORY (default npugraph)"
    )
    parser.add_argument(
        "--steps", type=int, default=4, metavar="N", help="steps with changing inputs, 2 to 1000 (default 4)"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="graph runs with the same inputs, 1 to 100 (default 3)"
    )
    parser.add_argument("--module", default="", metavar="NAME", help="nn.Module whose submodules are compared too")
    parser.add_argument("--reset", default="", metavar="FUNCTION", help="restores state, in place, before each run")
    parser.add_argument(
        "--watch", default="", metavar="FUNCTION", help="returns state tensors to compare after each step"
    )
    parser.add_argument(
        "--reload", default="", metavar="FUNCTION", help="called before --reload-step, as a weight reload"
    )
    parser.add_argument(
        "--reload-step", type=int, default=0, metavar="K", help="step of the reload (default: the middle)"
    )
    parser.add_argument(
        "--valid-rows", type=int, default=0, metavar="N", help="rows of the first dimension that are real"
    )
    parser.add_argument("--rtol", type=float, default=None, help="relative tolerance for all dtypes")
    parser.add_argument("--atol", type=float, default=None, help="absolute tolerance for all dtypes")
    parser.add_argument("--path", action="append", default=[], metavar="DIR", help="add to the module search path")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the report (default en)")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the report")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    options = parser.parse_args(argv)
    if bool(options.target) == bool(options.dumps):
        raise cli.CommandError("give either MODULE:FUNCTION or --dumps EAGER GRAPH")
    if not 2 <= options.steps <= 1000 or not 1 <= options.repeats <= 100:
        raise cli.CommandError("--steps takes 2 to 1000 and --repeats 1 to 100")
    if min(options.rtol or 0.0, options.atol or 0.0) < 0 or options.valid_rows < 0:
        raise cli.CommandError("--rtol, --atol and --valid-rows take no negative value")

    need_torch("compare_modes.py")
    measure = Options(options.rtol, options.atol, options.valid_rows, options.repeats, options.lang)
    with contextlib.redirect_stdout(sys.stderr):
        if options.dumps:
            record = compare_dumps(options.dumps[0], options.dumps[1], measure)
        else:
            record = compare_callable(make_plan(options), make_factory(options), measure)
    if options.output == "json":
        cli.write_json(record)
    else:
        text = render(record)
        text = f"```text\n{text.replace('```', 'ʼʼʼ')}```\n" if options.output == "md" else text
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.DONE if record["verdict"] == "equal" else cli.NEGATIVE


def make_plan(options: Any) -> Plan:
    """Load the callables that the options name and make the inputs of every step."""
    target = load_target(options.target, options.inputs, options.path)
    place = options.target.rpartition(":")[0]

    def load(name: str) -> Callable[..., Any] | None:
        return load_target(name if ":" in name else f"{place}:{name}", "", options.path).call if name else None

    reload = load(options.reload)
    at = options.reload_step or (options.steps // 2 + 1 if reload else 0)
    if reload and not 2 <= at <= options.steps:
        raise cli.CommandError(f"--reload-step {at} is not among steps 2 to {options.steps}")
    module = load(options.module) or _module_of(target.call)
    inputs = [make(target, step) for step in range(options.steps)]
    return Plan(target, inputs, load(options.reset), reload, at, load(options.watch), module)


def make_factory(options: Any) -> Factory:
    """Return the factory of the graph form: built in, or the user's."""
    if options.graph == "npugraph" or options.graph in BACKENDS:
        return built_in(options.graph)
    if ":" not in options.graph:
        raise cli.CommandError(f"--graph {options.graph} is neither npugraph, {', '.join(BACKENDS)} nor MODULE:FACTORY")
    return load_target(options.graph, "", options.path).call


def _module_of(call: Any) -> Any:
    """Return the nn.Module that a callable is, or is a method of."""
    for item in (call, getattr(call, "__self__", None)):
        if hasattr(item, "named_modules") and hasattr(item, "register_forward_hook"):
            return item
    return None


if __name__ == "__main__":
    cli.run(main)

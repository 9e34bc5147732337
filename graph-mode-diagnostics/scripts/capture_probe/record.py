"""Run a callable several times under the recorder and build the probe record (schema npu-graph/probe/1)."""

from __future__ import annotations

import contextlib
import gc
import traceback
from typing import Any, Iterator, Sequence

from npu_graph import cli
from npu_graph.user_callables import Inputs, Target, make

from .comparison import Comparison, compare_runs, survivors
from .frames import Place, is_library
from .recorder import Hit, Recorder, Run
from .rules import RULES, SEVERITIES

SCHEMA = "npu-graph/probe/1"
MAX_FINDINGS = 200
MAX_STACK = 12


def probe_target(
    target: Target, device: str, seeds: Sequence[int], language: str = "en", try_capture: bool = False
) -> dict[str, Any]:
    """Run the callable once to warm up, once for each seed and once more with the first, and return the record.

    With `try_capture` a real capture follows, under the same recorder: it finds what eager mode cannot show.

    Raises:
        CommandError: exit code 3 when the callable fails eagerly or runs no operator.
    """
    calls = [make(target, seed) for seed in (seeds[0], *seeds, seeds[0])]
    chosen = device or _device_of(calls[0])
    recorder = Recorder(chosen)
    runs: list[Run] = []
    with _small_collections():
        for inputs in calls:
            with recorder.recording((inputs.args, inputs.kwargs)) as run:
                try:
                    target.call(*inputs.args, **inputs.kwargs)
                except (Exception, SystemExit) as error:
                    raise _failed(target, error, run) from error
            runs.append(run)
            gc.collect()  # tensors in a cycle are no memory growth
    if not any(run.operators or run.hits for run in runs):
        raise cli.CommandError(
            f"{target.name} ran no torch operator, so nothing was checked; name the function that computes",
            cli.NO_INPUT,
        )
    refused = _capture(target, calls[0], recorder, chosen) if try_capture else []
    return build_record(target.name, chosen, runs, target.make_inputs is not None, language, refused)


@contextlib.contextmanager
def _small_collections() -> Iterator[None]:
    """Leave what exists already out of garbage collections: torch alone makes each of them take 0.4 s."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _capture(target: Target, inputs: Inputs, recorder: Recorder, device: str) -> list[Hit]:
    """Capture once and return what was refused: the operator without an aclnn path, else the call that raised.

    Raises:
        CommandError: exit code 4 when the device has no graphs.
    """
    import torch

    module = getattr(torch, device, None)
    if not hasattr(module, "NPUGraph") or not module.is_available():
        raise cli.CommandError("--try-capture needs torch_npu and an NPU (or npu_sim/run.py)", cli.ABSENT)
    module.synchronize()
    graph = module.NPUGraph()
    run: Run | None = None
    try:
        with module.graph(graph), recorder.recording((inputs.args, inputs.kwargs)) as run:
            target.call(*inputs.args, **inputs.kwargs)
    except Exception as error:
        found = [hit for hit in run.hits if hit.rule == "no_aclnn"] if run is not None else []
        if found:
            return found
        last = run.operators[-1] if run is not None and run.operators else None
        text = cli.one_line(str(error).partition("\n")[0], 200)
        stack = _user_frames(error) or ([last.place] if last is not None and last.place is not None else [])
        return [Hit("capture_refused", last.name if last is not None else "capture", text, stack, 1 << 29)]
    return []


def _user_frames(error: BaseException) -> list[Place]:
    """Return the user's frames of an exception's own stack, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        Place(frame.filename, frame.lineno or 0, frame.name)
        for frame in reversed(frames)
        if not is_library(frame.filename)
    ][:MAX_STACK]


def build_record(
    name: str, device: str, runs: Sequence[Run], takes_inputs: bool, language: str = "en", refused: Sequence[Hit] = ()
) -> dict[str, Any]:
    """Return the record of runs: the first is the warm-up, the others have different inputs."""
    import torch

    measured = list(runs[1:]) or list(runs)
    comparison = compare_runs(measured[0], measured[1]) if len(measured) > 1 else None
    # The last run has the input of the first: what differs there comes from state, and no branch on data hides it.
    again = compare_runs(measured[0], measured[-1]) if len(measured) > 2 else None
    findings = _findings(runs, measured, [item for item in (comparison, again) if item is not None], language, refused)
    shown = findings[:MAX_FINDINGS]
    return {
        "schema": SCHEMA,
        "language": language,
        "target": name,
        "verdict": _verdict(findings),
        "torch": str(torch.__version__),
        "device": device,
        "runs": len(runs),
        "operators": len(measured[0].operators),
        "comparison": None
        if comparison is None
        else {
            "different_inputs": takes_inputs,
            "same_operators": comparison.same_operators,
            "same_shapes": comparison.same_shapes,
        },
        "findings": shown,
        "left_out": len(findings) - len(shown),
    }


def _verdict(findings: Sequence[dict[str, Any]]) -> str:
    found = {item["severity"] for item in findings if not item["warm_up_only"]}
    for severity in SEVERITIES:
        if severity in found:
            return severity
    return "clean"


def _findings(
    runs: Sequence[Run],
    measured: Sequence[Run],
    comparisons: Sequence[Comparison],
    language: str,
    refused: Sequence[Hit],
) -> list[dict[str, Any]]:
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(rule: str, operator: str, detail: str, stack: Sequence[Place], index: int, warm: bool) -> None:
        place = stack[0] if stack else None
        key = (rule, operator, place)
        if key in rows:
            row = rows[key]
            row["count"] += 0 if warm != row["warm_up_only"] else 1
            row["warm_up_only"] = row["warm_up_only"] and warm
            row["index"] = min(row["index"], index)
            return
        about = RULES[rule]
        title, why, fix = about.texts(language)
        rows[key] = {
            "rule": rule,
            "severity": about.severity,
            "title": title,
            "operator": operator,
            "detail": detail,
            "where": _place(place),
            "stack": [_place(item) for item in stack[:MAX_STACK]],
            "count": 1,
            "warm_up_only": warm,
            "index": index,
            "why": why,
            "fix": fix,
            "pattern": about.pattern,
        }

    def add_all(hits: Sequence[Hit], warm: bool) -> None:
        for hit in hits:
            add(hit.rule, hit.operator, hit.detail, hit.stack, hit.index, warm)

    for run in measured:
        before = {key: row["count"] for key, row in rows.items()}
        add_all(run.hits, False)
        for key, count in before.items():  # the second run repeats the first: count one run
            rows[key]["count"] = count
    if len(runs) > len(measured):
        add_all(runs[0].hits, True)
    add_all(refused, False)
    for comparison in comparisons:
        known = set(rows)
        for item in comparison.differences:
            if (item.rule, item.operator, item.place) not in known:
                add(item.rule, item.operator, item.detail, [item.place] if item.place else [], item.index, False)
    for size, stack in survivors(list(runs)):
        add("memory_growth", "allocation", f"{size} bytes a call", stack, 1 << 30, False)
    return sorted(rows.values(), key=lambda row: (row["warm_up_only"], row["index"]))


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"file": place.file, "line": place.line, "function": place.function, "code": place.code}


def _device_of(inputs: Inputs) -> str:
    """Return the device type of the arguments: an accelerator where one is used, else that of the machine."""
    import torch

    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found.append(value.device.type)
        elif isinstance(value, (tuple, list)):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            for item in value.values():
                walk(item)

    walk((inputs.args, inputs.kwargs))
    accelerators = [kind for kind in found if kind != "cpu"]
    if accelerators:
        return accelerators[0]
    if found:
        return "cpu"
    npu = getattr(torch, "npu", None)
    return "npu" if npu is not None and npu.is_available() else "cpu"


def _failed(target: Target, error: BaseException, run: Run) -> cli.CommandError:
    place = run.operators[-1].place if run.operators else None
    frames = _user_frames(error)
    place = frames[0] if frames else place
    where = f" near {place.file}:{place.line}" if place else ""
    reason = cli.one_line(f"{type(error).__name__}: {error}", 200)
    return cli.CommandError(
        f"{target.name} fails in eager mode{where}: {reason}; make it run eagerly first", cli.NO_INPUT
    )

"""What the steps show: the part that fails, the first cause, what is ruled out, and the next smallest action."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Sequence

from npu_graph.cli import InputText
from npu_graph.diagnosis.record import diagnose

from . import steps
from .execution import FAILED, PASSED, TIMEOUT

LOCATED, NOT_REPRODUCED, NO_TORCH, STOPPED = "located", "not_reproduced", "no_torch", "stopped"
# A failure of the compiler in the step that does not compile the examined call comes from another call.
_COMPILER_FRAMES = re.compile(r"torch/(?:_dynamo|_inductor|_functorch)/\w|torch\._dynamo\.exc|torch/fx/experimental")
_FAKE_MISSING = re.compile(
    r"does not support running with fake tensors|no fake impl registered|couldn't find symbolic meta function"
    r"|not implemented for 'Meta'|from the 'Meta' backend"
)
# Dynamo prints the user's own frames after this line, innermost last.
_USER_CODE = re.compile(r"from user code:\n((?:[^\n]{0,1000}\n){1,60})")
_FRAME = re.compile(r'File "([^"\n]{1,500})", line (\d{1,7})(?:, in ([^\n]{1,200}))?')
# Warnings of torch_npu stand on lines of their own in the form of an exception, with or without a log prefix:
# "Warning: ASCEND_HOME_PATH ... not set", "[W1130 ... NPUCachingAllocator.cpp:168] Warning: ...". None is a cause.
_WARNING_LINE = re.compile(r"(?m)^(?:\[W\d{4} [^\n\]]{0,200}\] )?Warning: [^\n]{0,4000}$")
# torch_npu 2.13.0 npu/_graph_tree.py:2126 warmed_up_functions; utils/_graph_tree.py:256 check_for_skip.
_NPUGRAPHS_PASSES = (
    "npugraphs captures in the second call of the same shapes, the first is a warm-up: let the script call three times",
    "npugraphs runs without a graph, and without an error, for inputs on the CPU or on several devices, mutated inputs "
    "and operators that it does not take: TORCH_LOGS=cudagraphs shows 'NPUGraph: skipped' with the reason",
)
_GRAPH_STAGES = ("capture", "replay", "update")
_TORCH_MISSING = re.compile(r"ModuleNotFoundError: No module named '(torch|torch_npu)'")
# A variant runs from another folder: a failure of these kinds in the first step may come from that.
_PLACE_ERRORS = ("FileNotFoundError", "ModuleNotFoundError", "NotADirectoryError")
MAX_PATTERNS = 3
# Below this a pattern shares only symptom words with a log that is mostly the program's own output.
PATTERN_FROM = 0.5


def conclude(records: Sequence[dict[str, Any]], backend: str, file: str, logs: dict[str, str]) -> dict[str, Any]:
    """Return verdict, part, layer, first cause, what is ruled out and what to do next.

    Args:
        records: one record a step, in order.
        backend: the backend of the original call, '' when unknown.
        file: the file that holds the call, for the commands that are proposed.
        logs: step → its (redacted, bounded) output.
    """
    failed = next((record for record in records if record["status"] in (FAILED, TIMEOUT)), None)
    ruled_out = [
        steps.STEPS[r["step"]].passed for r in records if r["status"] == PASSED and steps.STEPS[r["step"]].passed
    ]
    if failed is None:
        return _nothing_failed(records, ruled_out, backend)
    step, log = failed["step"], logs.get(failed["step"], "")
    missing = _TORCH_MISSING.search(log)
    if step == steps.EAGER and missing:
        return {
            **_empty(NO_TORCH, ruled_out),
            "notes": [f"{missing.group(1)} is not installed for the Python that ran the script"],
        }
    read = _WARNING_LINE.sub("", log)
    diagnosis = diagnose([InputText(f"{step}.log", read, 0)], "en") if read.strip() else None
    part = steps.part_for(step, backend)
    notes: list[str] = []
    if part is steps.OTHER_BACKEND and diagnosis is not None and diagnosis["stage"]["value"] in _GRAPH_STAGES:
        part = steps.CAPTURE
    if step in (steps.DYNAMO, steps.AOT) and _FAKE_MISSING.search(log):
        part = steps.FAKE
    elif step == steps.EAGER and _COMPILER_FRAMES.search(log):
        part = steps.OTHER_CALL
    elif step == steps.EAGER and _from_another_place(diagnosis):
        notes.append(
            "the variant ran from a folder of links; if the original starts, name the project's folder with --root"
        )
    if failed["status"] == TIMEOUT:
        notes.append(f"the step did not end within its time limit of {failed['limit']:g} s; it may hang, or be slow")
    if failed.get("signal"):
        notes.append(f"the process was killed by {failed['signal']}")
    return {
        "verdict": LOCATED,
        "failed_step": step,
        "part": part.name,
        "title": part.title,
        **_place(part, diagnosis, step),
        "user_line": user_line(log, failed.get("code", ""), failed.get("root", "")),
        "first_cause": diagnosis["first_cause"] if diagnosis else None,
        "patterns": _patterns(diagnosis),
        "ruled_out": ruled_out,
        "next": _next(part, failed, diagnosis, file),
        "notes": notes,
    }


def user_line(log: str, code: str, root: str) -> dict[str, Any] | None:
    """Return the innermost line of the user's own files that the log names, in the original's place.

    Args:
        code: the folder of links in which the variant ran; its files stand for those under `root`.
    """
    block = _USER_CODE.search(log)
    for text in [block.group(1)] if block else [log]:
        frames = [found for found in _FRAME.finditer(text) if code and code in found.group(1)]
        if frames:
            file, line, function = frames[-1].groups()
            inside = file[file.index(code) + len(code) :].lstrip("/\\")
            return {"file": str(Path(root) / inside), "line": int(line), "function": function}
    return None


def _empty(verdict: str, ruled_out: list[str]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "failed_step": None,
        "part": None,
        "title": "",
        "stage": None,
        "layer": None,
        "owner": None,
        "user_line": None,
        "first_cause": None,
        "patterns": [],
        "ruled_out": ruled_out,
        "next": [],
        "notes": [],
    }


def _nothing_failed(records: Sequence[dict[str, Any]], ruled_out: list[str], backend: str) -> dict[str, Any]:
    if any(record["status"] != PASSED for record in records) or not records:
        return {**_empty(STOPPED, ruled_out), "notes": ["not every step has run; go on with --resume"]}
    return {
        **_empty(NOT_REPRODUCED, ruled_out),
        "title": "every step passed, the original too: the failure was not reproduced",
        "next": [
            *(_NPUGRAPHS_PASSES if backend == "npugraphs" else ()),
            "run with the input, the launcher (--launcher) and the variables (--env) of the failing run",
            "wrong results without an error: give a text that marks them with --fail-on, or compare eager and graph",
        ],
    }


def _place(part: steps.Part, diagnosis: dict[str, Any] | None, step: str) -> dict[str, Any]:
    """Return stage, layer and owner: the engine's where it found an error in the log, else those of the part."""
    place = {"stage": part.stage, "layer": part.layer, "owner": part.owner}
    if diagnosis is None or diagnosis["first_cause"] is None:
        return place
    engine = {name: diagnosis[name]["value"] for name in ("stage", "layer", "owner")}
    if diagnosis["verdict"] == "known":
        # A pattern whose text stands in the log knows more than the step's table.
        place.update({name: value for name, value in engine.items() if value and value != "unknown"})
    elif step in (steps.EAGER, steps.ORIGINAL) and engine["layer"] in ("L2", "L3", "L4", "L5"):
        # Python frames of torch say nothing: an eager model fails inside them, and so does a captured one.
        place["layer"] = engine["layer"]
    return place


def _from_another_place(diagnosis: dict[str, Any] | None) -> bool:
    cause = diagnosis["first_cause"] if diagnosis else None
    return cause is not None and cause["type"] in _PLACE_ERRORS


def _patterns(diagnosis: dict[str, Any] | None) -> list[dict[str, Any]]:
    found = diagnosis["patterns"] if diagnosis else []
    strong = [item for item in found if item["score"] >= PATTERN_FROM]
    return [{name: item[name] for name in ("id", "title", "score")} for item in strong[:MAX_PATTERNS]]


def _next(part: steps.Part, failed: dict[str, Any], diagnosis: dict[str, Any] | None, file: str) -> list[str]:
    if failed["status"] == TIMEOUT:
        return ["py-spy dump --pid of each process while the step hangs; or a longer --timeout if it is only slow"]
    actions = [text.format(file=file) for text in part.next]
    if diagnosis is not None and diagnosis["verdict"] == "known":
        fix = diagnosis["report"]["fix"]["short_term"]
        actions.insert(0, fix if isinstance(fix, str) else "; ".join(fix))
    return actions

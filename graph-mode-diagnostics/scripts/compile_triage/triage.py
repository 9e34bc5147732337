"""A whole triage: the folder of a run, its steps in order, resumed where it stopped."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.redaction import Redactor, machine_names

from . import steps
from .compile_calls import CompileCall, Script, choose_call, find_calls, read_script
from .conclusion import conclude
from .environment import child_environment, describe, python_of
from .execution import FAILED, PASSED, run_child
from .overlay import make_overlay
from .variants import make_variant

SCHEMA = "npu-graph/triage/1"
LOG, RESULT, ENVIRONMENT = "stdout_stderr.log", "result.json", "env.txt"
# Kept in a step's own result.json for the next run, of no use to a reader.
_INTERNAL = ("mark", "code", "root")
DEFAULT_FOLDER = "npu-graph-triage"


class Request(NamedTuple):
    """What to triage, and how."""

    script: Path
    file: Path
    root: Path
    arguments: tuple[str, ...]
    launcher: tuple[str, ...]
    call: int
    backend: str
    timeout: float
    environment: dict[str, str]
    debug_files: bool
    fail_on: str


class Plan(NamedTuple):
    """The chosen call and the text of each step's variant."""

    script: Script
    call: CompileCall
    calls: list[CompileCall]
    backend: str
    variants: dict[str, str]


def make_plan(request: Request) -> Plan:
    """Read the file that holds the call, choose the call, and write the variants' texts.

    Raises:
        CommandError: when the file is not Python, or holds no such call.
    """
    read_script(request.script)
    script = read_script(request.file)
    calls = find_calls(script)
    call = choose_call(calls, request.call)
    backend = request.backend or call.backend
    names = steps.steps_for(backend)
    return Plan(script, call, calls, backend, {name: make_variant(script, call, name) for name in names})


def run_triage(request: Request, plan: Plan, folder: Path) -> dict[str, Any]:
    """Run the steps until one fails; steps that already passed in this folder, unchanged, are not run again.

    Args:
        folder: the folder of the run; made when it does not exist.

    Returns:
        The record of references/compile_triage.md, which is also written to result.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    logs: dict[str, str] = {}
    for number, name in enumerate(plan.variants, 1):
        record = _run_step(request, plan, name, folder / f"{number}_{name}")
        records.append(record)
        log = folder / record["folder"] / LOG
        logs[name] = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        again = " (from the earlier run)" if record["resumed"] else ""
        print(
            f"step {number}/{len(plan.variants)} {name}: {record['status']} in {record['seconds']} s{again}",
            file=sys.stderr,
        )
        if record["status"] != PASSED:
            break
        _write(folder / RESULT, _record(request, plan, folder, records, logs))
    result = _record(request, plan, folder, records, logs)
    _write(folder / RESULT, result)
    return result


def _run_step(request: Request, plan: Plan, name: str, folder: Path) -> dict[str, Any]:
    variant = plan.variants[name].encode(plan.script.encoding)
    mark = _mark(request, variant)
    known = _earlier(folder, mark)
    if known is not None:
        return {**known, "resumed": True}
    if folder.exists():
        shutil.rmtree(str(folder))
    code = folder / "code"
    make_overlay(code, request.root, {request.script: request.script.read_bytes(), request.file: variant})
    for part in ("plog", "compile_debug"):
        (folder / part).mkdir()
    script = code / request.script.resolve().relative_to(request.root.resolve())
    command = [*request.launcher, str(script), *request.arguments]
    environment = child_environment(request.environment, folder.resolve(), name, request.debug_files)
    (folder / ENVIRONMENT).write_text(describe(environment, command, python_of(request.launcher)), encoding="utf-8")
    try:
        outcome = run_child(command, environment, Path.cwd(), request.timeout, folder / LOG)
    except OSError as error:
        reason = f"{request.launcher[0]} cannot be started: {error.strerror or error}; check --launcher"
        raise cli.CommandError(reason, cli.ABSENT) from None
    status = outcome.status
    if status == PASSED and request.fail_on and request.fail_on in outcome.log:
        status = FAILED
    record = {
        "step": name,
        "adds": steps.STEPS[name].adds,
        "status": status,
        "seconds": outcome.seconds,
        "returncode": outcome.returncode,
        "signal": outcome.signal,
        "limit": request.timeout,
        "command": _hide(" ".join(shlex.quote(part) for part in command)),
        "folder": folder.name,
        "variant": str(Path("code") / request.file.resolve().relative_to(request.root.resolve())),
        "code": str(code),
        "root": str(request.root),
        "mark": mark,
        "resumed": False,
    }
    _write(folder / RESULT, record)
    return record


def _mark(request: Request, variant: bytes) -> str:
    """Return what a step's outcome depends on, so that a resumed run does not trust another script's result."""
    parts = [variant.decode("latin-1"), *request.launcher, *request.arguments, request.fail_on]
    parts += [f"{name}={value}" for name, value in sorted(request.environment.items())]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _earlier(folder: Path, mark: str) -> dict[str, Any] | None:
    """Return the record of a step that already passed in this folder with the same variant and command."""
    try:
        record = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    usable = isinstance(record, dict) and record.get("mark") == mark and record.get("status") == PASSED
    return record if usable else None


def _record(
    request: Request, plan: Plan, folder: Path, records: Sequence[dict[str, Any]], logs: dict[str, str]
) -> dict[str, Any]:
    conclusion = conclude(records, plan.backend, str(request.file), logs) if records else {}
    if len(records) < len(plan.variants) and records[-1]["status"] == PASSED:
        conclusion = conclude([*records, {"step": "next", "status": "waiting"}], plan.backend, str(request.file), logs)
    return {
        "schema": SCHEMA,
        **conclusion,
        "script": str(request.script),
        "call": call_record(plan.call, plan.backend),
        "calls": [call_record(item, item.backend) for item in plan.calls],
        "launcher": _hide(" ".join(request.launcher)),
        "arguments": [_hide(item) for item in request.arguments],
        "steps": [{key: value for key, value in record.items() if key not in _INTERNAL} for record in records],
        "not_run": [name for name in plan.variants if name not in [record["step"] for record in records]],
        "folder": str(folder),
    }


def call_record(call: CompileCall, backend: str) -> dict[str, Any]:
    """Return a call as the record shows it."""
    return {
        "number": call.number,
        "file": call.file,
        "line": call.line,
        "form": call.form,
        "target": call.target,
        "backend": backend or None,
    }


def new_folder(parent: Path, script: Path) -> Path:
    """Return a folder name of its own for a run."""
    stem = parent / f"{script.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    number, folder = 1, stem
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def _hide(text: str) -> str:
    return Redactor(machine_names()).apply(text)


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")

"""The evidence bundle: one zip with what a report needs, bounded and redacted, that diagnose.py takes as input."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from npu_graph.cli import NO_INPUT, CommandError
from npu_graph.redaction import Redactor

from .host import Host
from .report import as_markdown
from .variables import PREFIXES

# The newest logs are those of the failing run, and of its ranks; their tail has the error.
MAX_PLOGS = 8
PLOG_TAIL = 64 * 1024
MAX_LOG_FILES_SEEN = 5000
# Variables that are shown: those of the stack, and the paths that decide which libraries are loaded.
SHOWN = (*PREFIXES, "TORCH", "PYTORCH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "VLLM_", "SGLANG_", "RANK",
         "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "KINETO_", "PROF_CONFIG", "MULTI_STREAM",
         "OOM_SNAPSHOT")  # fmt: skip
MAX_VALUE = 4000

README = """Evidence collected by check_graph_health.py --bundle.

health.json     the health report, schema npu-graph/health/1
health.md       the same, to read
versions.txt    versions of Python, torch, torch_npu, CANN, driver
variables.txt   environment variables of the NPU stack
npu-smi.txt     output of npu-smi info
failures.txt    full text of the probes that failed
plog/           ends of the newest CANN logs

Host names, users, addresses, serial numbers, tokens and model paths are replaced by placeholders such as [ip-1].
Look through the files before you send them.
To diagnose: python3 graph-mode-diagnostics/scripts/diagnose.py THIS.zip
"""


def write_bundle(target: Path, host: Host, record: dict[str, Any], redactor: Redactor) -> list[str]:
    """Write the bundle and return the names of its members.

    Raises:
        CommandError: the file cannot be written.
    """
    members = {
        "README.md": README,
        "versions.txt": versions_text(record["environment"]),
        "failures.txt": failures_text(host),
        "variables.txt": variables_text(host),
        "npu-smi.txt": host.npu_smi().stdout + host.npu_smi().stderr,
        **plog_members(host),
        "health.md": as_markdown(record),
        "health.json": json.dumps(record, ensure_ascii=False, indent=2),
    }
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in members.items():
                archive.writestr(name, redactor.apply(text, name))
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {error.strerror}", NO_INPUT) from None
    return list(members)


def versions_text(facts: dict[str, Any]) -> str:
    """Return the versions in the words that diagnosis reads."""
    lines = [
        f"Python version: {facts['python']}",
        f"PyTorch version: {facts['torch']}",
        f"torch_npu: {facts['torch_npu']}",
        f"CANN: {facts['cann']}",
        f"driver version: {facts['driver']}",
        f"SoC: {facts['soc']}",
    ]
    lines += [f"{name}=={version}" for name, version in sorted(facts["packages"].items())]
    return "\n".join(line for line in lines if not line.endswith((": ", ": None"))) + "\n"


def variables_text(host: Host) -> str:
    """Return the variables of the stack as `export` lines."""
    names = sorted(name for name in host.env if name.startswith(SHOWN))
    return "".join(f"export {name}={host.env[name][:MAX_VALUE]}\n" for name in names)


def failures_text(host: Host) -> str:
    """Return tracebacks and error output of the probes that failed."""
    parts = []
    for name in ("torch", "torch_npu", "devices", "capture"):
        answer = host.asked(name)
        if answer is None or (answer.works and "update_error" not in (answer.result or {})):
            continue
        ended = f"{answer.outcome.kind} {answer.outcome.detail}"
        parts.append(f"# probe {name}: {ended} at stage {answer.stage or 'start'}")
        error = answer.error or (answer.result or {}).get("update_error", {})
        parts += [error.get("traceback", ""), answer.outcome.stderr[-PLOG_TAIL:]]
    return "\n".join(parts) + "\n" if parts else ""


def plog_folders(host: Host) -> list[Path]:
    """Return where CANN writes its logs, by the precedence of its variables."""
    for variable, below in (("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", "log")):
        if host.env.get(variable):
            return [Path(host.env[variable]) / below]
    return [Path(host.env["HOME"]) / "ascend" / "log"] if host.env.get("HOME") else []


def plog_members(host: Host) -> dict[str, str]:
    """Return the ends of the newest plog files, by member name."""
    found: list[tuple[float, Path]] = []
    for folder in plog_folders(host):
        for path in folder.rglob("plog*.log"):
            try:
                found.append((path.stat().st_mtime, path))
            except OSError:
                continue
            if len(found) >= MAX_LOG_FILES_SEEN:
                break
    members = {}
    for _, path in sorted(found, reverse=True)[:MAX_PLOGS]:
        kind = "debug" if "debug" in path.parts else ("run" if "run" in path.parts else "other")
        text = tail(path, PLOG_TAIL)
        if text:
            members[f"plog/{kind}-{path.name}"] = text
    return members


def tail(path: Path, limit: int) -> str:
    """Return the end of a file from a line's beginning, or nothing when it cannot be read."""
    try:
        with path.open("rb") as source:
            size = source.seek(0, 2)
            source.seek(max(0, size - limit))
            data = source.read(limit)
    except OSError:
        return ""
    if size > limit:
        data = data[data.find(b"\n") + 1 :]
    return data.decode("utf-8", "replace")

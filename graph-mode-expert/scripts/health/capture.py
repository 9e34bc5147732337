"""Group capture: a small graph is captured on a side stream, replayed with changed inputs, compared and updated."""

from __future__ import annotations

import re
from typing import Any

from . import import_errors, process
from .host import Answer, Host
from .model import FAIL, PASS, SKIP, WARN, Check, check, critical

# The scalar of the captured multiplication before the update, and after it (children/capture.py).
BEFORE, AFTER = 2.0, 5.0
_CODE = re.compile(r"error code (?:is|:)\s{0,2}(\d{5,6})")
# Codes that say "the driver cannot update a task in place": hicann/runtime docs/zh/api_ref/25-01_aclError.md:169.
UPDATE_UNSUPPORTED = ("207000", "207019")


def run(host: Host) -> list[Check]:
    """Check the group."""
    reason = blocked_by(host)
    if reason:
        return [check("capture.basic", reason, SKIP)]
    answer = host.probe("capture", str(host.device))
    found = answer.result or {}
    checks = [check_capture(answer, found)]
    if found.get("captured"):
        checks.append(check_replay(answer, found))
    if found.get("released") and not found.get("error"):
        checks.append(check_update(answer, found))
    return checks


def blocked_by(host: Host) -> str:
    """Return why there is nothing to try, or nothing."""
    if "torch-npu" not in host.packages() and not _folder(host):
        return "no_torch_npu"
    imported, opened = host.asked("torch_npu"), host.asked("devices")
    if imported is not None and not imported.works:
        return "no_import"
    if opened is not None and opened.outcome.kind == process.TIMEOUT:
        return "device_hangs"
    if opened is not None and opened.works and not (opened.result or {}).get("count"):
        return "no_device"
    return ""


def _folder(host: Host) -> str:
    return str((host.probe("packages").result or {}).get("folders", {}).get("torch_npu", ""))


def check_capture(answer: Answer, found: dict[str, Any]) -> Check:
    """Was the graph captured?"""
    if found.get("captured"):
        return check("capture.basic", "ok", PASS, ["captured on a side stream, mode global"])
    return _failure("capture.basic", answer)


def check_replay(answer: Answer, found: dict[str, Any]) -> Check:
    """Did every replay give what eager gives for the same input?"""
    replays = found.get("replays", [])
    evidence = [
        f"replay {at}: largest difference from eager {item['difference']:.3g}" for at, item in enumerate(replays, 1)
    ]
    if not found.get("released"):
        failed = _failure("capture.replay", answer)
        return failed._replace(evidence=[*evidence, *failed.evidence])
    if any(item["stale"] for item in replays):
        return critical("capture.replay", "stale", evidence)
    if not replays or not all(item["close"] for item in replays):
        return critical("capture.replay", "differs", evidence)
    return check("capture.replay", "ok", PASS, evidence)


def check_update(answer: Answer, found: dict[str, Any]) -> Check:
    """Did an updated parameter reach the graph?"""
    if answer.outcome.kind != process.OK:
        return _failure("capture.update", answer)._replace(critical=False)
    error = found.get("update_error")
    if error:
        message = str(error.get("message", ""))
        code = _CODE.search(message)
        number = code.group(1) if code else ""
        # 207000 does not raise, so a later call of the update may be the one that does, with 207000 in CANN's text.
        unsupported = [mark for mark in UPDATE_UNSUPPORTED if mark in message]
        outcome = "driver" if unsupported else "error"
        lines = [text for text in message.splitlines() if text.strip()][:4]
        return check("capture.update", outcome, WARN, lines, code=(unsupported or [number or "no code"])[0])
    update = found.get("update")
    if update is None:
        return check("capture.update", "no_api", SKIP)
    evidence = [f"x * {BEFORE}: {update['before']}; after the update to x * {AFTER}: {update['after']}"]
    if update["before"] != BEFORE:
        return check("capture.update", "wrong", FAIL, evidence)
    if update["after"] == BEFORE:
        return check("capture.update", "lost", FAIL, evidence)
    if update["after"] != AFTER:
        return check("capture.update", "wrong", FAIL, evidence)
    return check("capture.update", "ok", PASS, evidence)


def _failure(name: str, answer: Answer) -> Check:
    """Say how the probe failed: an exception with its code, a crash, or a hang."""
    known = (import_errors.HUNG, import_errors.CRASHED, import_errors.KILLED, import_errors.FLOODED)
    failed = import_errors.failed(name, answer, known)
    code = _CODE.search(str(answer.error.get("message", "")))
    return failed._replace(values={**failed.values, "code": code.group(1) if code else "none"})

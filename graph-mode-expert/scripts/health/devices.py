"""Group devices: how many NPUs there are, which, how they feel, and who else works on them."""

from __future__ import annotations

import re

from . import import_errors, npu_smi, process
from .host import Host
from .model import FAIL, PASS, SKIP, WARN, Check, check, critical
from .npu_smi import Chip, Report

# Health words of npu-smi. UNKNOWN is what a container shows that may not ask.
GRAVE_HEALTH = ("alarm", "critical", "error", "offline")


def run(host: Host) -> list[Check]:
    """Check the group."""
    outcome = host.npu_smi()
    report = npu_smi.parse(outcome.stdout + "\n" + outcome.stderr)
    checks = [check_npu_smi(host, outcome, report)]
    if report.chips:
        checks.append(check_health(host, report))
        checks.append(check_processes(host, report))
    checks += check_torch(host, report)
    checks.append(check_soc(host, report))
    return checks


def check_npu_smi(host: Host, outcome: process.Outcome, report: Report) -> Check:
    """Does npu-smi answer?"""
    nodes = host.device_nodes()
    shown = [text for text in (outcome.stdout + outcome.stderr).splitlines() if text.strip()][:3]
    nodes_line = f"/dev: {', '.join(nodes) if nodes else 'no davinci nodes'}"
    if report.chips:
        names = sorted({chip.name for chip in report.chips})
        evidence = [f"npu-smi {report.version}: {len(report.chips)} chips ({', '.join(names)})"]
        return check("devices.npu_smi", "ok", PASS, evidence)
    if outcome.kind == process.ABSENT:
        status, name = (WARN, "absent") if nodes else (SKIP, "absent_no_nodes")
        return check("devices.npu_smi", name, status, [outcome.detail, nodes_line])
    if outcome.kind == process.TIMEOUT:
        return check("devices.npu_smi", "hang", FAIL, [f"no answer after {outcome.seconds:.0f} s", nodes_line])
    return check("devices.npu_smi", report.error or "unreadable", FAIL, [*shown, nodes_line])


def visible_chip(host: Host, report: Report) -> Chip | None:
    """Return the chip that `--device N` means: the N-th visible one, through ASCEND_RT_VISIBLE_DEVICES."""
    order = visible_numbers(host.env.get("ASCEND_RT_VISIBLE_DEVICES", ""))
    number = host.device
    if order is not None:
        if number >= len(order):
            return None
        number = order[number]
    physical = {chip.physical: chip for chip in report.chips if chip.physical is not None}
    if number in physical:
        return physical[number]
    return report.chips[number] if number < len(report.chips) else None


def visible_numbers(value: str) -> list[int] | None:
    """Return the device numbers of ASCEND_RT_VISIBLE_DEVICES; None when it is not set or not a list of numbers."""
    numbers: list[int] = []
    for part in value.split(","):
        found = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if not found:
            return None
        first, last = int(found.group(1)), int(found.group(2) or found.group(1))
        numbers += range(first, last + 1)
    return numbers or None


def check_health(host: Host, report: Report) -> Check:
    """Are the chips well? The examined one weighs more than the others."""
    mine = visible_chip(host, report)
    sick = [chip for chip in report.chips if chip.health.upper() != "OK"]
    evidence = [f"NPU {chip.npu} chip {chip.chip} ({chip.name}): {chip.health}" for chip in sick]
    if not sick:
        return check("devices.health", "ok", PASS, [f"{len(report.chips)} chips OK"])
    if mine in sick and mine is not None and mine.health.lower() in GRAVE_HEALTH:
        return check("devices.health", "mine", FAIL, evidence, npu=mine.npu)
    return check("devices.health", "others", WARN, evidence, npu=sick[0].npu)


def check_processes(host: Host, report: Report) -> Check:
    """Does somebody else work on the examined chip?"""
    mine = visible_chip(host, report)
    if mine is None:
        return check("devices.processes", "unknown", SKIP, [f"device {host.device} is not in the table of npu-smi"])
    busy = [item for item in report.processes if (item.npu, item.chip) == (mine.npu, mine.chip)]
    evidence = [f"pid {item.pid} {item.name or '?'} {item.memory} MB" for item in busy[:8]]
    if busy:
        return check("devices.processes", "busy", WARN, evidence, npu=mine.npu, chip=mine.chip, count=len(busy))
    return check("devices.processes", "ok", PASS, [f"NPU {mine.npu} chip {mine.chip} is idle"])


def check_torch(host: Host, report: Report) -> list[Check]:
    """Does torch_npu see the devices, and can it compute on the one asked for?"""
    imported = host.asked("torch_npu")
    if imported is not None and not imported.works:
        return [check("devices.torch", "no_import", SKIP)]
    if "torch-npu" not in host.packages():
        return [check("devices.torch", "no_torch_npu", SKIP)]
    answer = host.probe("devices", str(host.device))
    if not answer.works:
        known = (import_errors.HUNG, import_errors.CRASHED)
        return [import_errors.failed("devices.torch", answer, known)]
    found = answer.result or {}
    evidence = [f"torch.npu.device_count() = {found['count']}: {', '.join(sorted(set(found['names']))) or 'none'}"]
    evidence += [f"{name} {version} (as torch_npu sees it)" for name, version in sorted(found["versions"].items())]
    if not found["count"]:
        return [critical("devices.torch", "none", [*evidence, f"npu-smi shows {len(report.chips)}"])]
    if host.device >= found["count"]:
        return [check("devices.torch", "no_such_device", FAIL, evidence, device=host.device, count=found["count"])]
    if not found.get("computes"):
        return [critical("devices.torch", "wrong_result", evidence, device=host.device)]
    checks = [check("devices.torch", "ok", PASS, [*evidence, f"device {host.device} computes"])]
    shown = len(report.chips)
    if shown and shown != found["count"] and not host.env.get("ASCEND_RT_VISIBLE_DEVICES"):
        evidence = [f"npu-smi {shown}, torch_npu {found['count']}"]
        checks.append(check("devices.count", "differs", WARN, evidence, shown=shown, count=found["count"]))
    return checks


def check_soc(host: Host, report: Report) -> Check:
    """Can this chip capture at all?"""
    soc = find_soc(host, report)
    if not soc.name:
        return check("devices.soc", "unknown", SKIP)
    evidence = [f"{soc.name} ({soc.product or 'unknown product'})"]
    if soc.product in npu_smi.CAN_CAPTURE:
        return check("devices.soc", "ok", PASS, evidence)
    if not soc.product:
        return check("devices.soc", "unknown", SKIP, evidence)
    return critical("devices.soc", "unsupported", evidence, soc=soc.name)


def find_soc(host: Host, report: Report) -> npu_smi.Soc:
    """Return the SoC: from torch_npu where it answered (it tells A3 by name), else from npu-smi."""
    answer = host.asked("devices")
    names = (answer.result or {}).get("names", []) if answer else []
    if names:
        return npu_smi.family(names[min(host.device, len(names) - 1)], report.chips)
    chip = visible_chip(host, report)
    return npu_smi.family(chip.name, report.chips) if chip else npu_smi.Soc("", "", "")

"""Group memory: free device memory, memory that no process accounts for, what a graph takes, and the stream budget."""

from __future__ import annotations

from . import devices, npu_smi
from .host import Host
from .model import PASS, SKIP, WARN, Check, check
from .variables import allocator_options

MEGABYTE = 1024 * 1024
# A capture keeps its pool for good; below this share a serving process usually runs out while it captures.
LOW_SHARE = 0.10
# An idle A2 or A3 chip shows about 2.9 to 3.4 GB in use (npu-smi tables of vllm-project/vllm-ascend#2534, #1130).
IDLE_MB = 4096
# What memory of processes and of the chip may differ by before it says anything.
SLACK_MB = 2048
# Streams of a device and what vllm-ascend leaves for graphs: docs of vllm-project/vllm-ascend, developer guide on
# ACL graphs, "Stream resource constraint". The number is theirs; no call reports the limit of a driver.
STREAMS, STREAMS_FOR_GRAPHS = 2048, 1800
DEFAULT_STREAM_POOL = 32


def run(host: Host) -> list[Check]:
    """Check the group."""
    outcome = host.npu_smi()
    report = npu_smi.parse(outcome.stdout + "\n" + outcome.stderr)
    chip = devices.visible_chip(host, report)
    checks = [check_free(host, chip)]
    if chip is not None and chip.used is not None:
        checks.append(check_unaccounted(report, chip))
    checks.append(check_fragmentation(host))
    checks.append(check_pool(host))
    checks.append(check_streams(host))
    return checks


def check_free(host: Host, chip: npu_smi.Chip | None) -> Check:
    """How much device memory is free? torch_npu's number where it answered, else that of npu-smi."""
    answer = host.asked("devices")
    found = (answer.result or {}) if answer and answer.works else {}
    if found.get("total"):
        free, total, source = found["free"] // MEGABYTE, found["total"] // MEGABYTE, "torch.npu.mem_get_info"
    elif chip is not None and chip.used is not None and chip.total:
        free, total, source = chip.total - chip.used, chip.total, "npu-smi"
    else:
        return check("memory.free", "unknown", SKIP)
    evidence = [f"{free} MB of {total} MB free ({source})"]
    if free < total * LOW_SHARE:
        return check("memory.free", "low", WARN, evidence, free=free, total=total)
    return check("memory.free", "ok", PASS, evidence)


def check_unaccounted(report: npu_smi.Report, chip: npu_smi.Chip) -> Check:
    """Is memory in use that no process of the table has? A killed process may have left it."""
    used = chip.used or 0
    owned = sum(item.memory or 0 for item in report.processes if (item.npu, item.chip) == (chip.npu, chip.chip))
    evidence = [f"in use {used} MB, of processes {owned} MB, of an idle chip about {IDLE_MB} MB at most"]
    if used - owned > IDLE_MB + SLACK_MB:
        return check("memory.unaccounted", "some", WARN, evidence, size=used - owned)
    return check("memory.unaccounted", "ok", PASS, evidence)


def check_fragmentation(host: Host) -> Check:
    """Does the allocator use expandable segments, which keep many captured sizes from fragmenting the memory?"""
    options = {**allocator_options(host.env.get("PYTORCH_ALLOC_CONF", ""))}
    options.update(allocator_options(host.env.get("PYTORCH_NPU_ALLOC_CONF", "")))
    if options.get("expandable_segments", "").lower() == "true":
        return check("memory.fragmentation", "ok", PASS, ["expandable_segments:True"])
    return check(
        "memory.fragmentation",
        "default",
        PASS,
        ["expandable_segments is not set; set it when reserved is far above allocated"],
    )


def check_pool(host: Host) -> Check:
    """What did the small graph take?"""
    answer = host.asked("capture")
    found = (answer.result or {}) if answer else {}
    if "graph_bytes" not in found:
        return check("memory.pool", "unknown", SKIP)
    return check(
        "memory.pool",
        "ok",
        PASS,
        [f"a graph of four operators keeps {found['graph_bytes'] / MEGABYTE:.1f} MB in its pool"],
    )


def check_streams(host: Host) -> Check:
    """How many streams are there for graphs?"""
    pool = host.env.get("STREAMS_PER_DEVICE", "").strip()
    size = int(pool) if pool in ("8", "32") else DEFAULT_STREAM_POOL
    evidence = [
        f"about {STREAMS} streams on a device, {STREAMS_FOR_GRAPHS} for graphs (vllm-ascend's measure; no call says)",
        f"torch_npu's own stream pool: {size} (STREAMS_PER_DEVICE)",
        "a graph takes at least one stream, plus one for each communicator and each side stream inside it",
    ]
    return check("memory.streams", "ok", PASS, evidence)

"""Build the hang record (schema npu-graph/hang/1) from inputs."""

# ruff: noqa: E501 (commands are kept whole)
from __future__ import annotations

import re
from typing import Any, Sequence

from npu_graph.cli import InputText

from .classes import CLASSES
from .classify import KNOWN_FROM, Claim, Evidence, Facts, classify, describe_blocker, moving
from .device import Chip, read_chips
from .dumps import read_dumps
from .events import read_events
from .grouping import find_blockers, group_by_stack, name_members, odd_ones, ranges, silent_ranks
from .identity import gather_processes, read_names
from .notify import read_notices
from .sources import SourceLines
from .waits import Standing, read_standing

SCHEMA = "npu-graph/hang/1"
MAX_GROUPS = 20
MAX_STACK = 40
# Code that makes a graph wait for an event of an update, in the files of the stack.
_UPDATE_CODE = re.compile(r"auto_dispatch_capture=True|cpu_update_input=|ExternalEvent\(|graph_task_update_begin")

_MISSING = {
    "stacks": (
        ("Python stacks", "which call each rank stands in", "for p in $(pgrep -f YOUR_SCRIPT); do py-spy dump --pid $p > stack_$p.txt; done"),
        ("Python 栈", "各 rank 停在哪个调用", "for p in $(pgrep -f 你的脚本); do py-spy dump --pid $p > stack_$p.txt; done"),
    ),
    "all_ranks": (
        ("stacks of every rank", "one rank alone does not show who is missing", "py-spy dump --pid PID for each rank, all given together"),
        ("所有 rank 的栈", "只看一个 rank 看不出缺谁", "对每个 rank 执行 py-spy dump --pid PID，一起给出"),
    ),
    "second_sample": (
        ("a second dump", "a hang stays at the same place, slow work moves", "repeat the py-spy dump after 30 s (or --pid PID --again 30)"),
        ("第二次 dump", "卡死会停在原处，慢则会移动", "30 秒后再次 py-spy dump（或 --pid PID --again 30）"),
    ),
    "devices": (
        ("npu-smi info", "busy AI Cores mean a kernel, idle ones an event or a peer", "npu-smi info > npu-smi.txt"),
        ("npu-smi info", "AI Core 忙是核函数，闲是在等 event 或对端", "npu-smi info > npu-smi.txt"),
    ),
    "plog": (
        ("plog of the hung PIDs", "HCCL names the remote rank after HCCL_EXEC_TIMEOUT", "ls -t ~/ascend/log/debug/plog/plog-PID_*.log"),
        ("卡住进程的 plog", "HCCL_EXEC_TIMEOUT 之后 HCCL 会给出对端 rank", "ls -t ~/ascend/log/debug/plog/plog-PID_*.log"),
    ),
}  # fmt: skip


def locate_hang(
    inputs: Sequence[InputText], language: str = "en", roots: Sequence[str] = (), world: int = 0
) -> dict[str, Any]:
    """Return the record.

    Args:
        inputs: stacks, logs and device tables, each recognised by its content.
        language: 'en' or 'zh'.
        roots: folders whose `.py` files may be read for the source lines of frames.
        world: number of ranks that should exist, 0 when unknown.
    """
    sources = SourceLines(roots)
    dumps = [dump for item in inputs for dump in read_dumps(item)]
    with_dumps = {dump.source for dump in dumps}
    texts = [(item.name, item.text) for item in inputs if item.name not in with_dumps or "ERROR" in item.text]
    names = read_names([(item.name, item.text) for item in inputs])
    standings = [read_standing(process, sources) for process in gather_processes(dumps, names)]
    workers = [item for item in standings if not item.process.driver]
    notices = read_notices(texts)
    chips = [chip for name, text in texts for chip in read_chips(name, text)]
    facts = Facts(
        workers,
        [item for item in standings if item.process.driver],
        group_by_stack(workers),
        notices,
        find_blockers(notices, names),
        read_events([(name, text) for name, text in texts if "AICore(%)" not in text]),
        chips,
        _update_code(sources),
    )
    claims = classify(facts)
    best = claims[0] if claims else None
    missing = _missing(facts, world)
    usable = bool(standings or notices.waits or notices.lost or facts.events or chips)
    verdict = "insufficient" if not usable or (best is None and not standings) else "unknown"
    if best is not None:
        verdict = "known" if best.score >= KNOWN_FROM else "candidate"
    index = 1 if language == "zh" else 0
    return {
        "schema": SCHEMA,
        "verdict": verdict,
        "usable": usable,
        "classes": [_claim_record(claim, index) for claim in claims],
        "processes": {
            "workers": len(workers),
            "others": [item.process.label for item in facts.drivers],
            "absent_ranks": _absent(workers, world),
            "moving": [process.label for process in moving(workers)],
        },
        "groups": _group_records(facts),
        "waited_for": [
            {
                "rank": describe_blocker(item),
                "world_rank": item.world,
                "group": item.group,
                "group_rank": item.group_rank,
                "known_by": item.known_by,
                "waiters": item.waiters,
                "itself_waits": item.itself_waits,
                "source": item.evidence.source,
                "line": item.evidence.line,
            }
            for item in facts.blockers[:MAX_GROUPS]
        ],
        "silent": [
            {"group": group, "size": size, "ranks": ranges(ranks)} for group, size, ranks, _ in silent_ranks(notices)
        ],
        "devices": [_chip_record(chip) for chip in chips],
        "missing": [dict(zip(("item", "why", "how"), _MISSING[name][index])) for name in missing],
        "input": {
            "files": len(inputs),
            "language": language,
            "left_out": [
                f"{item.name}: {item.skipped_bytes} bytes in the middle" for item in inputs if item.skipped_bytes
            ],
        },
    }


def _claim_record(claim: Claim, index: int) -> dict[str, Any]:
    about = CLASSES[claim.name]
    return {
        "class": claim.name,
        "title": about.title[index],
        "score": claim.score,
        "stage": about.stage,
        "pattern": about.pattern,
        "ranks": claim.who[:MAX_GROUPS],
        "meaning": about.meaning[index],
        "evidence": [item._asdict() for item in claim.evidence],
        "confirm": about.confirm[index],
        "collect": about.collect[index],
    }


def _group_records(facts: Facts) -> list[dict[str, Any]]:
    odd = odd_ones(facts.groups)
    records = []
    for group in facts.groups[:MAX_GROUPS]:
        first = group.first
        lines = sorted({item.waiting.user.line for item in group.members if item.waiting.user is not None})
        records.append(
            {
                "members": name_members(group.members),
                "count": len(group.members),
                "odd": group in odd,
                "waits_in": group.kind,
                "at": str(first.waiting.at) if first.waiting.at else "",
                "called_from": str(first.waiting.user) if first.waiting.user else "",
                "other_lines": lines[:10] if len(lines) > 1 else [],
                "mode": first.mode,
                "in_graph_code": first.in_graph,
                "stack": [str(frame) for frame in first.waiting.thread.python_frames[:MAX_STACK]],
            }
        )
    return records


def _chip_record(chip: Chip) -> dict[str, Any]:
    return {"npu": chip.physical, "health": chip.health, "ai_core_percent": chip.load, "pids": list(chip.pids)}


def _update_code(sources: SourceLines) -> list[Evidence]:
    """Return lines below the source roots that make a graph wait for an update, or feed one."""
    return [Evidence(*item) for item in sources.search(_UPDATE_CODE) if "torch_npu" not in item[0]][:4]


def _absent(workers: Sequence[Standing], world: int) -> str:
    known = {item.process.rank for item in workers if item.process.rank is not None}
    size = world or (max(known) + 1 if known else 0)
    return ranges([rank for rank in range(min(size, 100_000)) if rank not in known]) if known else ""


def _missing(facts: Facts, world: int) -> list[str]:
    items: list[str] = []
    if not facts.workers:
        items.append("stacks")
    elif _absent(facts.workers, world) or (len(facts.workers) == 1 and facts.workers[0].process.rank is not None):
        items.append("all_ranks")
    if facts.workers and any(len(item.process.samples) < 2 for item in facts.workers):
        items.append("second_sample")
    if not facts.chips:
        items.append("devices")
    if not facts.notices.waits and not facts.events:
        items.append("plog")
    return items

"""Which process a line belongs to, and what the files of a process say together."""

from __future__ import annotations

from npu_graph.logs.lines import LogLine
from npu_graph.logs.partial import Partial, SourceInfo
from npu_graph.logs.segment import Process, Segment


def process_id(info: SourceInfo, segment: Segment, pid: str) -> str:
    """Return the name of a process in the report: host and pid.

    Lines that name no process belong to the file's only one, else to the file itself; lines that name only a rank
    (`[rank3]: `) belong to the file's only process of that rank.
    """
    if not pid:
        named = [name for name in segment.processes if name.isdigit()]
        pid = named[0] if len(named) == 1 else ""
    elif pid.startswith("rank "):
        rank = pid[len("rank ") :]
        named = [name for name, process in segment.processes.items() if name.isdigit() and rank in process.ranks]
        pid = named[0] if len(named) == 1 else pid
    who = pid if pid else f"file {info.path}"
    return f"{info.host}/{who}" if info.host else who


def line_process(line: LogLine) -> str:
    """Return what identifies the process of a line: its id, else the rank that a launcher printed."""
    return line.pid or (f"rank {line.rank}" if line.rank else "")


def merged_processes(partial: Partial) -> dict[str, tuple[Process, str]]:
    """Return per process what its files say together, with times in place of lines, and its rank."""
    merged: dict[str, Process] = {}
    for info, segment in partial.sources():
        for pid, process in segment.processes.items():
            whole = merged.setdefault(process_id(info, segment, pid), Process())
            whole.lines += process.lines
            for place in (process.first, process.last):
                if place is not None:
                    whole.first = place if whole.first is None else min(whole.first, place, key=lambda item: item[1])
                    whole.last = place if whole.last is None else max(whole.last, place, key=lambda item: item[1])
            whole.names |= process.names
            whole.ranks |= process.ranks
            whole.forms |= process.forms
    return {name: (process, rank_of(process)) for name, process in merged.items()}


def rank_of(process: Process) -> str:
    """Prefer the global rank that torch.distributed gives over a position in a parallel group."""
    numbers = sorted(rank for rank in process.ranks if rank.isdigit())
    names = sorted((rank for rank in process.ranks if not rank.isdigit()), key=lambda rank: (-len(rank), rank))
    return (numbers or names or [""])[0]

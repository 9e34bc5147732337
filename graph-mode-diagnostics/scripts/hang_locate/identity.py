"""Which rank a dump or a log line belongs to, and whether its process is a worker at all."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NamedTuple, Sequence, TypeVar

from .dumps import Dump, Thread

_Value = TypeVar("_Value")

# Processes that hold no device: they wait for workers by design, so they are never the odd one out.
_DRIVERS = (
    ("EngineCore", re.compile(r"EngineCore", re.IGNORECASE)),
    ("API server", re.compile(r"APIServer|api_server|http_server", re.IGNORECASE)),
    ("detokenizer", re.compile(r"detokenizer", re.IGNORECASE)),
    (
        "launcher",
        re.compile(r"torchrun|torch\.distributed\.(?:run|launch)|resource_tracker|multiprocessing\.forkserver"),
    ),
)
# vLLM and SGLang name workers by their coordinates: VLLM::Worker_DP0_TP3, sglang::scheduler_TP3.
_COORDINATES = re.compile(r"(?<![A-Za-z])((?:(?:DP|PP|TP|EP|PCP|DCP)\d{1,4}_?){1,6})")
_RANK = re.compile(r"(?<![A-Za-z])rank[ _=:\-\[]{0,2}(\d{1,5})(?!\d)", re.IGNORECASE)
_LOCAL_RANK = re.compile(r"local[_-]rank[ =:]{0,2}(\d{1,5})(?!\d)", re.IGNORECASE)
_PID_IN_STREAM = re.compile(r"pid[=: ]{1,2}(\d{1,9})")
# `(PID:2969, Device:0, RankID:101)` of a torch_npu error: the world rank of a process.
_PID_RANK = re.compile(r"\(PID:(\d{1,9}), Device:(-?\d{1,4}), RankID:(-?\d{1,6})\)")
# `(Worker_TP3 pid=36224)` of a vLLM log.
_PID_NAME = re.compile(r"\(([A-Za-z][\w:]{0,60}) pid=(\d{1,9})\)")


class Process(NamedTuple):
    """All samples of one process, oldest first, with the name that reports use."""

    label: str
    rank: int | None
    driver: str
    pid: int
    source: str
    samples: list[Dump]

    @property
    def threads(self) -> list[Thread]:
        return self.samples[-1].threads

    @property
    def line(self) -> int:
        return self.samples[-1].line


class Names(NamedTuple):
    """What logs say about processes, by (file, pid): the world rank, the device, the framework's name."""

    ranks: dict[tuple[str, int], int]
    devices: dict[tuple[str, int], int]
    titles: dict[tuple[str, int], str]

    def rank_of(self, source: str, pid: int) -> int | None:
        return _lookup(self.ranks, source, pid)

    def title_of(self, source: str, pid: int) -> str:
        return _lookup(self.titles, source, pid) or ""


def read_names(texts: Sequence[tuple[str, str]]) -> Names:
    """Collect process names from (file name, text) pairs of logs."""
    names = Names({}, {}, {})
    for source, text in texts:
        if "RankID:" in text:
            for pid, device, rank in _PID_RANK.findall(text):
                names.devices[(source, int(pid))] = int(device)
                if int(rank) >= 0:
                    names.ranks[(source, int(pid))] = int(rank)
        if " pid=" in text:
            for title, pid in _PID_NAME.findall(text):
                names.titles.setdefault((source, int(pid)), title)
    return names


def number_in(text: str) -> int | None:
    """Return the rank that a title, stream or file name states: a global rank before a local one."""
    without_local = _LOCAL_RANK.sub(" ", text)
    found = _RANK.search(without_local) or _LOCAL_RANK.search(text)
    return int(found.group(1)) if found else None


def label_in(text: str) -> str:
    """Return the coordinates, such as 'TP3', from a worker's title, or ''."""
    found = _COORDINATES.search(text)
    return found.group(1).rstrip("_") if found else ""


def gather_processes(dumps: Sequence[Dump], names: Names) -> list[Process]:
    """Join the samples of each process and name it; names are unique."""
    groups: dict[tuple[str, int, str], list[Dump]] = {}
    for dump in dumps:
        pid = dump.pid or _pid_of_stream(dump.stream)
        key = (PurePath(dump.source).name if not pid else _node(dump.source), pid, "" if pid else dump.stream)
        groups.setdefault(key, []).append(dump)
    processes: list[Process] = []
    for (_, pid, _), samples in groups.items():
        last = samples[-1]
        title = last.title or names.title_of(last.source, pid)
        driver = next((name for name, expression in _DRIVERS if expression.search(f"{title} {last.stream}")), "")
        rank, label = _name(last, title, pid, names)
        processes.append(
            Process(driver if driver else label, None if driver else rank, driver, pid, last.source, samples)
        )
    return _unique(sorted(processes, key=lambda item: (item.rank is None, item.rank or 0, item.label, item.source)))


def _name(dump: Dump, title: str, pid: int, names: Names) -> tuple[int | None, str]:
    stem = PurePath(dump.source).stem
    for text in (dump.stream, title):
        number = number_in(text)
        if number is not None:
            return number, f"rank {number}"
        if label_in(text):
            return None, label_in(text)
    rank = names.rank_of(dump.source, pid) if pid else None
    if rank is None:
        rank = number_in(stem)
    if rank is not None:
        return rank, f"rank {rank}"
    if label_in(stem):
        return None, label_in(stem)
    return None, f"pid {pid}" if pid else (stem or "process")


def _unique(processes: list[Process]) -> list[Process]:
    """Two nodes may both have a rank 0 by local numbering: then the file or the pid tells them apart."""
    seen: dict[str, int] = {}
    for item in processes:
        seen[item.label] = seen.get(item.label, 0) + 1
    result = []
    for item in processes:
        label = item.label
        if seen[label] > 1:
            extra = PurePath(item.source).name if not item.pid else f"pid {item.pid}"
            label = f"{label} ({extra})"
        result.append(item._replace(label=label))
    labels: dict[str, int] = {}
    for index, item in enumerate(result):
        count = labels.get(item.label, 0)
        labels[item.label] = count + 1
        if count:
            result[index] = item._replace(label=f"{item.label} #{count + 1}")
    return result


def _pid_of_stream(stream: str) -> int:
    found = _PID_IN_STREAM.search(stream)
    return int(found.group(1)) if found else 0


def _node(source: str) -> str:
    """Files of one folder belong to one node: the same pid in two of them is the same process sampled twice."""
    return str(PurePath(source).parent)


def _lookup(table: dict[tuple[str, int], _Value], source: str, pid: int) -> _Value | None:
    """A dump and the log that names its pid are different files: another file counts where it is the only one."""
    if (source, pid) in table:
        return table[(source, pid)]
    found = {value for (_, known), value in table.items() if known == pid}
    return found.pop() if len(found) == 1 else None

"""Lines in the shapes that the programs write, with the values a test chooses; twins of real ones, none is a copy."""

from __future__ import annotations

import datetime
from typing import Any

from npu_graph.logs import engine
from npu_graph.logs.inputs import Source, find_sources
from npu_graph.logs.layout import calibrate
from npu_graph.logs.partial import Partial, SourceInfo
from npu_graph.logs.record import analyse
from npu_graph.logs.scan import Scanner
from npu_graph.logs.segment import Segment

START = datetime.datetime(2026, 3, 5, 8, 0, 0)


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def glog(seconds: float, text: str, pid: int = 4242, file: str = "NPUGraph.cpp:301", rank: int | None = 1) -> str:
    """A torch_npu line of release 26.1.0."""
    moment = at(seconds)
    ranked = f"[rank:{rank}] " if rank is not None else ""
    return f"V{moment:%m%d %H:%M:%S}.{moment.microsecond:06d} {pid} {file}] {ranked}{text}"


def capture(start: float, length: float, graph: str = "0xaa01", pid: int = 4242, rank: int | None = 1) -> list[str]:
    """The four lines of one capture; the last tenth of it builds the graph."""
    return [
        glog(start, "NPUGRAPH Capture begin", pid, rank=rank),
        glog(
            start + 0.001,
            f"NPUGRAPH Capture begin done: model_ri={graph}, capture_dev=1, mempool_id=(1,0), stream=0x1, "
            "capture_mode=0",
            pid,
            rank=rank,
        ),
        glog(start + 0.9 * length, "NPUGRAPH Capture end", pid, rank=rank),
        glog(start + length, f"NPUGRAPH Capture end done: model_ri={graph}, has_graph_exec=1", pid, rank=rank),
    ]


def replay(seconds: float, graph: str = "0xaa01", pid: int = 4242, rank: int | None = 1) -> str:
    return glog(seconds, f"NPUGRAPH Replay model_ri={graph}, device=1", pid, rank=rank)


def plog(
    seconds: float, text: str, level: str = "INFO", module: str = "RUNTIME", pid: int = 4242, name: str = "python3"
) -> str:
    """A CANN line; `text` begins with its `[file:line]`."""
    moment = at(seconds)
    micro = moment.microsecond
    stamp = f"{moment:%Y-%m-%d-%H:%M:%S}.{micro // 1000:03d}.{micro % 1000:03d}"
    return f"[{level}] {module}({pid},{name}):{stamp} {text}"


def pta(seconds: float, pid: int = 4242, rank: int = -1, code: str = "ERR00100 PTA call acl api failed") -> str:
    return f"[ERROR] {at(seconds):%Y-%m-%d-%H:%M:%S} (PID:{pid}, Device:0, RankID:{rank}) {code}."


def vllm(
    seconds: float,
    text: str,
    level: str = "INFO",
    pid: int = 4242,
    worker: str = "Worker_TP1_EP1",
    file: str = "core.py:1",
) -> str:
    moment = at(seconds)
    inner = f"({worker} pid={pid}) " if worker else ""
    return f"(EngineCore_DP0 pid=4000) {inner}{level} {moment:%m-%d %H:%M:%S} [{file}] {text}"


def scan_bytes(data: bytes, cuts: list[int] | None = None, path: str = "made.log", **window: Any) -> Partial:
    """Scan data as one file, cut into stretches at line starts at or after the given offsets."""
    source = Source(path, len(data), 0.0, False)
    layout = calibrate(data[:65536], source)
    edges = [0]
    for cut in sorted(cuts or []):
        start = data.find(b"\n", max(cut - 1, 0)) + 1
        if start > edges[-1] and start < len(data):
            edges.append(start)
    segments: list[Segment] = []
    for begin, end in zip(edges, [*edges[1:], len(data)]):
        scanner = Scanner(layout, begin, **window)
        scanner.feed(data[begin:end])
        segments.append(scanner.finish(end))
    found = Partial()
    found.add(SourceInfo("", path, len(data), layout.clock.source, layout.clock.zone), segments)
    return found


def record_of(lines: list[str], **options: Any) -> dict[str, Any]:
    """Return the record of lines, with no knowledge folders so that it depends on the log alone."""
    return analyse(
        scan_bytes("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")), folders=[], **options
    )


def record_of_paths(paths: list[str], options: engine.Options | None = None) -> dict[str, Any]:
    return analyse(engine.scan(find_sources(paths), options or engine.Options()), folders=[])


def kinds(record: dict[str, Any]) -> list[str]:
    return [item["kind"] for item in record["anomalies"]]

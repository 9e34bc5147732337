"""A self-check that needs no file: lines of every format with known content go in, and what comes out is compared."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from npu_graph.logs.inputs import Source
from npu_graph.logs.layout import calibrate
from npu_graph.logs.partial import Partial, SourceInfo
from npu_graph.logs.record import analyse
from npu_graph.logs.scan import Scanner

_LINES = (
    "V0305 08:00:00.000000 4242 NPUGraph.cpp:165] [rank:1] NPUGRAPH Capture begin",
    "V0305 08:00:00.001000 4242 NPUGraph.cpp:249] [rank:1] NPUGRAPH Capture begin done: model_ri=0xaa01, "
    "capture_dev=1, mempool_id=(1,0), stream=0x1, capture_mode=0",
    "V0305 08:00:11.500000 4242 NPUGraph.cpp:258] [rank:1] NPUGRAPH Capture end",
    "V0305 08:00:12.000000 4242 NPUGraph.cpp:295] [rank:1] NPUGRAPH Capture end done: "
    "model_ri=0xaa01, has_graph_exec=1",
    *(
        f"V0305 08:00:13.{1000 * at:06d} 4242 NPUGraph.cpp:301] [rank:1] NPUGRAPH Replay model_ri=0xaa01, device=1"
        for at in range(1, 61)
    ),
    "(EngineCore_DP0 pid=4000) (Worker_TP1_EP1 pid=4242) INFO 03-05 08:00:20 [model_runner_v1.py:3607] "
    "Graph capturing finished in 22 secs, took 0.26 GiB",
    "(EngineCore_DP0 pid=4000) INFO 03-05 08:00:21 [monitor.py:34] torch.compile takes 34.76 s in total",
    "[INFO] RUNTIME(4242,VLLM::Worker_TP1):2026-03-05-08:00:22.000.000 [api_c.cc:10]4242 rtKernelLaunch: ok",
    "[ERROR] RUNTIME(4242,VLLM::Worker_TP1):2026-03-05-08:00:23.000.100 [device_error_proc.cc:1393]4242 "
    "PrintCoreInfo:The error from device, aicore exception[ERROR] RUNTIME(4242,VLLM::Worker_TP1):"
    "2026-03-05-08:00:23.000.200 [stream.cc:77]4242 Synchronize: failed, retCode is 507015",
    "(EngineCore_DP0 pid=4000) ERROR 03-05 08:00:25 [core.py:710] EngineCore encountered a fatal error.",
)

_CHECKS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("one capture of 12 s is complete", lambda r: [c["seconds"] for c in r["captures"]["list"]] == [12.0]),
    ("it is above the threshold", lambda r: "slow_capture" in _kinds(r)),
    ("a service's capture phase of 22 s is not", lambda r: _kinds(r).count("slow_capture") == 1),
    ("60 replays are counted, 1 ms apart", lambda r: _replays(r) == (60, 1000)),
    ("the compilation of 34.76 s is found slow", lambda r: "slow_compile" in _kinds(r)),
    ("the first failure is the plog error", lambda r: r["first_failure"]["key"] == "RUNTIME device_error_proc.cc:1393"),
    ("a process name with :: keeps its time", lambda r: r["first_failure"]["time"] == "2026-03-05 08:00:23.000100"),
    ("its rank is known from another log format", lambda r: r["first_failure"]["rank"] == "1"),
    ("two records on one line are two", lambda r: r["input"]["glued_records"] == 1 and r["errors"]["total"] == 3),
    (
        "the engine's note is an echo",
        lambda r: any(item["key"].startswith("EngineCore") for item in r["first_failure"]["echoes"]),
    ),
    ("the year comes from a dated line", lambda r: r["span"]["first"].startswith("2026-03-05")),
)


class _Sample(NamedTuple):
    name: str
    prefix: str


def self_check() -> list[str]:
    """Return what is wrong; an empty list means that all is well."""
    failures = []
    checks = 0
    for sample in (_Sample("plain", ""), _Sample("behind docker compose", "vllm-1  | "), _Sample("in pieces", "")):
        record = _analyse([sample.prefix + line for line in _LINES], pieces=sample.name == "in pieces")
        for what, holds in _CHECKS:
            checks += 1
            try:
                good = holds(record)
            except (KeyError, IndexError, TypeError):
                good = False
            if not good:
                failures.append(f"{sample.name}: {what}")
    if checks < 3 * len(_CHECKS):
        failures.append(f"only {checks} checks ran")
    return failures


def _analyse(lines: list[str], pieces: bool) -> dict[str, Any]:
    data = "".join(line + "\n" for line in lines).encode()
    source = Source("self-check.log", len(data), 0.0, False)
    layout = calibrate(data[:65536], source)
    segments = []
    blocks = [line + b"\n" for line in data.split(b"\n")[:-1]] if pieces else [data]
    at = 0
    for block in blocks:
        scanner = Scanner(layout, at)
        scanner.feed(block)
        at += len(block)
        segments.append(scanner.finish(at))
    found = Partial()
    found.add(SourceInfo("", source.path, len(data), layout.clock.source, None), segments)
    return analyse(found, folders=[])


def _kinds(record: dict[str, Any]) -> list[str]:
    return [item["kind"] for item in record["anomalies"]]


def _replays(record: dict[str, Any]) -> tuple[int, int]:
    graph = record["replays"]["graphs"][0]
    return graph["count"], graph["interval_p50_us"]

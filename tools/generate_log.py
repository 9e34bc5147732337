#!/usr/bin/env python3
"""Write a large, realistic NPU log and beside it a truth file with everything that was planted.

Usage: generate_log.py OUT --mb 200 [--profile mixed|plog|storm|dense] [--seed 7] [--prefix 'vllm-1  | ']

Profiles: mixed (55% plog INFO, 20% torch_npu debug, 15% service, 10% other), plog (a run with
ASCEND_GLOBAL_LOG_LEVEL=1), storm (mixed, but every fifth line is an error), dense (60% of the lines are replays:
TORCH_NPU_LOGS=+aclgraph on a busy service). The same arguments give the same bytes. Prints one line with the counts.
Exit codes: 0 done, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from npu_graph import cli

EXAMPLES = (
    "python3 generate_log.py /tmp/mixed.log --mb 200",
    "python3 generate_log.py /tmp/dense.log --mb 2000 --profile dense",
)

# Share of each kind of line, in percent: plog, torch_npu, service, other, error.
PROFILES = {
    "mixed": (55, 20, 15, 10, 0.02),
    "plog": (97, 1, 1, 1, 0.02),
    "storm": (40, 20, 10, 10, 20),
    "dense": (10, 80, 5, 5, 0.02),
}
KINDS = ("plog", "torch_npu", "service", "other", "error")
# Share of replays among a process's torch_npu lines.
REPLAY_SHARE = {"mixed": 0.3, "plog": 0.3, "storm": 0.3, "dense": 0.78}
RANKS = 4
MAX_GRAPHS = 40  # per rank, as many as vLLM captures sizes
SLOW_EVERY = 10  # every tenth capture takes twelve seconds

# module, [file:line] sites, messages. The share of a module falls with its place.
PLOG = (
    ("RUNTIME", ("api_c.cc:2140", "api_impl.cc:877", "stream.cc:412", "engine.cc:1201"), (
        "rtKernelLaunch: device_id=0, stream_id=%d, task_id=%d, kernel=aclnnMatmul_%d",
        "rtStreamWaitEvent: stream_id=%d event_id=%d flip=%d",
        "rtMemcpyAsync: kind=%d, size=%d, stream_id=%d",
        "Submit: stream_id=%d, task_id=%d, sq_head=%d, mdl=0",
    )),
    ("ASCENDCL", ("rts_stream.cpp:88", "rts_mem.cpp:301"), (
        "aclrtSynchronizeStreamWithTimeout: start, timeout=%d id=%d n=%d",
        "aclrtMallocImpl: size=%d policy=%d seq=%d",
    )),
    ("GE", ("graph_manager.cc:655", "infershape_pass.cc:97"), (
        "OptimizeGraph: pass %d node %d cost[%d] us",
        "InferShape: node MatMulV3_%d in=%d out=%d",
    )),
    ("HCCL", ("hccl_impl.cc:1503",), ("[HCCL_TRACE]tag[AllReduce_%d] count[%d] stream[%d]",)),
    ("DRV", ("devmm.c:2210",), ("[ascend][curpid: 973171, 977313][drv][devmm][svm_mem %d]dev0 size=%d cnt=%d",)),
    ("TDT", ("process_mode_manager.cpp:97",), ("[TsdClient] heartbeat seq=%d ack=%d cost=%d us",)),
)  # fmt: skip
PLOG_ERRORS = (
    ("RUNTIME", "device_error_proc.cc:1393", "PrintCoreInfo:report error module_type=0, module_name=EZ9999"),
    ("RUNTIME", "davinci_kernel_task.cc:1288", "ProcessStarsCoreErrorInfo:Aicore kernel execute failed, task_id=%d"),
    ("ASCENDCL", "stream.cpp:181", "aclrtSynchronizeStream: synchronize stream failed, runtime result = 507015"),
    ("HCCL", "task_exception_handler.cc:901", "[TaskExceptionHandler][Callback]Task from HCCL run failed, TaskID[%d]"),
    ("GE", "graph_manager.cc:1042", "CompileGraph: Compile graph failed, graph_id=%d"),
)
GRAPH_FILE = "../torch_npu/csrc/core/npu/NPUGraph.cpp"
ALLOCATOR_FILE = "../torch_npu/csrc/core/npu/NPUCachingAllocator.cpp"


class Clock:
    """The log's clock, in microseconds; every format writes the same moment in its own way."""

    def __init__(self) -> None:
        self.us = (11 * 60 + 20) * 60 * 1_000_000

    def parts(self) -> tuple[int, int, int, int, int]:
        seconds, micro = divmod(self.us, 1_000_000)
        return 3 + seconds // 86400, (seconds // 3600) % 24, (seconds // 60) % 60, seconds % 60, micro

    def plog(self) -> str:
        day, hour, minute, second, micro = self.parts()
        return f"2025-12-{day:02}-{hour:02}:{minute:02}:{second:02}.{micro // 1000:03}.{micro % 1000:03}"

    def glog(self) -> str:
        day, hour, minute, second, micro = self.parts()
        return f"12{day:02} {hour:02}:{minute:02}:{second:02}.{micro:06}"

    def short(self) -> str:
        day, hour, minute, second, _ = self.parts()
        return f"12-{day:02} {hour:02}:{minute:02}:{second:02}"


class Rank:
    """One process: its graphs, and the capture it is in."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 12345 + number
        self.graphs: list[str] = []
        self.capturing = ""
        self.begun = 0


class Writer:
    """Makes lines and keeps the truth about them."""

    def __init__(self, profile: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        # A plog file belongs to one process; the other profiles are what a service prints.
        self.ranks = [Rank(number) for number in range(1 if profile == "plog" else RANKS)]
        self.replay_share = REPLAY_SHARE[profile]
        self.captures: list[list[Any]] = []
        self.replays: dict[str, int] = {}
        self.errors = 0
        self.compiles: list[float] = []
        self.phases: list[int] = []

    def tick(self, low: int, high: int) -> None:
        self.clock.us += self.random.randrange(low, high)

    def plog(self) -> str:
        rnd = self.random
        module, sites, messages = PLOG[int(rnd.random() ** 2 * len(PLOG))]
        level = "INFO" if rnd.random() < 0.8 else ("DEBUG" if rnd.random() < 0.7 else "WARNING")
        rank = rnd.choice(self.ranks)
        text = rnd.choice(messages) % (rnd.randrange(2048), rnd.randrange(65536), rnd.randrange(1 << 20))
        if rnd.random() < 0.03:
            text += " " + "x" * rnd.randrange(50, 900)
        tid = rank.pid + rnd.randrange(40)
        return f"[{level}] {module}({rank.pid},python3):{self.clock.plog()} [{rnd.choice(sites)}]{tid} {text}"

    def torch_npu(self) -> str:
        rnd = self.random
        rank = rnd.choice(self.ranks)
        draw = rnd.random()
        if rank.capturing:
            return self._in_capture(rank, draw)
        if not rank.graphs or (len(rank.graphs) < MAX_GRAPHS and draw < 0.001):
            rank.capturing, rank.begun = f"0xfffe{rnd.getrandbits(32):08x}", self.clock.us
            begin = self._glog(rank, f"{GRAPH_FILE}:165", "NPUGRAPH Capture begin")
            self.tick(20, 90)
            done = (
                f"NPUGRAPH Capture begin done: model_ri={rank.capturing}, capture_dev={rank.number}, "
                f"mempool_id=({len(rank.graphs) + 1},0), stream=0xaaab{rank.pid:08x}, capture_mode=0"
            )
            return begin + "\n" + self._glog(rank, f"{GRAPH_FILE}:249", done)
        if draw < self.replay_share:
            graph = rnd.choice(rank.graphs)
            name = f"{rank.pid} {graph}"
            self.replays[name] = self.replays.get(name, 0) + 1
            line = self._glog(rank, f"{GRAPH_FILE}:301", f"NPUGRAPH Replay model_ri={graph}, device={rank.number}")
            self.tick(*((900, 1500) if rnd.random() > 0.01 else (5000, 9000)))
            return line
        block, size = rnd.getrandbits(40), rnd.getrandbits(30)
        site = rnd.choice((812, 1430, 2207, 2954))
        return self._glog(rank, f"{ALLOCATOR_FILE}:{site}", f"malloc: block=0x{block:x} size={size} stream={block % 4}")

    def _in_capture(self, rank: Rank, draw: float) -> str:
        if draw >= 0.02:
            text = (
                f"NPUGRAPH AllocateToPool filter: stream=0xaaab{rank.pid:08x}, capture_id=7, expected_capture_id=7, "
                f"mempool_id=({len(rank.graphs) + 1},0)"
            )
            return self._glog(rank, f"{GRAPH_FILE}:416", text)
        slow = len(rank.graphs) % SLOW_EVERY == 4
        self.tick(*((12_000_000, 12_000_001) if slow else (200_000, 900_000)))
        end = self._glog(rank, f"{GRAPH_FILE}:258", "NPUGRAPH Capture end")
        self.tick(1000, 50_000)
        seconds = (self.clock.us - rank.begun) / 1e6
        self.captures.append([rank.capturing, rank.pid, seconds])
        rank.graphs.append(rank.capturing)
        done = f"NPUGRAPH Capture end done: model_ri={rank.capturing}, has_graph_exec=1"
        rank.capturing = ""
        return end + "\n" + self._glog(rank, f"{GRAPH_FILE}:295", done)

    def _glog(self, rank: Rank, file: str, text: str) -> str:
        return f"V{self.clock.glog()} {rank.pid} {file}] [rank:{rank.number}] {text}"

    def service(self) -> str:
        rnd = self.random
        draw = rnd.random()
        if draw < 0.6:
            text = (
                f"Engine 000: Avg prompt throughput: {rnd.random() * 900:.1f} tokens/s, Avg generation throughput: "
                f"{rnd.random() * 4000:.1f} tokens/s, Running: {rnd.randrange(64)} reqs, Waiting: 0 reqs, "
                f"GPU KV cache usage: {rnd.random() * 100:.1f}%, Prefix cache hit rate: 0.0%"
            )
            return f"(EngineCore_DP0 pid=12000) INFO {self.clock.short()} [loggers.py:127] {text}"
        if draw < 0.8:
            return f'INFO:     127.0.0.1:{rnd.randrange(30000, 60000)} - "POST /v1/completions HTTP/1.1" 200 OK'
        rank = rnd.choice(self.ranks)
        if draw < 0.999:
            return (
                f"[2025-{self.clock.short()} TP{rank.number}] Decode batch. #running-req: {rnd.randrange(64)}, "
                f"#token: {rnd.randrange(99999)}, token usage: {rnd.random():.2f}, npu graph: True, "
                f"gen throughput (token/s): {rnd.random() * 4000:.2f}, #queue-req: 0"
            )
        if draw < 0.9997:
            seconds = rnd.randrange(5, 40)
            self.phases.append(seconds)
            bar = (
                "Capturing ACL graphs (decode, FULL):   0%|          | 0/11 [00:00<?, ?it/s]\r"
                f"Capturing ACL graphs (decode, FULL): 100%|██████████| 11/11 [00:{seconds:02}<00:00,  1.98s/it]\n"
            )
            who = f"(EngineCore_DP0 pid=12000) (Worker_TP{rank.number}_EP{rank.number} pid={rank.pid})"
            text = f"Graph capturing finished in {seconds} secs, took 0.26 GiB"
            return f"{bar}{who} INFO {self.clock.short()} [model_runner_v1.py:3607] {text}"
        taken = round(1 + rnd.random() * 60, 2)
        self.compiles.append(taken)
        text = f"torch.compile takes {taken:.2f} s in total"
        return f"(EngineCore_DP0 pid=12000) INFO {self.clock.short()} [monitor.py:34] {text}"

    def other(self) -> str:
        rnd = self.random
        rank = rnd.choice(self.ranks)
        draw = rnd.random()
        if draw < 0.5:
            site = f"site-packages/torch/_dynamo/guards.py:{rnd.choice((2169, 2310, 2388))}"
            text = f"TREE_GUARD_MANAGER: +- TENSOR_MATCH: check_tensor(L['x'], size=[{rnd.randrange(4096)}, 4096])"
            return f"V{self.clock.glog()} {rank.pid} {site}] [{rnd.randrange(40)}/0] [__guards] {text}"
        if draw < 0.9:
            text = f"The current AclGraph no needs to be recaptured for fx_graph graph_{rnd.randrange(9)}"
            return f"[DEBUG] TORCHAIR({rank.pid},python3):{self.clock.plog()} [acl_graph.py:1120]{rank.pid} {text}"
        if draw < 0.99:
            return (
                f'  File "/usr/lib/python3.11/site-packages/torch/nn/module.py", line {rnd.randrange(2000)}, in _call'
            )
        if draw < 0.998:
            return f"[rank{rank.number}]:[W{self.clock.glog()}123 compiler_depend.ts:187] Warning: Waiting for work"
        return f"dump: {rnd.getrandbits(8 * rnd.randrange(500, 8000)):x}"

    def error(self) -> str:
        rnd = self.random
        rank = rnd.choice(self.ranks)
        if rnd.random() < 0.9:
            self.errors += 1
            module, site, text = rnd.choice(PLOG_ERRORS)
            text = text % rnd.randrange(65536) if "%d" in text else text
            return f"[ERROR] {module}({rank.pid},python3):{self.clock.plog()} [{site}]{rank.pid} {text}"
        self.errors += 2  # the exception, and the torch_npu block after it
        day, hour, minute, second, _ = self.clock.parts()
        return (
            'Traceback (most recent call last):\n  File "/w/run.py", line 10, in <module>\n    g.replay()\n'
            "RuntimeError: replay:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:394 NPU function error: "
            "c10_npu::acl::AclmdlRIExecuteAsync(model_ri_, stream), error code is 507015\n"
            f"[ERROR] 2025-12-{day:02}-{hour:02}:{minute:02}:{second:02} "
            f"(PID:{rank.pid}, Device:{rank.number}, RankID:{rank.number}) ERR00100 PTA call acl api failed"
        )

    def truth(self) -> dict[str, Any]:
        return {
            "captures": self.captures,
            "open_captures": sum(bool(rank.capturing) for rank in self.ranks),
            "replays": self.replays,
            "errors": self.errors,
            "compile_s": self.compiles,
            "capture_phase_s": self.phases,
        }


def generate(path: Path, size: int, profile: str, seed: int = 7, prefix: str = "") -> dict[str, Any]:
    """Write about `size` bytes to `path` and the truth to `path`.truth.json; returns the truth."""
    writer = Writer(profile, seed)
    makers: dict[str, Callable[[], str]] = {kind: getattr(writer, kind) for kind in KINDS}
    written = 0
    with path.open("wb", buffering=1 << 20) as out:
        while written < size:
            parts = []
            for kind in writer.random.choices(KINDS, PROFILES[profile], k=2048):
                writer.tick(3, 40)
                parts.append(makers[kind]())
            text = "\n".join(parts) + "\n"
            if prefix:
                text = prefix + text[:-1].replace("\n", "\n" + prefix) + "\n"
            data = text.encode("utf-8")
            out.write(data)
            written += len(data)
    truth = {"profile": profile, "seed": seed, "bytes": written, **writer.truth()}
    Path(f"{path}.truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return truth


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Write a large, realistic NPU log with a truth file.", EXAMPLES)
    parser.add_argument("out", type=Path, help="file to write; the truth goes to OUT.truth.json")
    parser.add_argument("--mb", type=float, default=200, help="megabytes (default 200)")
    parser.add_argument("--profile", choices=tuple(PROFILES), default="mixed")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--prefix", default="", help="text before every line, as docker compose or kubectl put it")
    options: argparse.Namespace = parser.parse_args(argv)
    truth = generate(options.out, int(options.mb * 1e6), options.profile, options.seed, options.prefix)
    print(
        f"{options.out}: {truth['bytes']} bytes, {len(truth['captures'])} captures, "
        f"{sum(truth['replays'].values())} replays, {truth['errors']} errors, {len(truth['compile_s'])} compilations"
    )
    return cli.DONE


if __name__ == "__main__":
    cli.run(main)

"""Processes that hang on purpose, looked at with the real py-spy and faulthandler."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import pytest
import twins
from support import ROOT

SCRIPT = ROOT / "graph-mode-diagnostics" / "scripts" / "locate_hang.py"
HUNG = Path(__file__).resolve().parent / "hung"
PY_SPY = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
# A Python with torch, and torch_npu for the simulator; by default the tests' own.
TORCH_PYTHON = os.environ.get("NPU_SIM_PYTHON", sys.executable)
SIMULATOR = ROOT / "npu_sim" / "run.py"

# torch alone, even where torch_npu is installed beside it; no busy threads beside the ranks.
PLAIN_TORCH = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}

needs_py_spy = pytest.mark.skipif(PY_SPY is None, reason="py-spy is not installed (pip install py-spy)")


def has(package: str) -> bool:
    probe = f"import importlib.metadata as m; m.version({package!r})"
    return subprocess.run([TORCH_PYTHON, "-c", probe], capture_output=True, timeout=60).returncode == 0


needs_torch = pytest.mark.skipif(
    not has("torch"), reason="torch is not installed in NPU_SIM_PYTHON or the tests' Python"
)
needs_simulator = pytest.mark.skipif(
    not (SIMULATOR.is_file() and shutil.which("g++") and has("torch_npu")),
    reason="needs g++ and torch_npu (NPU_SIM_PYTHON)",
)


@contextlib.contextmanager
def hung(command: list[str], log: Path, wait: float = 240, **environment: str) -> Iterator[subprocess.Popen]:
    """Start a process, wait until it says that it is about to hang, and kill it afterwards."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **environment})
    try:
        end = time.monotonic() + wait
        while "hung from here" not in log.read_text(errors="replace"):
            assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        time.sleep(1.5)
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        yield process
    finally:
        process.kill()
        process.wait(20)


def locate(*arguments: str) -> dict[str, Any]:
    path = f"{Path(PY_SPY).parent if PY_SPY else ''}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(SCRIPT), *arguments, "--output", "json"]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "PATH": path})
    assert done.returncode in (0, 1), done.stderr.decode()
    return json.loads(done.stdout)


@needs_py_spy
class TestHostLocks:
    def test_two_locks_in_opposite_order(self, tmp_path: Path) -> None:
        with hung([sys.executable, str(HUNG / "two_locks.py")], tmp_path / "log") as process:
            record = locate("--pid", str(process.pid), "--again", "1", "--source-root", str(HUNG))
        best = record["classes"][0]
        assert (best["class"], record["verdict"]) == ("host_lock", "known")
        lines = " ".join(item["text"] for item in best["evidence"])
        assert "reload_weights (two_locks.py:12)" in lines and "evict_cache (two_locks.py:19)" in lines

    def test_without_the_source_it_is_a_candidate(self, tmp_path: Path) -> None:
        with hung([sys.executable, str(HUNG / "two_locks.py")], tmp_path / "log") as process:
            record = locate("--pid", str(process.pid))
        assert (record["classes"][0]["class"], record["verdict"]) == ("host_lock", "candidate")

    def test_native_frames_show_the_lock_without_the_source(self, tmp_path: Path) -> None:
        with hung([sys.executable, str(HUNG / "two_locks.py")], tmp_path / "log") as process:
            record = locate("--pid", str(process.pid), "--native", "--again", "1")
        assert record["classes"][0]["class"] == "host_lock"

    def test_a_thread_that_waits_for_a_condition(self, tmp_path: Path) -> None:
        with hung([sys.executable, str(HUNG / "thread_that_never_ends.py")], tmp_path / "log") as process:
            record = locate("--pid", str(process.pid), "--again", "1")
        best = record["classes"][0]
        assert best["class"] == "host_lock"
        assert any("update_inputs" in item["text"] for item in best["evidence"])

    def test_the_dump_of_faulthandler_reads_the_same(self, tmp_path: Path) -> None:
        start = "import faulthandler, runpy, signal, sys; faulthandler.register(signal.SIGUSR1); runpy.run_path(sys.argv[1], run_name='__main__')"
        log = tmp_path / "rank0.log"
        with hung([sys.executable, "-c", start, str(HUNG / "thread_that_never_ends.py")], log) as process:
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            record = locate(str(log))
        assert record["classes"][0]["class"] == "host_lock"


@needs_py_spy
@needs_torch
@pytest.mark.torch
@pytest.mark.timeout(400)
def test_a_rank_that_skips_a_real_collective_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with contextlib.ExitStack() as stack:
        command = [TORCH_PYTHON, str(HUNG / "skipped_collective.py")]
        # All three must run before any can print.
        contexts = [
            subprocess.Popen(
                command,
                stdout=(tmp_path / f"log{rank}").open("wb"),
                stderr=subprocess.STDOUT,
                env={**os.environ, "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **PLAIN_TORCH},
            )
            for rank in range(3)
        ]
        for process in contexts:
            stack.callback(process.wait, 20)
            stack.callback(process.kill)
        end = time.monotonic() + 240
        while any("hung from here" not in (tmp_path / f"log{rank}").read_text() for rank in range(3)):
            assert time.monotonic() < end and all(process.poll() is None for process in contexts)
            time.sleep(0.2)
        time.sleep(2)
        files = []
        for rank, process in enumerate(contexts):
            dump = subprocess.run([str(PY_SPY), "dump", "--pid", str(process.pid)], capture_output=True, timeout=60)
            path = tmp_path / f"stack_rank{rank}.txt"
            path.write_bytes(dump.stdout)
            files.append(str(path))
        record = locate(*files)
    best = record["classes"][0]
    assert (best["class"], best["ranks"], record["verdict"]) == ("collective_missed", ["rank 1"], "known")
    assert "wait_for_shard" in " ".join(item["text"] for item in best["evidence"])


class Simulated(NamedTuple):
    """A script that hangs on the simulator. `script`: in hung/; `options`: of run.py; `load`: AI Core load in a table of npu-smi."""

    script: str
    expected: str
    options: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    load: int | None = None


# What a device that waits for an event, or runs a kernel, shows in npu-smi is not simulated: `load` is written by hand.
SIMULATED = {
    "replay without update": Simulated("sim_replay_without_update.py", "event_never_recorded"),
    "update event recorded before an earlier replay": Simulated(
        "sim_update_before_an_earlier_replay.py", "event_never_recorded"
    ),
    "update queued behind the wait that it should end": Simulated(
        "sim_update_on_a_busy_stream.py", "event_never_recorded"
    ),
    "a list too short for update()": Simulated("sim_update_list_too_short.py", "event_never_recorded"),
    "an event that only a later replay of another graph records": Simulated(
        "sim_event_of_another_graph.py", "event_never_recorded", load=0
    ),
    "an update behind an event that a later replay records": Simulated(
        "sim_update_behind_a_later_replay.py", "graph_update", variables=(("ASCEND_LAUNCH_BLOCKING", "1"),)
    ),
    "an update that the driver does not finish": Simulated(
        "sim_update_after_replay.py", "graph_update", options=("--hang", "aclmdlRICaptureTaskUpdateEnd")
    ),
    "a kernel that never ends": Simulated(
        "sim_kernel_that_never_ends.py", "device_kernel", options=("--hang", "aclnnMatmul@2"), load=100
    ),
    "a capture behind work that never ends": Simulated(
        "sim_capture_behind_unfinished_work.py", "capture_pending_comm", options=("--hang", "aclnnMatmul@2")
    ),
}


def locate_while_hung(case: Simulated, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is said of the Python stack alone, and of all that can be had."""
    command = [TORCH_PYTHON, str(SIMULATOR), "--wait-limit", "300", *case.options, str(HUNG / case.script)]
    table = folder / "npu-smi.txt"
    if case.load is not None:
        table.write_text(twins.npu_smi([case.load]))
    device = [str(table)] if case.load is not None else []
    with hung(command, folder / "log", **dict(case.variables)) as process:
        pid = ("--pid", str(process.pid))
        return locate(*pid), locate(*device, *pid, "--native", "--again", "1", "--source-root", str(HUNG))


@needs_py_spy
@needs_simulator
@pytest.mark.sim
@pytest.mark.timeout(700)
@pytest.mark.usefixtures("built_simulator")
@pytest.mark.parametrize("case", SIMULATED.values(), ids=list(SIMULATED))
def test_hangs_on_the_simulator(
    case: Simulated, request: pytest.FixtureRequest, ahead: Callable, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("hung")
    plain, informed = ahead(
        request.node, "case", lambda each: locate_while_hung(each, Path(tempfile.mkdtemp(dir=folder)))
    )
    assert informed["classes"][0]["class"] == case.expected
    assert informed["classes"][0]["score"] >= 0.6
    if case.expected == "graph_update":  # the one class that a Python stack shows by itself
        assert (plain["classes"][0]["class"], plain["verdict"]) == ("graph_update", "known")
    else:  # a stack that only says "waits for the device" may not be called established
        assert plain["verdict"] != "known"

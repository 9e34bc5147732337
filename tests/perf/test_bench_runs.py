"""The measurement as a user runs it: on CPU torch, and with the real torch_npu's events on the simulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

SCRIPT = ROOT / "graph-perf" / "scripts" / "bench_graph.py"
SIMULATOR = ROOT / "npu_sim" / "run.py"
# A Python with torch, and torch_npu for the simulator; by default the tests' own.
PYTHON = os.environ.get("NPU_SIM_PYTHON", sys.executable)
CPU = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
NPU = {name: value for name, value in os.environ.items() if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}


def has(*packages: str) -> bool:
    probe = f"import importlib.metadata as m; [m.version(name) for name in {packages!r}]"
    return subprocess.run([PYTHON, "-c", probe], capture_output=True, timeout=60).returncode == 0


needs_torch = pytest.mark.skipif(not has("torch"), reason="torch is not installed in NPU_SIM_PYTHON or here")
needs_simulator = pytest.mark.skipif(
    not (SIMULATOR.is_file() and shutil.which("g++") and has("torch", "torch_npu")),
    reason="needs g++ and torch_npu (NPU_SIM_PYTHON)",
)

TARGETS = """
import time

def busy(us):
    def run():
        end = time.perf_counter_ns() + us * 1000
        while time.perf_counter_ns() < end:
            pass
    return run

def target():
    print("a target that prints")
    return {"eager": busy(400), "capture": lambda: busy(100)}

def module():
    import torch
    layer = torch.nn.Linear(8, 8)
    return layer, (torch.ones(2, 8),)

def broken():
    raise RuntimeError("no model here")

def odd():
    return 5

def loose():
    import torch
    return torch.nn.Linear(8, 8), torch.ones(2, 8)

def leaves():
    raise SystemExit(0)

def npu_layers():
    import torch
    layers = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)]).npu()
    return layers, (torch.ones(4, 64).npu(),)

def npu_hand_made():
    import torch
    layer, x = torch.nn.Linear(64, 64).npu(), torch.ones(4, 64).npu()
    def capture():
        layer(x)
        torch.npu.synchronize()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            layer(x)
        return graph.replay
    return {"eager": lambda: layer(x), "capture": capture}

def npu_item():
    import torch
    x = torch.ones(4).npu()
    return lambda: (x + 1).sum().item()
"""


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "bench_targets.py"
    path.write_text(TARGETS, encoding="utf-8")
    return path


def run_on_cpu(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    command = [PYTHON, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=cwd, env=CPU)


def run_on_simulator(*arguments: str) -> subprocess.CompletedProcess:
    command = [PYTHON, str(SIMULATOR), str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=NPU)


@needs_torch
@pytest.mark.torch
def test_a_known_workload_is_measured_right(targets: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "run.json"
    done = run_on_cpu(
        "--script", str(targets), "--repeats", "15", "--calls", "1", "--save", str(kept), "--output", "json"
    )
    record = json.loads(done.stdout)
    # The least time is what the target waits for; everything above is a busy test machine.
    fastest = {kind: record["result"][f"{kind}_us"]["min"] for kind in ("eager", "graph")}
    assert fastest["eager"] == pytest.approx(400, rel=0.25)
    assert fastest["graph"] == pytest.approx(100, rel=0.25)
    assert record["environment"]["torch"]
    assert record["notes"] == ["measured on the CPU: nothing follows for an NPU"]
    assert record["settings"] == {
        "backend": "npugraph",
        "warmup": 10,
        "repeats": 15,
        "calls_per_sample": 1,
        "order": "A B A B",
    }
    assert "samples" not in record
    assert len(json.loads(kept.read_text(encoding="utf-8"))["samples"]["graph"]) == 15
    assert "a target that prints" in done.stderr, "what the user's code prints must not break the JSON"


@needs_torch
@pytest.mark.torch
def test_a_module_runs_through_torch_compile_on_the_cpu(targets: Path) -> None:
    done = run_on_cpu(
        "bench_targets:module", "--backend", "eager", "--repeats", "6", "--output", "json", cwd=targets.parent
    )
    assert json.loads(done.stdout)["settings"]["backend"] == "eager", done.stderr


@needs_torch
@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("broken", 3, "no model here"),
        ("odd", 3, "expected a call"),
        ("module", 4, "needs torch_npu"),
        ("none", 3, "failed"),
        ("leaves", 3, "SystemExit"),
        ("loose", 3, "(call, (x,))"),
    ],
)
def test_a_target_that_cannot_run_is_one_line(targets: Path, name: str, code: int, words: str) -> None:
    done = run_on_cpu("--script", str(targets), name)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.strip().count("\n") == 0


@needs_simulator
@pytest.mark.torch
def test_a_torch_npu_that_does_not_load_is_no_measurement_of_the_cpu(targets: Path) -> None:
    """Outside the simulator this machine has no CANN: the wheel is there and cannot load."""
    command = [PYTHON, str(SCRIPT), "--script", str(targets)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=NPU)
    if done.returncode in (0, 1):
        pytest.skip("torch_npu loads here")
    assert done.returncode == 4
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.stderr.strip().splitlines()[-1]


@needs_simulator
@pytest.mark.sim
@pytest.mark.timeout(700)
@pytest.mark.parametrize(
    ("name", "backend"), [("npu_layers", "npugraph"), ("npu_layers", "npugraphs"), ("npu_hand_made", "npugraph")]
)
def test_a_captured_graph_is_measured_on_the_simulator_and_nothing_is_concluded(
    targets: Path, tmp_path: Path, name: str, backend: str
) -> None:
    kept = tmp_path / "run.json"
    options = ("--backend", backend, "--repeats", "8", "--save", str(kept), "--output", "json")
    done = run_on_simulator("--script", str(targets), name, *options)
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    assert record["result"]["conclusion"] == "no_conclusion"
    assert record["result"]["reasons"][0] == "measured on npu_sim: its times prove nothing about the speed of an NPU"
    assert record["result"]["break_even_replays"] is None
    for kind in ("eager", "graph"):
        assert 0 < record["result"][f"{kind}_us"]["p50"] < 1e6, "real torch.npu events gave the times"
    assert record["result"]["capture_us"] > 0
    environment = record["environment"]
    assert (environment["device"], environment["simulator"]) == ("npu", "npu_sim")
    assert environment["soc"].startswith("Ascend910B")
    assert environment["cann"].startswith("9.1.0")
    assert environment["torch_npu"]
    memory = record["memory_bytes"]
    assert memory["graph"]["reserved"] >= memory["eager"]["reserved"] > 0
    assert memory["graph_adds"]["reserved"] == memory["graph"]["reserved"] - memory["eager"]["reserved"]
    compared = run_on_cpu("--compare", str(kept), str(kept))
    assert compared.returncode == 1
    assert "prove nothing" in compared.stdout


@needs_simulator
@pytest.mark.sim
@pytest.mark.timeout(700)
def test_a_failing_capture_is_one_line_that_names_the_sibling(targets: Path) -> None:
    done = run_on_simulator("--script", str(targets), "npu_item")
    assert done.returncode == 3
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("bench_graph.py: error: the capture failed")
    assert "graph-mode-diagnostics" in last

"""The probe's word against the simulator's: clean functions capture, flagged ones do not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

PYTHON = os.environ.get("NPU_SIM_PYTHON", sys.executable)
SIMULATOR = ROOT / "npu_sim" / "run.py"
CASES = Path(__file__).resolve().parent / "simulated_cases.py"
CLEAN = ("clean_matmul", "clean_where", "clean_state", "clean_side_stream")
FAULTY = {
    "faulty_item": "sync",
    "faulty_branch": "sync",
    "faulty_cpu": "device_to_host",
    "faulty_tensor": "host_to_device",
    "faulty_nonzero": "data_dependent_shape",
    "faulty_synchronize": "synchronize",
    "faulty_open_stream": "stream_not_joined",
}


def has_torch_npu() -> bool:
    probe = "import importlib.metadata as m; m.version('torch_npu')"
    return subprocess.run([PYTHON, "-c", probe], capture_output=True, timeout=60).returncode == 0


pytestmark = [
    pytest.mark.sim,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not (SIMULATOR.is_file() and shutil.which("g++") and has_torch_npu()),
        reason="needs g++ and torch_npu (NPU_SIM_PYTHON)",
    ),
]


def run(*names: str) -> list[dict]:
    environment = {key: value for key, value in os.environ.items() if key != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    command = [PYTHON, str(SIMULATOR), str(CASES), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, env=environment)
    results = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(results) == len(names), done.stderr[-2000:]
    return results


def test_what_the_probe_calls_clean_captures() -> None:
    for result in run(*CLEAN):
        assert (result["verdict"], result["error"]) == ("clean", ""), result


# One process for each: a failed capture leaves the process of ACL in a state that cannot be reset.
@pytest.mark.parametrize(("name", "rule"), FAULTY.items())
def test_what_the_probe_flags_fails(name: str, rule: str) -> None:
    (result,) = run(name)
    assert result["verdict"] == "breaks", result
    assert rule in [found for found, _ in result["found"]]
    assert result["error"], result


def test_an_operator_without_an_aclnn_path_shows_in_a_real_capture() -> None:
    (result,) = run("private_format")
    assert ["no_aclnn", "return torch_npu.npu_format_cast(x, 29) @ x"] in result["found"], result

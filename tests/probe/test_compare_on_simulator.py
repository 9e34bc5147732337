"""compare_modes.py with real captures of torch_npu on the simulator: one fault of each class, and none."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support import ROOT
from test_probe_on_simulator import PYTHON, SIMULATOR, has_torch_npu, shutil

SCRIPT = ROOT / "graph-mode-diagnostics" / "scripts" / "compare_modes.py"
FOLDER = Path(__file__).resolve().parent
CASES = {
    "equal": (("good", "--module", "model"), None),
    "a host number": (
        ("host_number", "--inputs", "make_lengths", "--graph", "simulated_compare:number_of_the_capture"),
        "stale",
    ),
    "an input rebound": (("good", "--graph", "simulated_compare:input_rebound"), "stale"),
    "padded rows": (("good", "--graph", "simulated_compare:padded", "--valid-rows", "3"), "padding"),
    "reload at a new address": (("good", "--reload", "reload_at_a_new_address"), "address"),
    "refill on another stream": (("good", "--graph", "simulated_compare:unordered", "--steps", "4"), "order"),
    "half precision in the graph": (("good", "--graph", "simulated_compare:other_kernel"), "kernel"),
}

pytestmark = [
    pytest.mark.sim,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not (SIMULATOR.is_file() and shutil.which("g++") and has_torch_npu()),
        reason="needs g++ and torch_npu (NPU_SIM_PYTHON)",
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), CASES.values(), ids=list(CASES))
def test_the_class_of_each_fault(arguments: tuple[str, ...], expected: str | None) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    target = f"simulated_compare:{arguments[0]}"
    command = [
        PYTHON,
        str(SIMULATOR),
        str(SCRIPT),
        target,
        "--path",
        str(FOLDER),
        "--reset",
        "reset",
        "--output",
        "json",
    ]
    done = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True, timeout=390, env=environment)
    assert done.returncode == (0 if expected is None else 1), done.stderr[-2000:]
    record = json.loads(done.stdout[done.stdout.index("{") :])
    assert (record["class"] or {}).get("value") == expected, record["class"]

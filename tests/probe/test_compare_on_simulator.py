"""compare_modes.py with real captures of torch_npu on the simulator: one fault of each class, and none."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable

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
    pytest.mark.timeout(700),
    pytest.mark.usefixtures("built_simulator"),
    pytest.mark.skipif(
        not (SIMULATOR.is_file() and shutil.which("g++") and has_torch_npu()),
        reason="needs g++ and torch_npu (NPU_SIM_PYTHON)",
    ),
]


def compare(target: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    environment = {key: value for key, value in os.environ.items() if key != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    command = [PYTHON, str(SIMULATOR), str(SCRIPT), f"simulated_compare:{target}", "--path", str(FOLDER)]
    done = subprocess.run(
        [*command, "--output", "json", *arguments], capture_output=True, text=True, timeout=390, env=environment
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


@pytest.mark.parametrize(("arguments", "expected"), CASES.values(), ids=list(CASES))
def test_the_class_of_each_fault(
    arguments: tuple[str, ...], expected: str | None, request: pytest.FixtureRequest, ahead: Callable
) -> None:
    code, record, messages = ahead(
        request.node, "arguments", lambda words: compare(words[0], "--reset", "reset", *words[1:])
    )
    assert code == (0 if expected is None else 1), messages[-2000:]
    assert (record["class"] or {}).get("value") == expected, record["class"]


@pytest.mark.parametrize("graph", ["npugraph", "npugraphs", "npugraph_ex"])
def test_the_layer_that_differs_in_the_graph_is_named(
    graph: str, request: pytest.FixtureRequest, ahead: Callable
) -> None:
    code, record, messages = ahead(
        request.node, "graph", lambda mode: compare("layers", "--graph", mode, "--steps", "2", "--repeats", "1")
    )
    assert code == 1, messages[-2000:]
    found = (record["first_module"] or {}).get("module")
    assert (record["class"]["value"], found) == ("kernel", "1"), record["first_module_missing"]
    assert record["first_module"]["step"] == 1

"""The real torch_npu on the simulator: a healthy machine passes all eight groups, and real faults are found.

Needs npu_sim/run.py and a Python with torch, torch_npu and its dependencies: this one, or the one that
NPU_SIM_PYTHON names. Skipped with a reason where either is absent.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import npu_smi_tables
import pytest
from fake_machine import ROOT, SCRIPT, World, healthy_machine  # noqa: F401 -- a fixture

SIMULATOR = Path(os.environ.get("NPU_SIM_RUN", ROOT / "npu_sim" / "run.py"))
PYTHON = os.environ.get("NPU_SIM_PYTHON", sys.executable)
CANN = "9.1.0"
# Building the libraries takes half a minute, once; a run imports torch_npu three times.
SECONDS = 400


def missing() -> str:
    """Return why the simulator cannot be used, or nothing."""
    if not SIMULATOR.is_file():
        return "npu_sim/run.py is not there"
    if not shutil.which("g++"):
        return "g++ is absent"
    if sys.executable == PYTHON and not importlib.util.find_spec("torch_npu"):
        return "torch_npu is not installed in this Python; name one that has it in NPU_SIM_PYTHON"
    return ""


pytestmark = [
    pytest.mark.sim,
    pytest.mark.timeout(SECONDS + 50),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.fixture
def machine(world: World) -> World:
    """The machine of the other tests, with the real packages, under CANN of the simulator's version."""
    world.cann(CANN)
    world.npu_smi(npu_smi_tables.A2.replace("25.2.1", "26.0.rc1"))
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "FAKE_TORCH_NPU_VERSION"):
        world.env.pop(name)
    world.env["PATH"] = f"{world.bin}:{os.environ['PATH']}"
    world.env["HOME"] = os.environ.get("HOME", "/")
    return world


def run(machine: World, *options: str, only: str = "", simulate: bool = True) -> dict[str, Any]:
    """Run the health check under the simulator and return its record, with the exit code."""
    command = [PYTHON, str(SIMULATOR), *options] if simulate else [PYTHON]
    command += [str(SCRIPT), "--output", "json", "--timeout", "240", *(["--only", only] if only else [])]
    done = subprocess.run(command, env=machine.env, capture_output=True, encoding="utf-8", timeout=SECONDS)
    assert done.stdout, done.stderr
    return {**json.loads(done.stdout), "exit": done.returncode}


def outcomes(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{item['check']}/{item['outcome']}": item for group in record["groups"] for item in group["checks"]}


def test_a_healthy_machine_passes_all_eight_groups(machine: World) -> None:
    record = run(machine)
    bad = [item for item in outcomes(record).values() if item["status"] in ("FAIL", "WARN")]
    assert not bad
    assert [group["status"] for group in record["groups"]] == ["PASS"] * 8
    assert record["exit"] == 0
    found = outcomes(record)
    for name in ("capture.basic/ok", "capture.replay/ok", "capture.update/ok", "api.signatures/ok", "devices.torch/ok"):
        assert name in found
    assert record["environment"]["torch_npu"] == "2.13.0"


@pytest.mark.parametrize(
    ("options", "variables", "only", "expected", "evidence"),
    [
        (("--fail", "aclmdlRICaptureBegin:207005"), {}, "capture", "capture.basic/error", "207005"),
        (("--fail", "aclmdlRIExecuteAsync:507011@2"), {}, "capture", "capture.replay/error", "507011"),
        (("--fail", "aclmdlRICaptureTaskUpdateBegin:207019"), {}, "capture", "capture.update/driver", "207019"),
        ((), {"TASK_QUEUE_ENABLE": "2"}, "capture,variables", "capture.basic/error", "TASK_QUEUE_ENABLE"),
        (
            (),
            {"PYTORCH_NPU_ALLOC_CONF": "pin_memory_expandable_segments:True"},
            "capture,variables",
            "capture.basic/error",
            "pin_memory_expandable_segments",
        ),
        (("--cann", "8.0.0"), {}, "capture", "capture.basic/error", "aclmdlRICaptureBegin"),
        (("--devices", "0"), {}, "torch_npu,devices,capture", "devices.torch/none", "0"),
        ((), {"TASK_QUEUE_ENABLE": "3"}, "torch_npu,devices", "devices.torch/error", "should be 0, 1 or 2"),
        ((), {"TORCH_NPU_LOGS": "+nosuch"}, "torch_npu", "torch_npu.import/bad_setting", "nosuch"),
        (
            (),
            {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"},
            "torch_npu,devices",
            "devices.torch/error",
            "set only one of them",
        ),
        (("--fail", "aclrtSetDevice:507899"), {}, "torch_npu,devices", "devices.torch/error", "507899"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_real_fault_is_found(
    machine: World, options: tuple[str, ...], variables: dict[str, str], only: str, expected: str, evidence: str
) -> None:
    machine.env.update(variables)
    record = run(machine, *options, only=only)
    found = outcomes(record)
    assert expected in found, sorted(found)
    assert evidence in " ".join(found[expected]["evidence"])
    assert found[expected]["reason"]
    assert found[expected]["next"]


def test_an_update_that_the_driver_drops_is_not_passed(machine: World) -> None:
    """207000 is only a warning of torch_npu, so a later call is the one that raises, with another code."""
    found = outcomes(run(machine, "--fail", "aclmdlRICaptureTaskUpdateBegin:207000", only="capture"))
    assert "207000" in found["capture.update/driver"]["reason"]
    assert "capture.replay/ok" in found


def test_without_cann_the_import_names_the_missing_library(machine: World) -> None:
    found = outcomes(run(machine, only="torch_npu,api,capture", simulate=False))
    assert found["torch_npu.import/no_hccl"]["critical"]
    assert "libhccl.so" in found["torch_npu.import/no_hccl"]["reason"]
    assert "api.names/ok" in found, "the API is read from the sources when the import fails"
    assert "capture.basic/no_import" in found


HANGING_REPLAY = """
import builtins, sys
_import = builtins.__import__
def patched(name, *rest, **named):
    module = _import(name, *rest, **named)
    graphs = sys.modules.get("torch_npu.npu.graphs")
    if graphs is not None and hasattr(graphs, "NPUGraph") and not hasattr(graphs, "slow"):
        graphs.slow = True
        import time
        graphs.NPUGraph.replay = lambda self: time.sleep(3600)
    return module
builtins.__import__ = patched
"""


def test_a_hanging_replay_is_a_failure_and_not_a_hang(machine: World) -> None:
    patch = machine.folder / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(HANGING_REPLAY)
    machine.env["PYTHONPATH"] = str(patch)
    command = [PYTHON, str(SIMULATOR), str(SCRIPT), "--only", "capture", "--timeout", "60", "--output", "json"]
    done = subprocess.run(command, env=machine.env, capture_output=True, encoding="utf-8", timeout=120)
    found = outcomes(json.loads(done.stdout))
    assert found["capture.replay/hang"]["critical"]
    assert "replay 1" in found["capture.replay/hang"]["reason"]
    assert done.returncode == 1

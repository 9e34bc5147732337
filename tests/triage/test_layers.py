"""The right layer for scripts that really fail there, with the real torch (and torch_npu on the simulator)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple

import pytest
from support import ROOT, run_script

SCRIPT = "graph-mode-diagnostics/scripts/triage_compile.py"
PYTHON = os.environ.get("NPU_SIM_PYTHON", "")
SCRIPTS_AT_LEAST = 20


class Case(NamedTuple):
    name: str
    step: str
    part: str
    options: list[str]
    npu: bool
    files: dict[str, str]


def read_cases() -> list[Case]:
    text = (Path(__file__).parent / "layer_scripts.txt").read_text(encoding="utf-8")
    parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)[1:]
    return [read_case(head, body) for head, body in zip(parts[::2], parts[1::2])]


def read_case(head: str, body: str) -> Case:
    name, step, part, options = ([item.strip() for item in head.split("|")] + [""])[:4]
    words = shlex.split(options)
    files = re.split(r"^\+\+\+ (.*)\n", body, flags=re.MULTILINE)
    named = {"repro.py": files[0], **dict(zip(files[1::2], files[2::2]))}
    return Case(name, step, part, [word for word in words if word != "npu"], "npu" in words, named)


CASES = read_cases()


def reason_to_skip() -> str:
    if not PYTHON:
        return "NPU_SIM_PYTHON names no Python with torch (make sim sets it)"
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    asked = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, timeout=120, env=environment)
    return "" if asked.returncode == 0 else f"{PYTHON} has no torch"


@pytest.fixture(scope="module")
def torch_python() -> str:
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    return PYTHON


def triage(case: Case, folder: Path, python: str) -> dict:
    for name, text in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    launcher = f"{python} {ROOT / 'npu_sim' / 'run.py'}" if case.npu else python
    environment = dict(os.environ)
    if not case.npu:
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    options = [str(folder / word) if word in case.files else word for word in case.options]
    result = run_script(
        SCRIPT,
        *(str(folder / "repro.py"), "--launcher", launcher, "--workdir", str(folder / "work"), "--output", "json"),
        *options,
        env=environment,
        timeout=600,
    )
    assert result.returncode in (0, 1), result.stderr.decode()
    return json.loads(result.stdout)


def check(case: Case, folder: Path, record: dict) -> None:
    assert (record["failed_step"] or "-", record["part"] or "-") == (case.step, case.part), record
    if record["part"] and record["part"] != "another_call" and "--fail-on" not in case.options:
        assert record["first_cause"]["type"] not in ("Warning", "UserWarning"), record
        assert record["user_line"]["file"].startswith(str(folder)), record


def names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


ON_CPU = [case for case in CASES if not case.npu]
ON_NPU = [case for case in CASES if case.npu]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder for each case, whichever thread runs it."""
    return {case.name: tmp_path_factory.mktemp("layer") for case in CASES}


@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", ON_CPU, ids=names(ON_CPU))
def test_a_failure_on_the_cpu_is_located(
    case: Case, folders: dict[str, Path], torch_python: str, request: pytest.FixtureRequest, ahead: Callable
) -> None:
    check(case, folders[case.name], ahead(request.node, "case", lambda c: triage(c, folders[c.name], torch_python)))


@pytest.mark.sim
@pytest.mark.timeout(700)
@pytest.mark.usefixtures("built_simulator")
@pytest.mark.parametrize("case", ON_NPU, ids=names(ON_NPU))
def test_a_failure_on_the_device_is_located_on_the_simulator(
    case: Case, folders: dict[str, Path], torch_python: str, request: pytest.FixtureRequest, ahead: Callable
) -> None:
    check(case, folders[case.name], ahead(request.node, "case", lambda c: triage(c, folders[c.name], torch_python)))


def test_there_are_scripts_for_every_layer() -> None:
    assert len(CASES) >= SCRIPTS_AT_LEAST
    assert {case.part for case in CASES} >= {
        "model",
        "another_call",
        "dynamo",
        "fake_implementation",
        "aot_autograd",
        "npugraph_ex_compile",
        "npugraph_ex_capture",
        "npugraphs_capture",
        "inductor",
        "backend",
        "-",
    }


def test_each_script_is_valid_and_its_variants_differ_in_the_call_only(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "graph-mode-diagnostics" / "scripts"))
    from compile_triage import steps
    from compile_triage.compile_calls import find_calls, read_script
    from compile_triage.variants import differs_only_in_call, make_variant

    made = 0
    for case in CASES:
        file = tmp_path / "repro.py"
        scripts = []
        for text in case.files.values():
            file.write_text(text)
            scripts.append(read_script(file))
        for script, call in [(item, call) for item in scripts for call in find_calls(item)]:
            for step in steps.steps_for(call.backend):
                assert differs_only_in_call(script, make_variant(script, call, step), call)
                made += 1
    assert made >= 3 * len(CASES)

"""A variable's effect on graph mode is told with its source; a name that no release reads is told apart."""

from __future__ import annotations

import json

import pytest
from support import run_script

SCRIPT = "graph-mode-expert/scripts/lookup_variable.py"


def look_up(*names: str) -> tuple[int, list[dict]]:
    result = run_script(SCRIPT, *names, "--output", "json")
    return result.returncode, json.loads(result.stdout)["results"]


@pytest.mark.parametrize(
    "name", ["TASK_QUEUE_ENABLE", "task_queue_enable", "TASK_QUEUE_ENABLE=2", "$TASK_QUEUE_ENABLE"]
)
def test_a_real_variable_is_found_however_it_is_written(name: str) -> None:
    code, (answer,) = look_up(name)
    assert code == 0
    assert answer["status"] == "real"
    assert "ERR00007" in answer["effect"]
    assert answer["source"]


@pytest.mark.parametrize("name", ["TASK_QUEUE_ENABLE", "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"])
def test_a_variable_in_another_case_is_said_to_set_nothing(name: str) -> None:
    text = run_script(SCRIPT, name.lower()).stdout.decode("utf-8")
    assert f"spelled {name}; the case counts" in text
    assert "the case counts" not in run_script(SCRIPT, name).stdout.decode("utf-8")


def test_a_variable_that_a_release_lists_and_warns_of_is_deprecated() -> None:
    """SGLang 0.5.18 and newer list it and name its successor."""
    _, (answer,) = look_up("SGLANG_SCHEDULER_DECREASE_PREFILL_IDLE")
    assert (answer["framework"], answer["deprecated"]) == ("sglang", True)


@pytest.mark.parametrize("name", ["TORCH_NPU_GRAPHS_LOG_LEVEL", "ACL_PROFILE"])
def test_a_name_in_circulation_that_no_release_reads_is_said_to_be_so(name: str) -> None:
    code, (answer,) = look_up(name)
    assert (code, answer["status"]) == (1, "absent")
    assert "torch_npu" in answer["effect"].lower()


def test_an_unknown_name_lists_near_ones() -> None:
    code, (answer,) = look_up("TASK_QUEUE_ENABEL")
    assert (code, answer["status"]) == (1, "unknown")
    assert "TASK_QUEUE_ENABLE" in answer["near"]


@pytest.mark.parametrize("name", ["", "=", "A" * 100_000, "\x1b[31m", "変数"])
def test_an_absurd_name_is_unknown(name: str) -> None:
    code, (answer,) = look_up(name)
    assert (code, answer["status"]) == (1, "unknown")
    assert len(answer["query"]) <= 200


def test_the_chinese_answer_is_chinese() -> None:
    text = run_script(SCRIPT, "ACL_PROFILE", "--lang", "zh").stdout.decode("utf-8")
    assert "不存在" in text


def test_a_frameworks_variable_is_found_with_its_releases_and_the_patterns_that_name_it() -> None:
    code, (answer,) = look_up("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0")
    assert (code, answer["status"], answer["framework"]) == (0, "framework", "vllm")
    assert answer["source"].startswith("vllm-project/vllm ") and "vllm/envs.py:" in answer["source"]
    assert answer["named_in"] == ["P-MEM-003"]

"""Codes, call sites and CANN error lines are found where the text says that they are ones."""

from __future__ import annotations

import pytest
from cost import cpu_seconds

from npu_graph.cli import InputText
from npu_graph.diagnosis.environment import find_environment
from npu_graph.diagnosis.error_lines import find_call_sites, find_codes, find_log_errors, reason_of
from npu_graph.diagnosis.reading import Line, read_report


def lines(text: str) -> list[Line]:
    return read_report([InputText("-", text, 0)]).lines


CODES = [
    ("error code is 107027", ["107027"]),
    ("stream wait event failed, runtime result = 207005[FUNC:x]", ["207005"]),
    ("Failed to submit capture task, retCode=0x7100003", ["0x7100003"]),
    ("event_id=-1, error=117571619.[FUNC:CaptureEventWait]", ["117571619"]),
    ("rtMemcpy:ErrCode=107030, desc=[the current capture mode]", ["107030"]),
    ("[ERROR] 2025-08-05-11:23:25 (PID:519998, Device:0, RankID:-1) ERR00100 PTA call acl api failed", ["ERR00100"]),
    ("[PID: 46706] 2026-06-04-10:17:18.891.861 Insufficient_Stream_Resources(EL0009): x", ["EL0009"]),
    ("EZ9999: Inner Error!", ["EZ9999"]),
    ("aclnnFusedInferAttentionScoreV3 failed, error code is 561002", ["561002"]),
    ("it fails with 507015.", ["507015"]),
    ("报错 207008，流资源不足", ["207008"]),
    ("错误码是 107025", ["107025"]),
    ("(Worker pid=107027) port=107025 id 107030", []),
    ("127.0.0.1:107027 v1.107030.2 x107025y", []),
    ("2026-05-02-10:11:12.101.207 step 507 of 1070", []),
    ("HTTP error code 404", []),
]


@pytest.mark.parametrize(("text", "codes"), CODES, ids=[row[0][:40] for row in CODES])
def test_codes(text: str, codes: list[str]) -> None:
    assert [mention.code for mention in find_codes(lines(text))] == codes


SITES = [
    ("capture_begin:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:156 NPU function error: c10_npu::acl::AclmdlRICaptureBegin(s, m), error code is 207005", ("capture_begin", 156, "207005")),
    ("replay:../torch_npu/csrc/core/npu/NPUGraph.cpp:404 NPU function error: c10_npu::acl::AclmdlRIExecuteAsync(model_ri_, stream), error code is 507011", ("replay", 404, "507011")),
    ("operator():.../op_api_common.h:192 NPU function error: call failed, error code is 507015", ("operator()", 192, "507015")),
    ("normal_:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:37 NPU function error: call aclnnInplaceNormal failed, error code is 561103", ("normal_", 37, "561103")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SITES, ids=[row[1][0] for row in SITES])
def test_call_sites(text: str, expected: tuple[str, int, str]) -> None:
    (site,) = find_call_sites(lines(text))
    assert (site.function, site.file_line, site.code) == expected


LOG_ERRORS = [
    ("[ERROR] RUNTIME(4410,VLLM::Worker_TP1):2026-05-02-10:11:12.101.202 [npu_driver.cc:1]5 F:alloc failed", "RUNTIME", "2026-05-02-10:11:12.101.202"),
    ("EE9999: [PID: 1] 2025-08-27-01:44:46.558.672 Not allow to synchronize captured-stream", "EE9999", ""),
    ("[PID: 4] 2026-06-04-10:17:18.891.861 Insufficient_Stream_Resources(EL0009): x", "EL0009", ""),
    ("       rtMemcpyAsync execution failed, reason=aicore timeout[FUNC:FuncErrorReason]", "CANN", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "component", "time"), LOG_ERRORS, ids=[row[1] for row in LOG_ERRORS])
def test_log_errors(text: str, component: str, time: str) -> None:
    (error,) = find_log_errors(lines(text))
    assert (error.component, error.time) == (component, time)


def test_ordinary_log_lines_are_no_errors() -> None:
    text = "[INFO] RUNTIME(1,python):2026-05-02-10:11:12.101.202 [a.cc:1]5 F:ok\nINFO 12-10 03:09:31 [m.py:1] ready"
    assert find_log_errors(lines(text)) == []


def test_the_reason_string_with_and_without_brackets() -> None:
    assert reason_of("execute failed, reason=[stream is captured][FUNC:x]") == "stream is captured"
    assert reason_of("execution failed, reason=stream is captured[FUNC:x]") == "stream is captured"


ENVIRONMENTS = [
    ("torch_npu 2.7.1.post2, torch 2.7.1, CANN 8.5.0", {"torch_npu": "2.7.1.post2", "torch": "2.7.1", "cann": "8.5.0"}),
    (
        "[pip3] torch-npu==2.5.1.post1.dev20250619\n[pip3] torch==2.5.1",
        {"torch_npu": "2.5.1.post1.dev20250619", "torch": "2.5.1"},
    ),
    ("PyTorch version: 2.10.0+cpu", {"torch": "2.10.0+cpu", "torch_npu": None}),
    ("CANN:\npackage_name=Ascend-cann-toolkit\nversion=8.1.RC1", {"cann": "8.1.RC1"}),
    ("| npu-smi 25.0.rc1.1               Version: 25.0.rc1.1 |", {"driver": "25.0.rc1.1"}),
    ("HDK版本25.2.3, A2 双机", {"driver": "25.2.3", "soc": "A2"}),
    ("Ascend910_9391, Python 3.11.14", {"soc": "Ascend910_9391", "python": "3.11.14"}),
    ("CANN 9.2.0-beta.2", {"cann": "9.2.0-beta.2"}),
    ("Name: torch_npu\nVersion: 2.6.0.post3", {"torch_npu": "2.6.0.post3"}),
    # what ran, and not the former one, one that is asked for, or another package
    ("upgraded from torch_npu 2.5.1 to torch_npu 2.6.0", {"torch_npu": "2.6.0"}),
    ("CANN 8.0.0 -> CANN 8.1.RC1", {"cann": "8.1.RC1"}),
    ("works with torch_npu 2.5.1, fails with torch_npu 2.6.0", {"torch_npu": "2.6.0"}),
    ("fixed in torch_npu 2.7.1, ours is torch_npu 2.6.0", {"torch_npu": "2.6.0"}),
    ("please upgrade to torch_npu 2.8.0; my-torch-npu 9.9.9", {"torch_npu": None}),
    ("torch_npu==2.9.0+gitf3a1b2c", {"torch_npu": "2.9.0"}),
    ("torch_npu 2.7.1.post2 + CANN 8.5.0", {"torch_npu": "2.7.1.post2", "cann": "8.5.0"}),
    ("torch_npu 2.7.1.post2 -> hangs", {"torch_npu": "2.7.1.post2"}),
    ("torch_npu 版本：2.7.1.post2", {"torch_npu": "2.7.1.post2"}),
    ("torch_npu-2.7.1.post2-cp311-cp311-linux_aarch64.whl", {"torch_npu": "2.7.1.post2"}),
    ("torch               2.9.0\ntorch_npu           2.9.0", {"torch": "2.9.0", "torch_npu": "2.9.0"}),
]


@pytest.mark.parametrize(("text", "expected"), ENVIRONMENTS, ids=[row[0][:30] for row in ENVIRONMENTS])
def test_versions_as_people_write_them(text: str, expected: dict[str, str]) -> None:
    found = find_environment(text)
    assert {key: found[key] for key in expected} == expected


def test_the_framework_has_the_version_that_ran() -> None:
    text = "Requires vllm-ascend 0.18.0, I run vllm-ascend 0.13.0"
    assert find_environment(text)["framework"] == {"name": "vllm-ascend", "version": "0.13.0"}


def test_a_line_full_of_versions_costs_little() -> None:
    assert cpu_seconds(lambda: find_environment("torch_npu 2.7.1 -> " * 4000), 1) < 1


def test_frameworks_and_variables() -> None:
    found = find_environment('vllm-ascend v0.11.0rc1, export HCCL_OP_EXPANSION_MODE="AIV"; TASK_QUEUE_ENABLE=2')
    assert found["framework"] == {"name": "vllm-ascend", "version": "0.11.0rc1"}
    assert found["variables"] == {"HCCL_OP_EXPANSION_MODE": "AIV", "TASK_QUEUE_ENABLE": "2"}

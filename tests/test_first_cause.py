"""The failure that explains the rest is found among its echoes, and each echo says why it was set aside."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from test_tracebacks import CHAIN

Diagnose = Callable[..., dict[str, Any]]

BODY_THEN_END = CHAIN

ALLOCATION_THEN_TIMEOUT = """[ERROR] RUNTIME(4410,VLLM::Worker_TP1):2026-05-02-10:11:12.101.202 [npu_driver.cc:1234]5012 DevMemAlloc:alloc device memory failed, size=2097152, drvRetCode=6, runtime result = 207001
(Worker_TP1 pid=4410) ERROR 05-02 10:11:40 [multiproc_executor.py:932] Traceback (most recent call last):
(Worker_TP1 pid=4410) ERROR 05-02 10:11:40 [multiproc_executor.py:932]   File "/vllm-workspace/vllm-ascend/vllm_ascend/compilation/acl_graph.py", line 210, in __call__
(Worker_TP1 pid=4410) ERROR 05-02 10:11:40 [multiproc_executor.py:932]     torch.npu.current_stream().synchronize()
(Worker_TP1 pid=4410) ERROR 05-02 10:11:40 [multiproc_executor.py:932] torch.OutOfMemoryError: synchronize:../torch_npu/csrc/core/npu/NPUStream.cpp:466 NPU function error: AclrtSynchronizeStreamWithTimeout(stream()), error code is 107020
"""

RETHROWN = """(Worker_TP0 pid=77) ERROR 06-10 16:39:42 [multiproc_executor.py:962] Traceback (most recent call last):
(Worker_TP0 pid=77) ERROR 06-10 16:39:42 [multiproc_executor.py:962]   File "/w/vllm_ascend/worker/model_runner_v1.py", line 100, in capture_model
(Worker_TP0 pid=77) ERROR 06-10 16:39:42 [multiproc_executor.py:962] RuntimeError: Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture, please export TASK_QUEUE_ENABLE=1/0.
(EngineCore_DP0 pid=70) ERROR 06-10 16:39:43 [core.py:515] Traceback (most recent call last):
(EngineCore_DP0 pid=70) ERROR 06-10 16:39:43 [core.py:515]   File "/w/vllm/v1/engine/core.py", line 500, in run_engine_core
(EngineCore_DP0 pid=70) ERROR 06-10 16:39:43 [core.py:515] RuntimeError: Worker failed with error 'Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture', please check the stack trace above for the root cause
Traceback (most recent call last):
  File "/w/vllm/entrypoints/cli/main.py", line 8, in <module>
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""

CACHE_MISS = """Traceback (most recent call last):
  File "/app/cache.py", line 3, in get
    return self.graphs[key]
KeyError: 64

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/cache.py", line 5, in get
    g.capture_begin()
RuntimeError: NPU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default stream.)
"""

SGLANG = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/sglang/srt/model_executor/npu_graph_runner.py", line 51, in __init__
    super().__init__(model_runner)
RuntimeError: Cannot run aclop operators during NPU graph capture. Current working aclop is Sort.

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/sglang/srt/model_executor/cuda_graph_runner.py", line 346, in __init__
    raise Exception(
Exception: Capture cuda graph failed: capture_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:193 NPU function error: c10_npu::acl::AclmdlRICaptureEnd(capture_stream_, &model_ri), error code is 107033
Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
"""

REFUSAL_BESIDE_FAULT = """(Worker_TP8 pid=753) ERROR 04-30 03:58:27 [multiproc_executor.py:949] EE9999: Inner Error!
(Worker_TP8 pid=753) ERROR 04-30 03:58:27 [multiproc_executor.py:949] EE9999[PID: 753] 2026-04-30-03:48:59.964.776 (EE9999):  rtMemcpy execution failed, reason=the current capture mode does not support this operation[FUNC:FuncErrorReason]
(Worker_TP8 pid=753) ERROR 04-30 03:58:27 [multiproc_executor.py:949]        synchronized memcpy failed, kind = 1, runtime result = 107030[FUNC:ReportCallError]
(Worker_TP8 pid=753) ERROR 04-30 03:58:27 [multiproc_executor.py:949]        rtEventSynchronize execution failed, reason=the model stream execute failed[FUNC:FuncErrorReason]
(Worker_TP8 pid=753) ERROR 04-30 03:58:27 [multiproc_executor.py:949]        wait for compute device to finish failed, runtime result = 507011.
"""

BODY_PROSE_END = """RuntimeError: Cannot run aclop operators during NPU graph capture. Current working aclop is Identity.
and then capture_end:../torch_npu/csrc/core/npu/NPUGraph.cpp:240 NPU function error: c10_npu::acl::AclmdlRICaptureEnd(s, m), error code is 107025
"""

# (name, report, words of the first cause, words of each thing set aside)
ECHOES = [
    ("error in the body, then capture_end", BODY_THEN_END, "LocalScalarDenseNpu", ["endCaptureErr"]),
    ("allocation, then timeout wrapped as OutOfMemory", ALLOCATION_THEN_TIMEOUT, "207001", ["107020"]),
    ("worker's error, executor's and server's rethrow", RETHROWN, "TASK_QUEUE_ENABLE = 2", ["Worker failed", "Engine core"]),
    ("cache miss handled when the failure came", CACHE_MISS, "non-default stream", ["64"]),
    ("a copy refused by the mode, then a device fault", REFUSAL_BESIDE_FAULT, "model stream execute failed", ["capture mode"]),
    ("error in the body, told in prose, then capture_end", BODY_PROSE_END, "aclop", ["107025"]),
    ("SGLang's wrapper with its suggestions", SGLANG, "aclop", ["Capture cuda graph failed"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "report", "cause", "aside"), ECHOES, ids=[row[0] for row in ECHOES])
def test_the_cause_is_found_and_the_echoes_are_set_aside(
    diagnose_text: Diagnose, name: str, report: str, cause: str, aside: list[str]
) -> None:
    first = diagnose_text(report)["first_cause"]
    assert cause in first["message"]
    for words in aside:
        echo = next(item for item in first["wrapped_by"] if words in item["message"])
        assert len(echo["why"]) > 20


def test_a_wrapper_alone_gives_its_inner_error(diagnose_text: Diagnose) -> None:
    report = "RuntimeError: NPUModelRunner init failed, error is NPUModelRunner failed, error is capture_end:../torch_npu/csrc/core/npu/NPUGraph.cpp:240 NPU function error: c10_npu::acl::AclmdlRICaptureEnd(capture_stream_, &model_ri), error code is 107025"
    record = diagnose_text(report)
    assert record["first_cause"]["message"].startswith("capture_end:")
    assert record["patterns"][0]["id"] == "P-CAP-005"


def test_a_rethrow_with_the_only_copy_of_the_error_is_the_evidence(diagnose_text: Diagnose) -> None:
    report = "RuntimeError: Worker failed with error 'capture_begin:../torch_npu/csrc/core/npu/NPUGraph.cpp:230 NPU function error: AclmdlRICaptureBegin(s, m), error code is 207008', please check the stack trace above\nRuntimeError: Engine core initialization failed. See root cause above."
    record = diagnose_text(report)
    assert record["patterns"][0]["id"] == "P-CAP-013"
    assert record["verdict"] == "known"
    assert "Engine core" in record["first_cause"]["wrapped_by"][0]["message"]


UNCAUGHT = [
    (
        "F20260126 13:08:26.118782 2242295 acl_graph_executor_impl.cpp:921] Not suitable for graph operations.",
        "Not suitable",
    ),
    (
        "terminate called after throwing an instance of 'c10::Error'\n  what():  Called NPUGraph::replay without a preceding successful capture.",
        "replay without",
    ),
    (
        "EZ9999: there is an exception of aivec error, core id is 3, The DDR address of the MTE instruction is out of range",
        "MTE",
    ),
]


@pytest.mark.parametrize(("report", "words"), UNCAUGHT, ids=["glog fatal", "terminate", "device"])
def test_failures_without_a_python_exception_are_read(diagnose_text: Diagnose, report: str, words: str) -> None:
    assert words in diagnose_text(report + "\nACL graph, decode")["first_cause"]["message"]


def test_capture_end_alone_is_the_failure(diagnose_text: Diagnose) -> None:
    report = "RuntimeError: capture_end:../torch_npu/csrc/core/npu/NPUGraph.cpp:371 NPU function error: endCaptureErr, error code is 107025"
    record = diagnose_text(report)
    assert record["first_cause"]["wrapped_by"] == []
    assert record["stage"]["value"] == "capture"


def test_the_codes_of_echoes_are_secondary(diagnose_text: Diagnose) -> None:
    roles = {item["code"]: item["role"] for item in diagnose_text(BODY_THEN_END)["error_codes"]}
    assert roles["107027"] == "primary"
    assert roles["107025"] == "secondary"

"""Reports without a clean stack: quoted errors, wrappers of torch.compile, cut frames; whose code failed, what to ask for."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from npu_graph.diagnosis.report import render_text

Diagnose = Callable[..., "dict[str, Any]"]


# --- the first cause ---------------------------------------------------------------------------------------------

INDUCTOR = "/opt/py/lib/python3.11/site-packages/torch_npu/_inductor/codegen/split_tiling.py"
WRAPPED = f"""\
  File "/opt/py/lib/python3.11/site-packages/torch/_dynamo/output_graph.py", line 1480, in _call_user_compiler
    raise BackendCompilerFailed(self.compiler_fn, e)
  File "{INDUCTOR}", line 77, in pick_axis
    axis = self.axes[name]
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
KeyError: z1 + 64*y0
"""


def test_what_torch_compile_wraps_on_the_next_line_is_the_cause(diagnose_text: Diagnose) -> None:
    first = diagnose_text(WRAPPED)["first_cause"]
    assert (first["type"], first["message"], first["line"]) == ("KeyError", "z1 + 64*y0", 6)
    assert first["frame"]["function"] == "pick_axis"
    assert first["wrapped_by"] == []


def test_what_torch_compile_wraps_on_the_same_line_is_the_cause(diagnose_text: Diagnose) -> None:
    text = WRAPPED.replace(
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nKeyError:",
        "torch._inductor.exc.InductorError: KeyError:",
    )
    first = diagnose_text(text)["first_cause"]
    assert (first["type"], first["message"]) == ("KeyError", "z1 + 64*y0")


def test_an_exception_further_down_is_not_taken_for_the_wrapped_one(diagnose_text: Diagnose) -> None:
    text = WRAPPED.replace("KeyError: z1 + 64*y0\n", "\nlater, in another run:\n\nKeyError: 'weights'\n")
    first = diagnose_text(text)["first_cause"]
    assert first["type"].endswith("BackendCompilerFailed")


# (name, report, text of the first cause)
TOLD = [
    (
        "after a word that announces it",
        'npugraph 多图场景打开开关后报错：\n\n"Pool operations do not support this setting, disable it"\n',
        "Pool operations do not support",
    ),
    (
        "on the same line",
        "[Bug]: 图模式训练报错 assert isinstance(device, torch.device)\n",
        "assert isinstance(device",
    ),
    (
        "as an exception object",
        "graph mode, reduction with one row:\n```\nValueError('Cannot broadcast, rank mismatch: [2], [2, 1]')\n```\n",
        "Cannot broadcast, rank mismatch",
    ),
    (
        "in backticks",
        "With the ACL graph on, start-up fails: `graph persistent input only supports decode batches`.\n",
        "persistent input only supports",
    ),
    (
        "alone on a line, its code in prose",
        "With ACL graph the op reports\n**error 561002**.\n\n```\nThe size(4) of actualSeqLengths is not equal to the batch(5)\n```\n",
        "is not equal to the batch",
    ),
    (
        "as lines of level ERROR",
        "ACL graph, on the NPU\n(EngineCore pid=7) ERROR 04-04 08:13:15 [core.py:11] bishengir-compile: Cannot find option named 'X9'!\n",
        "Cannot find option named",
    ),
]


@pytest.mark.parametrize(("name", "report", "words"), TOLD, ids=[row[0] for row in TOLD])
def test_an_error_that_is_only_quoted_is_read(diagnose_text: Diagnose, name: str, report: str, words: str) -> None:
    record = diagnose_text(report)
    assert words in record["first_cause"]["message"]
    assert "holds no error text" not in render_text(record) and "没有报错文本" not in render_text(record)


def test_an_error_text_quoted_beside_a_word_about_the_docs_is_read(diagnose_text: Diagnose) -> None:
    report = "NPU graph. I followed the docs and got `fused attention does not support batch 48 in graph mode`.\n"
    assert "does not support batch 48" in diagnose_text(report)["first_cause"]["message"]


def test_an_error_text_whose_reason_stands_on_the_next_line_is_read(diagnose_text: Diagnose) -> None:
    report = "NPU graph replay fails with:\nThe operator refused its input because:\nblock table has 3 rows, not 4\n"
    assert "refused its input" in diagnose_text(report)["first_cause"]["message"]


@pytest.mark.parametrize(
    "report",
    [
        "ACL graph: decoding is slower than eager since the last update, by about a third",
        "在图模式下输出乱码，eager 正常，没有任何报错。",
        "The graph runs; `enable_graph` is set and `sizes` lists the batches",
    ],
)
def test_a_report_without_an_error_text_is_said_to_have_none(diagnose_text: Diagnose, report: str) -> None:
    assert diagnose_text(report)["first_cause"] is None


PROSE = [
    "Thank you for looking at this, it is not urgent and not found often.",
    "I can not share the model because my company does not support that.",
    "Please do not close this issue without a reply, it should be open.",
    "We could not find the config file in the folder.",
    "My issue is not a duplicate of an existing issue that was not found.",
    "Expected: error message\nthe service should say which size is invalid",
    "Steps to reproduce the failure when capture is not supported by driver",
    "The message of the replay that can not be matched here reads: ",
    "`nested capture is not supported by this API` is what the docs say.",
]


@pytest.mark.parametrize("words", PROSE)
def test_what_a_person_says_is_no_error_text(diagnose_text: Diagnose, words: str) -> None:
    assert diagnose_text(f"ACL graph on the NPU gives wrong output\n\n{words}\n")["first_cause"] is None


def test_a_command_above_its_output_is_no_error_text(diagnose_text: Diagnose) -> None:
    report = "NPU graph replay crashes with:\n```\n$ python3 run.py --graph --model q\nSegmentation fault (core dumped)\n```\n"
    assert diagnose_text(report)["first_cause"]["message"].startswith("Segmentation fault")


@pytest.mark.parametrize(
    "wrapper",
    [
        "torch._dynamo.exc.BackendCompilerFailed: backend='my-backend.x' raised:\n",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n\n",
        "torch._inductor.exc.InductorError: LoweringException: ",
    ],
)
def test_a_wrapper_of_torch_compile_gives_way_however_it_is_written(diagnose_text: Diagnose, wrapper: str) -> None:
    text = WRAPPED.replace("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n", wrapper)
    first = diagnose_text(text)["first_cause"]
    assert (first["type"], first["message"]) == ("KeyError", "z1 + 64*y0")


def test_another_exception_of_the_type_with_a_short_message_does_not_lend_its_stack(diagnose_text: Diagnose) -> None:
    report = (
        "npu graph capture\nRuntimeError: Failed to allocate the pool for npu graph capture\n"
        'Traceback (most recent call last):\n  File "/w/close.py", line 9, in close\n    raise\nRuntimeError: Failed\n'
    )
    first = diagnose_text(report)["first_cause"]
    assert first["message"].endswith("npu graph capture") and first["frame"] is None


def test_a_line_of_a_log_is_never_put_behind_a_sentence(diagnose_text: Diagnose) -> None:
    plog = (
        "[ERROR] RUNTIME(812,python):2026-03-01-10:00:00.000.001 [stream.cc:88]812 Capture:Stream capture failed"
        " because the default stream is used, retCode=0x7020023"
    )
    record = diagnose_text(
        f"We hit error 507899 and 561002 with the graph.\n\n{plog}\n\nThe sizes should be equal here then.\n"
    )
    assert "Stream capture failed" in record["first_cause"]["message"]


def test_a_quoted_code_still_gives_its_meaning_and_the_nearest_patterns(diagnose_text: Diagnose) -> None:
    record = diagnose_text(next(report for name, report, _ in TOLD if name.startswith("alone")))
    assert [item["code"] for item in record["error_codes"]] == ["561002"]


# --- whose code failed -------------------------------------------------------------------------------------------

SITE = "/opt/py/lib/python3.11/site-packages/"


def stack(*frames: str, error: str = "IndexError: tuple index out of range") -> str:
    rows = [f'  File "{SITE}{frame}", line {40 + number}, in step_{number}' for number, frame in enumerate(frames)]
    return "Traceback (most recent call last):\n" + "\n".join(rows) + f"\n{error}\n"


# (deepest frames, owner, stage)
OWNERS = [
    (("torch_npu/dynamo/npugraph_ex/_acl_concrete_graph/graph_pass.py",), "npugraph_ex", "compile"),
    (("torch_npu/dynamo/torchair/_acl_concrete_graph/graph_pass.py",), "npugraph_ex", "compile"),
    (("torch/_ops.py", "torch_npu/op_plugin/meta/_meta_registrations.py"), "op_plugin", "compile"),
    (("torch/_inductor/scheduler.py", "torch_npu/_inductor/ir.py"), "torch_npu", "compile"),
]


@pytest.mark.parametrize(
    ("frames", "owner", "stage"), OWNERS, ids=[row[0][-1].split("/")[-1] + row[1] for row in OWNERS]
)
def test_an_exception_inside_torch_npu_is_torch_npus(
    diagnose_text: Diagnose, frames: tuple[str, ...], owner: str, stage: str
) -> None:
    record = diagnose_text(stack(*frames))
    assert (record["owner"]["value"], record["stage"]["value"]) == (owner, stage)


def test_a_name_that_a_file_of_torch_npu_lacks_is_torch_npus(diagnose_text: Diagnose) -> None:
    error = "UnboundLocalError: local variable 'x' referenced before assignment"
    report = "NPU graph, eager passes\n" + stack("torch_npu/npu/graphs.py", error=error)
    assert diagnose_text(report)["owner"]["value"] == "torch_npu"


def test_a_users_own_kernel_in_the_launcher_of_triton_is_no_fault_of_the_code_generator(
    diagnose_text: Diagnose,
) -> None:
    error = "ValueError: kernel argument 'BLOCK' has no value"
    report = "torch.compile on the NPU\n" + stack("torch_npu/_inductor/npu_triton_heuristics.py", error=error)
    assert diagnose_text(report)["verdict"] != "known"


NOT_INTERNAL = [
    # an argument check, whoever runs it; what the device says; a folder that only bears the name; options
    stack(
        "torch_npu/op_plugin/meta/_meta_registrations.py", "torch/__init__.py", error="RuntimeError: query must be 3-D"
    ),
    stack("torch_npu/_inductor/npu_triton_heuristics.py", error="RuntimeError: NPU function error: aclnnSub, EZ9999"),
    stack("torch_npu/_inductor/ir.py", error="RuntimeError: NPU out of memory. Tried to allocate 2 GiB"),
    stack("torch_npu/dynamo/torchair/configs/compiler_config.py", error="ValueError: mode must be max-autotune"),
]


@pytest.mark.parametrize("report", NOT_INTERNAL)
def test_a_refused_argument_or_a_device_fault_is_not_the_internals(diagnose_text: Diagnose, report: str) -> None:
    assert diagnose_text(report)["owner"]["value"] not in ("torch_npu", "npugraph_ex", "op_plugin")


def test_an_argument_that_the_graph_api_refuses_is_still_the_callers(diagnose_text: Diagnose) -> None:
    text = f'  File "/home/u/train.py", line 8, in main\n  File "{SITE}torch_npu/npu/graphs.py", line 9, in f\n'
    record = diagnose_text(f"Traceback (most recent call last):\n{text}ValueError: unsupported capture input\n")
    assert record["owner"]["value"] == "user_code"


@pytest.mark.parametrize("part", ["vllm/v1/core/sched/scheduler.py", "vllm/distributed/kv_transfer/kv_connector/x.py"])
def test_a_failure_in_the_scheduler_or_a_connector_is_no_graph_failure(diagnose_text: Diagnose, part: str) -> None:
    record = diagnose_text(
        "vllm-ascend, cudagraph_mode FULL_DECODE_ONLY\n"
        + stack("vllm/v1/engine/core.py", part, error="AssertionError: request is still running")
    )
    assert record["verdict"] == "not_graph"
    assert any(part in item["text"] for item in record["stage"]["evidence"])


TIED = [
    "; eager passes, in graph mode it crashes at capture",
    "；--enforce-eager 正常，开图后崩溃",
    "; it hangs only with graph mode on",
]


@pytest.mark.parametrize("words", TIED)
def test_what_fails_with_graph_mode_only_is_never_called_no_graph_failure(diagnose_text: Diagnose, words: str) -> None:
    error = "AssertionError: padded size 96 is not 90"
    record = diagnose_text(f"vllm-ascend{words}\n" + stack("vllm/v1/core/sched/scheduler.py", error=error))
    assert record["verdict"] != "not_graph"


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        (("vllm_ascend/worker/model_runner_v1.py", "vllm/v1/core/sched/x.py"), "RuntimeError: error code is 107027"),
        (("vllm_ascend/compilation/acl_graph.py", "vllm/v1/core/sched/x.py"), "AssertionError: not ready"),
        (("vllm/v1/core/sched/x.py", "torch_npu/npu/graphs.py"), "AssertionError: not ready"),
        (("vllm/entrypoints/llm.py",), "RuntimeError: Engine process died with exit code -9"),
    ],
)
def test_a_device_code_a_graph_frame_or_a_messenger_keeps_the_question_open(
    diagnose_text: Diagnose, frames: tuple[str, ...], error: str
) -> None:
    assert diagnose_text("vllm-ascend, aclgraph\n" + stack(*frames, error=error))["verdict"] != "not_graph"


def test_a_graph_error_raised_through_the_scheduler_stays_one(diagnose_text: Diagnose) -> None:
    error = "RuntimeError: NPU graphs must be captured on a non-default stream"
    record = diagnose_text("vllm-ascend\n" + stack("vllm/v1/core/sched/scheduler.py", error=error))
    assert record["verdict"] != "not_graph"


# --- what to ask for ---------------------------------------------------------------------------------------------


def asked(record: dict[str, Any]) -> str:
    return " ".join(f"{item['item']} {item['how']}" for item in record["missing"])


def test_a_python_error_is_not_asked_for_the_device_log_nor_for_the_queue_switch(diagnose_text: Diagnose) -> None:
    record = diagnose_text("vllm-ascend graph replay\nAssertionError: sizes differ\n")
    assert "full Python stack" in asked(record)
    assert "TASK_QUEUE_ENABLE" not in asked(record) and "plog" not in asked(record)


def test_a_device_error_without_a_stack_is(diagnose_text: Diagnose) -> None:
    record = diagnose_text("torch.npu.graph replay\nRuntimeError: replay failed, error code is 107999\n")
    assert "TASK_QUEUE_ENABLE=0" in asked(record)


def test_a_stack_without_its_last_line_is_asked_for_that_line(diagnose_text: Diagnose) -> None:
    record = diagnose_text("ACL graph\n" + stack("vllm_ascend/worker/worker.py", error="").rstrip())
    assert "the line of the exception itself is cut off" in asked(record)
    assert "full Python stack" not in asked(record)


def test_an_ordinary_log_line_after_a_word_that_announces_an_error_is_none(diagnose_text: Diagnose) -> None:
    log = "(Worker pid=9) INFO 09-26 15:11:03 [utils.py:231] Found the library of the collectives"
    assert diagnose_text(f"图模式启动时发生了如下报错：\n{log}\n")["first_cause"] is None


@pytest.mark.parametrize("words", ["请求长期不返回", "服务无响应", "the process hangs"])
def test_a_hang_is_asked_for_the_stacks_of_all_ranks(diagnose_text: Diagnose, words: str) -> None:
    assert "py-spy dump" in asked(diagnose_text(f"ACL graph，DP2：{words}"))


def test_a_chinese_report_is_told_in_chinese_what_confirms_a_candidate(diagnose_text: Diagnose) -> None:
    record = diagnose_text("MRoPE 多模态模型，DP2，FULL_DECODE_ONLY 图模式，dummy run 时 hang 住")
    (candidate,) = [item for item in record["patterns"] if item["id"] == "P-UPD-008"]
    assert candidate["confirm"] == ["打印卡住那一步的参数更新和重放所用的键；两者必须相等"]
    assert "确认方法：打印卡住那一步" in render_text(record)


@pytest.mark.parametrize(
    "row", ["| torch_npu | 2.9.0 |", "torch_npu                         2.9.0", "torch_npu==2.9.0", "torch-npu: 2.9.0"]
)
def test_a_version_is_read_in_the_form_it_is_pasted(diagnose_text: Diagnose, row: str) -> None:
    assert diagnose_text(f"{row}\nnpu graph capture fails\n")["environment"]["torch_npu"] == "2.9.0"


# --- what the report shows of a failure --------------------------------------------------------------------------


def test_the_reason_that_cann_gives_beside_a_code_is_shown(diagnose_text: Diagnose) -> None:
    text = (
        "RuntimeError: SetDevice, error code is 107001\n"
        "[PID: 23] 2026-06-05-08:18:18.244.598 Invalid_Argument(EE1001): The argument is invalid."
        "Reason: The invalid device is 3 and the visible devices are 0, 1.\n"
    )
    assert "The invalid device is 3 and the visible devices are 0, 1." in render_text(
        diagnose_text(f"npu graph\n{text}")
    )


TRITON = (
    "torch.compile on the NPU\n"
    "triton.compiler.errors.CompilationError: at 9:21:\n"
    "    tmp3 = helper(tmp2)\n"
    "                     ^\n"
)


def test_what_triton_prints_below_the_quoted_code_is_the_cause(diagnose_text: Diagnose) -> None:
    first = diagnose_text(TRITON + "AttributeError(\"'NoneType' object has no attribute '__add__'\")\n")["first_cause"]
    assert (first["type"], first["message"]) == ("AttributeError", "'NoneType' object has no attribute '__add__'")


def test_a_message_that_only_says_where_is_shown_with_the_line_that_says_what(diagnose_text: Diagnose) -> None:
    first = diagnose_text(TRITON + "tmp3 has no type here\n")["first_cause"]
    assert first["message"] == "at 9:21: … tmp3 has no type here"


def test_an_exception_named_in_a_sentence_is_read_from_its_stack(diagnose_text: Diagnose) -> None:
    text = f"The graph build fails, reports KeyError: 'axis_7' in the log.\n\n{WRAPPED}".replace(
        "z1 + 64*y0", "'axis_7'"
    )
    first = diagnose_text(text)["first_cause"]
    assert first["frame"]["function"] == "pick_axis"


def test_an_option_is_no_symptom(diagnose_text: Diagnose) -> None:
    text = "torch.compile does not end:\npython3 bench.py --accuracy --backend inductor --npu-backend triton\n"
    assert diagnose_text(text)["stage"]["value"] != "accuracy"

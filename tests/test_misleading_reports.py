"""Sentences around an error must not turn it into something else: remarks about eager mode, quotations, hidden marks."""

from __future__ import annotations

import pytest
from support import ROOT

EXAMPLE = (ROOT / "graph-mode-diagnostics/examples/default_stream.txt").read_text(encoding="utf-8")
RUNS_WITHOUT_GRAPH = [
    "It works fine without npugraph.",
    "Eager also works.",
    "The same script also in eager runs correctly.",
    "未开启图模式时正常，开启后报错",
    "没用图的时候一切正常，用图就报上面的错",
    "eager下也测试过，结果是对的",
    "Is this not caused by npugraph?",
    "Without npugraph the error disappears.",
    "关闭图模式后不报错，eager 也没问题",
]
FILE_NOT_FOUND = 'Traceback (most recent call last):\n  File "/app/s.py", line 3, in main\n    load(p)\nFileNotFoundError: weights.bin\n\n'
QUOTATIONS = [
    "The FAQ says NPU graphs must be captured on a non-default stream.",
    "The docs say: NPU graphs must be captured on a non-default stream.",
    'We do not see "NPU graphs must be captured on a non-default stream" here.',
    "git log: fix: NPU graphs must be captured on a non-default stream (#123)",
    "test_msg PASSED expected message 'NPU graphs must be captured on a non-default stream'",
]


@pytest.mark.parametrize("sentence", RUNS_WITHOUT_GRAPH)
def test_it_runs_without_graph_mode_does_not_rule_graph_mode_out(sentence: str, diagnose_text) -> None:
    record = diagnose_text(f"{EXAMPLE}\n{sentence}\n")
    assert (record["verdict"], record["patterns"][0]["id"]) == ("known", "P-CAP-003")


@pytest.mark.parametrize(
    "sentence",
    [
        "It fails in eager mode too.",
        "eager 模式下同样报错",
        "The same error also in eager mode.",
        "It happens without npugraph.",
        "关闭图模式后问题依旧存在",
        "关闭 aclgraph 之后仍然报错",
        "去掉图模式也会报错",
        "单算子模式同样报错",
        "Disabling graph mode does not help, the same error.",
        "Same crash with enforce_eager=True.",
        "It fails in eager mode as well as in graph mode.",
        "Both with and without aclgraph it fails.",
    ],
)
def test_it_fails_without_graph_mode_rules_graph_mode_out(sentence: str, diagnose_text) -> None:
    report = "[ERROR] aclnnAdd failed, error code is 561002 on the Ascend NPU\nRuntimeError: call aclnnAdd failed\n"
    assert diagnose_text(f"{report}\n{sentence}\n")["verdict"] == "not_graph"


# (name, report): graph mode fails, and something in the report could be taken for the opposite.
FAILS_WITH_GRAPH_ONLY = [
    (
        "the command without graph mode is the one that works",
        "Works:\n```\nllm = LLM(model=m, enforce_eager=True)\n```\nFails on the NPU:\n```\nllm = LLM(model=m)\n```\n"
        "RuntimeError: static buffers differ during graph capture\n",
    ),
    (
        "a name error of generated code",
        'backend="npugraph_ex" fails; eager runs fine.\nTraceback (most recent call last):\n'
        "  File \"/w/t.py\", line 3, in <module>\n    f(x)\nNameError: name 'npu_fused_add_0' is not defined\n",
    ),
    (
        "an import inside capture",
        'torch.npu.graph on the NPU:\nTraceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n'
        '    with torch.npu.graph(g):\n  File "/opt/torch_npu/npu/graphs.py", line 90, in __enter__\n    import x\n'
        "ImportError: cannot import name '_graph_tree' from 'torch_npu.npu'\n",
    ),
    (
        "slow as without graph mode is no ruling out",
        "NPU graph mode: 40 ms a step. It is as slow as without npugraph, so the graph brings no speed-up.\n",
    ),
    (
        "eager was tried as well, and all is as expected there",
        "NPUGraph 重放精度异常。eager 模式也测了，输出一切如预期；图模式输出乱码。\n",
    ),
    (
        "noise of a single operator beside a Python error",
        "NPU graph replay, second run:\nbuild graph failed, graph id 3, retried\nTraceback (most recent call last):\n"
        '  File "/w/t.py", line 3, in run\n    g.replay()\nValueError: address changed\n',
    ),
]


@pytest.mark.parametrize(
    "report", [row[1] for row in FAILS_WITH_GRAPH_ONLY], ids=[row[0] for row in FAILS_WITH_GRAPH_ONLY]
)
def test_what_graph_mode_alone_does_wrong_is_never_called_outside_of_it(report: str, diagnose_text) -> None:
    assert diagnose_text(report)["verdict"] != "not_graph"


@pytest.mark.parametrize(
    "report",
    [
        "vllm serve m --enforce-eager --served-model-name ok\nRuntimeError: call aclnnX failed, error code is 561002\n",
        "vllm serve m --enforce-eager --trust-remote-code # 不正常\nModuleNotFoundError: No module named 'torch_npu._C'\n",
    ],
)
def test_an_option_or_a_negation_is_no_sign_that_eager_works(report: str, diagnose_text) -> None:
    assert diagnose_text(report)["verdict"] == "not_graph"


def test_a_single_operator_that_does_not_compile_is_outside_graph_mode(diagnose_text) -> None:
    report = "Ascend NPU\nRuntimeError: aclnnFoo failed, error code is 561003\n[ERROR] build graph failed, graph id 3\n"
    assert diagnose_text(report)["verdict"] == "not_graph"


@pytest.mark.parametrize(
    "sentence",
    [
        'Related issue says "RuntimeError: NPU out of memory". Mine is another, at graph capture:',
        "We hit RuntimeError: NPU out of memory in yesterday's run, solved by a smaller batch.",
        "Expected: no RuntimeError: NPU out of memory.",
    ],
)
def test_an_error_named_in_a_sentence_never_beats_the_one_that_is_pasted(sentence: str, diagnose_text) -> None:
    assert "non-default stream" in diagnose_text(f"{sentence}\n{EXAMPLE}")["first_cause"]["message"]


@pytest.mark.parametrize("sentence", QUOTATIONS)
def test_a_quoted_error_text_is_not_the_cause(sentence: str, diagnose_text) -> None:
    record = diagnose_text(FILE_NOT_FOUND + sentence + "\n")
    assert record["verdict"] != "known"
    assert not record["report"]["fix"]["short_term"]


@pytest.mark.parametrize("text", ["Successfully installed torch_npu-2.1.0.post3", "I changed the version of torch_npu"])
def test_letters_inside_a_word_are_no_hang(text: str, diagnose_text) -> None:
    record = diagnose_text(text + "\n")
    assert record["stage"]["value"] != "replay"
    assert not any("py-spy" in item["how"] for item in record["missing"])


def test_text_with_carriage_returns_only_is_read(diagnose_text) -> None:
    assert diagnose_text(EXAMPLE.replace("\n", "\r"))["patterns"][0]["id"] == "P-CAP-003"


@pytest.mark.parametrize("mark", ["\x9b", "\u2028", "\u061c", "\u00ad", "\ufeff", "\U000e0041", "\u202e"])
def test_invisible_characters_do_not_reach_the_report(mark: str, diagnose_text) -> None:
    record = diagnose_text(EXAMPLE.replace("captured on", f"captured{mark} on", 1))
    assert mark not in str(record)
    assert record["patterns"][0]["id"] == "P-CAP-003"


START_WARNINGS = """Warning: ASCEND_HOME_PATH environment variable is not set.
[W1130 19:26:03.549669496 NPUCachingAllocator.cpp:168] Warning: The current CANN and Soc versions require padding (function operator())
/usr/lib/python3.11/site-packages/torch_npu/utils.py:12: UserWarning: the version is not checked
UserWarning: torch.npu is patched
"""


def test_warnings_printed_at_start_are_not_the_first_cause(diagnose_text) -> None:
    record = diagnose_text(START_WARNINGS + EXAMPLE)
    assert record["first_cause"]["type"] == "RuntimeError"
    assert (record["verdict"], record["patterns"][0]["id"]) == ("known", "P-CAP-003")


def test_a_warning_turned_into_an_error_is_a_failure(diagnose_text) -> None:
    text = 'Traceback (most recent call last):\n  File "/app/s.py", line 3, in main\n    f()\nUserWarning: npu graph is experimental\n'
    assert diagnose_text(text)["first_cause"]["type"] == "UserWarning"


@pytest.mark.parametrize("first", [True, False])
def test_a_chinese_question_around_an_english_log_is_answered_in_chinese(first: bool, diagnose_text) -> None:
    log = "INFO 06-10 16:39:40 [worker.py:12] a step took 12 ms\n" * 300
    question = "我的服务在图捕获的时候卡住了，请问是什么原因？\n"
    assert diagnose_text(question + log if first else log + question)["input"]["language"] == "zh"
    assert diagnose_text(log + "why does it hang while capturing?\n")["input"]["language"] == "en"


# --- failures beside the graph, and in what a compiler wrote ------------------------------------------------------

NAME_ERROR = "NameError: name 'loop_y1' is not defined"


@pytest.mark.parametrize(
    "around",
    [
        "torch.compile with the inductor backend on NPU fails for one kernel in training\n{error}\n",
        "图模式 torch.compile 编译 triton kernel 报错\n{error}\n",
        "the generated code of torch.compile does not run on NPU\n{error}\n",
    ],
)
def test_a_slip_in_what_a_compiler_wrote_is_not_the_users(around: str, diagnose_text) -> None:
    record = diagnose_text(around.format(error=NAME_ERROR))
    assert record["stage"]["value"] == "compile"
    assert record["owner"]["value"] == "torch_compile"


def test_a_slip_in_written_code_is_outside_graph_mode(diagnose_text) -> None:
    assert diagnose_text(f"my NPU script stops in the second step\n{NAME_ERROR}\n")["verdict"] == "not_graph"


COMMUNICATOR = """\
Capturing ACL graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/9 [00:00<?, ?it/s]
Warning: Waiting for pending NCCL work to finish before starting graph capture. (function operator())
Traceback (most recent call last):
  File "/srv/site-packages/trainer/sync.py", line 8, in start
    self.comm = Communicator(group, device=self.device)
  File "/srv/site-packages/vllm_ascend/distributed/device_communicators/pyhccl.py", line 90, in {function}
    assert isinstance(device, torch.device)
AssertionError
"""


@pytest.mark.parametrize(
    ("function", "words", "stage"),
    [
        ("__init__", "", "not_graph"),
        ("init_comm", "", "not_graph"),
        ("all_reduce", "", "capture"),
        ("__init__", "it only fails in graph mode, eager works\n", "capture"),
    ],
)
def test_what_is_set_up_beside_a_finished_capture_is_outside_graph_mode(
    function: str, words: str, stage: str, diagnose_text
) -> None:
    assert diagnose_text(words + COMMUNICATOR.format(function=function))["stage"]["value"] == stage


def test_a_cut_traceback_still_says_where(diagnose_text) -> None:
    text = (
        "(Worker_TP0 pid=7) ERROR 02-03 04:05:06 [m.py:1] WorkerProc hit an exception.\n"
        "(Worker_TP0 pid=7) ERROR 02-03 04:05:06 [m.py:1] Traceback (most recent call last):\n"
        '(Worker_TP0 pid=7) ERROR 02-03 04:05:06 [m.py:1]   File "/w/vllm_ascend/worker/model_runner_v1.py", line 12, '
        "in capture_model\n"
    )
    record = diagnose_text(text)
    assert record["anchors"][0]["function"] == "capture_model"
    assert record["missing"][0]["item"].startswith("the end of the stack")


def test_jitter_of_the_step_time_is_about_performance(diagnose_text) -> None:
    text = "TPOT jitter under load in graph mode, the acceptance rate of the draft varies from request to request\n"
    assert diagnose_text(text)["stage"]["value"] == "performance"


@pytest.mark.parametrize("text", ["graph mode only supports 32 or 64 heads", "this is not supported in graph mode"])
def test_a_refused_option_of_graph_mode_has_a_stage(text: str, diagnose_text) -> None:
    stage = diagnose_text(f"AssertionError: {text}\n")["stage"]
    assert stage["value"] == "compile" and stage["confidence"] < 0.8


def test_how_graph_mode_is_switched_on_is_not_asked_for_where_it_is_told(diagnose_text) -> None:
    record = diagnose_text("torch.compile 的反向图编译失败，报 NoTritonConfigsError，eager 正常\n")
    assert not any("grep -rnE" in item["how"] for item in record["missing"])

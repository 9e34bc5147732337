"""What the printed report tells besides the verdict: versions as read, the release of the lines, the best similar case."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest
from support import ROOT

from npu_graph.diagnosis.report import render_markdown, render_text

Diagnose = Callable[..., "dict[str, Any]"]
EXAMPLE = (ROOT / "graph-mode-diagnostics/examples/default_stream.txt").read_text(encoding="utf-8")
# Function and line as torch_npu 7.2.0 has them, and no version in words.
UPDATE_STACK = """\
  File "/srv/site-packages/torch_npu/npu/graphs.py", line 243, in update
    self.graph_dispatch_mode.update_capture_record(cpu_update_input)
  File "/srv/site-packages/torch_npu/npu/graphs.py", line 117, in update_capture_record
    graph_task_update_end(self.update_stream)
RuntimeError: graph_task_update_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:48 NPU function error: \
c10_npu::acl::AclmdlRICaptureTaskUpdateEnd(stream), error code is 507000
"""
SLEEP = (
    "Sleep mode with the second model runner and ACL graph: after sleep() and wake_up() the outputs are wrong; "
    "with enable_sleep_mode_extra_cleanup the worker stops with AttributeError: use_aclgraph"
)


class TestVersions:
    def test_the_release_of_the_lines_is_said_with_its_evidence_and_marks_the_anchors(
        self, diagnose_text: Diagnose
    ) -> None:
        record = diagnose_text(UPDATE_STACK)
        text = render_text(record)
        assert "torch_npu release by the stack's lines: 7.2.0 (likely)" in text
        assert "graphs.py:117 update_capture_record (Ascend/pytorch @ 7.2.0)" in text

    def test_a_secret_is_no_setting(self, diagnose_text: Diagnose) -> None:
        text = "VLLM_API_KEY=abc123 HCCL_AUTH=x VLLM_MAX_TOKENS_PER_EXPERT=8 ASCEND_LAUNCH_BLOCKING=1 graph capture\n"
        found = diagnose_text(text)["environment"]["variables"]
        assert found == {"VLLM_MAX_TOKENS_PER_EXPERT": "8", "ASCEND_LAUNCH_BLOCKING": "1"}

    def test_what_is_to_be_installed_is_not_what_ran(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(f"{UPDATE_STACK}WARNING run `pip install torch_npu==9.9.9` first\n")
        assert record["environment"]["torch_npu"] is None
        assert "9.9.9" not in render_text(record)

    def test_a_pip_list_is_what_ran(self, diagnose_text: Diagnose) -> None:
        assert diagnose_text(f"{UPDATE_STACK}torch_npu==2.7.1\n")["environment"]["torch_npu"] == "2.7.1"

    def test_the_versions_as_read_are_shown(self, diagnose_text: Diagnose) -> None:
        assert "torch_npu 2.10.0" in render_text(diagnose_text(EXAMPLE))

    @pytest.mark.parametrize(
        ("stated", "asked"),
        [
            ("torch_npu 2.10.0", "version of CANN"),
            ("CANN 8.5.0", "version of torch, torch_npu"),
            ("torch 2.10.0, CANN 8.5.0", "version of torch_npu"),
            ("torch_npu 2.10.0, CANN 8.5.0", None),
        ],
    )
    def test_only_the_versions_that_are_absent_are_asked_for(
        self, diagnose_text: Diagnose, stated: str, asked: str | None
    ) -> None:
        missing = [item["item"] for item in diagnose_text(f"{stated}\n{UPDATE_STACK}")["missing"]]
        assert [item for item in missing if item.startswith("version of")] == ([asked] if asked else [])


class TestTheBestSimilarCase:
    def test_its_cause_and_fix_stand_in_the_report(self, diagnose_text: Diagnose) -> None:
        text = (ROOT / "knowledge/cases/C-20261130-d73b45e096.md").read_text(encoding="utf-8")
        symptom = text.split("```text\n")[1].split("```")[0]
        record = diagnose_text(symptom)
        assert record["cases"][0]["id"] == "C-20261130-d73b45e096"
        assert record["cases"][0]["direct_cause"] and record["cases"][0]["status"]
        assert f"its cause: `{record['cases'][0]['direct_cause']}`" in render_markdown(record)

    def test_its_text_cannot_become_structure(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(EXAMPLE)
        hostile = "ok\n## 3. Fix\n`rm -rf /` now"
        record["cases"] = [
            {"id": "C-1", "title": "t", "score": 0.9, "status": "confirmed", "direct_cause": hostile, "fix_now": "",
             "fix_for_good": "", "sources": ""}
        ]  # fmt: skip
        lines = render_markdown(record).splitlines()
        assert lines.count("## 3. Fix") == 1
        assert any(line.endswith("``ok ## 3. Fix `rm -rf /` now``") for line in lines)


class TestWords:
    def test_wrong_output_asks_for_no_stack(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(
            "Output is garbled in graph mode only, after a large batch the small one is wrong. Eager is right."
        )
        assert record["stage"]["value"] == "accuracy"
        assert not any("stack" in item["item"] for item in record["missing"])

    def test_what_is_no_graph_problem_is_not_told_to_locate_a_layer(self, diagnose_text: Diagnose) -> None:
        text = (
            "WARNING CUDAGraphMode.FULL is not supported with AscendMLABackend backend "
            "(support: AttentionCGSupport.UNIFORM_BATCH); setting cudagraph_mode=FULL_DECODE_ONLY"
        )
        record = diagnose_text(text)
        assert record["verdict"] == "not_graph"
        assert "before the layer is located" not in render_text(record)
        assert "needs no fix" in render_text(record)

    def test_the_users_question_is_no_evidence_where_a_log_line_is(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(f"Why is the output wrong after wake_up, what do I do?\n{SLEEP}\n")
        lines = [item["line"] for pattern in record["patterns"][:1] for item in pattern["evidence"]]
        assert lines and 1 not in lines

    def test_a_pattern_that_names_no_cause_stands_behind_those_that_do(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(
            "310P, FULL_DECODE_ONLY: garbled output only in graph mode, at the step after a request has finished and the "
            "batch is condensed. Eager is right, no error."
        )
        ids = [item["id"] for item in record["patterns"]]
        assert "P-ACC-012" in ids and ids[0] != "P-ACC-012"

    def test_a_stage_that_rests_on_one_weak_word_is_a_guess(self, diagnose_text: Diagnose) -> None:
        text = "RuntimeError: call aclnnMoeDistributeDispatchV3 failed, error code is 561002\nMoeDistributeDispatchV2 do tiling failed\n"
        assert diagnose_text(text)["stage"]["confidence"] < 0.5
        assert diagnose_text(f"graph mode, at replay:\n{text}")["stage"]["confidence"] > 0.5

    def test_an_error_that_prose_names_is_not_called_no_error_text(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(
            "npugraph_ex: a cached graph causes `AssertionError in side_table.get_kernel()` in a new process"
        )
        assert record["first_cause"] is None
        assert "names AssertionError without its line in the log" in render_text(record)

    def test_a_question_is_sent_to_its_sub_skill(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text("图模式下 PIECEWISE 与 FULL 有什么区别？")
        assert record["verdict"] == "insufficient"
        assert "graph-mode-expert" in render_text(record)


class TestACaptureEndAlone:
    """capture_end is called after an exception in the body too: alone it may be the echo of what was not pasted."""

    LINE = (
        "RuntimeError: capture_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:247 NPU function error: "
        "c10_npu::acl::AclmdlRICaptureEnd(capture_stream_, &model_ri), error code is 107025\n"
    )

    def test_the_whole_stack_is_asked_for(self, diagnose_text: Diagnose) -> None:
        assert any("full Python stack" in item["item"] for item in diagnose_text(self.LINE)["missing"])

    def test_with_its_stack_nothing_more_is_asked_for(self, diagnose_text: Diagnose) -> None:
        stack = 'Traceback (most recent call last):\n  File "/srv/run.py", line 8, in <module>\n    with torch.npu.graph(g):\n'
        assert not any("full Python stack" in item["item"] for item in diagnose_text(stack + self.LINE)["missing"])

    def test_who_is_to_blame_is_a_guess(self, diagnose_text: Diagnose) -> None:
        assert diagnose_text(self.LINE)["owner"]["confidence"] <= 0.5
        assert diagnose_text(f"vllm serve m, vllm-ascend 0.13\n{self.LINE}")["owner"]["confidence"] > 0.5


FRAME = (
    'Traceback (most recent call last):\n  File "{file}", line 12, in run\n    work()\nValueError: graph capture: x\n'
)


# A refusal of an operator's tiling, as a worker logs it: what was refused stands in CANN's own line.
TILING = """\
(EngineCore_DP0 pid=31) ERROR 02-03 04:05:06 [core.py:900] RuntimeError: op_symint:build/CMakeFiles/torch_npu.dir/\
compiler_depend.ts:77 NPU function error: call aclnnSomeAttention failed, error code is 561002
(EngineCore_DP0 pid=31) ERROR 02-03 04:05:06 [core.py:900] [ERROR] 2026-02-03-04:05:06 (PID:31, Device:0, RankID:-1) \
ERR00100 PTA call acl api failed.
(EngineCore_DP0 pid=31) ERROR 02-03 04:05:06 [core.py:900] EZ9999: Inner Error!
(EngineCore_DP0 pid=31) ERROR 02-03 04:05:06 [core.py:900] EZ9999[PID: 31] 2026-02-03-04:05:06.123.456 (EZ9999):  {said}\
[FUNC:CheckLengths][FILE:some_tiling.cpp][LINE:12]
(EngineCore_DP0 pid=31) ERROR 02-03 04:05:06 [core.py:900]         TraceBack (most recent call last):
(EngineCore_DP0 pid=31) ERROR 02-03 04:05:06 [core.py:900]        rtKernelLaunch failed: 507035[FUNC:Launch][FILE:a.cc][LINE:1]
"""


class TestWhatCannSays:
    def test_the_sentence_that_names_the_refused_values_is_shown(self, diagnose_text: Diagnose) -> None:
        said = "the query has 48 rows, the last length is 45"
        record = diagnose_text(TILING.format(said=said))
        assert record["first_cause"]["said"] == [said]
        assert f"CANN says: {said}" in render_text(record)
        assert f"CANN says: `{said}`" in render_markdown(record)

    @pytest.mark.parametrize(
        "said", ["rtStreamSynchronize execute failed, reason=[stream is captured]", "Inner Error!"]
    )
    def test_what_says_only_that_something_failed_is_not(self, diagnose_text: Diagnose, said: str) -> None:
        assert diagnose_text(TILING.format(said=said))["first_cause"]["said"] == []

    def test_what_the_message_holds_is_not_said_twice(self, diagnose_text: Diagnose) -> None:
        text = "RuntimeError: E89999: lengths 48 and 45 differ here[FUNC:Check][FILE:a.cc][LINE:1], graph capture\n"
        assert diagnose_text(text)["first_cause"]["said"] == []


class TestPlacesToReadOn:
    @pytest.mark.parametrize(
        ("file", "repository", "shown"),
        [
            (
                "/w/vllm-ascend/vllm_ascend/torchair/torchair_model.py",
                "vllm-project/vllm-ascend",
                "vllm_ascend/torchair/",
            ),
            ("/vllm-workspace/vllm/vllm/v1/core.py", "vllm-project/vllm", "vllm/v1/core.py"),
            ("/w/sglang/python/sglang/srt/server.py", "sgl-project/sglang", "sglang/srt/server.py"),
            ("/envs/vllm/lib/python3.11/site-packages/torch_npu/npu/graphs.py", "Ascend/pytorch", "torch_npu/npu/"),
            ("/envs/torch/lib/python3.11/site-packages/vllm/v1/core.py", "vllm-project/vllm", "vllm/v1/core.py"),
            ("/x/site-packages/torch_npu/dynamo/torchair/core/a.py", "Ascend/torchair", "torch_npu/dynamo/torchair/"),
            ("/home/me/train.py", "", "/home/me/train.py"),
        ],
    )
    def test_a_frame_is_of_its_own_repository(
        self, diagnose_text: Diagnose, file: str, repository: str, shown: str
    ) -> None:
        (anchor,) = diagnose_text(FRAME.format(file=file))["anchors"]
        assert anchor["repo"] == repository and anchor["file"].startswith(shown)

    def test_a_frame_of_the_standard_library_is_no_place_to_read_on(self, diagnose_text: Diagnose) -> None:
        text = FRAME.format(file="/home/me/train.py").replace(
            "ValueError", '  File "/envs/sglang/lib/python3.11/threading.py", line 982, in run\nValueError'
        )
        assert [item["file"] for item in diagnose_text(text)["anchors"]] == ["/home/me/train.py"]


class TestWhereToFix:
    @pytest.mark.parametrize("example", sorted((ROOT / "graph-mode-diagnostics/examples").glob("*.txt")), ids=str)
    def test_it_is_a_file_that_the_owner_can_change(self, diagnose_text: Diagnose, example: Path) -> None:
        record = diagnose_text(example.read_text(encoding="utf-8"))
        where, owner = record["report"]["fix"]["where"], record["owner"]["value"]
        if owner in ("user_code", "framework", "environment", "cann", "driver", "hccl"):
            assert not any(part in where for part in ("torch_npu/", "op_plugin/", "/torch/", "torchair/"))
        if owner in ("environment", "cann", "driver", "hccl"):
            assert where == ""

    def test_an_installed_library_is_not_the_frameworks(self, diagnose_text: Diagnose) -> None:
        text = (
            FRAME.format(file="/srv/site-packages/triton/compiler/compiler.py").partition("ValueError")[0]
            + "triton.compiler.errors.MLIRCompilationError: bishengir-compile: Cannot find option named 'Ascend310P3'!\n"
        )
        record = diagnose_text("vllm-ascend on 310P, aclgraph\n" + text)
        assert record["verdict"] == "known" and record["report"]["fix"]["where"] == ""


class TestNoFix:
    UNKNOWN = "torch 2.7.1, torch_npu 2.7.1, CANN 8.5.0, python3 -m vllm serve, npugraph capture\n" + FRAME.format(
        file="/w/vllm/vllm/v1/core.py"
    )

    def test_nothing_is_asked_for_where_nothing_is_missing(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(self.UNKNOWN)
        assert (record["verdict"], record["missing"]) == ("unknown", [])
        assert "Read on from the places below" in render_text(record)
        assert "listed as missing" not in render_text(record)


class TestHangs:
    @pytest.mark.parametrize(
        "text", ["8卡 graph capture 报错", "单卡图模式报错", "多卡间 graph capture 失败", "双卡 aclgraph 报错"]
    )
    def test_a_card_is_no_hang(self, diagnose_text: Diagnose, text: str) -> None:
        missing = [item["how"] for item in diagnose_text(f"{text}\nRuntimeError: 7 is no size\n")["missing"]]
        assert not any("py-spy" in how for how in missing)

    @pytest.mark.parametrize("text", ["图模式卡住了", "aclgraph 一直卡", "8卡跑图模式卡在 capture", "replay 就卡死"])
    def test_standing_still_is_one(self, diagnose_text: Diagnose, text: str) -> None:
        missing = [item["how"] for item in diagnose_text(text)["missing"]]
        assert any("py-spy" in how for how in missing)


def test_an_earlier_exception_that_was_not_chosen_is_not_called_a_line_of_a_log(diagnose_text: Diagnose) -> None:
    text = (
        FRAME.format(file="/home/me/a.py")
        + "\n"
        + "step\n" * 6
        + "[ERROR] AclrtMalloc failed, error code is 207001, EL0004: Failed to allocate memory.\n"
    )
    aside = diagnose_text(text)["first_cause"]["wrapped_by"]
    assert [item["why"] for item in aside] == ["an earlier exception, not shown to lead to the failure"]

"""What a user gets from a diagnosis: the worked case, the Iron Law, and silence on what is not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from support import DIAGNOSE, ROOT, run_script

Diagnose = Callable[..., dict[str, Any]]
EXAMPLE = ROOT / "graph-mode-diagnostics" / "examples" / "default_stream.txt"
UNRELATED = (Path(__file__).parent / "data" / "unrelated_reports.txt").read_text(encoding="utf-8")
UNRELATED_REPORTS = [part.partition("\n")[::2] for part in UNRELATED.split("===== ")[1:]]

RECORD_KEYS = [
    "schema",
    "verdict",
    "stage",
    "layer",
    "owner",
    "first_cause",
    "error_codes",
    "patterns",
    "cases",
    "anchors",
    "environment",
    "missing",
    "report",
]


class TestTheWorkedCase:
    """Manual capture_begin on the default stream, torch_npu 2.10.0."""

    @pytest.fixture
    def record(self, diagnose_text: Diagnose) -> dict[str, Any]:
        return diagnose_text(EXAMPLE.read_text(encoding="utf-8"))

    def test_stage_layer_and_owner(self, record: dict[str, Any]) -> None:
        assert record["verdict"] == "known"
        assert (record["stage"]["value"], record["stage"]["phase"]) == ("capture", "2A")
        assert record["layer"]["value"] == "L2"
        assert record["owner"]["value"] == "user_code"

    def test_it_is_a_pattern_of_its_own(self, record: dict[str, Any]) -> None:
        assert record["patterns"][0]["id"] == "P-CAP-003"
        assert "P-CAP-004" not in [item["id"] for item in record["patterns"]]

    def test_fix_now_is_a_side_stream_and_for_good_the_context_manager(self, record: dict[str, Any]) -> None:
        fix = record["report"]["fix"]
        for words in ("wait_stream", "with torch_npu.npu.stream(s)", "capture_begin"):
            assert words in fix["short_term"]
        assert "torch_npu.npu.graph" in fix["long_term"]
        assert "capture_demo.py:21" in fix["where"]

    def test_verify_replays_on_the_default_stream_and_compares_with_eager(self, record: dict[str, Any]) -> None:
        assert "default stream" in record["report"]["verify"][0]
        assert "eager" in record["report"]["verify"][0]

    def test_the_check_is_located_in_the_source(self, record: dict[str, Any]) -> None:
        found = [item for item in record["anchors"] if item["file"].endswith("csrc/core/npu/NPUGraph.cpp")]
        assert found[0]["function"].endswith("capture_begin")
        frame = record["first_cause"]["frame"]
        assert (frame["line"], frame["function"]) == (359, "capture_begin")

    def test_the_environment_is_read(self, record: dict[str, Any]) -> None:
        environment = record["environment"]
        assert environment["torch_npu"] == "2.10.0"
        assert environment["cann"] == "9.2.0-beta.2"
        assert environment["soc"] == "Ascend910B2"


def test_the_record_has_the_documented_keys(diagnose_text: Diagnose) -> None:
    for text in ("RuntimeError: x", "it hangs", EXAMPLE.read_text(encoding="utf-8")):
        assert list(diagnose_text(text))[: len(RECORD_KEYS)] == RECORD_KEYS


def test_the_evidence_lines_are_in_the_input(diagnose_text: Diagnose) -> None:
    text = "\n\n" + EXAMPLE.read_text(encoding="utf-8")
    record = diagnose_text(text)
    rows = text.split("\n")
    evidence = record["stage"]["evidence"] + record["layer"]["evidence"] + record["patterns"][0]["evidence"]
    assert evidence
    for item in evidence:
        assert item["text"] in rows[item["line"] - 1]


class TestTheIronLaw:
    """No fix is proposed before the layer is located."""

    VAGUE = "My service with graph mode on vllm-ascend hangs sometimes when a single request comes, DP 4."

    def test_symptoms_alone_give_candidates_and_no_fix(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(self.VAGUE)
        assert record["verdict"] == "candidate"
        assert record["report"]["fix"] == {"short_term": "", "long_term": "", "where": ""}
        assert record["patterns"][0]["confirm"]

    def test_each_missing_item_says_why_and_how(self, diagnose_text: Diagnose) -> None:
        missing = diagnose_text(self.VAGUE)["missing"]
        assert {"version of torch, torch_npu, CANN"} <= {item["item"] for item in missing}
        for item in missing:
            assert item["why"]
            assert item["how"]

    def test_too_little_to_say_anything_is_insufficient(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text("graph mode does not work, please help")
        assert record["verdict"] == "insufficient"
        assert record["report"]["fix"]["short_term"] == ""
        assert len(record["missing"]) >= 3

    def test_one_decisive_line_is_enough(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(
            "Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture, please export TASK_QUEUE_ENABLE=1/0."
        )
        assert record["verdict"] == "known"
        assert record["report"]["fix"]["short_term"]

    def test_an_unknown_error_keeps_its_stage_and_gets_no_fix(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(
            'Traceback (most recent call last):\n  File "/u/t.py", line 3, in <module>\n    g.replay()\n'
            '  File "/s/torch_npu/npu/graphs.py", line 640, in replay\n    super().replay()\n'
            "RuntimeError: replay: a text that no release prints\n"
        )
        assert record["verdict"] in ("unknown", "candidate")
        assert record["stage"]["value"] == "replay"
        assert record["layer"]["value"] == "L1"
        assert record["report"]["fix"]["short_term"] == ""

    def test_a_code_alone_lists_the_patterns_that_share_it_and_claims_none(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text("error code is 107027")
        assert record["verdict"] == "unknown"
        assert len(record["patterns"]) >= 2
        assert all(item["score"] < 0.3 and item["confirm"] for item in record["patterns"])

    def test_one_symptom_word_is_no_candidate(self, diagnose_text: Diagnose) -> None:
        assert diagnose_text("graph mode on 310P, vllm-ascend")["patterns"] == []


@pytest.mark.parametrize(("name", "report"), UNRELATED_REPORTS, ids=[row[0] for row in UNRELATED_REPORTS])
def test_reports_that_have_nothing_to_do_with_npu_graphs_match_nothing(
    diagnose_text: Diagnose, name: str, report: str
) -> None:
    record = diagnose_text(report)
    assert record["verdict"] != "known"
    assert all(item["score"] < 0.7 for item in record["patterns"])


def test_the_unrelated_set_is_large_enough() -> None:
    assert len(UNRELATED_REPORTS) >= 20


NOT_GRAPH = [
    ("the reporter ruled it out", "RuntimeError: AclrtSynchronizeStreamWithTimeout, error code is 107020\nThe same error in eager mode, without NPUGraph."),
    ("a library does not load", "OSError: /usr/local/Ascend/nnal/atb/latest/lib/libatb.so: undefined symbol: _ZN3Mki"),
    ("one operator does not compile", "E90003: [PID: 9] Compile operator failed, cause: bfloat16 of tbe.dsl.transdata is not supported.\nbuild graph failed, graph id:16"),
    ("a slip in Python", "UnboundLocalError: local variable 'hidden' referenced before assignment"),
    ("eager asked for in the command", "vllm serve M --max-model-len 4096 --enforce-eager\nRuntimeError: NPU out of memory. Tried to allocate 1 GiB"),
    ("a module that is not there", "ModuleNotFoundError: No module named 'vllm.benchmarks.serve'"),
    ("a lowered graph mode", "WARNING 07-30 21:14:36 [compilation.py:1360] CUDAGraphMode.FULL is not supported with AscendMLABackend backend (support: X); setting cudagraph_mode=FULL_DECODE_ONLY"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "report"), NOT_GRAPH, ids=[row[0] for row in NOT_GRAPH])
def test_what_only_looks_like_graph_mode_is_called_so(diagnose_text: Diagnose, name: str, report: str) -> None:
    record = diagnose_text(report)
    assert record["verdict"] == "not_graph"
    assert record["stage"]["value"] == "not_graph"


class TestLanguage:
    def test_a_chinese_report_is_answered_in_chinese(self, diagnose_text: Diagnose) -> None:
        record = diagnose_text(
            "开启图模式后捕获失败，报错如下：\nRuntimeError: Cannot run aclop operators during NPU graph capture. Current working aclop is Sort."
        )
        assert record["input"]["language"] == "zh"
        assert record["report"]["overview"].startswith("结论")

    def test_a_chinese_title_over_a_template_in_english_is_answered_in_chinese(self, diagnose_text: Diagnose) -> None:
        template = "### Your current environment\n\n" + "Python version: 3.11 (64-bit runtime)\n" * 40
        text = f"[Bug]: FULL cudagraph 导致算子报错\n\n{template}RuntimeError: graph capture failed\n"
        assert diagnose_text(text)["input"]["language"] == "zh"
        assert diagnose_text(text.replace("导致算子报错", "breaks 算子"))["input"]["language"] == "en"

    def test_the_language_can_be_chosen(self, diagnose_text: Diagnose) -> None:
        text = EXAMPLE.read_text(encoding="utf-8")
        assert diagnose_text(text, language="zh")["report"]["overview"].startswith("结论")
        assert diagnose_text("显存不足，捕获失败，图模式", language="en")["report"]["overview"].startswith("Verdict")

    def test_words_beside_chinese_characters_are_read(self, diagnose_text: Diagnose) -> None:
        assert diagnose_text("开启图模式后TPOT反而变慢，没有收益")["stage"]["value"] == "performance"
        assert diagnose_text("图模式推理会hang住，卡在重放")["stage"]["value"] == "replay"


class TestTheCommand:
    def test_text_has_the_four_sections(self) -> None:
        result = run_script(DIAGNOSE, str(EXAMPLE))
        assert result.returncode == 0, result.stderr
        text = result.stdout.decode()
        positions = [text.index(title) for title in ("1. Overview", "2. Root cause", "3. Fix", "4. Verify")]
        assert positions == sorted(positions)

    def test_markdown_keeps_input_from_becoming_structure(self, tmp_path: Path) -> None:
        report = tmp_path / "r.txt"
        report.write_text("RuntimeError: Cannot run aclop operators during NPU graph capture. `x` ``` <b>\n# heading\n")
        text = run_script(DIAGNOSE, str(report), "--output", "md").stdout.decode()
        assert "\n# heading" not in text
        assert "\n```" not in text

    def test_json_is_the_record(self) -> None:
        record = json.loads(run_script(DIAGNOSE, "-", "--output", "json", input=EXAMPLE.read_bytes()).stdout)
        assert record["schema"] == "npu-graph/diagnosis/1"

    def test_several_files_are_one_report(self, tmp_path: Path) -> None:
        versions = tmp_path / "versions.txt"
        versions.write_text("torch_npu 2.7.1\nCANN 8.3.RC1\n")
        stack = tmp_path / "stack.txt"
        stack.write_text("RuntimeError: Called NPUGraph::replay without a preceding successful capture.\n")
        record = json.loads(run_script(DIAGNOSE, str(versions), str(stack), "--output", "json").stdout)
        assert record["environment"]["cann"] == "8.3.RC1"
        assert record["patterns"][0]["id"] == "P-REP-002"

    def test_no_established_pattern_is_exit_code_1(self) -> None:
        assert run_script(DIAGNOSE, "-", input=b"graph mode does not work").returncode == 1

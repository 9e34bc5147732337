"""Known issues: what the release notes list is shown for the releases that have it, and for no other report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest
from cost import cpu_seconds
from support import DIAGNOSE, ROOT, run_script

from npu_graph.bundle import SEED_KNOWLEDGE
from npu_graph.known_issues import KnownIssue, KnownIssues

sys.path.insert(0, str(ROOT / "tools"))
from knowledge_checks import known_issue_rows
from knowledge_checks.sources import Repository, Sources

FIND = "graph-mode-expert/scripts/find_fix.py"
KNOWN = KnownIssues.load("vllm-ascend", [SEED_KNOWLEDGE])
RELEASES = ("0.9.1", "0.20.2rc1", "0.21.0rc1", "0.22.1rc1", "0.23.0")
Diagnose = Callable[[str], Any]

GLM = "vllm-ascend {}: GLM-5.1 with --enable-expert-parallel and FULL graph mode: MoeDistributeDispatchV2 fails\n"
LAUNCHER = (
    "(Worker_TP1 pid=812) ERROR 2026-03-11 [multiproc_executor.py:863] RuntimeError: Failed to compile "
    "/tmp/tmp3k/launcher_cxx11abi1.cxx, error: g++: internal compiler error: Segmentation fault\n"
)


def numbers(record: dict[str, Any]) -> list[str]:
    return [item["number"] for item in record["known_issues"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GLM.format("0.21.0rc1"), ["#9503"]),
        (GLM.format("0.18.0"), []),  # another release
        (GLM.format("main branch"), []),  # a model and a mode tell nothing without the release
        (LAUNCHER, ["#7782"]),  # the error's own words do, and no framework is named
        ("vllm-ascend 0.9.1\n" + LAUNCHER, []),  # far from the releases that list it
        ("RuntimeError: Failed to compile kernel.cxx, error: g++: error: no such file; triton, torch.npu.graph\n", []),
        ("xllm 0.10.1 on NPU\n" + LAUNCHER, []),  # another project's
    ],
)
def test_an_issue_is_listed_for_the_reports_that_are_like_it(
    text: str, expected: list[str], diagnose_text: Diagnose
) -> None:
    assert numbers(diagnose_text(text)) == expected


def test_the_report_names_the_issue_the_releases_and_what_to_do(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text(GLM.format("0.21.0rc1"), encoding="utf-8")
    for language, label, remedy in (
        ("en", "Known issues", "PIECEWISE, or eager"),
        ("zh", "已知问题", "改用 PIECEWISE"),
    ):
        shown = run_script(DIAGNOSE, str(report), "--output", "md", "--lang", language).stdout.decode()
        assert label in shown
        assert "vllm-project/vllm-ascend #9503 (0.21.0rc1)" in shown
        assert remedy in shown


@pytest.mark.parametrize(("version", "found"), [("==0.21.0rc1", ["#9503"]), ("==0.18.0", []), ("", [])])
def test_find_fix_lists_it_first(version: str, found: list[str]) -> None:
    words = ["GLM-5.1", "MoeDistributeDispatchV2", "EP", "FULL", "--project", f"vllm-ascend{version}"]
    answer = json.loads(run_script(FIND, *words, "--output", "json").stdout)
    assert numbers(answer) == found
    assert run_script(FIND, *words).stdout.decode().startswith("Known issue") is bool(found)


def test_a_release_between_those_that_list_an_issue_has_it_too() -> None:
    text = "numAcceptedTokens[0]=4 exceeds varlen segment length=3"
    assert [issue.number for issue in KNOWN.search(text, ["0.22.1rc1"], RELEASES)] == ["#9956"]
    assert KNOWN.search(text, ["0.23.0"], RELEASES) == []


# One report's words for each row.
LIKE = {
    "#14347": "plog: rtMemcpy:ErrCode=107030 in mla_preprocess",
    "#14324": "DeepSeek-V4 并发升高后 TPOT 抖动",
    "#12998": "Ascend 950PR: only some graphs are captured",
    "#12390": "AscendStore KV pool with layerwise transfer",
    "#12337": "Qwen3-30B-A3B 浮点 TPOT 劣化 2ms",
    "FULL_AND_PIECEWISE on older HDK/CANN": "FULL_AND_PIECEWISE: capture_begin 207005",
    "#9503": "GLM-5.1, --enable-expert-parallel, FULL graph",
    "#9956": "numAcceptedTokens[0]=4 exceeds varlen segment length=3",
    "#9958": "GLM-5.1 MoeDistributeDispatchV2 AICore timeout",
    "#9395": "GLM-5.1 W4A8 with MC2",
    "#9803": "GLM5 W4A8 MTP3 接受率下降",
    "#8585": "vNPU 软切分，cudagraph_mode PIECEWISE",
    "#7993": "x86_64, CANN 8.5.0",
    "#7782": LAUNCHER,
    "#7729": "FusedInferAttentionScore does not support this head_dim, -tp 16",
    "#7489": "ValueError: Counters can only be incremented by non-negative amounts.",
    "N = max_concurrency": "MTP: IndexError while capturing the graph, out of range",
    "#7235": "GLM-5 双机部署，并发 16 时卡住",
    "#4990": "Qwen3-32B with FULL_DECODE_ONLY",
    "Deepseek 3.2 only work with torchair": "DeepSeek-V3.2 with aclgraph",
    "The accuracy of DeepSeek3.2 with aclgraph": "DeepSeek-V3.2 图模式输出乱码",
    "This is a bug from TorchNPU": "长时间运行后显存泄漏",
    "#4123": "ray executor, --enable-expert-parallel",
    "#2941": "--enable-lora: LoRA adapters",
    "#2681": "mc2_mask with multistream",
    "#2229": "ACLGraph capture with DP and EP",
    "#2232": "DeepSeek W8A8 multi-stream, 精度",
    "#2246": "Qwen3 MoE, sequence parallel, graph",
    "Aclgraph mode only work with tensor parallel": "Qwen3-30B-A3B aclgraph, data parallel 2",
    "#2182": '"full_cuda_graph": true',
    "#2226": "Qwen3 MoE fails in bincount",
    "#1751": "Ray, pipeline parallel, graph mode",
    "#1038": "aclgraph: GatherV3 error",
}


@pytest.mark.parametrize("issue", KNOWN.issues, ids=lambda issue: issue.key)
def test_every_row_has_a_report_that_it_fits(issue: KnownIssue) -> None:
    assert issue in KNOWN.search(LIKE[issue.key], issue.releases[:1], RELEASES)
    assert issue not in KNOWN.search("torch.npu.graph fails", issue.releases, RELEASES)
    assert issue.releases and all([*issue.what.values(), *issue.remedy.values()])


def test_every_expression_is_of_lower_case_and_fast_on_bait() -> None:
    expressions = {expression for issue in KNOWN.issues for expression in issue.when}
    assert len(expressions) > 40
    for expression in expressions:
        assert expression == re.sub(r"(?<!\\)[A-Z]", "", expression), f"{expression}: the report is lowered"
        for bait in ("a " * 50_000, "graph" * 20_000, "deepseek-v" * 10_000):
            assert cpu_seconds(partial(re.search, expression, bait), 1) < 1, expression


def test_broken_or_absent_data_lists_nothing(tmp_path: Path) -> None:
    assert KnownIssues.load("vllm-ascend", [tmp_path]).issues == []
    assert KnownIssues("issue\t\t\nrepository\n\0").issues == []


NOTES = "# Notes\n\n## v0.21.0rc1 - 2026\n\n- GLM fails. [#9503](https://x/issues/9503)\n\n## v0.20.2rc1 - 2026\n\n- None.\n"


@pytest.mark.parametrize(
    ("key", "releases", "faults"),
    [
        ("#9503", "0.21.0rc1", 0),
        ("#950", "0.21.0rc1", 1),
        ("#9503", "0.20.2rc1,0.21.0rc1", 1),
        ("GLM fails", "0.21.0rc1", 0),
    ],
)
def test_a_row_that_the_notes_do_not_list_is_a_fault(key: str, releases: str, faults: int, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "notes.md").write_text(NOTES, encoding="utf-8")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "notes"]):
        subprocess.run([*git, *command], check=True)
    folder = tmp_path / "root" / "knowledge" / "known-issues"
    folder.mkdir(parents=True)
    rows = f"repository\tproject\towner/project\tmain\tnotes.md\nissue\t{key}\t{releases}\tglm\twhat\tdo\twas\ttun\n"
    (folder / "project.tsv").write_text(rows, encoding="utf-8")
    sources = Sources()
    sources.repositories["owner/project"] = Repository("owner/project", repository)
    outcome = known_issue_rows.check(tmp_path / "root", sources)
    assert (outcome.checked, len(outcome.faults)) == (len(releases.split(",")), faults)
    assert all(fault.line == 2 for fault in outcome.faults)


def test_without_a_checkout_every_row_is_left_out() -> None:
    outcome = known_issue_rows.check(ROOT, Sources())
    assert outcome.checked == 0

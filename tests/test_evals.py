"""The agent evals, as far as they can be checked without a model: form, balance, and that the bundle itself knows each answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from eval_cases import CASES, Case, Grader, read_cases, split_front_matter
from run_evals import Answer, grade_answer
from write_evals_json import TARGET, render

OWNERS = {"graph-mode-diagnostics", "graph-mode-expert", "graph-log-analyzer", "graph-perf", "graph-mcp", "none"}
KINDS = {
    "clear", "vague", "misleading", "impatient", "two-problems", "injection", "question", "log", "slow", "negative",
}  # fmt: skip
ALL_CASES = read_cases()
BY_NAME = pytest.mark.parametrize("case", ALL_CASES, ids=[case.name for case in ALL_CASES])
GOOD_AGENT = "import sys; sys.stdin.read(); print('use torch.npu.graph(g): capture needs a non-default stream')"
POOR_AGENT = "import sys; sys.stdin.read(); print('upgrade the driver')"


def test_there_are_forty_cases_of_every_kind_in_both_languages() -> None:
    assert len(ALL_CASES) >= 40
    assert {case.tags["kind"] for case in ALL_CASES} == KINDS
    assert {case.tags["owner"] for case in ALL_CASES} >= OWNERS - {"graph-mcp"}
    assert sum(case.tags["lang"] == "zh" for case in ALL_CASES) >= 10
    assert sum(case.tags["kind"] == "negative" for case in ALL_CASES) >= 5


@BY_NAME
def test_a_case_is_complete(case: Case) -> None:
    assert case.tags["lang"] in {"en", "zh"} and case.tags["owner"] in OWNERS and case.tags["kind"] in KINDS
    assert case.expected_outcome and case.prompt
    facts = [grader for grader in case.graders if grader.kind in {"regex", "llm"}]
    assert any(grader.name != "no-invented-name" for grader in facts), "nothing but the invented names is graded"
    for grader in case.graders:
        assert grader.kind in {"regex", "llm", "tool_used"}
        assert grader.kind == "tool_used" or grader.body
        if grader.kind == "regex":
            re.compile(grader.body)


@BY_NAME
def test_a_question_does_not_contain_its_own_answer_in_every_grader(case: Case) -> None:
    """An agent that only repeats the prompt must not get full marks."""
    echo = Answer(case.prompt, 0.0, None)
    rubric_only = all(grader.kind != "regex" or grader.match != "contains" for grader in case.graders)
    named_in_question = case.tags["owner"] == "none" or rubric_only
    assert named_in_question or case.name in REPEATABLE or grade_answer(case, echo, [], 1.0)["score"] < 1


# torch_npu's own message names the switch here: the case measures that the answer is short, or that it is not lost.
REPEATABLE = frozenset({"just-the-fix", "task-queue-2"})


@BY_NAME
def test_the_bundle_gives_the_answer_the_case_expects(case: Case, tmp_path: Path) -> None:
    script, *arguments = case.check["command"]
    command = [sys.executable, str(ROOT / script)]
    if script.endswith("diagnose.py"):
        done = subprocess.run(
            [*command, "-", "--output", "json"], input=case.prompt, capture_output=True, text=True, encoding="utf-8"
        )
        record = json.loads(done.stdout)
        if "not_verdict" in case.check:
            assert record["verdict"] != case.check["not_verdict"]
            return
        first = record["patterns"][0]["id"] if record["patterns"] else None
        wanted = {key: value for key, value in case.check.items() if key != "command" and value is not None}
        assert wanted, "a case without an expectation checks nothing"
        got = {"verdict": record["verdict"], "pattern": first, "stage": record["stage"]["value"]}
        assert {key: got[key] for key in wanted} == wanted
        return
    block = tmp_path / "pasted.py"
    block.write_text(case.block, encoding="utf-8")
    done = subprocess.run(
        [*command, *(str(block) if word == "{block}" else word for word in arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert case.check["contains"]
    for text in case.check["contains"]:
        assert text.lower() in (done.stdout + done.stderr).lower()


@BY_NAME
def test_tags_and_check_agree(case: Case) -> None:
    for key in ("pattern", "verdict", "stage"):
        if key in case.check and case.check[key] is not None:
            assert case.tags[key] == case.check[key]


def test_the_portable_file_is_what_the_folders_say() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "run python3 tools/write_evals_json.py"


def test_trigger_queries_have_thirty_of_each_side_and_none_twice() -> None:
    queries = json.loads((CASES.parent / "triggers.json").read_text(encoding="utf-8"))
    texts = [entry["query"] for entry in queries]
    assert len(set(texts)) == len(texts)
    assert sum(entry["should_trigger"] for entry in queries) >= 30
    assert sum(not entry["should_trigger"] for entry in queries) >= 30
    assert all(set(entry) == {"query", "should_trigger"} for entry in queries)


@pytest.mark.parametrize("folder", ["default-stream", "just-the-fix"])
def test_a_right_answer_scores_higher_than_a_wrong_one(folder: str) -> None:
    case = next(case for case in ALL_CASES if case.name == folder)
    right = " ".join(("torch.npu.graph(g) with a non-default stream", "export TASK_QUEUE_ENABLE=1"))
    good = grade_answer(case, Answer(right, 1.0, None), [], 1.0)
    poor = grade_answer(case, Answer("upgrade the driver", 1.0, None), [], 1.0)
    assert good["score"] == 1.0 and poor["score"] < 0.5
    assert good["not_graded"] == ["runs-the-script"]


def test_an_invented_name_costs_a_point() -> None:
    case = next(case for case in ALL_CASES if case.name == "default-stream")
    answer = "torch.npu.graph(g) on a non-default stream; set TORCH_NPU_GRAPHS_LOG_LEVEL=3"
    assert grade_answer(case, Answer(answer, 1.0, None), [], 1.0)["failed"] == ["no-invented-name"]


def run_evals(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "run_evals.py"), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def agent(tmp_path: Path, code: str) -> str:
    script = tmp_path / "agent.py"
    script.write_text(code, encoding="utf-8")
    return f"{sys.executable} {script}"


def test_the_runner_shows_both_arms_and_fails_below_the_threshold(tmp_path: Path) -> None:
    good = run_evals("--agent", agent(tmp_path, GOOD_AGENT), "--case", "default-stream", "--output", "json")
    report = json.loads(good.stdout)
    assert (good.returncode, report["means"]) == (0, {"with": 1.0, "without": 1.0})
    poor = run_evals("--agent", agent(tmp_path, POOR_AGENT), "--case", "default-stream")
    assert poor.returncode == 1 and "names-the-fix" in poor.stdout


def test_the_agent_finds_the_bundle_in_one_arm_only(tmp_path: Path) -> None:
    looks = (
        "import pathlib; found = pathlib.Path('.claude/skills/npu-graph-skill/SKILL.md').is_file()\n"
        "print('torch.npu.graph( non-default stream' if found else 'no idea')"
    )
    done = run_evals("--agent", agent(tmp_path, looks), "--case", "default-stream", "--output", "json")
    means = json.loads(done.stdout)["means"]
    assert means["with"] == 1.0 and means["without"] < 0.5


def test_an_agent_that_fails_or_hangs_scores_nothing_and_says_why(tmp_path: Path) -> None:
    for code, reason in (
        ("import sys; sys.exit('no key')", "no key"),
        ("import time; time.sleep(60)", "no answer in 1 s"),
    ):
        done = run_evals(
            "--agent",
            agent(tmp_path, code),
            "--case",
            "default-stream",
            "--arms",
            "without",
            "--timeout",
            "1",
            "--output",
            "json",
        )
        run = json.loads(done.stdout)["cases"][0]["runs"]["without"][0]
        assert run["score"] == 0.0 and reason in run["error"]


def test_a_judge_grades_the_rubrics(tmp_path: Path) -> None:
    judge = tmp_path / "judge.py"
    judge.write_text("import sys; print('PASS' if 'which versions' in sys.stdin.read() else 'FAIL')", encoding="utf-8")
    asks = agent(tmp_path, "print('please send the stack; which versions?')")
    done = run_evals(
        "--agent", asks, "--judge", f"{sys.executable} {judge}", "--case", "nothing-pasted", "--arms", "without"
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--case", "no-such-case"), 3), (("--tag", "zh"), 2), (("--runs", "0"), 2), (("--tag", "lang:xx"), 3)],
)
def test_a_wrong_selection_is_refused(arguments: tuple[str, ...], code: int) -> None:
    assert run_evals("--agent", "true", *arguments).returncode == code


def test_a_file_without_front_matter_is_named() -> None:
    with pytest.raises(ValueError, match=r"prompt\.md: no front matter"):
        split_front_matter("hello", "prompt.md")


def test_a_negated_grader_passes_where_the_text_is_absent() -> None:
    grader = Grader("x", "regex", "rm -rf", match="not_contains")
    assert grader.grade_text("do not do that") and not grader.grade_text("run rm -rf now")

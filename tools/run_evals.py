#!/usr/bin/env python3
"""Run the agent evals with any agent command line, with the bundle and without it, and show both side by side.

Usage: python3 tools/run_evals.py --agent 'claude -p --allowedTools Bash,Read,Skill' [--case GLOB] [--tag T] [--runs N]
The agent gets the prompt on standard input and answers on standard output. It starts in an empty folder; with the
bundle, install.py has put it where Claude Code and Codex look for a project's skills.
--judge CMD grades the rubrics: it gets rubric and answer on standard input and must begin its answer with PASS or FAIL.
Graders that need the host's trace of tool calls are counted as not graded; `claude plugin eval .` grades them.
Prints a table (or --output json). Exit codes: 0 with-score at or above --threshold, 1 below, 2 wrong usage, 3 no case.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from eval_cases import ROOT, TRACE_GRADERS, Case, read_cases

ARMS = ("with", "without")
HOSTS = ("claude", "codex")
RESULT_SCHEMA = "npu-graph/evals/1"


@dataclass(frozen=True)
class Answer:
    """What one start of the agent gave; `error` is None when it ended by itself with 0."""

    text: str
    seconds: float
    error: str | None


def run_agent(command: list[str], prompt: str, folder: Path, timeout: float) -> Answer:
    """Start `command` in `folder` with `prompt` on standard input."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            input=prompt,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=folder,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer("", time.monotonic() - start, f"no answer in {timeout:g} s")
    error = None if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    return Answer(done.stdout, time.monotonic() - start, error)


def install_bundle(folder: Path) -> None:
    """The bundle where hosts look for a project's skills, by the installer users run."""
    hosts = [word for host in HOSTS for word in ("--host", host)]
    command = [sys.executable, str(ROOT / "install.py"), "install", *hosts, "--project", str(folder)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def judge_rubric(command: list[str], rubric: str, answer: str, timeout: float) -> bool | None:
    """PASS or FAIL of the judge; None when it said neither."""
    request = (
        f"Grade the answer against the rubric. Begin with PASS or FAIL.\n\nRubric:\n{rubric}\n\nAnswer:\n{answer}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        verdict = run_agent(command, request, Path(folder), timeout).text.lstrip().upper()
    return True if verdict.startswith("PASS") else False if verdict.startswith("FAIL") else None


def grade_answer(case: Case, answer: Answer, judge: list[str], timeout: float) -> dict[str, Any]:
    """Score of one answer: weighted share of the graders that could be applied, and which of them failed."""
    graded, passed, failed, skipped = 0.0, 0.0, [], []
    for grader in case.graders:
        if grader.kind in TRACE_GRADERS or (grader.kind == "llm" and not judge):
            skipped.append(grader.name)
            continue
        if answer.error is not None:
            result: bool | None = False
        elif grader.kind == "llm":
            result = judge_rubric(judge, grader.body, answer.text, timeout)
        else:
            result = grader.grade_text(answer.text)
        if result is None:
            skipped.append(grader.name)
            continue
        graded += grader.weight
        passed += grader.weight if result else 0
        if not result:
            failed.append(grader.name)
    score = passed / graded if graded else None
    return {
        "score": score,
        "failed": failed,
        "not_graded": skipped,
        "seconds": round(answer.seconds, 2),
        "error": answer.error,
    }


def run_case(case: Case, arm: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every run of one case in one arm, each in a new folder."""
    results = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if arm == "with":
                install_bundle(folder)
            answer = run_agent(shlex.split(options.agent), case.prompt, folder, options.timeout)
        results.append(grade_answer(case, answer, shlex.split(options.judge), options.timeout))
    return results


def mean_score(results: list[dict[str, Any]]) -> float | None:
    """Mean of the scores there are."""
    scores = [result["score"] for result in results if result["score"] is not None]
    return sum(scores) / len(scores) if scores else None


def render_table(report: dict[str, Any]) -> str:
    """The report as a Markdown table, the failed graders beside each case."""
    arms = report["arms"]
    lines = ["| case | " + " | ".join(arms) + " | failed with the bundle |", "| --- |" + " --- |" * (len(arms) + 1)]
    for row in report["cases"]:
        scores = [f"{row['scores'][arm]:.2f}" if row["scores"][arm] is not None else "not graded" for arm in arms]
        failed = sorted({name for result in row["runs"][arms[0]] for name in result["failed"]})
        lines.append(f"| {row['name']} | " + " | ".join(scores) + f" | {', '.join(failed) or '-'} |")
    means = [f"{report['means'][arm]:.3f}" if report["means"][arm] is not None else "not graded" for arm in arms]
    lines.append("| **mean** | " + " | ".join(means) + " | |")
    return "\n".join(lines)


def choose_cases(pattern: str, tags: list[str]) -> list[Case]:
    """Cases whose name fits `pattern` and that carry every tag, each written key:value."""
    wanted = [tuple(tag.split(":", 1)) for tag in tags]
    chosen = [case for case in read_cases() if fnmatch(case.name, pattern)]
    return [case for case in chosen if all(case.tags.get(key) == value for key, value in wanted)]


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", required=True, help="command line of the agent: prompt on stdin, answer on stdout")
    parser.add_argument("--judge", default="", help="command line of a model that grades rubrics")
    parser.add_argument("--case", default="*", help="glob over case names")
    parser.add_argument(
        "--tag", action="append", default=[], help="only cases with this tag, such as lang:zh (repeatable)"
    )
    parser.add_argument("--arms", choices=("both", *ARMS), default="both", help="with the bundle, without it, or both")
    parser.add_argument("--runs", type=int, default=1, help="runs of each case and arm (default 1)")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run (default 600)")
    parser.add_argument(
        "--threshold", type=float, default=1.0, help="exit 1 when the mean with the bundle is below this"
    )
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    if any(":" not in tag for tag in options.tag):
        parser.error("--tag is written key:value, such as lang:zh or kind:negative")
    if options.runs < 1 or options.timeout <= 0:
        parser.error("--runs must be at least 1 and --timeout more than 0")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run, grade, print."""
    options = parse_arguments(argv)
    cases = choose_cases(options.case, options.tag)
    if not cases:
        print(
            f"no case fits --case {options.case} and --tag {options.tag}; the names are the folders of evals/cases",
            file=sys.stderr,
        )
        return 3
    arms = list(ARMS) if options.arms == "both" else [options.arms]
    rows = []
    for case in cases:
        runs = {arm: run_case(case, arm, options) for arm in arms}
        rows.append({"name": case.name, "scores": {arm: mean_score(runs[arm]) for arm in arms}, "runs": runs})
        print(f"{case.name}: {rows[-1]['scores']}", file=sys.stderr)
    means = {arm: mean_score([{"score": row["scores"][arm]} for row in rows]) for arm in arms}
    report = {"schema": RESULT_SCHEMA, "arms": arms, "means": means, "cases": rows}
    print(json.dumps(report, indent=2, ensure_ascii=False) if options.output == "json" else render_table(report))
    return 0 if (means[arms[0]] or 0.0) >= options.threshold else 1


if __name__ == "__main__":
    sys.exit(main())

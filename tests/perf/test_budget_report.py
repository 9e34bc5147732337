"""The words of a capture budget: every sentence exists in Chinese, with the same numbers in it."""

from __future__ import annotations

import importlib
import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

from support import ROOT

from npu_graph.capture_budget import DEVICES, MODES, Setup, plan
from npu_graph.capture_plan import plan_capture

SCRIPTS = ROOT / "graph-perf" / "scripts"
sys.path.insert(0, str(SCRIPTS))
budget_report = importlib.import_module("budget_report")
CHINESE = re.compile("[一-鿿]")

SIZES = ([1, 2, 4, 8], [3, 5, 7, 8, 9, 40, 600], list(range(1, 400)))
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"enforce_eager": True},
    {"encoder_decoder": True},
    {"xlite": "full"},
    {"xlite": "decode"},
    {"vllm_ascend": "0.18.0"},
    {"tp": 4, "tp_aligned": True},
    {"tp": 64, "tp_aligned": True, "pp": 2},
    {"pcp": 2, "dcp": 2},
    {"speculative_tokens": 2, "max_num_seqs": 8, "draft_layers": 1},
    {"compilation_mode": "2"},
    {"max_capture_size": 17},
    {"aiv": True, "moe": True, "dp": 2, "expert_parallel": True},
    {"variables": {"ASCEND_LAUNCH_BLOCKING": "1", "TASK_QUEUE_ENABLE": "2"}},
)
STACKS: tuple[dict[str, str], ...] = ({}, {"hdk": "25.2.3", "cann": "8.3.RC1"}, {"hdk": "25.5.1", "cann": "8.5.0"})


def records() -> Iterator[dict[str, Any]]:
    for mode, sizes, change, stack, device in itertools.product(MODES, SIZES, CHANGES, STACKS, ("", *DEVICES)):
        yield plan(Setup(**{"layers": 900, "mode": mode, "sizes": sizes, "device": device, **change, **stack}))
    yield plan(Setup(layers=48, mode="PIECEWISE", sizes=list(range(1, 1000)), device="A3", **STACKS[2]))


def sentences(record: dict[str, Any]) -> Iterator[str]:
    yield record["verdict"]
    yield record["reason"]
    yield record["old_stream_budget"]["applies"]
    yield record["memory"]["known"]
    for check in record["checks"]:
        yield check["level"]
        yield check["text"]
    yield from record["if_it_fails"]["do"]
    yield from record["caveats"]


def test_every_sentence_of_a_budget_has_a_translation_with_its_numbers() -> None:
    seen = {sentence for record in records() for sentence in sentences(record)}
    assert len(seen) > 60
    for english in seen:
        chinese = budget_report.say(english, "zh")
        assert CHINESE.search(chinese), english
        assert sorted(re.findall(r"\d+", chinese)) == sorted(re.findall(r"\d+", english)), english


def test_every_translation_is_one_of_a_sentence_that_occurs() -> None:
    """A sentence that was reworded leaves its translation behind."""
    told = {sentence for record in records() for sentence in sentences(record)}
    told |= {"none", "given", "configured", "per step", "periodic samples", "best 4", "framework default up to 64"}
    for english in budget_report.CHINESE:
        pattern = budget_report._pattern(english)
        assert any(pattern.fullmatch(sentence) for sentence in told), english


def test_a_chinese_report_keeps_sources_and_numbers() -> None:
    settings = {"layers": 48, "tp": 4, "max_num_seqs": 64, "variables": {}}
    record = plan_capture(settings, {1: 500, 8: 100, 60: 5})
    for markdown in (False, True):
        english, chinese = (budget_report.write_budget(record, markdown, lang) for lang in ("en", "zh"))
        assert english.count("\n") == chinese.count("\n")
        assert sorted(re.findall(r"\d+", english)) == sorted(re.findall(r"\d+", chinese))
        assert "update_aclgraph_sizes" in chinese
        for words in ("streams needed", "caveat", "Padding", "memory:", "public limit"):
            assert words in english
            assert words not in chinese


def test_the_script_answers_in_chinese(tmp_path: Path) -> None:
    script = str(SCRIPTS / "capture_budget.py")
    done = subprocess.run(
        [sys.executable, "-I", script, "--layers", "4", "--sizes", "1,2", "--lang", "zh"],
        capture_output=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith("fits（放得下）")

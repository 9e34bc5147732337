"""What each tool of the MCP server makes of its arguments: the command line and the standard input of a script."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support import ROOT

sys.path.insert(0, str(ROOT / "graph-mcp"))

from graph_mcp import tools

JSON = ["--output", "json"]


def resolved(name: str) -> str:
    return f"/allowed/{name}"


@pytest.mark.parametrize(
    ("make", "arguments", "command"),
    [
        (tools._diagnose, {"files": ["a.txt"], "language": "zh"}, [*JSON, "--lang", "zh", "/allowed/a.txt"]),
        (tools._diagnose, {"text": "stack"}, [*JSON, "-"]),
        (tools._lookup_code, {"codes": ["107027", "-1"]}, [*JSON, "--", "107027", "-1"]),
        (
            tools._record,
            {"symptom": "s", "stage": "capture", "fix_now": "-x", "verify": ["a", "b"], "status": "confirmed"},
            [
                *("record", *JSON, "--stage=capture", "--fix-now=-x", "--verify=a", "--verify=b"),
                *("--status=confirmed", "--symptom-file", "-"),
            ],
        ),
        (
            tools._locate_source,
            {"text": "t", "torch_npu": "2.7.1", "source_folder": "src"},
            [*JSON, "--torch-npu=2.7.1", "--source=/allowed/src", "-"],
        ),
        (
            tools._find_fix,
            {"words": "--help", "projects": ["vllm-ascend==0.18.0"], "functions": ["-x"], "most": 3},
            [*JSON, "--project=vllm-ascend==0.18.0", "--function=-x", "--most=3", "--", "--help"],
        ),
        (
            tools._check_health,
            {"only": "cann", "device": 0, "redact": True},
            [*JSON, "--only=cann", "--device=0", "--redact"],
        ),
        (tools._check_health, {}, JSON),
        (tools._parse_log, {"paths": ["-l"], "rank": "3"}, [*JSON, "--rank=3", "--", "/allowed/-l"]),
        (tools._analyze_profile, {"folder": "p", "against": "q"}, [*JSON, "--against=/allowed/q", "--", "/allowed/p"]),
        (
            tools._capture_budget,
            {"command": "vllm serve m", "num_layers": 4, "xlite": True, "hdk": False},
            [*JSON, "--command=vllm serve m", "--num-layers=4", "--xlite"],
        ),
        (
            tools._lint_capture,
            {"paths": ["a.py"], "select": "G001"},
            [*JSON, "--select=G001", "--", "/allowed/a.py"],
        ),
    ],
)
def test_arguments_become_options_that_no_value_can_break_out_of(
    make: Any, arguments: dict[str, Any], command: list[str]
) -> None:
    assert make(arguments, resolved).arguments == command


def test_pasted_text_goes_to_standard_input() -> None:
    assert tools._diagnose({"text": "stack"}, resolved).standard_input == "stack"
    assert tools._record({"symptom": "what was seen"}, resolved).standard_input == "what was seen"


@pytest.mark.parametrize(
    ("make", "arguments"), [(tools._diagnose, {"text": " "}), (tools._capture_budget, {"command": "@/etc/hostname"})]
)
def test_nothing_to_read_and_a_file_in_disguise_are_refused(make: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(tools.ArgumentError):
        make(arguments, resolved)

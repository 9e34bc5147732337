"""lookup_code.py answers on the command line as its --help promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npu_graph import bundle

SCRIPT = bundle.ROOT / "graph-mode-expert" / "scripts" / "lookup_code.py"
PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = sorted(PYENV.glob("3.*/bin/python")) if PYENV.is_dir() else []
OLDEST = 8


def lookup(
    *arguments: str, stdin: str = "", python: str = sys.executable, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-S", str(SCRIPT), *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        cwd=cwd,
        env={**os.environ, **variables},
    )


def records(*arguments: str) -> list[dict[str, object]]:
    done = lookup(*arguments, "--output", "json")
    record = json.loads(done.stdout)
    assert record["schema"] == "npu-graph/codes/1"
    return record["results"]


def test_a_known_code_shows_meaning_stage_first_check_echo_family_and_source() -> None:
    done = lookup("107025")
    assert done.returncode == 0
    assert done.stderr == ""
    for part in (
        "ACL_ERROR_RT_STREAM_UNJOINED",
        "meaning ",
        "capture (2A)",
        "first check ",
        "often an echo",
        "RT 107xxx",
        "hicann/runtime@681ef7610 include/external/acl/error_codes/rt_error_codes.h:46",
    ):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (["0x1a213"], ["107027"]),
        (["ERR00100", "EE1001", "EZ9999"], ["ERR00100", "EE1001", "EZ9999"]),
        (["107027,107025"], ["107027", "107025"]),
        (["error code is 107027,"], ["107027"]),
        (["retCode=0x7020023"], ["117571619"]),
        (["0x7100003"], ["118489091"]),
        (["STREAM_UNJOINED"], ["107025", "117637151"]),
        (["107027", "107027"], ["107027"]),
        (["HCCL function error: HcclSend, error code is 7"], ["7"]),
    ],
)
def test_several_codes_and_codes_in_text(arguments: list[str], codes: list[str]) -> None:
    found = records(*arguments)
    assert [entry["code"] for item in found for entry in item["entries"]] == codes  # type: ignore[attr-defined]
    assert all(item["status"] == "known" for item in found)


def test_an_internal_code_shows_the_first_check_of_the_code_the_caller_sees() -> None:
    done = lookup("0x07030019")
    assert done.returncode == 0
    assert "107027" in done.stdout
    assert ".item()" in done.stdout


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("107099", "unknown"),
        ("nosuchsymbol", "unknown"),
        ("0x07030099", "partial"),
        ("E89999", "partial"),
        ("0x100000", "not_a_code"),
        ("0x100003", "not_a_code"),
        ("", "unknown"),
        ("😀", "unknown"),
        ("x" * 50_000, "unknown"),
    ],
)
def test_what_is_not_a_known_code_says_so_and_exits_1(query: str, status: str) -> None:
    done = lookup(query, "--output", "json")
    assert done.returncode == 1
    assert [item["status"] for item in json.loads(done.stdout)["results"]] == [status]


def test_one_unknown_code_among_known_ones_exits_1_and_the_known_are_still_explained() -> None:
    done = lookup("107027", "107099")
    assert done.returncode == 1
    assert "ACL_ERROR_RT_STREAM_CAPTURED" in done.stdout
    assert "107099: unknown code" in done.stdout
    assert "near" in done.stdout


def test_a_code_that_exists_in_no_source_names_the_real_one() -> None:
    done = lookup("0x100003")
    assert done.returncode == 1
    assert "exists in no source; the real one is 107003" in done.stdout


def test_a_small_number_says_that_it_means_something_only_in_an_hccl_line() -> None:
    assert "only when the line says HCCL" in lookup("7").stdout


def test_no_argument_is_wrong_usage_in_one_line() -> None:
    done = lookup()
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_a_text_on_standard_input_is_searched_for_codes() -> None:
    done = lookup("-", "--output", "json", stdin="x\nERR00100 PTA call acl api failed\nerror code is 107025\n")
    assert done.returncode == 0
    assert [item["query"] for item in json.loads(done.stdout)["results"]] == ["ERR00100", "107025"]
    assert lookup("-", stdin="nothing to see\n").returncode == 1
    assert lookup("-", stdin="").returncode == 3


def test_chinese_labels_on_demand_and_by_default_for_a_chinese_argument() -> None:
    for arguments in (["107025", "--lang", "zh"], ["错误码 107025"]):
        done = lookup(*arguments)
        assert done.returncode == 0
        for word in ("含义", "阶段", "捕获", "先查", "二次报错", "来源"):
            assert word in done.stdout
    assert "含义" not in lookup("错误码 107025", "--lang", "en").stdout


def test_markdown_output_escapes_what_the_user_typed() -> None:
    done = lookup("<img src=x> | `rm` \x1b[31m", "--output", "md")
    assert done.returncode == 1
    assert "<img" not in done.stdout.replace("\\<img", "")
    assert "\x1b" not in done.stdout


def test_terminal_control_characters_are_not_repeated() -> None:
    assert "\x1b" not in lookup("\x1b[31mred").stdout


def test_text_output_is_bounded_unless_all_is_asked_for() -> None:
    many = [str(number) for number in range(107000, 107046)] + [str(number) for number in range(507000, 507057)]
    short = lookup(*many).stdout
    full = lookup("--all", *many).stdout
    assert len(short.encode("utf-8")) < 21_000 < len(full.encode("utf-8"))
    assert "--all" in short.splitlines()[-1]


def test_an_overlay_named_by_the_environment_is_merged(tmp_path: Path) -> None:
    (tmp_path / "error-code-map.md").write_text(
        "## Ours — site codes\n\n| code | hex | symbol | meaning | stage | first check | source |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n| 999123 | - | SITE | our own | env | ask | wiki |\n| bad |\n",
        encoding="utf-8",
    )
    done = lookup("999123", NPU_GRAPH_KNOWLEDGE=str(tmp_path))
    assert done.returncode == 0
    assert "our own" in done.stdout
    assert "error-code-map.md:6" in done.stderr


def test_it_works_from_another_directory_with_an_ascii_locale(tmp_path: Path) -> None:
    done = lookup("107025", "--lang", "zh", cwd=tmp_path, LC_ALL="C", LANG="C")
    assert done.returncode == 0
    assert "含义" in done.stdout


def test_help_shows_two_examples_and_the_exit_codes() -> None:
    done = lookup("--help")
    assert done.returncode == 0
    assert done.stdout.count("lookup_code.py ") >= 3
    assert "exit codes" in done.stdout


@pytest.mark.versions
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_it_runs_with_the_bare_standard_library_of_every_python(python: Path) -> None:
    if int(python.parts[-3].split(".")[1]) < OLDEST:
        pytest.skip("older than the bundle supports")
    done = lookup("107025", "0x7020023", "wrong thread", "--output", "json", python=str(python))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)["results"]) == 3

"""locate_source.py answers on the command line as its --help promises."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, run_script

SCRIPT = "graph-mode-expert/scripts/locate_source.py"
EXAMPLE = ROOT / "graph-mode-diagnostics" / "examples" / "default_stream.txt"
MESSAGE = "NPU graphs must be captured on a non-default stream"
NPU_GRAPH = "torch_npu/csrc/core/npu/NPUGraph.cpp"


def locate(*arguments: str, stdin: str = "", **options: Any) -> tuple[int, str, str]:
    done = run_script(SCRIPT, *arguments, input=stdin.encode(), **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def record(*arguments: str, stdin: str = "") -> dict[str, Any]:
    _, out, err = locate(*arguments, "--output", "json", stdin=stdin)
    assert err == ""
    answer = json.loads(out)
    assert answer["schema"] == "npu-graph/source/1"
    return answer


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A twin of a checkout of v26.0.0-pytorch2.10.0: own text, the checked sites on their lines."""
    root = tmp_path / "ascend"
    lines = [""] * 300
    lines[174] = "    TORCH_CHECK(stream != getDefault(),"
    lines[175] = '        "NPU graphs must be captured on a non-default stream. "'
    lines[246] = "    NPU_CHECK_ERROR(c10_npu::acl::AclmdlRICaptureEnd(capture_stream_, &model_ri));"
    lines[282] = "    NPU_CHECK_ERROR(c10_npu::acl::AclmdlRIExecuteAsync(model_ri_, stream));"
    for file in ("torch_npu/npu/graphs.py", "torch_npu/npu/_graph_tree.py", "torch_npu/csrc/npu/Graph.cpp", NPU_GRAPH):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("\n".join(lines) if file == NPU_GRAPH else "# twin\n", encoding="utf-8")
    (root / "third_party/op-plugin/op_plugin/ops").mkdir(parents=True)
    (root / "version.txt").write_text("2.10.0\n", encoding="utf-8")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("94f8a8e6b523d7ba553e1b80d5b5248478391526\n", encoding="utf-8")
    return root


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A twin of site-packages whose torch_npu must never be imported: importing it leaves a file behind."""
    root = tmp_path / "site"
    package = root / "torch_npu"
    (package / "npu").mkdir(parents=True)
    (package / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n", encoding="utf-8")
    (package / "version.py").write_text("__version__ = '2.9.0'\ngit_version = '12d689a08'\n", encoding="utf-8")
    (package / "npu" / "graphs.py").write_text("\n" * 283 + "        super().capture_begin(pool=pool)\n", "utf-8")
    (package / "npu" / "_graph_tree.py").write_text("", encoding="utf-8")
    return root


def test_a_message_gives_file_function_line_and_meaning_of_the_release() -> None:
    code, out, err = locate(MESSAGE, "--torch-npu", "2.10.0")
    assert (code, err) == (0, "")
    assert f"{NPU_GRAPH}:175  NPUGraph::capture_begin" in out
    assert "26.0.0 (PyTorch 2.10.0)" in out
    assert "usually means: capture_begin on the default stream" in out
    assert "-b v26.0.0-pytorch2.10.0" in out


@pytest.mark.parametrize(
    ("version", "line"),
    [("2.7.1", 141), ("2.8.0", 125), ("2.9.0", 159), ("2.10.0", 175), ("2.12.0", 200), ("26.0.0", 175)],
)
def test_the_line_follows_the_version(version: str, line: int) -> None:
    match = record(MESSAGE, "--torch-npu", version)["results"][0]["matches"][0]
    assert (match["line"], match["exact"]) == (line, True)


def test_a_release_whose_pytorch_lines_differ_gives_no_single_line() -> None:
    match = record(MESSAGE, "--torch-npu", "26.1.0")["results"][0]["matches"][0]
    assert (match["line"], match["lines"], match["exact"]) == (None, [167, 180, 200], False)


def test_an_unpublished_wheel_is_exact_for_python_and_near_for_cpp() -> None:
    cpp = record(MESSAGE, "--torch-npu", "2.12.0.post3")["results"][0]["matches"][0]
    assert (cpp["exact"], cpp["near"]) == (False, "26.2.0-beta.1/2.12.0")
    python = record("capture stream is None", "--torch-npu", "2.12.0.post3")["results"][0]["matches"][0]
    assert (python["exact"], python["near"]) == (True, "")


@pytest.mark.parametrize(
    "text",
    [
        "capture_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:209",
        "compiler_depend.ts:209 capture_end",
        "capture_end:build/x/compiler_depend.ts:209 NPU function error: "
        "c10_npu::acl::AclmdlRICaptureEnd(capture_stream_, &model_ri), error code is 107025",
    ],
)
def test_a_lost_file_name_is_found_and_the_release_with_it(text: str) -> None:
    answer = record(text)
    match = answer["results"][0]["matches"][0]
    assert (match["file"], match["function"], match["line"]) == (NPU_GRAPH, "NPUGraph::capture_end", 209)
    assert "7.2.0" in answer["release"]["value"]
    assert (answer["release"]["inferred"]["value"], answer["release"]["inferred"]["sure"]) == ("7.2.0", "likely")


def test_a_line_of_another_release_is_translated_to_the_users() -> None:
    answer = record('File "/x/torch_npu/npu/graphs.py", line 359, in capture_begin', "--torch-npu", "7.3.0")
    result = answer["results"][0]
    assert result["status"] == "other_release"
    assert result["releases_with_this_line"] == ["26.0.0"]
    assert result["matches"][0]["line"] == 284


def test_a_whole_stack_gives_frame_and_message() -> None:
    answer = record("-", stdin=EXAMPLE.read_text(encoding="utf-8"))
    assert answer["release"]["value"] == "26.0.0"
    places = [(match["file"], match["line"]) for result in answer["results"] for match in result["matches"]]
    assert places == [("torch_npu/npu/graphs.py", 359), (NPU_GRAPH, 175)]


@pytest.mark.parametrize("call", ["AclmdlRICaptureEnd", "aclmdlRICaptureEnd", "c10_npu::acl::AclmdlRICaptureEnd("])
def test_the_name_of_an_acl_call_will_do(call: str) -> None:
    matches = record(call, "--torch-npu", "26.0.0")["results"][0]["matches"]
    assert [(match["function"], match["line"]) for match in matches] == [("NPUGraph::capture_end", 247)]


def chain_of(name: str, *arguments: str) -> list[dict[str, Any]]:
    (result,) = record(name, *arguments)["results"]
    return result["chains"]


@pytest.mark.parametrize(
    "name",
    ["capture_begin", "NPUGraph.capture_begin", "NPUGraph::capture_begin", "torch_npu.npu.NPUGraph.capture_begin()"],
)
def test_the_name_of_an_api_gives_its_chain_from_python_to_cann(name: str) -> None:
    (chain,) = chain_of(name, "--torch-npu", "2.10.0")
    assert chain["name"] == "NPUGraph.capture_begin"
    at = [(step["layer"], step["file"].rpartition("/")[2], step["line"]) for step in chain["steps"]]
    assert at[:4] == [
        ("Python", "graphs.py", 342),
        ("Python", "graphs.py", 359),
        ("binding", "Graph.cpp", 333),
        ("C++", "NPUGraph.cpp", 161),
    ]
    assert ("C++", "NPUGraph.cpp", 230) in at
    assert ("ACL", "AclInterface.cpp", 1030) in at
    assert ("CANN", "context_aclgraph.cc", 275) in at


def test_the_question_of_the_readme_is_answered_by_one_command() -> None:
    code, out, err = locate("what does capture_begin do inside?", "--torch-npu", "2.10.0")
    assert (code, err) == (0, "")
    assert "Python → binding → C++ → ACL → CANN" in out
    assert "230  CANN begins to capture on this stream" in out


@pytest.mark.parametrize(
    ("name", "first", "layers"),
    [
        ("NPUGraph.replay", "NPUGraph.replay", {"Python", "binding", "C++", "ACL", "CANN"}),
        ("graph_task_update_begin", "graph_task_update_begin", {"Python", "binding", "C++", "ACL", "CANN"}),
        ("torch.npu.graph_task_group_end", "graph_task_group_end", {"Python", "binding", "C++", "ACL", "CANN"}),
        ("aclmdlRICaptureBegin", "NPUGraph.capture_begin", {"Python", "binding", "C++", "ACL", "CANN"}),
        ("torch.npu.graph", "torch.npu.graph", {"Python"}),
        ("NPUGraph.update", "NPUGraph.update", {"Python"}),
        ("graph_pool_handle", "graph_pool_handle", {"Python", "binding", "C++"}),
        ("Context::StreamBeginTaskUpdate", "graph_task_update_begin", {"Python", "binding", "C++", "ACL", "CANN"}),
    ],
)
def test_each_public_api_and_what_it_passes_through_is_known(name: str, first: str, layers: set[str]) -> None:
    chains = chain_of(name, "--torch-npu", "26.0.0")
    assert chains[0]["name"] == first
    assert {step["layer"] for step in chains[0]["steps"]} == layers


def test_a_chain_goes_on_with_the_chains_it_calls() -> None:
    names = [chain["name"] for chain in chain_of("torch.npu.graph", "--torch-npu", "2.9.0")]
    assert names == ["torch.npu.graph", "NPUGraph.capture_begin", "NPUGraph.capture_end"]


def test_without_a_release_every_release_has_its_line() -> None:
    steps = chain_of("capture_begin")[0]["steps"]
    begin = next(step for step in steps if step["text"] == "AclmdlRICaptureBegin(")
    assert begin["line"] is None
    assert (begin["lines_by_release"]["7.3.0"], begin["lines_by_release"]["26.0.0"]) == ([214], [230])
    assert "26.0.0 230" in locate("capture_begin")[1]


def test_a_step_that_a_release_lacks_is_left_out() -> None:
    def texts(version: str) -> list[str]:
        return [step["text"] for step in chain_of("capture_begin", "--torch-npu", version)[0]["steps"]]

    assert "num_pending_event_queries())" in texts("26.0.0")
    assert "num_pending_event_queries())" not in texts("26.1.0")
    assert "apply_cache_op_info(" not in texts("7.1.0")


def test_cpp_lines_of_an_unpublished_wheel_are_marked_in_a_chain() -> None:
    steps = chain_of("capture_begin", "--torch-npu", "2.14.0")[0]["steps"]
    assert {step["layer"] for step in steps if step["near"]} == {"binding", "C++", "ACL"}
    assert "own sources are not public" in locate("capture_begin", "--torch-npu", "2.14.0")[1]


def test_a_chain_shows_the_code_of_a_checkout(checkout: Path) -> None:
    steps = chain_of("capture_end", "--source", str(checkout))[0]["steps"]
    shown = next(step["source"] for step in steps if step["text"] == "AclmdlRICaptureEnd(")
    assert "AclmdlRICaptureEnd(capture_stream_" in shown["lines"][shown["line"] - shown["first"]]


@pytest.mark.parametrize(("name", "near"), [("captur_begin", "capture_begin"), ("NPUGraph.updat", "NPUGraph.update")])
def test_an_unknown_name_says_so_and_names_the_nearest(name: str, near: str) -> None:
    code, out, _ = locate(name, "--torch-npu", "2.10.0")
    assert code == 1
    assert "not in the map" in out
    assert near in record(name)["results"][0]["nearest"]


def test_another_function_of_the_map_gives_what_it_raises() -> None:
    (result,) = record("check_memory_pool", "--torch-npu", "2.12.0")["results"]
    assert {match["function"] for match in result["matches"]} == {"check_memory_pool"}
    assert any("not allocated in pool" in match["message"] for match in result["matches"])


def test_a_torchair_message_names_its_own_repository() -> None:
    matches = record("The static_capture_size_limit reached", "--torch-npu", "26.0.0")["results"][0]["matches"]
    assert {match["repo"] for match in matches} == {"Ascend/torchair", "torch_npu wheel"}


@pytest.mark.parametrize(
    "text", ["nothing raises this text", "unknown_function:NPUGraph.cpp:12", "stream", "\x00\x1b[31m"]
)
def test_an_unknown_text_says_so_and_exits_1(text: str) -> None:
    code, out, err = locate(text.replace("\x00", "?"), "--torch-npu", "2.10.0")
    assert (code, err) == (1, "")
    assert "not in the map" in out
    assert "\x1b" not in out


def test_one_unknown_text_among_known_ones_exits_1_and_the_known_is_answered() -> None:
    code, out, _ = locate(MESSAGE, "nothing raises this text", "--torch-npu", "2.10.0")
    assert code == 1
    assert ":175" in out


def test_lines_of_a_checkout_are_shown_and_its_release_is_used(checkout: Path) -> None:
    answer = record(MESSAGE, "--source", str(checkout))
    assert answer["release"]["value"] == "26.0.0"
    assert answer["release"]["known_from"] == "--source: commit 94f8a8e6b"
    source = answer["results"][0]["matches"][0]["source"]
    assert (source["path"], source["line"], source["agrees"]) == (NPU_GRAPH, 175, True)
    assert source["lines"][3].startswith("    TORCH_CHECK(stream")
    assert answer["get_sources"] == []


def test_a_file_that_differs_from_the_map_is_read_where_it_has_the_site(checkout: Path) -> None:
    path = checkout / NPU_GRAPH
    path.write_text("// patched\n" * 4 + path.read_text(encoding="utf-8"), encoding="utf-8")
    match = record("AclmdlRICaptureEnd", "--source", str(checkout), "--torch-npu", "2.10.0")["results"][0]["matches"][0]
    assert match["line"] == 247
    assert (match["source"]["line"], match["source"]["agrees"]) == (251, False)
    assert (
        "the file has it at line 251, the map says 247"
        in locate("AclmdlRICaptureEnd", "--source", str(checkout), "--torch-npu", "2.10.0")[1]
    )


def test_an_installation_is_read_but_never_imported(installed: Path) -> None:
    answer = record("graphs.py line 284 in capture_begin", "--source", str(installed))
    assert answer["release"]["value"] == "7.3.0"
    source = answer["results"][0]["matches"][0]["source"]
    assert (source["line"], source["agrees"]) == (284, True)
    assert not (installed.parent / "imported").exists()


def test_the_installed_torch_npu_on_the_path_is_found(installed: Path) -> None:
    import os
    import subprocess
    import sys

    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-S", str(ROOT / SCRIPT), "capture stream is None", "--output", "json"],
        capture_output=True, timeout=60, env=environment, check=False,
    )  # fmt: skip
    release = json.loads(done.stdout)["release"]
    assert (release["value"], release["known_from"]) == ("7.3.0", "installed: commit 12d689a08")
    assert not (installed.parent / "imported").exists()


def test_check_says_a_full_checkout_is_usable(checkout: Path) -> None:
    code, out, err = locate("--check", str(checkout))
    assert (code, err) == (0, "")
    assert ": usable\n" in out
    assert "26.0.0 (PyTorch 2.10.0); known from commit 94f8a8e6b" in out


def test_check_of_the_wrong_release_names_both_and_the_way_to_the_right_one(checkout: Path) -> None:
    code, out, _ = locate("--check", str(checkout), "--torch-npu", "2.9.0")
    assert code == 1
    assert "it is release 26.0.0, not 7.3.0" in out
    assert "-b v7.3.0-pytorch2.9.0" in out


def test_check_knows_a_checkout_by_branch_and_by_its_lines(checkout: Path) -> None:
    head = checkout / ".git" / "HEAD"
    head.write_text("ref: refs/heads/v2.10.0-26.0.0\n", encoding="utf-8")
    assert record("--check", str(checkout))["check"]["known_from"] == "branch v2.10.0-26.0.0"
    (checkout / "version.txt").unlink()
    head.write_text("ref: refs/heads/mine\n", encoding="utf-8")
    check = record("--check", str(checkout))["check"]
    assert "lines of" in check["known_from"]
    assert "26.0.0" in check["release"]


def test_check_lists_what_is_missing(checkout: Path) -> None:
    (checkout / NPU_GRAPH).unlink()
    check = record("--check", str(checkout))["check"]
    assert (check["usable"], check["missing"]) == ("no", [NPU_GRAPH])


def test_check_without_operator_sources_is_usable_for_the_core(checkout: Path) -> None:
    (checkout / "third_party/op-plugin/op_plugin/ops").rmdir()
    check = record("--check", str(checkout))["check"]
    assert (check["usable"], check["missing"]) == ("core", ["op_plugin/ops (op-plugin)"])


def test_check_of_an_installation_offers_the_cpp_sources_of_its_release(installed: Path) -> None:
    answer = record("--check", str(installed / "torch_npu"))
    assert (answer["check"]["usable"], answer["check"]["release"]) == ("python", "7.3.0")
    assert any("-b v7.3.0-pytorch2.9.0" in command for command in answer["get_sources"])
    assert not (installed.parent / "imported").exists()


def test_check_of_an_empty_folder_is_negative_and_says_how_to_get_one(tmp_path: Path) -> None:
    code, out, _ = locate("--check", str(tmp_path))
    assert code == 1
    assert "not usable" in out
    assert "git clone" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["x", "--check", "."], 2),
        (["--check", ".", "--source", "."], 2),
        (["--check", ".", "--framework", "vllm"], 2),
        (["x", "--torch-npu", "9.9.9"], 2),
        (["--check", "/no/such/folder"], 3),
        (["x", "--source", "/no/such/folder"], 3),
        (["-"], 3),
        ([" "], 3),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(arguments: list[str], code: int) -> None:
    done, out, err = locate(*arguments)
    assert (done, out) == (code, "")
    assert err.count("\n") == 1
    assert err.startswith("locate_source.py: error: ")


def test_without_a_map_the_script_says_what_is_absent(tmp_path: Path) -> None:
    import shutil

    for part in ("npu_graph", "graph-mode-expert"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    code, _, err = locate("x", root=tmp_path)
    assert code == 4
    assert "source-map.tsv" in err


def test_chinese_follows_the_text_or_the_option() -> None:
    assert "通常含义" in locate(MESSAGE, "--torch-npu", "2.10.0", "--lang", "zh")[1]
    assert "通常含义" in locate(f"报错:{MESSAGE}", "--torch-npu", "2.10.0")[1]


def test_markdown_keeps_hostile_text_in_code_spans() -> None:
    _, out, _ = locate("`` <script> [x](http://e) nothing raises this", "--output", "md", "--torch-npu", "2.10.0")
    assert "``` `` <script> [x](http://e) nothing raises this ```" in out


def test_a_very_long_input_is_answered_within_bounds() -> None:
    text = "INFO step\n" * 400_000 + EXAMPLE.read_text(encoding="utf-8")
    start = time.monotonic()
    code, out, _ = locate("-", stdin=text)
    assert code == 0
    assert time.monotonic() - start < 10
    assert len(out.encode()) <= 21 * 1024


def test_a_site_that_the_users_release_lacks_is_said_to_lie_elsewhere() -> None:
    _, out, _ = locate("aclrtSynchronizeStreamWithTimeout", "--torch-npu", "2.10.0.post2")
    assert "not in this release; elsewhere: 26.1.0" in out


def test_more_places_than_are_shown_are_all_in_the_record_and_with_all() -> None:
    function = "DeviceCachingAllocator::setSegmentStateToCheckpoint"
    answer = record(function)
    short, long = locate(function)[1], locate(function, "--all")[1]
    name = "Ascend/pytorch torch_npu/csrc/core/npu/NPUCachingAllocator.cpp"
    count = max(len(result["matches"]) for result in answer["results"])
    assert count > 6 and long.count(name) - short.count(name) == count - 6
    assert f"{count - 6} more; --all prints them" in short and "--all prints" not in long


def test_a_folder_without_a_release_leaves_the_stated_version(tmp_path: Path) -> None:
    answer = record("torch_npu 2.10.0: NPU graphs must be captured on a non-default stream", "--source", str(tmp_path))
    assert answer["release"]["known_from"] == "text: torch_npu 2.10.0"


def test_the_name_of_a_file_is_answered_with_how_to_read_it(tmp_path: Path) -> None:
    path = tmp_path / "stack.txt"
    path.write_text("RuntimeError: x\n", encoding="utf-8")
    code, _, err = locate(str(path))
    assert code == 1 and err.strip().endswith(f"locate_source.py - < {path}")
    assert locate("no such thing at all")[2] == ""

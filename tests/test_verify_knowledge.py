"""tools/verify_knowledge.py finds what is no longer true, and does not pass when it looked at nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Callable

import pytest
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from knowledge_checks import anchors, call_chains, codes_named, issues, map_lines, names
from knowledge_checks.findings import Outcome
from knowledge_checks.sources import SourceError, Sources, Wheel
from knowledge_checks.texts import CODE, PROSE, Line
from verify_knowledge import CHECKS, exit_code, main, verify

from npu_graph.source_map import SourceMap

TWO_WHEELS = ["2.10.0", "2.12.0"]
SECONDS = 60
CPP = """#include "x.h"
namespace c10_npu {
void NPUGraph::replay()
{
    TORCH_CHECK(has_graph_exec_,
        "Called replay without a capture.");
    launch();
}
}
"""
PYTHON = """class graph:
    def __exit__(self, kind, value, trace):
        self.end()


def helper():
    raise RuntimeError("the helper failed here")
"""


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=v9.9.9"]
    done = subprocess.run(["git", "-C", str(folder), *name, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    clone = tmp_path / "clone"
    for path, text in (("csrc/NPUGraph.cpp", CPP), ("torch_npu/npu/graphs.py", PYTHON), ("docs/a.md", "# A\n")):
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text, encoding="utf-8")
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "one")
    given = Sources()
    given.add_checkout(f"Ascend/pytorch={clone}")
    return given


@pytest.fixture
def bundle_with(tmp_path: Path) -> Callable[[str], Path]:
    def write(page: str) -> Path:
        root = tmp_path / "bundle"
        (root / "knowledge").mkdir(parents=True)
        (root / "knowledge" / "known-patterns.md").write_text(page, encoding="utf-8")
        return root

    return write


R = "Ascend/pytorch@v9.9.9"
ANCHORS = [
    (f"{R} csrc/NPUGraph.cpp:5 NPUGraph::replay", ""),
    (f"{R} csrc/NPUGraph.cpp NPUGraph::replay; {R} docs/a.md", ""),
    (f"{R} torch_npu/npu/graphs.py:3 graph.__exit__", ""),
    (f"{R} csrc/NPUGraph.cpp:2 NPUGraph::replay", "line 2 is not in NPUGraph::replay (lines 3-8)"),
    (f"{R} csrc/NPUGraph.cpp NPUGraph::reset", "nothing is named NPUGraph::reset"),
    (f"{R} torch_npu/npu/graphs.py:6 graph.__exit__", "line 6 is not in graph.__exit__ (lines 2-3)"),
    (f"{R} torch_npu/npu/graphs.py:900", "line 900 to 900 is outside the file"),
    (f"{R} torch_npu/npu/gone.py", "no such file"),
    ("Ascend/pytorch@v0.0.1 torch_npu/npu/graphs.py", "has no revision v0.0.1"),
    (f"`PT` = `{R} torch_npu/npu/graphs.py`; see PT:7 helper and PT:7 graph.__enter__", "graph.__enter__"),
]


@pytest.mark.parametrize(("text", "problem"), ANCHORS, ids=[row[0][-40:] for row in ANCHORS])
def test_an_anchor_is_opened_at_its_revision(
    text: str, problem: str, sources: Sources, bundle_with: Callable[[str], Path]
) -> None:
    outcome = anchors.check(bundle_with(f"# Page\n\n- Source: {text}\n"), sources, SourceMap())
    assert outcome.checked >= 1
    assert [problem in fault.text for fault in outcome.faults] == ([True] if problem else [])


CHAIN_STEP = "step\tg.exit\tPython\ttorch_npu/npu/graphs.py\tgraph.__exit__\tself.end()\tends it\t结束\t{where}\n"


@pytest.mark.parametrize(
    ("where", "problem"),
    [("3@9.9.9", ""), ("2@9.9.9", "table 2, source 3"), ("-@9.9.9", "table 0, source 3")],
)
def test_a_line_of_a_call_chain_is_looked_up_in_its_release(
    where: str, problem: str, sources: Sources, tmp_path: Path
) -> None:
    root, commit = tmp_path / "bundle", sources.repositories["Ascend/pytorch"].resolve("v9.9.9")[:9]
    release = f"release\t9.9.9/2.9.9\t-\t-\t-\tv9.9.9\t{commit}\t-\t-\tfinal\n"
    for path, text in (
        ("knowledge/source-map.tsv", release),
        ("graph-mode-expert/data/call_chains.tsv", "chain\tg.exit\t-\n" + CHAIN_STEP.format(where=where)),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    outcome = call_chains.check(root, sources)
    assert outcome.checked == 1
    assert [problem in fault.text for fault in outcome.faults] == ([True] if problem else [])


def test_an_anchor_of_a_repository_that_is_not_at_hand_is_left_out_and_counted(
    sources: Sources, bundle_with: Callable[[str], Path]
) -> None:
    outcome = anchors.check(bundle_with("Source: other/repo@main a/b.py:1\n"), sources, SourceMap())
    assert (outcome.checked, outcome.left_out) == (0, {"no checkout of other/repo": 1})
    assert not outcome.passed


def test_a_line_of_the_map_that_moved_is_a_fault(sources: Sources) -> None:
    commit = sources.repositories["Ascend/pytorch"].resolve("v9.9.9")[:9]
    row = "site\ttorch_npu/npu/graphs.py\thelper\thelper\traise RuntimeError\tthe helper failed here\t-\t{}@9.0"
    release = f"release\t9.0/9.9.9\t-\t-\t-\tv9.9.9\t{commit}\t-\t-\tfinal"
    right, wrong = (map_lines.check(sources, SourceMap(f"{release}\n{row.format(line)}\n")) for line in (7, 8))
    assert right.checked == wrong.checked == 1
    assert right.passed
    assert "map 8" in wrong.faults[0].text and "7" in wrong.faults[0].text


def test_a_wheel_is_read_as_a_zip_and_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "torch_npu-9.9.9-cp311-cp311-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch_npu/npu/graphs.py", "raise SystemExit('imported')\n")
    assert "imported" in (Wheel(path).read("torch_npu/npu/graphs.py") or "")
    with pytest.raises(SourceError):
        Sources().add_checkout(f"Ascend/pytorch={tmp_path / 'nowhere'}")


NAMES = [
    ("set `TORCH_NPU_LOGS` first", [("variable", "TORCH_NPU_LOGS")]),
    ("call `torch.npu.graph(g)`", [("dotted", "torch.npu.graph")]),
    ("pass --enforce-eager", [("option", "--enforce-eager")]),
    ("aclmdlRICaptureBegin refuses it", [("api", "aclmdlRICaptureBegin")]),
    ("the option capture_error_mode", [("identifier", "capture_error_mode")]),
    ("`ACLGraphWrapper` keeps it", [("class", "ACLGraphWrapper")]),
    ("see Ascend/pytorch@v2.12.0 torch_npu/npu/graphs.py and https://x.y/a_b", []),
    ("a plain sentence about PyTorch", []),
]


@pytest.mark.parametrize(("text", "found"), NAMES, ids=[row[0][:30] for row in NAMES])
def test_names_are_found_in_a_sentence(text: str, found: list) -> None:
    assert names.names_in(Line("page.md", 1, text, PROSE)) == found


def test_a_name_that_no_source_has_is_a_fault(bundle_with: Callable[[str], Path]) -> None:
    root = bundle_with("Set `TORCH_NPU_IMAGINED_SWITCH=1`.\n")
    (root / "install.py").write_text("", encoding="utf-8")
    assert [fault.line for fault in names.check(root, Sources()).faults] == [1]


@pytest.mark.parametrize(("page", "faults"), [("Set `ACL_PROFILE=1`.\n", 1), ("`ACL_PROFILE` does not exist.\n", 0)])
def test_a_name_that_exists_nowhere_may_only_be_named_as_such(
    page: str, faults: int, bundle_with: Callable[[str], Path]
) -> None:
    root = bundle_with(page)
    (root / "install.py").write_text("", encoding="utf-8")
    assert len(names.check(root, Sources()).faults) == faults


@pytest.mark.parametrize(
    ("reference", "faults"),
    [("a/b#12", 0), ("https://github.com/a/b/pull/7", 0), ("a/b#x1", 1), ("https://github.com/a/b/issues/", 1)],
)
def test_issue_references_have_the_form_that_opens(
    reference: str, faults: int, bundle_with: Callable[[str], Path]
) -> None:
    outcome = issues.check(bundle_with(f"Seen in {reference}\n"))
    assert (outcome.checked, len(outcome.faults)) == (1, faults)


@pytest.mark.parametrize(
    ("text", "faults"), [("107027 and EE9999", 0), ("107099", 1), ("0x07ffffff", 1), ("ERR00999", 1)]
)
def test_a_code_that_no_table_has_is_a_fault(text: str, faults: int, bundle_with: Callable[[str], Path]) -> None:
    root = bundle_with(f"Code {text} means nothing.\n")
    table = (ROOT / "knowledge" / "error-code-map.md").read_text(encoding="utf-8")
    (root / "knowledge" / "error-code-map.md").write_text(table, encoding="utf-8")
    named = [fault for fault in codes_named.check_named(root).faults if fault.file.endswith("known-patterns.md")]
    assert len(named) == faults


def test_strings_of_scripts_are_read_too() -> None:
    assert names.names_in(Line("a.py", 1, "export ASCEND_LAUNCH_BLOCKING=1", CODE)) == [
        ("variable", "ASCEND_LAUNCH_BLOCKING")
    ]


def test_a_check_that_looked_at_nothing_has_not_passed() -> None:
    empty = Outcome("anchors", "anchors")
    assert not empty.passed
    assert exit_code([empty]) == exit_code([]) == 3


def test_the_bundle_holds_without_any_source() -> None:
    outcomes = verify(ROOT, Sources(), list(CHECKS))
    assert {outcome.name for outcome in outcomes} == {"patterns", "issues", "codes named", "names"}
    assert [fault for outcome in outcomes for fault in outcome.faults] == []
    assert min(outcome.checked for outcome in outcomes) > 50


def test_an_unknown_check_is_a_usage_error() -> None:
    with pytest.raises(Exception, match="unknown check"):
        main(["--only", "nonsense"])


@pytest.mark.wheels
def test_two_wheels_confirm_the_python_facts() -> None:
    cache = Path(os.environ.get("NPU_GRAPH_WHEELS", Path(tempfile.gettempdir()) / "npu-graph-wheels"))
    given = Sources()
    try:
        given.add_wheels(TWO_WHEELS, cache)
    except SourceError as error:
        pytest.skip(f"no torch_npu wheel: {error}")
    started = time.monotonic()
    outcomes = verify(ROOT, given, ["anchors", "map", "names"])
    assert [fault for outcome in outcomes for fault in outcome.faults] == []
    assert min(outcome.checked for outcome in outcomes) > 10
    assert time.monotonic() - started < SECONDS


def test_what_a_tool_installs_beside_the_bundle_vouches_for_no_name(tmp_path: Path) -> None:
    for folder in (".venv/lib", ".cache", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".venv/lib/OthersClass.h").write_text("", encoding="utf-8")
    (tmp_path / "docs/own_page.md").write_text("", encoding="utf-8")
    (tmp_path / "install.py").write_text("", encoding="utf-8")
    own = names.own_names(tmp_path)
    assert "own_page" in own and "OthersClass" not in own

"""The how-to pages work: every edit and command of a page is carried out in a scratch copy; what architecture.md names exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from howto_pages import Step, carry_out, steps
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from host_checks.placement import copy_checkout

DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in [*DOCS.glob("add_a_*.md"), DOCS / "releasing.md"])
SIMULATOR_PAGE = "add_a_simulator_operator.md"
EVERY_PAGE = [pytest.param(page, marks=pytest.mark.sim if page == SIMULATOR_PAGE else ()) for page in PAGES]


def commit(root: Path) -> None:
    for arguments in (["init", "-q", "."], ["add", "-A"], ["commit", "-qm", "state"]):
        subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed copy of this working tree."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "newcomer")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "newcomer@localhost")
    root = tmp_path / "copy"
    copy_checkout(root)
    commit(root)
    return root


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", EVERY_PAGE)
def test_a_newcomer_who_follows_the_page_arrives(page: str, scratch: Path) -> None:
    if page == SIMULATOR_PAGE and not os.environ.get("NPU_SIM_PYTHON"):
        pytest.skip("NPU_SIM_PYTHON does not name a Python with torch_npu; `make sim` sets it")
    done = steps((DOCS / page).read_text(encoding="utf-8"))
    for step in done:
        carry_out(step, scratch)
    assert [step for step in done if step.what == "run"]


def test_there_is_a_page_for_each_thing_that_is_added_often() -> None:
    wanted = {"pattern", "health_check", "lint_rule", "log_format", "simulator_operator"}
    assert {f"add_a_{name}.md" for name in wanted} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_edit_of_a_page_still_has_its_place(page: str) -> None:
    edits = [step for step in steps((DOCS / page).read_text(encoding="utf-8")) if step.what not in ("run", "write")]
    for step in edits:
        text = (ROOT / step.file).read_text(encoding="utf-8")
        assert step.what != "insert into" or sum(step.mark in line for line in text.splitlines()) == 1, step


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_link_and_path_of_a_page_leads_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [target for target in re.findall(r"\]\(([^)#\s]+)\)", text) if not (DOCS / target).exists()] == []
    named = re.findall(r"`((?:tools|tests|npu_graph|npu_sim|knowledge|graph-[a-z-]+)/[\w./-]+\.(?:py|md|tsv))`", text)
    assert [path for path in named if not (ROOT / path).exists() and path != "tests/logs/test_ourserve.py"] == []


class TestTheArchitecturePage:
    TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")

    def test_the_path_of_a_stack_names_functions_that_the_code_calls_in_that_order(self) -> None:
        orders = {
            ("located.py", "locate"): (
                *("read_report", "find_codes", "find_first_cause", "_best_matches", "decide_stage", "decide_layer"),
                *("decide_owner", "find_environment", "find_missing", "_verdict"),
            ),
            ("record.py", "diagnose"): (
                *("locate", "find_releases", "read_frameworks", "find_named", "find_histories", "_classification"),
                *("find_anchors", "compose_report"),
            ),
        }
        for (file, function), order in orders.items():
            called = (ROOT / "npu_graph" / "diagnosis" / file).read_text(encoding="utf-8")
            called = called[called.index(f"\ndef {function}(") + 1 :].partition("\ndef ")[0]
            starts = [[place.start() for place in re.finditer(rf"(?<!def )\b{name}\(", called)] for name in order]
            assert all(starts), file
            assert [found[0] for found in starts] == sorted(found[0] for found in starts), file
        path = self.TEXT.partition("## The path of a pasted stack")[2]
        for module, function in re.findall(
            r"\b([a-z_]+)\.((?:find|match|read|compose|render|similar|write)_\w+)", path
        ):
            files = [*ROOT.glob(f"npu_graph/{module}.py"), *ROOT.glob(f"npu_graph/diagnosis/{module}.py")]
            assert any(f"def {function}(" in file.read_text(encoding="utf-8") for file in files), f"{module}.{function}"

    def test_every_script_in_the_picture_exists_and_none_is_left_out(self) -> None:
        picture = self.TEXT.partition("```\n")[2].partition("```")[0]
        for file in [
            *ROOT.glob("graph-*/scripts/*.py"),
            *ROOT.glob("graph-mcp/*.py"),
            *ROOT.glob("knowledge/scripts/*.py"),
        ]:
            if 'if __name__ == "__main__"' in file.read_text(encoding="utf-8"):
                assert re.search(rf"\b{file.stem}\b", picture), file

    def test_it_is_one_page(self) -> None:
        assert self.TEXT.count("\n") <= 100


def test_an_edit_without_its_place_and_a_failing_command_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one\ntwo\n")
    with pytest.raises(AssertionError, match="0 lines hold"):
        carry_out(Step("insert into", "file", "after", "three", "x\n"), tmp_path)
    with pytest.raises(AssertionError, match="exit 3"):
        carry_out(Step("run", "", "", "", "exit 3\n"), tmp_path)
    carry_out(Step("insert into", "file", "before", "two", "x\n"), tmp_path)
    assert (tmp_path / "file").read_text() == "one\nx\ntwo\n"

"""Real hosts load the bundle: Claude Code and Codex show the router only, and the checks see a planted fault."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from check_hosts import CHECKS, cell, render
from host_checks import claude_code, codex, skills_cli
from host_checks.model_stand_in import ModelStandIn
from host_checks.placement import make_site
from host_checks.programs import PROGRAMS, find_programs
from host_checks.results import Result

PROGRAMS_HERE = find_programs()
needs_hosts = pytest.mark.skipif(
    PROGRAMS_HERE is None, reason="no hosts on this machine; `make hosts` installs them from npm"
)
PAGE = ROOT / "docs" / "hosts.md"


@needs_hosts
@pytest.mark.hosts
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CHECKS)
def test_the_host_loads_the_bundle(name: str, tmp_path: Path) -> None:
    results = CHECKS[name](make_site(PROGRAMS_HERE, tmp_path))
    assert results
    for result in results:
        assert result.ok, result


def break_frontmatter(checkout: Path) -> None:
    text = (checkout / "graph-perf" / "SKILL.md").read_text(encoding="utf-8")
    (checkout / "graph-perf" / "SKILL.md").write_text(
        text.replace("description:", "description: [", 1), encoding="utf-8"
    )


def show_a_sub_skill(checkout: Path) -> None:
    (checkout / "graph-perf" / "agents" / "openai.yaml").unlink()


def list_a_sub_skill(checkout: Path) -> None:
    plugin = checkout / ".claude-plugin" / "plugin.json"
    plugin.write_text(plugin.read_text().replace('"license"', '"skills": ["./", "./graph-perf"],\n  "license"'))


def break_manifest(checkout: Path) -> None:
    plugin = checkout / ".claude-plugin" / "plugin.json"
    plugin.write_text(plugin.read_text().replace('"name": "npu-graph-skill"', '"name": "npu graph skill"', 1))


def lose_the_router(checkout: Path) -> None:
    (checkout / "SKILL.md").rename(checkout / "SKILLS.md")
    (checkout / "SKILL.md").write_text("no frontmatter\n")


@needs_hosts
@pytest.mark.hosts
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (break_frontmatter, lambda site: codex.check_way(site, "copy")),
        (show_a_sub_skill, lambda site: codex.check_way(site, "copy")),
        (list_a_sub_skill, lambda site: claude_code.check_way(site, "plugin")),
        (break_manifest, claude_code.check_manifests),
        (lose_the_router, skills_cli.check),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_fault_is_seen(fault, check, tmp_path: Path) -> None:
    try:
        results = check(make_site(PROGRAMS_HERE, tmp_path, fault))
    except RuntimeError:  # the host refused to install it at all
        return
    assert not all(result.ok for result in results), results


class TestWithoutHosts:
    def test_the_stand_in_calls_the_tool_once_when_it_is_offered(self) -> None:
        model = ModelStandIn("Skill", {"skill": "x"})
        with model:
            kinds = [
                [event["delta"]["type"] for event in model.answer(request) if event["type"] == "content_block_delta"]
                for request in ({}, {"tools": [{"name": "Skill"}]}, {"tools": [{"name": "Skill"}]})
            ]
        assert kinds == [["text_delta"], ["input_json_delta"], ["text_delta"]]
        assert len(model.requests) == 3

    def test_the_listing_is_read_from_the_request_and_names_of_others_are_left_out(self) -> None:
        text = f"- graph-perf: before\n{claude_code.LISTING}:\n\n- npu-graph-skill: x\n- other: y\n- p:graph-mcp: z\n"
        assert claude_code.listed_skills(claude_code.all_text({"system": [{"text": text}]})) == [
            "npu-graph-skill",
            "p:graph-mcp",
        ]

    def test_a_failure_stands_out_on_the_page_and_cannot_break_its_table(self) -> None:
        rows = [Result("Codex", "copy", "loads", False, "a | b\nc")]
        page = render(rows, {host: "1.2.3" for host, _, _ in PROGRAMS}, "2026-01-01")
        assert "| Codex | copy | loads | **no** | a \\| b c |" in page
        assert cell("x" * 999) == "x" * 300

    @pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
    def test_the_readme_names_the_ways_and_versions_of_the_recorded_run(self, page: str) -> None:
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        recorded = PAGE.read_text(encoding="utf-8")
        for host, package, _ in PROGRAMS:
            (version,) = re.findall(rf"^\| {host} \| ([\d.]+) \| `{package}`", recorded, re.MULTILINE)
            assert f"{host} {version}" in text
        for command in ("git clone", "skills add", "claude plugin marketplace add", "tar xzf npu-graph-skill", "cp -r"):
            assert command in text
            assert command in recorded

    def test_the_recorded_run_covers_every_check_and_found_nothing_wrong(self) -> None:
        text = PAGE.read_text(encoding="utf-8")
        rows = [line.split(" | ") for line in text.splitlines() if " | yes | " in line or "**no**" in line]
        assert len(rows) > len(CHECKS)
        assert "**no**" not in text
        for name in CHECKS:
            host, _, way = name.partition(", ")
            assert any(row[0] == f"| {host}" and (way in ("", "manifests") or row[1] == way) for row in rows), name

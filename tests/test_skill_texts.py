"""The texts an agent reads: valid for every host, within their budgets, and every path and command in them works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml
from support import ROOT, run_script

SUB_SKILLS = ("graph-mode-expert", "graph-mode-diagnostics", "graph-log-analyzer", "graph-perf", "graph-mcp")
SKILL_FILES = [Path("SKILL.md"), *(Path(name) / "SKILL.md" for name in SUB_SKILLS)]
ALLOWED_KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
ROUTER_LINES, SUB_LINES, ROUTER_TOKENS = 150, 200, 2000
# A token is rarely shorter than this many bytes of English text with code in it.
BYTES_PER_TOKEN = 3
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# A client's settings need an absolute path; the part after the bundle's name is checked.
_COMMAND = re.compile(r"python3? (?:<[^>]+>/|/absolute/path/npu-graph-skill/)?([\w./-]+\.py)((?: [^`|\n]+)?)")
_FORBIDDEN = re.compile(r"\$\{CLAUDE|\$ARGUMENTS|\$\{?CLAUDE_SKILL_DIR|^!`", re.MULTILINE)


def read(file: Path) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def front_matter(file: Path) -> dict:
    return yaml.safe_load(read(file).split("---\n")[1])


@pytest.mark.parametrize("file", SKILL_FILES, ids=str)
class TestEachSkill:
    def test_the_official_validator_accepts_it(self, file: Path, tmp_path: Path) -> None:
        folder = tmp_path / ("npu-graph-skill" if file.parent == Path() else file.parent.name)
        folder.mkdir()
        shutil.copy(ROOT / file, folder / "SKILL.md")
        validator = Path(sysconfig.get_path("scripts")) / "agentskills"
        result = subprocess.run([str(validator), "validate", str(folder)], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr

    def test_only_the_six_keys_and_the_right_name(self, file: Path) -> None:
        values = front_matter(file)
        assert set(values) <= ALLOWED_KEYS
        assert values["name"] == ("npu-graph-skill" if file.parent == Path() else file.parent.name)
        assert not re.search(r"[<>]", values["description"])

    def test_no_byte_order_mark_and_no_host_variable(self, file: Path) -> None:
        assert not (ROOT / file).read_bytes().startswith(b"\xef\xbb\xbf")
        assert not _FORBIDDEN.search(read(file))

    def test_it_keeps_its_line_budget(self, file: Path) -> None:
        lines = read(file).count("\n")
        assert lines <= (ROUTER_LINES if file.parent == Path() else SUB_LINES)

    def test_every_link_leads_somewhere(self, file: Path) -> None:
        for target in _LINK.findall(read(file)):
            if "://" not in target:
                assert (ROOT / file.parent / target).exists(), target

    def test_every_command_exists_and_answers_help(self, file: Path) -> None:
        commands = {script for script, _ in _COMMAND.findall(read(file))}
        assert commands, "a skill text without a command to run"
        for script in sorted(commands):
            assert (ROOT / script).is_file(), script
            assert run_script(script, "--help").returncode == 0, script

    def test_every_option_named_in_a_command_exists(self, file: Path) -> None:
        for script, arguments in _COMMAND.findall(read(file)):
            words = arguments.split()
            help_text = run_script(script, "--help").stdout.decode()
            if words and words[0].isalpha() and f"{words[0]}" in help_text:
                help_text += run_script(script, words[0], "--help").stdout.decode()
            for option in re.findall(r"(?<!\S)--[a-z-]+", arguments):
                assert option in help_text, f"{script} {option}"


def test_the_router_is_short_and_its_description_holds_symptoms_in_both_languages() -> None:
    assert len(read(SKILL_FILES[0]).encode()) / BYTES_PER_TOKEN <= ROUTER_TOKENS
    description = front_matter(SKILL_FILES[0])["description"]
    assert 300 <= len(description) <= 500
    for words in ("NPUGraph", "107027", "图模式"):
        assert words in description


def test_the_router_names_each_sub_skill_once_as_an_owner() -> None:
    rows = [line for line in read(SKILL_FILES[0]).splitlines() if line.startswith("| ") and "/SKILL.md)" in line]
    assert len(rows) == len(SUB_SKILLS)
    for name in SUB_SKILLS:
        assert sum(f"({name}/SKILL.md)" in row for row in rows) == 1


@pytest.mark.parametrize("name", SUB_SKILLS)
def test_each_sub_skill_is_hidden_from_implicit_invocation(name: str) -> None:
    settings = yaml.safe_load((ROOT / name / "agents" / "openai.yaml").read_text(encoding="utf-8"))
    assert settings["policy"]["allow_implicit_invocation"] is False
    assert settings["interface"]["display_name"]


def test_no_other_file_is_named_skill_md() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    names = [name for name in listed if name.lower().endswith("skill.md")]
    assert sorted(names) == sorted(str(file) for file in SKILL_FILES)


def test_references_are_one_hop_away_and_link_to_what_exists() -> None:
    pages = [page for name in SUB_SKILLS for page in sorted((ROOT / name / "references").glob("*.md"))]
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.count("\n") <= 300, page
        for target in _LINK.findall(text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page}: {target}"

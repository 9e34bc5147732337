"""install.py: the bundle arrives whole, an upgrade costs no case and no edit, and a failure changes nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import find_pythons

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import install
from npu_graph import bundle, cli, install_plan, installation
from npu_graph.install_plan import BUNDLE_NAME, MANIFEST_NAME, SUB_SKILLS, Entry, Manifest, plan_changes
from npu_graph.installation import WORK_FOLDER, put_in_place, take_away

HISTORY = "knowledge/history.md"
PATTERNS = "knowledge/known-patterns.md"
CASE = "\n## a case of ours · 我们的案例\n"


# ---- a small bundle and looks at trees -----------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def skill_text(name: str) -> str:
    return f'---\nname: {name}\ndescription: "test"\n---\n# {name}\n'


def make_bundle(folder: Path, **changes: str | None) -> Path:
    """A bundle in small; changes are file contents by path, None leaves a file out."""
    files: dict[str, str | None] = {
        "SKILL.md": skill_text(BUNDLE_NAME),
        **{f"{name}/SKILL.md": skill_text(name) for name in SUB_SKILLS},
        "graph-perf/scripts/measure.py": "print(1)\n",
        "npu_graph/__init__.py": '__version__ = "1"\n',
        "README.md": "read me\n",
        "README.zh-CN.md": "读我\n",
        "LICENSE": "Apache-2.0\n",
        HISTORY: "# History\n",
        PATTERNS: "# Patterns\n",
        "knowledge/scripts/kb.py": "print('kb')\n",
        **changes,
    }
    for path, text in files.items():
        if text is not None:
            write(folder / path, text)
    return folder


def tree(folder: Path) -> dict[str, str]:
    """Everything below a folder: content of files, aims of links, and "/" for folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.is_dir():
            found[name] = "/"
        elif path.is_file():
            found[name] = path.read_bytes().decode("utf-8", "surrogateescape")
        else:
            found[name] = "special"
    return found


def actions(outcome: installation.Outcome) -> dict[str, str]:
    return {step.path: step.action for step in outcome.steps}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "my project 项目" / ".claude" / "skills"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "download one")


@pytest.fixture
def target(skills: Path, old: Path) -> Path:
    """Version 1, installed."""
    put_in_place(old, skills / BUNDLE_NAME, "1", fresh=True)
    return skills / BUNDLE_NAME


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv(bundle.KNOWLEDGE_VARIABLE, raising=False)
    return folder


def run_main(monkeypatch: pytest.MonkeyPatch, source: Path, *argv: str) -> int:
    """install.py's main as if it lay in the source folder."""
    monkeypatch.setattr(install, "ROOT", source)
    return install.main(list(argv))


@contextlib.contextmanager
def refused(exit_code: int = cli.NEGATIVE, match: str | None = None):
    """The block raises a CommandError with this exit code and text, fit for one line."""
    with pytest.raises(cli.CommandError, match=match) as caught:
        yield
    assert caught.value.exit_code == exit_code
    assert "\n" not in str(caught.value)


# ---- install -------------------------------------------------------------------------------------------------------

# The folders that users of each agent expect; a wrong one is silent.
HOST_FOLDERS = {
    "claude": "project/.claude/skills",
    "claude-user": "home/.claude/skills",
    "codex": "project/.agents/skills",
    "codex-user": "home/.agents/skills",
    "opencode": "project/.opencode/skills",
    "opencode-user": "home/.config/opencode/skills",
    "trae": "project/.trae/skills",
    "trae-user": "home/.trae/skills",
    "trae-cn-user": "home/.trae-cn/skills",
    "cursor": "project/.cursor/skills",
    "cursor-user": "home/.cursor/skills",
    "gemini": "project/.gemini/skills",
    "gemini-user": "home/.gemini/skills",
    "copilot": "project/.github/skills",
    "copilot-user": "home/.copilot/skills",
}


def test_every_host_of_the_table_is_specified_here():
    assert {host.name for host in install.HOSTS} == set(HOST_FOLDERS)


@pytest.mark.parametrize("host", HOST_FOLDERS)
@pytest.mark.usefixtures("home")
def test_install_check_remove_for_each_host(host, tmp_path, old, monkeypatch, capsys):
    project = tmp_path / "project"
    project.mkdir()
    place = ["--host", host, "--project", str(project)]
    copy = tmp_path / HOST_FOLDERS[host] / BUNDLE_NAME
    assert run_main(monkeypatch, old, "install", *place) == 0
    assert tree(copy)["SKILL.md"] == skill_text(BUNDLE_NAME)
    assert run_main(monkeypatch, old, "check", *place) == 0
    assert run_main(monkeypatch, old, "upgrade", *place) == 0
    assert run_main(monkeypatch, old, "remove", *place) == 0
    assert not copy.exists()
    assert str(copy) in capsys.readouterr().out


def test_a_moved_claude_folder_is_honoured(tmp_path, home, old, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "cfg"))
    assert run_main(monkeypatch, old, "install", "--host", "claude-user", "--project", str(home)) == 0
    assert (tmp_path / "cfg" / "skills" / BUNDLE_NAME / "SKILL.md").is_file()


def test_any_skill_folder_can_be_the_target_and_several_places_at_once(tmp_path, home, old, monkeypatch, capsys):
    argv = ["install", "--target", str(tmp_path / "a b" / "技能"), "--host", "codex-user", "--output", "json"]
    assert run_main(monkeypatch, old, *argv) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["verb"] for result in results] == ["installed", "installed"]
    assert (tmp_path / "a b" / "技能" / BUNDLE_NAME / HISTORY).is_file()
    assert (home / ".agents" / "skills" / BUNDLE_NAME / HISTORY).is_file()


def test_only_parts_of_the_bundle_are_copied(tmp_path, skills):
    noise = {
        "tests/test_x.py": "",
        "tools/x.py": "",
        "evals/e.json": "",
        ".git/config": "",
        ".venv/bin/python": "",
        "pyproject.toml": "",
        "npu_graph/__pycache__/cli.pyc": "",
        "npu_graph/cli.pyc": "",
        "graph-mcp/.mypy_cache/x": "",
        "npu_sim/build/lib.so": "",
        "npu_sim/sim.py": "sim",
        "npu_graph/cli.py.orig": "",
        f"{PATTERNS}.new": "",
        ".npu-graph/knowledge/history.md": "",
    }
    put_in_place(make_bundle(tmp_path / "b", **noise), skills / BUNDLE_NAME, "1", fresh=True)
    plain = make_bundle(tmp_path / "plain", **{"npu_sim/sim.py": "sim"})
    copied = {path for path, text in tree(skills / BUNDLE_NAME).items() if text != "/"}
    base = {f"{install_plan.BASE_FOLDER}/{path}" for path in (HISTORY, PATTERNS)}
    assert copied == {path for path, text in tree(plain).items() if text != "/"} | {MANIFEST_NAME} | base


def test_programs_stay_executable_and_read_only_sources_become_writable(tmp_path, skills):
    source = make_bundle(tmp_path / "b")
    (source / "graph-perf/scripts/measure.py").chmod(0o555)
    (source / HISTORY).chmod(0o444)
    put_in_place(source, skills / BUNDLE_NAME, "1", fresh=True)
    assert (skills / BUNDLE_NAME / "graph-perf/scripts/measure.py").stat().st_mode & 0o700 == 0o700
    assert (skills / BUNDLE_NAME / HISTORY).stat().st_mode & 0o700 == 0o600


def test_the_manifest_names_no_machine_path(target, tmp_path):
    text = (target / MANIFEST_NAME).read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert json.loads(text)["version"] == "1"
    assert json.loads(text)["files"]["README.md"] == install_plan.digest_file(target / "README.md")


def test_install_on_its_own_copy_is_an_upgrade(target, tmp_path):
    outcome = put_in_place(make_bundle(tmp_path / "two", **{"LICENSE": "new"}), target, "2", fresh=True)
    assert (outcome.verb, outcome.version_before, outcome.version) == ("upgraded", "1", "2")
    assert (target / "LICENSE").read_text(encoding="utf-8") == "new"


def test_an_empty_folder_is_no_obstacle(old, skills):
    (skills / BUNDLE_NAME).mkdir()
    put_in_place(old, skills / BUNDLE_NAME, "1", fresh=True)
    assert (skills / BUNDLE_NAME / "SKILL.md").is_file()
    assert [path.name for path in skills.iterdir()] == [BUNDLE_NAME]


def test_foreign_files_are_named_and_left_alone(old, skills):
    write(skills / BUNDLE_NAME / "precious.txt", "mine")
    before = tree(skills)
    for fresh in (True, False):
        with refused(match=r"precious\.txt"):
            put_in_place(old, skills / BUNDLE_NAME, "1", fresh=fresh)
    with refused(match="nothing that install.py made"):
        take_away(skills / BUNDLE_NAME)
    assert tree(skills) == before


def test_a_bundle_without_router_is_refused(tmp_path, skills):
    with refused(cli.NO_INPUT, match=r"SKILL\.md"):
        put_in_place(make_bundle(tmp_path / "b", **{"SKILL.md": None}), skills / BUNDLE_NAME, "1", fresh=True)
    assert tree(skills) == {}


def test_a_bundle_with_a_link_is_refused(old, skills):
    (old / "knowledge" / "shared.md").symlink_to("/etc/hostname")
    with refused(cli.NO_INPUT, match=r"knowledge/shared\.md"):
        put_in_place(old, skills / BUNDLE_NAME, "1", fresh=True)
    assert tree(skills) == {}


def test_targets_that_overlap_the_bundle_are_refused(old, tmp_path):
    before = tree(tmp_path)
    with refused(match="inside the bundle"):
        put_in_place(old, old / ".claude" / "skills" / BUNDLE_NAME, "1", fresh=True)
    with refused(match="inside the target"):
        put_in_place(old, tmp_path, "1", fresh=True)
    assert tree(tmp_path) == before


def test_a_copy_cannot_upgrade_itself_but_can_serve_another_host(target, tmp_path):
    with refused(match="newer bundle"):
        put_in_place(target, target, "1", fresh=False)
    other = tmp_path / "other" / BUNDLE_NAME
    put_in_place(target, other, "1", fresh=True)
    assert set(tree(other)) == set(tree(target))


def test_a_linked_skill_is_refused_and_a_linked_skill_folder_is_followed(old, skills, tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (skills / BUNDLE_NAME).symlink_to(real)
    with refused(match="is a link to"):
        put_in_place(old, skills / BUNDLE_NAME, "1", fresh=True)
    assert tree(real) == {}
    (tmp_path / "linked").symlink_to(real)
    put_in_place(old, tmp_path / "linked" / BUNDLE_NAME, "1", fresh=True)
    assert (real / BUNDLE_NAME / "SKILL.md").is_file()


@pytest.mark.parametrize("fresh", [True, False])
def test_link_loops_and_files_in_the_way_are_one_clear_refusal(fresh, old, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    plain = write(tmp_path / "plain", "text")
    (tmp_path / "s").mkdir()
    write(tmp_path / "s" / BUNDLE_NAME, "a file")
    before = tree(tmp_path)
    for folder in (loop, plain, plain / "x", tmp_path / "s"):
        with refused():
            put_in_place(old, folder / BUNDLE_NAME, "1", fresh=fresh)
            raise AssertionError(f"{folder} was accepted")
    assert tree(tmp_path) == before


# ---- upgrade -------------------------------------------------------------------------------------------------------


def test_upgrade_needs_a_copy(old, skills):
    with refused(match="use install"):
        put_in_place(old, skills / BUNDLE_NAME, "1")
    assert tree(skills) == {}


def test_unmodified_files_are_replaced_added_and_dropped(target, tmp_path):
    changes = {"README.md": "better", "graph-perf/scripts/measure.py": None, "graph-perf/scripts/compare.py": "new"}
    outcome = put_in_place(make_bundle(tmp_path / "two", **changes), target, "2")
    assert (target / "README.md").read_text(encoding="utf-8") == "better"
    assert not (target / "graph-perf/scripts/measure.py").exists()
    did = actions(outcome)
    assert did["README.md"] == "replaced"
    assert did["graph-perf/scripts/measure.py"] == "dropped"
    assert did["graph-perf/scripts/compare.py"] == "added"
    assert did["LICENSE"] == "unchanged"


def test_recorded_cases_and_added_patterns_stay(target, tmp_path):
    with (target / HISTORY).open("a", encoding="utf-8") as history:
        history.write(CASE)
    write(target / "knowledge" / "team" / "本地 patterns.md", "local")
    outcome = put_in_place(make_bundle(tmp_path / "two", **{"README.md": "better"}), target, "2")
    assert CASE in (target / HISTORY).read_text(encoding="utf-8")
    assert (target / "knowledge" / "team" / "本地 patterns.md").read_text(encoding="utf-8") == "local"
    assert actions(outcome)[HISTORY] == "kept"
    assert not (target / f"{HISTORY}.new").exists()


def test_when_both_changed_yours_stays_and_the_new_one_is_offered(target, tmp_path):
    write(target / PATTERNS, "# Patterns\nmine\n")
    two = make_bundle(tmp_path / "two", **{PATTERNS: "# Patterns\ntheirs\n"})
    outcome = put_in_place(two, target, "2")
    assert (target / PATTERNS).read_text(encoding="utf-8") == "# Patterns\nmine\n"
    assert (target / f"{PATTERNS}.new").read_text(encoding="utf-8") == "# Patterns\ntheirs\n"
    assert actions(outcome)[f"{PATTERNS}.new"] == "conflict"
    # The common ancestor is there for a merge.
    assert (target / install_plan.BASE_FOLDER / PATTERNS).read_text(encoding="utf-8") == "# Patterns\n"
    # Running the same upgrade again neither loses nor doubles an open offer, and does not repeat one that was settled.
    put_in_place(two, target, "2")
    assert [path.name for path in (target / "knowledge").glob("*.new*")] == ["known-patterns.md.new"]
    (target / f"{PATTERNS}.new").unlink()
    put_in_place(two, target, "2")
    assert not (target / f"{PATTERNS}.new").exists()


def test_the_kept_ancestor_makes_a_three_way_merge_possible(target, tmp_path):
    shipped = "".join(f"### pattern {number}\n" for number in range(9))
    put_in_place(make_bundle(tmp_path / "two", **{PATTERNS: shipped}), target, "2")
    write(target / PATTERNS, shipped + "### my pattern\n")
    for version in ("3", "4"):  # the ancestor stays that of the user's text, even when offers go unread
        theirs = shipped.replace("pattern 0", f"pattern 0 of {version}")
        put_in_place(make_bundle(tmp_path / version, **{PATTERNS: theirs}), target, version)
    merge = [PATTERNS, f"{install_plan.BASE_FOLDER}/{PATTERNS}", f"{PATTERNS}.new"]
    subprocess.run(["git", "merge-file", *merge], cwd=target, check=True, timeout=60)
    merged = (target / PATTERNS).read_text(encoding="utf-8")
    assert "pattern 0 of 4" in merged
    assert "my pattern" in merged


def test_an_offer_that_the_user_edited_is_kept_beside_the_next_one(target, tmp_path):
    write(target / PATTERNS, "mine")
    put_in_place(make_bundle(tmp_path / "two", **{PATTERNS: "two"}), target, "2")
    write(target / f"{PATTERNS}.new", "half merged")
    put_in_place(make_bundle(tmp_path / "three", **{PATTERNS: "three"}), target, "3")
    assert (target / f"{PATTERNS}.new").read_text(encoding="utf-8") == "half merged"
    assert (target / f"{PATTERNS}.new.2").read_text(encoding="utf-8") == "three"


def test_an_added_file_that_the_new_version_ships_too_is_a_conflict(target, tmp_path):
    write(target / "knowledge" / "extra.md", "mine")
    put_in_place(make_bundle(tmp_path / "two", **{"knowledge/extra.md": "theirs"}), target, "2")
    assert (target / "knowledge/extra.md").read_text(encoding="utf-8") == "mine"
    assert (target / "knowledge/extra.md.new").read_text(encoding="utf-8") == "theirs"


def test_other_local_changes_are_saved_and_reported(target, tmp_path):
    write(target / "README.md", "my notes")
    write(target / "knowledge/scripts/kb.py", "my kb")
    write(target / "notes.txt", "added")
    outcome = put_in_place(make_bundle(tmp_path / "two", **{"README.md": "better"}), target, "2")
    assert (target / "README.md").read_text(encoding="utf-8") == "better"
    assert (target / "README.md.orig").read_text(encoding="utf-8") == "my notes"
    assert (target / "knowledge/scripts/kb.py.orig").read_text(encoding="utf-8") == "my kb"
    assert (target / "notes.txt").read_text(encoding="utf-8") == "added"
    assert actions(outcome)["README.md.orig"] == "saved"
    write(target / "README.md", "more notes")
    put_in_place(make_bundle(tmp_path / "three"), target, "3")
    assert (target / "README.md.orig").read_text(encoding="utf-8") == "my notes"
    assert (target / "README.md.orig.2").read_text(encoding="utf-8") == "more notes"


def test_a_changed_file_that_was_dropped_is_kept_and_a_deleted_one_comes_back(target, tmp_path):
    write(target / "graph-perf/scripts/measure.py", "mine")
    (target / "LICENSE").unlink()
    outcome = put_in_place(make_bundle(tmp_path / "two", **{"graph-perf/scripts/measure.py": None}), target, "2")
    assert (target / "graph-perf/scripts/measure.py").read_text(encoding="utf-8") == "mine"
    assert actions(outcome)["LICENSE"] == "restored"


def test_folders_and_files_that_swapped_roles_are_saved_not_lost(target, tmp_path):
    shutil.rmtree(target / "graph-mcp")
    write(target / "graph-mcp", "a file where a folder should be")
    (target / "README.md").unlink()
    write(target / "README.md" / "deep" / "note", "in a folder where a file should be")
    (target / HISTORY).unlink()
    write(target / HISTORY / "case.md", "a case")
    put_in_place(make_bundle(tmp_path / "two"), target, "2")
    assert (target / "graph-mcp" / "SKILL.md").is_file()
    assert (target / "graph-mcp.orig").read_text(encoding="utf-8") == "a file where a folder should be"
    assert (target / "README.md.orig/deep/note").read_text(encoding="utf-8") == "in a folder where a file should be"
    assert (target / f"{HISTORY}.orig/case.md").read_text(encoding="utf-8") == "a case"
    assert install.check(target, tmp_path, {}).problems == []


def test_a_shipped_folder_can_become_a_file_and_back(target, tmp_path):
    put_in_place(make_bundle(tmp_path / "two", **{"npu_sim": "a file"}), target, "2")
    put_in_place(make_bundle(tmp_path / "three", **{"npu_sim/sim.py": "x"}), target, "3")
    outcome = put_in_place(make_bundle(tmp_path / "four", **{"npu_sim": "a file"}), target, "4")
    assert (target / "npu_sim").read_text(encoding="utf-8") == "a file"
    assert "saved" not in actions(outcome).values()


def test_links_of_the_user_survive_as_links_and_are_never_written_through(target, tmp_path):
    shared = write(tmp_path / "shared" / "history.md", "team cases")
    (target / HISTORY).unlink()
    (target / HISTORY).symlink_to(shared)
    (target / "README.md").unlink()
    (target / "README.md").symlink_to(shared)
    (target / "loop").symlink_to(target / "loop")
    changes = {HISTORY: "# History 2\n", "README.md": "better"}
    put_in_place(make_bundle(tmp_path / "two", **changes), target, "2")
    assert shared.read_text(encoding="utf-8") == "team cases"
    assert (target / HISTORY).is_symlink()
    assert not (target / "README.md").is_symlink()
    assert (target / "README.md.orig").is_symlink()
    assert (target / "loop").is_symlink()


def test_a_linked_knowledge_folder_is_refused_with_the_way_out(target, old, tmp_path):
    shutil.move(str(target / "knowledge"), str(tmp_path / "team"))
    (target / "knowledge").symlink_to(tmp_path / "team")
    before = tree(tmp_path)
    with refused(match="NPU_GRAPH_KNOWLEDGE"):
        put_in_place(make_bundle(tmp_path.parent / f"{tmp_path.name}-two"), target, "2")
    assert tree(tmp_path) == before


def test_pipes_and_sockets_are_named_not_opened(target, old):
    os.mkfifo(target / "pipe\nwith newline")
    with refused(match=r"pipe\\nwith newline"):
        put_in_place(old, target, "1")
    (target / "pipe\nwith newline").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(target)  # a socket's path is limited to about 100 bytes
        try:
            server.bind("s")
        finally:
            os.chdir(here)
        with refused(match="socket"):
            put_in_place(old, target, "1")


def test_odd_names_of_the_user_survive(target, tmp_path, capsys):
    odd = [b"line\nbreak.md", b"not-utf8-\xff.md", b"back\\slash", "中文 \u202e.md".encode()]
    for name in odd:
        (target / "knowledge" / os.fsdecode(name)).write_text("x")
    outcome = put_in_place(make_bundle(tmp_path / "two"), target, "2")
    assert set(odd) <= {os.fsencode(path.name) for path in (target / "knowledge").iterdir()}
    text = install.describe_outcome(install.Place("", target.parent), outcome, dry_run=False)
    assert "line\\nbreak.md" in text
    assert "\u202e" not in text
    assert "\udcff" not in text


def test_dry_run_shows_the_plan_and_changes_nothing(target, tmp_path, home, monkeypatch, capsys):
    write(target / PATTERNS, "mine")
    write(target / "README.md", "mine")
    two = make_bundle(tmp_path / "two", **{PATTERNS: "theirs", "LICENSE": None})
    before = tree(tmp_path)
    for command in ("install", "upgrade", "remove"):
        assert run_main(monkeypatch, two, command, "--target", str(target.parent), "--dry-run") == 0
    assert tree(tmp_path) == before
    shown = capsys.readouterr().out
    for line in ("would be upgraded", f"{PATTERNS}.new", "README.md.orig", "dropped: LICENSE", "deleted: SKILL.md"):
        assert line in shown


def test_running_the_same_version_again_touches_nothing(target, old):
    before = {path: (target / path).stat().st_mtime_ns for path in tree(target)}
    outcome = put_in_place(old, target, "1")
    assert set(actions(outcome).values()) == {"unchanged"}
    assert {path: (target / path).stat().st_mtime_ns for path in tree(target)} == before


def test_one_failing_place_does_not_stop_the_others(tmp_path, home, old, monkeypatch, capsys):
    write(home / ".claude" / "skills" / BUNDLE_NAME / "foreign", "x")
    with refused(match="foreign"):
        run_main(monkeypatch, old, "install", "--host", "claude-user", "--host", "codex-user")
    assert (home / ".agents" / "skills" / BUNDLE_NAME / "SKILL.md").is_file()
    assert "installed" in capsys.readouterr().out


# What a manifest must not be able to make install.py do: believe it, or reach outside the target.
BAD_MANIFESTS = {
    "empty": "",
    "not json": "{",
    "not an object": "[]",
    "deep": "[" * 100_000,
    "no files": '{"schema": "npu-graph/install-manifest/1", "version": "1", "offers": {}}',
    "another schema": '{"schema": "other/1", "version": "1", "files": {}, "offers": {}}',
    "climbing": '{"schema": "npu-graph/install-manifest/1", "version": "1", "files": {"../x": "0"}, "offers": {}}',
    "absolute": '{"schema": "npu-graph/install-manifest/1", "version": "1", "files": {"/etc/x": "0"}, "offers": {}}',
    "drive": '{"schema": "npu-graph/install-manifest/1", "version": "1", "files": {"C:/x": "0"}, "offers": {}}',
    "number": '{"schema": "npu-graph/install-manifest/1", "version": "1", "files": {"x": 0}, "offers": {}}',
    "offer": '{"schema": "npu-graph/install-manifest/1", "version": "1", "files": {}, "offers": {"a": "../b"}}',
}


@pytest.mark.parametrize("kind", BAD_MANIFESTS)
def test_a_damaged_manifest_is_not_believed(kind, target, old):
    (target / MANIFEST_NAME).write_text(BAD_MANIFESTS[kind], encoding="utf-8")
    before = tree(target.parent)
    for act in (lambda: put_in_place(old, target, "2"), lambda: take_away(target)):
        with refused(match="damaged"):
            act()
    assert tree(target.parent) == before


def test_a_manifest_that_is_a_pipe_or_a_link_is_not_read(target, old):
    (target / MANIFEST_NAME).unlink()
    os.mkfifo(target / MANIFEST_NAME)
    with refused(match="not a manifest"):
        put_in_place(old, target, "2")
    (target / MANIFEST_NAME).unlink()
    (target / MANIFEST_NAME).symlink_to("/dev/zero")
    with refused(match="not a manifest"):
        take_away(target)


def test_plan_covers_every_combination_of_shipped_and_local_states():
    """base, mine, new each absent, equal or different: nothing of the user may be without a place in the new tree."""
    for path in ("knowledge/k.md", "graph-perf/x.py"):
        for base in (None, "a"):
            for mine in (None, "a", "b", "c"):
                for new in (None, "a", "b"):
                    owned = Manifest("1", {path: base} if base else {}, {})
                    present = {path: Entry("file", mine)} if mine else {}
                    steps = plan_changes(owned, present, {path: new} if new else {})
                    made = [(step.origin, step.path) for step in steps if step.origin]
                    assert len({place for _, place in made}) == len(made)
                    theirs = mine and mine not in (base, new)
                    assert any(origin == "local" for origin, _ in made) == bool(theirs)
                    assert any(origin == "bundle" for origin, _ in made) == bool(
                        new and not (theirs and path.startswith("knowledge") and new == base)
                    )


# ---- failures half-way ---------------------------------------------------------------------------------------------

# Everything through which installation.py changes the disk.
CHANGES = (
    (shutil, "copyfile"),
    (shutil, "copy2"),
    (shutil, "rmtree"),
    (os, "fsync"),
    (os, "unlink"),
    (os, "rmdir"),
    (Path, "mkdir"),
    (Path, "unlink"),  # Python 3.8 does not come through os here
    (Path, "rmdir"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "write_text"),
)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int, stop) -> list[str]:
    """Make the number-th change of the disk call stop(name) instead; returns the changes seen."""
    seen: list[str] = []

    def wrap(name, real):
        def changed(*args, **kwargs):
            seen.append(name)
            if len(seen) == number:
                stop(name)
            return real(*args, **kwargs)

        return changed

    for owner, name in CHANGES:
        monkeypatch.setattr(owner, name, wrap(name, getattr(owner, name)))
    return seen


def is_version(folder: Path, text: str) -> bool:
    """Whether a folder is the whole bundle with this README, with the recorded case."""
    files = tree(folder)
    listed = json.loads(files.get(MANIFEST_NAME, '{"files": ["absent"]}'))["files"]
    return files.get("README.md") == text and CASE in files.get(HISTORY, "") and all(path in files for path in listed)


@pytest.fixture
def two(target, tmp_path) -> Path:
    """A newer bundle, and a copy with a recorded case to upgrade."""
    with (target / HISTORY).open("a", encoding="utf-8") as history:
        history.write(CASE)
    return make_bundle(tmp_path / "two", **{"README.md": "better", "LICENSE": None, "npu_sim/sim.py": "x"})


def no_space(name: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def control_c(name: str) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("stop", "error"), [(no_space, cli.CommandError), (control_c, KeyboardInterrupt)])
def test_a_full_disk_or_an_interrupt_at_any_moment_leaves_a_whole_bundle(stop, error, target, two, tmp_path):
    saved = tmp_path / "saved"
    shutil.copytree(target, saved)
    undone = 0
    for number in range(1, 1000):
        shutil.rmtree(target)
        shutil.copytree(saved, target)
        failure = None
        with pytest.MonkeyPatch.context() as patch:
            seen = interrupt_at(patch, number, stop)
            try:
                put_in_place(two, target, "2")
            except error as caught:
                failure = caught
        if len(seen) < number:
            break
        if tree(target) == tree(saved):
            undone += 1
            assert failure is not None
        else:
            assert is_version(target, "better"), (number, failure)
        put_in_place(two, target, "2")
        assert is_version(target, "better"), (number, failure)
        assert [path.name for path in target.parent.iterdir()] == [BUNDLE_NAME], (number, failure)
    assert undone > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork to die half-way")
def test_a_kill_at_any_moment_leaves_a_whole_bundle_and_the_next_run_finishes(target, two, tmp_path):
    saved = tmp_path / "saved"
    shutil.copytree(target, saved)
    died = 0
    for number in range(1, 1000):
        shutil.rmtree(target)
        shutil.copytree(saved, target)
        child = os.fork()
        if child == 0:
            try:
                interrupt_at(pytest.MonkeyPatch(), number, lambda name: os._exit(9))
                put_in_place(two, target, "2")
            finally:
                os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
        died += 1
        work = target.parent / WORK_FOLDER
        whole = [folder for folder in (target, work / "old") if is_version(folder, "read me\n")]
        whole += [target] if is_version(target, "better") else []
        assert whole, number
        put_in_place(two, target, "2")
        assert is_version(target, "better"), number
        assert [path.name for path in target.parent.iterdir()] == [BUNDLE_NAME]
    assert died > 30


def test_a_fresh_install_that_fails_leaves_not_even_a_folder(old, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 12, no_space)
        with refused(match="nothing was changed.*No space left"):
            put_in_place(old, tmp_path / "p" / ".claude" / "skills" / BUNDLE_NAME, "1", fresh=True)
    assert not (tmp_path / "p").exists()


def test_a_read_only_skill_folder_is_one_line(target, two, monkeypatch):
    before = tree(target.parent)

    def read_only(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "x")

    monkeypatch.setattr(Path, "mkdir", read_only)
    monkeypatch.setattr(bundle, "is_writable", lambda folder: False)
    with refused(match="nothing was changed.*Read-only file system"):
        put_in_place(two, target, "2")
    with refused(match="nothing was changed.*read-only"):
        take_away(target)
    assert tree(target.parent) == before


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permission bits do not bind root")
def test_permission_bits_are_respected(target, two):
    target.parent.chmod(0o555)
    try:
        with refused(match="Permission denied"):
            put_in_place(two, target, "2")
    finally:
        target.parent.chmod(0o755)
    assert is_version(target, "read me\n")


def test_a_read_only_folder_of_the_user_does_not_clog_upgrades(target, two):
    write(target / "knowledge" / "locked" / "own.md", "mine")
    (target / "knowledge" / "locked").chmod(0o555)
    assert put_in_place(two, target, "2").remarks == []
    assert (target / "knowledge/locked/own.md").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in target.parent.iterdir()] == [BUNDLE_NAME]


def test_a_folder_that_cannot_be_renamed_says_what_to_do(target, two, monkeypatch):
    def other_layer(self, aim):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(self))

    monkeypatch.setattr(Path, "rename", other_layer)
    with refused(match="cp -a"):
        put_in_place(two, target, "2")
    assert is_version(target, "read me\n")


def test_a_bundle_that_changes_while_it_is_copied_is_not_installed(target, two, monkeypatch):
    real = shutil.copyfile

    def changed(source, destination, **options):
        real(source, destination, **options)
        if destination.endswith("README.md"):
            Path(destination).write_text("torn", encoding="utf-8")

    monkeypatch.setattr(shutil, "copyfile", changed)
    with refused(match="changed while it was copied"):
        put_in_place(two, target, "2")
    assert is_version(target, "read me\n")


@pytest.mark.parametrize(("late_path", "found_at"), [(HISTORY, HISTORY), ("knowledge/new.md", "knowledge/new.md")])
def test_a_case_recorded_during_the_upgrade_is_carried_over(late_path, found_at, target, two, monkeypatch):
    real = installation.swap

    def record_then_swap(work, folder, before):
        with (folder / late_path).open("a", encoding="utf-8") as sink:
            sink.write("late case")
        real(work, folder, before)

    monkeypatch.setattr(installation, "swap", record_then_swap)
    put_in_place(two, target, "2")
    assert "late case" in (target / found_at).read_text(encoding="utf-8")
    assert is_version(target, "better")


def test_a_late_case_in_a_file_that_was_just_replaced_is_set_beside_it(target, tmp_path, monkeypatch):
    real = installation.swap

    def record_then_swap(work, folder, before):
        write(folder / PATTERNS, "late")
        real(work, folder, before)

    monkeypatch.setattr(installation, "swap", record_then_swap)
    outcome = put_in_place(make_bundle(tmp_path / "two", **{PATTERNS: "theirs"}), target, "2")
    assert (target / f"{PATTERNS}.orig").read_text(encoding="utf-8") == "late"
    assert any(f"{PATTERNS}.orig" in remark for remark in outcome.remarks)


def test_two_installers_do_not_work_at_once(target, two):
    work = target.parent / WORK_FOLDER
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        work.mkdir()
        write(work / "owner", f"{other.pid} {installation.platform.node()}")
        with refused(match="another install.py is at work"):
            put_in_place(two, target, "2")
        other.kill()
    put_in_place(two, target, "2")
    assert is_version(target, "better")


def test_a_stranger_in_the_work_folders_place_is_left_alone(target, two, tmp_path):
    precious = write(tmp_path / "precious" / "file", "x")
    work = target.parent / WORK_FOLDER
    work.symlink_to(precious.parent)
    with refused(match="in the way"):
        put_in_place(two, target, "2")
    work.unlink()
    write(work / "file", "x")
    with refused(match="in the way"):
        put_in_place(two, target, "2")
    assert precious.is_file()
    assert (work / "file").is_file()


# ---- check ---------------------------------------------------------------------------------------------------------


def problems_of(target: Path, environ: dict[str, str] | None = None) -> str:
    return "\n".join(install.check(target, target.parent, environ or {}).problems)


def test_check_passes_a_fresh_copy_and_says_what_it_looked_at(target, old):
    health = install.check(target, target.parent, {})
    assert health.problems == []
    assert health.files == len(install_plan.shipped_files(old))
    assert any(str(target / "knowledge") in note for note in health.notes)


def spoil_frontmatter(target: Path) -> None:
    write(target / "graph-mcp/SKILL.md", "no frontmatter\nname: graph-mcp\n")


# What a user or a sync tool does to a copy, and the words that must name it.
FAULTS = {
    "changed script": (lambda t: write(t / "graph-perf/scripts/measure.py", "x"), "changed since installation"),
    "missing file": (lambda t: (t / "README.md").unlink(), "missing: README.md"),
    "file became a link": (
        lambda t: ((t / "README.md").unlink(), (t / "README.md").symlink_to("LICENSE")),
        "changed since installation: README.md",
    ),
    "no router": (lambda t: (t / "SKILL.md").unlink(), "missing: SKILL.md"),
    "wrong name": (lambda t: write(t / "graph-perf/SKILL.md", skill_text("perf")), "name is 'perf'"),
    "no frontmatter": (spoil_frontmatter, "name is None"),
    "sub-skill gone": (lambda t: shutil.rmtree(t / "graph-log-analyzer"), "missing: graph-log-analyzer/SKILL.md"),
    "stray skill": (lambda t: write(t / "knowledge/x/SKILL.md", "x"), "stray, hosts list it"),
    "no manifest": (lambda t: (t / MANIFEST_NAME).unlink(), "nothing could be compared"),
    "interrupted run": (lambda t: (t.parent / WORK_FOLDER).mkdir(), "interrupted run"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_names_what_is_off(fault, target, home, monkeypatch, capsys):
    spoil, words = FAULTS[fault]
    spoil(target)
    assert words in problems_of(target)
    assert run_main(monkeypatch, target.parent, "check", "--target", str(target.parent)) == cli.NEGATIVE
    assert "problem: " in capsys.readouterr().out


def test_check_of_an_empty_list_of_files_does_not_pass(target):
    record = json.loads((target / MANIFEST_NAME).read_text(encoding="utf-8"))
    write(target / MANIFEST_NAME, json.dumps({**record, "files": {}}))
    assert "nothing could be compared" in problems_of(target)


def test_check_of_nothing_is_no_pass(skills, tmp_path, home, monkeypatch):
    with refused(cli.NO_INPUT, match="nothing to check"):
        install.check(skills / BUNDLE_NAME, skills, {})
    with refused(cli.NO_INPUT, match="no copy"):
        run_main(monkeypatch, make_bundle(tmp_path / "b"), "check", "--project", str(skills))


def test_check_takes_changed_knowledge_as_normal_and_names_open_merges(target, tmp_path):
    write(target / PATTERNS, "mine")
    put_in_place(make_bundle(tmp_path / "two", **{PATTERNS: "theirs"}), target, "2")
    health = install.check(target, tmp_path, {})
    assert health.problems == []
    assert any("waits to be merged" in note and f"{PATTERNS}.new" in note for note in health.notes)


def test_check_says_where_cases_go(target, tmp_path, monkeypatch):
    def places(environ):
        return "\n".join(install.check(target, tmp_path, environ).notes)

    assert str(tmp_path / "team") in places({bundle.KNOWLEDGE_VARIABLE: str(tmp_path / "team")})
    real = bundle.is_writable
    monkeypatch.setattr(bundle, "is_writable", lambda folder: folder != target / "knowledge" and real(folder))
    assert str(tmp_path / ".npu-graph" / "knowledge") in places({})
    monkeypatch.setattr(bundle, "is_writable", lambda folder: False)
    assert "cannot be recorded" in problems_of(target)


def test_check_without_a_place_finds_the_copies(target, old, home, monkeypatch, capsys):
    project = target.parent.parent.parent
    assert run_main(monkeypatch, old, "check", "--project", str(project), "--output", "json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "npu-graph/install/1"
    assert [result["host"] for result in record["results"]] == ["claude"]
    assert run_main(monkeypatch, target, "check") == 0  # an installed copy looks at itself
    assert str(target) in capsys.readouterr().out


# ---- remove --------------------------------------------------------------------------------------------------------


def test_remove_of_an_unchanged_copy_leaves_nothing(target):
    write(target / "npu_graph/__pycache__/cli.cpython-311.pyc", "cache")
    take_away(target)
    assert tree(target.parent) == {}


def test_remove_keeps_and_names_what_the_user_made(target, tmp_path):
    write(target / HISTORY, "# History\n" + CASE)
    write(target / "README.md", "my notes")
    write(target / "notes.txt", "added")
    outcome = take_away(target)
    kept = {path for path, text in tree(target).items() if text != "/" and not path.startswith(".npu-graph")}
    assert kept == {HISTORY, "README.md", "notes.txt"}
    text = install.describe_outcome(install.Place("", target.parent), outcome, dry_run=False)
    for path in kept:
        assert f"kept: {path}" in text
    # A later install takes the cases over.
    put_in_place(make_bundle(tmp_path / "again"), target, "1", fresh=True)
    assert CASE in (target / HISTORY).read_text(encoding="utf-8")
    assert not (target / f"{HISTORY}.new").exists()
    assert (target / "README.md.orig").read_text(encoding="utf-8") == "my notes"


def test_delete_cases_deletes_knowledge_and_nothing_else_of_the_user(target):
    write(target / HISTORY, CASE)
    write(target / "knowledge/own.md", "own")
    write(target / "notes.txt", "added")
    take_away(target, delete_cases=True)
    assert not (target / "knowledge").exists()
    assert (target / "notes.txt").read_text(encoding="utf-8") == "added"


def test_remove_never_follows_a_link_out_of_the_copy(target, old, tmp_path):
    outside = tmp_path / "outside"
    shutil.copytree(target / "graph-perf", outside)
    shutil.rmtree(target / "graph-perf")
    (target / "graph-perf").symlink_to(outside)
    (target / "knowledge" / "away").symlink_to(outside)
    shutil.rmtree(target / install_plan.BASE_FOLDER)
    (target / install_plan.BASE_FOLDER).symlink_to(outside)
    before = tree(outside)
    take_away(target, delete_cases=True)
    assert tree(outside) == before
    assert tree(target).keys() == {"graph-perf", MANIFEST_NAME}


def test_remove_leaves_pipes_alone(target):
    os.mkfifo(target / "pipe")
    take_away(target)
    assert tree(target).keys() == {"pipe", MANIFEST_NAME}


def test_an_interrupted_removal_can_be_run_again(target):
    def denied(name):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x")

    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 4, denied)
        with refused(match="run remove again"):
            take_away(target)
    take_away(target)
    assert not target.exists()


# ---- the command line ----------------------------------------------------------------------------------------------

# Mistakes at the prompt, and what the one line must say.
WRONG_USAGE = {
    "no place": (["install"], "--host"),
    "delete-cases with install": (["install", "--host", "claude", "--delete-cases"], "goes with remove"),
    "unknown host": (["install", "--host", "emacs"], "emacs"),
    "no such project": (["install", "--host", "claude", "--project", "/no/such"], "not a folder"),
    "empty target, as from an unset variable": (["install", "--target", ""], "empty"),
    "empty project": (["check", "--project", ""], "empty"),
    "the skill itself as target": (["install", "--target", f"x/{BUNDLE_NAME}"], "its parent"),
    "no command": ([], "command"),
}


def run_script(script: Path, *argv: str, python: str = sys.executable, env: dict[str, str] | None = None, cwd=None):
    return subprocess.run(
        [python, "-I", "-S", str(script), *argv],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )


@pytest.mark.parametrize("mistake", WRONG_USAGE)
def test_wrong_usage_is_one_line_and_exit_2(mistake, tmp_path):
    argv, words = WRONG_USAGE[mistake]
    done = run_script(ROOT / "install.py", *argv, env={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == cli.USAGE
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["install", "upgrade", "check", "remove"])
@pytest.mark.parametrize("folder", ["x" * 300, "file/x", "loop/x"])
def test_an_impossible_target_is_one_line(command, folder, tmp_path):
    source = real_bundle(tmp_path / "b")
    write(tmp_path / "file", "x")
    (tmp_path / "loop").symlink_to("loop")
    done = run_script(source / "install.py", command, "--target", str(tmp_path / folder), cwd=tmp_path)
    assert done.returncode in (cli.NEGATIVE, cli.NO_INPUT)
    assert len(done.stderr.splitlines()) == 1


def test_a_vanished_working_folder_is_one_line(tmp_path):
    script = "import os, sys; os.mkdir('x'); os.chdir('x'); os.rmdir('../x'); os.execv(sys.executable, sys.argv[1:])"
    argv = [sys.executable, "-I", str(ROOT / "install.py"), "install", "--host", "claude"]
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (cli.USAGE, 1)
    assert "--project" in done.stderr


def test_a_folder_name_with_a_line_break_stays_on_one_line(tmp_path, home, old, monkeypatch, capsys):
    assert run_main(monkeypatch, old, "install", "--target", str(tmp_path / "a\nb")) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_upgrade_without_a_place_names_the_copies_there_are(target, old, home, monkeypatch):
    with refused(cli.USAGE, match="claude"):
        run_main(monkeypatch, old, "upgrade", "--project", str(target.parent.parent.parent))


def real_bundle(folder: Path) -> Path:
    """The real install.py and its package, with the small bundle around them."""
    make_bundle(folder)
    shutil.copytree(ROOT / "npu_graph", folder / "npu_graph", dirs_exist_ok=True)
    shutil.copy(ROOT / "install.py", folder / "install.py")
    return folder


SUPPORTED = find_pythons() or [("this", sys.executable)]


@pytest.mark.versions
@pytest.mark.parametrize("python", [path for _, path in SUPPORTED], ids=[version for version, _ in SUPPORTED])
def test_the_whole_life_of_a_copy_with_bare_python(python, tmp_path):
    source = real_bundle(tmp_path / "down load 下载")
    project = tmp_path / "proj 项目"
    project.mkdir()
    place = ["--host", "codex", "--project", str(project)]
    copy = project / ".agents" / "skills" / BUNDLE_NAME
    bare = {"python": str(python), "env": {"LC_ALL": "C", "PYTHONUTF8": "0"}, "cwd": tmp_path}
    assert run_script(source / "install.py", "install", *place, **bare).returncode == 0
    with (copy / HISTORY).open("a", encoding="utf-8") as history:
        history.write(CASE)
    write(source / "README.md", "better")
    done = run_script(source / "install.py", "upgrade", *place, **bare)
    assert done.returncode == 0, done.stderr
    assert f"kept: {HISTORY}" in done.stdout
    assert str(copy) in done.stdout
    checked = run_script(copy / "install.py", "check", **bare)  # with the installed script, without a place
    assert checked.returncode == 0, checked.stdout + checked.stderr
    itself = run_script(copy / "install.py", "upgrade", *place, **bare)
    assert (itself.returncode, len(itself.stderr.splitlines())) == (1, 1)
    removed = run_script(copy / "install.py", "remove", "--delete-cases", *place, **bare)
    assert removed.returncode == 0, removed.stderr
    assert not copy.exists()


@pytest.mark.versions
def test_an_older_python_gets_a_sentence():
    python = shutil.which("python3.7")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("no Python 3.7 that starts")
    done = run_script(ROOT / "install.py", "check", python=str(python))
    assert (done.returncode, len(done.stderr.splitlines())) == (cli.ABSENT, 1)
    assert "3.8" in done.stderr


# ---- this repository -----------------------------------------------------------------------------------------------

# What lies at the top of the repository and is not copied, on purpose: a new part must be put into one of the lists.
# The plugin manifests go into releases only: in a skill folder they would put a prefix before the skills' names on Codex.
NOT_COPIED = {
    *(".ci", ".gitignore", ".gitattributes", ".github", "Makefile", "pyproject.toml"),
    *("tools", "tests", "evals", "docs", ".claude-plugin"),
}


def test_every_part_of_this_repository_is_declared_copied_or_not():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    tops = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert "npu_graph" in tops
    assert {top for top in tops if not install_plan.is_shipped(top)} - NOT_COPIED == set()


def test_this_repository_installs_and_passes_its_own_check(tmp_path, home, monkeypatch, capsys):
    if not (ROOT / "SKILL.md").is_file():
        with refused(cli.NO_INPUT, match=r"SKILL\.md"):
            run_main(monkeypatch, ROOT, "install", "--target", str(tmp_path / "s"))
        pytest.skip("the repository has no SKILL.md yet")
    assert run_main(monkeypatch, ROOT, "install", "--target", str(tmp_path / "s")) == 0
    assert run_main(monkeypatch, ROOT, "check", "--target", str(tmp_path / "s")) == 0, capsys.readouterr().out
    assert not list((tmp_path / "s").rglob("test_*.py"))
    assert run_main(monkeypatch, ROOT, "remove", "--target", str(tmp_path / "s")) == 0
    assert tree(tmp_path / "s") == {}

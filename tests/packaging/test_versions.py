"""One command changes the version everywhere; it refuses a state that does not fit together."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, run_script

sys.path.insert(0, str(ROOT / "tools"))
from bump_version import CHANGELOG, PLACES

TOOL = ROOT / "tools" / "bump_version.py"
CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a thing\n"


def bump(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(TOOL), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=True).stdout


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that hold a version, the changelog with one unreleased entry."""
    root = tmp_path / "checkout"
    for place in PLACES:
        (root / place.file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place.file, root / place.file)
    (root / CHANGELOG).write_text(CHANGES, encoding="utf-8")
    return root


def test_all_places_of_this_checkout_agree() -> None:
    result = bump(ROOT, "--check")
    assert result.returncode == 0, result.stderr
    assert "in 0 places" not in result.stdout


def test_one_command_changes_every_place_and_heads_the_changelog(checkout: Path) -> None:
    result = bump(checkout, "77.8.9")
    assert result.returncode == 0, result.stderr
    assert json.loads((checkout / ".claude-plugin/plugin.json").read_text())["version"] == "77.8.9"
    assert json.loads((checkout / ".claude-plugin/marketplace.json").read_text())["plugins"][0]["version"] == "77.8.9"
    assert '\nversion = "77.8.9"\n' in (checkout / "pyproject.toml").read_text()
    assert '\n__version__ = "77.8.9"\n' in (checkout / "npu_graph/__init__.py").read_text()
    head = (checkout / CHANGELOG).read_text(encoding="utf-8").split("### Added")[0]
    assert head.startswith("# Changelog\n\n## [Unreleased]\n\n## [77.8.9] - 20")
    assert bump(checkout, "--check").returncode == 0
    for place in PLACES:
        before, after = (ROOT / place.file).read_text().split("\n"), (checkout / place.file).read_text().split("\n")
        assert len([1 for old, new in zip(before, after) if old != new]) == 1, place.file


def test_the_scripts_print_the_version_that_stands(tmp_path: Path) -> None:
    version = bump(ROOT, "--check").stdout.split()[0]
    plan = json.loads(
        run_script("install.py", "install", "--target", str(tmp_path), "--dry-run", "--output", "json").stdout
    )
    assert plan["results"][0]["version"] == version


@pytest.mark.parametrize(
    ("fault", "version", "says"),
    [
        ({}, "1.2", "X.Y.Z"),
        ({}, "v1.2.3", "X.Y.Z"),
        ({}, "1.02.3", "X.Y.Z"),
        ({}, "0.0.9", "does not follow"),
        ({"npu_graph/__init__.py": '__version__ = "0.0.7"\n'}, "1.2.3", "disagree"),
        ({"npu_graph/__init__.py": '__version__ = "0.0.7"\n__version__ = "0.0.7"\n'}, "1.2.3", "holds 2 versions"),
        ({".claude-plugin/plugin.json": "{}\n"}, "1.2.3", "holds 0 versions"),
        ({".claude-plugin/plugin.json": None}, "1.2.3", "missing"),
        ({CHANGELOG: "# Changelog\n\n## [Unreleased]\n\n## [0.0.1] - 2026-01-01\n\n- x\n"}, "1.2.3", "0.0.1"),
        ({CHANGELOG: "# Changelog\n\n## [Unreleased]\n\n"}, "1.2.3", "nothing under"),
        ({CHANGELOG: "# Changelog\n"}, "1.2.3", "no section"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(
    checkout: Path, fault: dict[str, str | None], version: str, says: str
) -> None:
    for file, text in fault.items():
        (checkout / file).unlink()
        if text is not None:
            (checkout / file).write_text(text, encoding="utf-8")
    before = contents(checkout)
    result = bump(checkout, version)
    assert result.returncode == 1
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert contents(checkout) == before


def test_a_version_is_released_once(checkout: Path) -> None:
    assert bump(checkout, "77.0.0").returncode == 0
    text = (checkout / CHANGELOG).read_text().replace("## [Unreleased]\n", "## [Unreleased]\n\n- more\n", 1)
    (checkout / CHANGELOG).write_text(text)
    assert "already has" in bump(checkout, "77.0.0").stderr
    assert bump(checkout, "77.0.1").returncode == 0


def test_the_first_release_may_keep_the_number_that_stands(checkout: Path) -> None:
    version = bump(checkout, "--check").stdout.split()[0]
    assert bump(checkout, version).returncode == 0
    assert f"## [{version}]" in (checkout / CHANGELOG).read_text()


def test_git_is_left_alone_without_tag(checkout: Path) -> None:
    git(checkout, "init", "-q", ".")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "before")
    assert bump(checkout, "77.0.0").returncode == 0
    assert git(checkout, "tag") == ""
    assert len(git(checkout, "log", "--oneline").splitlines()) == 1


def test_tag_commits_what_changed_and_tags_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "t")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "t@localhost")
    git(checkout, "init", "-q", ".")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "before")
    (checkout / "stray").write_text("x")
    refused = bump(checkout, "77.0.0", "--tag")
    assert refused.returncode == 1
    assert "uncommitted" in refused.stderr
    (checkout / "stray").unlink()
    assert bump(checkout, "77.0.0", "--tag").returncode == 0
    assert git(checkout, "tag", "--points-at", "HEAD") == "v77.0.0\n"
    assert git(checkout, "status", "--porcelain") == ""
    again = bump(checkout, "77.0.0", "--tag")
    assert again.returncode == 1
    assert "exists" in again.stderr


@pytest.mark.parametrize("arguments", [(), ("--check", "1.2.3"), ("--check", "--tag")])
def test_wrong_usage(checkout: Path, arguments: tuple[str, ...]) -> None:
    assert bump(checkout, *arguments).returncode == 2

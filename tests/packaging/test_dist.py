"""The release archives: the same bytes from the same commit, nothing of ours beside the bundle, and a bundle that works."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from host_checks.placement import copy_checkout

from npu_graph.install_plan import BUNDLE_NAME, SUB_SKILLS

LARGEST = 2_000_000  # bytes of one archive; 0.9 MB and 1.1 MB when written


def git(root: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    subprocess.run(command, cwd=root, capture_output=True, check=True)


def build(checkout: Path, out: Path, **variables: str) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "tools/make_dist.py", "--out", str(out)]
    return subprocess.run(
        command,
        cwd=checkout,
        env={**environment, **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone-like copy of this working tree, committed; caches and foreign files lie about in it."""
    root = tmp_path_factory.mktemp("checkout") / "here"
    copy_checkout(root)
    git(root, "init", "-q", ".")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "state")
    for stray in (
        "npu_graph/__pycache__/cli.cpython-38.pyc",
        ".venv/x.py",
        ".ruff_cache/x",
        "knowledge/history.md.orig",
    ):
        (root / stray).parent.mkdir(exist_ok=True)
        (root / stray).write_text("x")
    return root


@pytest.fixture(scope="module")
def dist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    result = build(checkout, out)
    assert result.returncode == 0, result.stderr
    return out


@pytest.fixture(scope="module")
def unpacked(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked tar archive."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(folder)
    return folder / BUNDLE_NAME


def names(dist: Path) -> list[str]:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        return archive.getnames()


def test_two_builds_are_the_same_bytes_wherever_the_checkout_lies(checkout: Path, dist: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "another place" / "clone"
    git(tmp_path, "clone", "-q", str(checkout), str(elsewhere))
    for path in elsewhere.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert build(elsewhere, tmp_path / "again", TZ="Asia/Shanghai", LC_ALL="C").returncode == 0
    for path in dist.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_source_date_epoch_sets_the_time(checkout: Path, tmp_path: Path) -> None:
    assert build(checkout, tmp_path, SOURCE_DATE_EPOCH="1700000000").returncode == 0
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        assert {info.mtime for info in archive} == {1700000000}
        assert {(info.uid, info.gid, info.uname, info.gname) for info in archive} == {(0, 0, "root", "root")}
        assert {info.mode for info in archive} == {0o644, 0o755}
    with zipfile.ZipFile(next(tmp_path.glob("*.zip"))) as packed:
        assert {info.date_time for info in packed.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_the_checksums_are_those_of_the_archives(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_both_archives_hold_the_same_files_under_one_folder_sorted(dist: Path) -> None:
    packed = names(dist)
    assert packed == sorted(packed)
    assert {name.split("/")[0] for name in packed} == {BUNDLE_NAME}
    with zipfile.ZipFile(next(dist.glob("*.zip"))) as archive:
        assert archive.namelist() == packed
        assert archive.testzip() is None


def test_nothing_for_maintainers_nothing_cached_and_nothing_foreign_is_in_it(dist: Path) -> None:
    packed = names(dist)
    tops = {name.split("/")[1] for name in packed}
    assert {
        "SKILL.md",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "install.py",
        "knowledge",
        "npu_graph",
        *SUB_SKILLS,
    } <= tops
    assert not tops & {"tests", "tools", "docs", "evals", "Makefile", "pyproject.toml", ".ci", ".gitignore", "shared"}
    bad = re.compile(r"__pycache__|\.pyc$|/\.git(/|$)|_cache|\.venv|\.orig|\.npu-graph|(^|/)\.\.?(/|$)")
    assert [name for name in packed if bad.search(name)] == []


def test_no_link_leaves_the_archive(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        assert all(info.isfile() for info in archive)


def test_the_archives_stay_small(dist: Path) -> None:
    for path in dist.iterdir():
        assert 0 < path.stat().st_size < LARGEST, path.name


def test_a_file_that_git_does_not_know_is_refused(checkout: Path, tmp_path: Path) -> None:
    stray = checkout / "knowledge" / "private-notes.md"
    stray.write_text("ours")
    try:
        result = build(checkout, tmp_path / "out")
    finally:
        stray.unlink()
    assert result.returncode == 1
    assert "knowledge/private-notes.md" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_as_committed_is_refused(checkout: Path, tmp_path: Path) -> None:
    page = checkout / "README.md"
    text = page.read_bytes()
    page.write_bytes(text + b"more\n")
    try:
        result = build(checkout, tmp_path / "out")
    finally:
        page.write_bytes(text)
    assert result.returncode == 1
    assert "not as committed: README.md" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_unpacked_bundle_runs_the_readmes_first_command_with_bare_python(unpacked: Path) -> None:
    text = (unpacked / "README.md").read_text(encoding="utf-8")
    command = re.findall(r"```bash\npython3 (.+)\n```", text)[0].split()
    result = subprocess.run(
        [sys.executable, "-I", "-S", *command],
        cwd=unpacked,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "P-CAP-003" in result.stdout


def test_every_link_of_the_unpacked_readmes_leads_somewhere_there(unpacked: Path) -> None:
    for page in ("README.md", "README.zh-CN.md"):
        targets = re.findall(r"\]\(([^)#\s]+)\)", (unpacked / page).read_text(encoding="utf-8"))
        assert targets
        assert [target for target in targets if "://" not in target and not (unpacked / target).exists()] == []


def test_install_py_of_the_unpacked_bundle_installs_it_whole(unpacked: Path, tmp_path: Path) -> None:
    for command in ("install", "check"):
        result = subprocess.run(
            [sys.executable, "-I", "-S", str(unpacked / "install.py"), command, "--target", str(tmp_path)],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
    demo = "graph-mode-diagnostics/scripts/diagnose.py"
    copy = tmp_path / BUNDLE_NAME
    example = str(copy / "graph-mode-diagnostics/examples/default_stream.txt")
    answer = subprocess.run(
        [sys.executable, "-I", "-S", str(copy / demo), example],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0
    assert "P-CAP-003" in answer.stdout

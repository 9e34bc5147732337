"""An upgrade from any earlier version of this repository keeps every recorded case and every pattern of the user's.

The earlier versions are the real ones: every release tag, and states of the first-parent history spread over it.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Callable, NamedTuple

import pytest

from npu_graph.cases import read_cases
from npu_graph.install_plan import BUNDLE_NAME
from npu_graph.pattern_merge import merge_patterns
from npu_graph.patterns import load_patterns

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = "knowledge/known-patterns.md"
# Spread evenly over the history: the first with an installer and the newest are among them.
STATES = 8
LEAST_STATES = 6
OUR_PATTERN = """### P-CAP-{number} — Ours {number} · 我们的

- Stage: capture
- Layer: L2
- Owner: user_code
- Versions: all
- Symptom: zebra {number}
- Cause: c
- Trigger: t
- Fix now: f
- Fix for good: g
- Verify: v
- Source: owner/repo@main a.cpp f
- Seen in: o/r#1

```signature
any: zebra {number} of the quagga bus
```
"""
OUR_WORDS = "edited by the team"


class State(NamedTuple):
    """An earlier version of the repository, unpacked."""

    name: str
    folder: Path


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, timeout=60)
    if done.returncode != 0:
        raise OSError(done.stderr.decode("utf-8", "replace"))
    return done.stdout


def release_tags() -> list[str]:
    return git("tag", "--list", "v[0-9]*", "--sort=version:refname").decode().split()


def history_states() -> list[str]:
    """Commits of the first-parent history that have an installer, evenly chosen, oldest first."""
    commits = git("log", "--first-parent", "--reverse", "--format=%H", "--", ".").decode().split()
    born = git("log", "--first-parent", "--diff-filter=A", "--format=%H", "--", "install.py").decode().split()
    if born:
        commits = commits[commits.index(born[-1]) :]
    steps = min(STATES, len(commits))
    return [commits[index * (len(commits) - 1) // max(1, steps - 1)] for index in range(steps)]


def run(folder: Path, project: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NPU_GRAPH")}
    return subprocess.run(
        [sys.executable, "-I", str(folder / script), *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


def unpack(revision: str, folder: Path) -> State | None:
    """Unpack one revision; None when its installer does not start (a state that nobody could have installed)."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", revision))) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    starts = (folder / "install.py").is_file() and run(folder, folder, "install.py", "--help").returncode == 0
    return State(revision[:12], folder) if starts else None


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], list[State]]:
    place = tmp_path_factory.mktemp("states")
    known: dict[str, State | None] = {}

    def states(revisions: list[str]) -> list[State]:
        for revision in revisions:
            if revision not in known:
                known[revision] = unpack(revision, place / revision)
        return [state for state in map(known.get, revisions) if state is not None]

    return states


@pytest.fixture(params=["tags", "history"])
def states(request: pytest.FixtureRequest, unpacked: Callable[[list[str]], list[State]]) -> list[State]:
    """Earlier versions, oldest first."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this tree has no git history (an archive, or no git)")
    if request.param == "tags":
        names = release_tags()
        if not names:
            pytest.skip("no release tag yet; the states of the history are walked instead")
        found = unpacked(names)
        assert len(found) == len(names), "a released version does not install"
        return found
    found = unpacked(history_states())
    if len(found) < LEAST_STATES:
        pytest.skip(f"a shallow clone: {len(found)} earlier states, expected {LEAST_STATES}")
    return found


class Team:
    """A project whose team uses each version as it comes: records a case, writes a pattern, edits a shipped one."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.bundle = project / "skills" / BUNDLE_NAME
        self.cases: dict[str, str] = {}
        self.patterns: set[str] = set()
        project.mkdir()

    def put(self, version: Path) -> str:
        """Install, or upgrade to, a version; returns what the installer says."""
        done = run(version, self.project, "install.py", "install", "--target", "skills")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def work(self, number: int) -> None:
        """Record a case (as far as that version can) and append a pattern."""
        if (self.bundle / "knowledge/scripts/kb.py").is_file():
            words = f"ZebraError: stripe_{number} is not mounted on the quagga_{number} bus"
            fields = ("--stage", "capture", "--layer", "L2", "--owner", "user_code", "--cause", f"cause {number}")
            evidence = ("--source", f"https://github.com/o/r/issues/{number}", "--force", "--output", "json")
            done = run(
                self.bundle, self.project, "knowledge/scripts/kb.py", "record", *fields, "--symptom", words, *evidence
            )
            assert done.returncode == 0, done.stdout + done.stderr
            self.cases[json.loads(done.stdout)["id"]] = words
        path = self.bundle / PATTERNS
        path.write_text(
            path.read_text(encoding="utf-8").rstrip() + "\n\n" + OUR_PATTERN.format(number=number), encoding="utf-8"
        )
        self.patterns.add(f"P-CAP-{number}")

    def kept(self) -> None:
        """Every case with its text, every pattern, and nothing that kb.py check would report."""
        entries = read_cases([self.bundle / "knowledge"]).entries
        assert {identity: entries[identity].case.symptom for identity in self.cases} == self.cases
        assert self.patterns <= {pattern.id for pattern in load_patterns([self.bundle / "knowledge"]).patterns}
        done = run(self.bundle, self.project, "knowledge/scripts/kb.py", "check")
        assert done.returncode == 0, done.stdout


def shipped_ids(folder: Path) -> set[str]:
    return {pattern.id for pattern in load_patterns([folder / "knowledge"]).patterns}


def test_version_after_version_every_case_and_pattern_stays(states: list[State], tmp_path: Path) -> None:
    team = Team(tmp_path / "project")
    for number, state in enumerate(states, 901):
        team.put(state.folder)
        team.work(number)
    said = team.put(ROOT)
    team.kept()
    assert len(team.cases) >= min(len(states), LEAST_STATES) - 1
    assert "conflict" not in said, "nobody changed a shipped pattern"
    assert shipped_ids(ROOT) <= shipped_ids(team.bundle)
    assert not list(team.bundle.rglob("*.new*"))
    assert run(team.bundle, team.project, "install.py", "check", "--target", "skills").returncode == 0


def test_from_each_version_straight_to_this_one(states: list[State], tmp_path: Path) -> None:
    for number, state in enumerate(states, 901):
        team = Team(tmp_path / state.name)
        team.put(state.folder)
        team.work(number)
        assert "merged: " + PATTERNS in team.put(ROOT) or shipped_text(state) == shipped_text(State("", ROOT))
        team.kept()
        assert shipped_ids(ROOT) <= shipped_ids(team.bundle)


def shipped_text(state: State) -> str:
    return (state.folder / PATTERNS).read_text(encoding="utf-8")


def test_a_shipped_pattern_that_the_team_edited_is_merged_or_named_as_a_conflict(
    states: list[State], tmp_path: Path
) -> None:
    for state in states:
        team = Team(tmp_path / state.name)
        team.put(state.folder)
        path = team.bundle / PATTERNS
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace("- Fix now:", f"- Fix now: {OUR_WORDS};", 1), encoding="utf-8")
        expected = merge_patterns(before, path.read_text(encoding="utf-8"), shipped_text(State("", ROOT)))
        said = team.put(ROOT)
        assert OUR_WORDS in path.read_text(encoding="utf-8")
        if expected.conflicts:
            assert f"not merged, changed by you and by this version: {expected.conflicts[0].strip('# ')}" in said
            assert path.with_name("known-patterns.md.new").read_bytes() == (ROOT / PATTERNS).read_bytes()
        else:
            assert shipped_ids(ROOT) <= shipped_ids(team.bundle)

"""Starts the scripts of the selected simulator tests ahead of the tests, and builds the simulator before them."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from sim_harness import PYTHON, ROOT, Script, Simulator, reason_to_skip

_selected: list[Script] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Remember the scripts of the selected tests, so that the pool can start on them at once."""
    for item in session.items:
        for value in getattr(getattr(item, "callspec", None), "params", {}).values():
            if isinstance(value, Script):
                _selected.append(value)
            elif isinstance(value, tuple):
                _selected.extend(field for field in value if isinstance(field, Script))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the compiler, and any test for its place in the pool; each process has its own limit."""
    for item in items:
        if item.get_closest_marker("sim") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(700))


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory):
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    # Build before the first script, so that no script's time includes the compiler's.
    build = "import sys; sys.path.insert(0, sys.argv[1]); from npu_sim import build; build.library_folder('9.1.0')"
    done = subprocess.run([PYTHON, "-c", build, str(ROOT)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    running = Simulator(tmp_path_factory.mktemp("sim"))
    for script in _selected:
        running.start(script)
    with contextlib.closing(running):
        yield running

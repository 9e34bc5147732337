"""Builds the simulator before the tests that use it, and gives them one that runs scripts."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from sim_harness import PYTHON, ROOT, Simulator, reason_to_skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the compiler; each process has its own limit."""
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
    with contextlib.closing(Simulator(tmp_path_factory.mktemp("sim"))) as running:
        yield running

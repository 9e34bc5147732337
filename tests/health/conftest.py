"""Shared by the tests of the health check."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from world import World

collect_ignore = ["doubles"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sim: runs the real torch_npu on the simulator; skipped where it cannot be had")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)

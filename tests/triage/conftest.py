"""The marker of tests that need torch, and the Python that has it."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "torch: runs torch on the CPU with NPU_SIM_PYTHON; skipped where it is absent")

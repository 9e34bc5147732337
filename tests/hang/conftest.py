"""Registers the marker of tests that run torch."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "torch: runs torch (CPU is enough); skipped with a reason where it is absent")

"""Import paths and the fixtures that every test may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

HERE = Path(__file__).resolve().parent
# A measurement of coverage has a Python of its own that scripts are started with.
sys.executable = os.environ.get("NPU_GRAPH_COVERAGE_PYTHON", sys.executable)
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "mcp")]


@pytest.fixture
def diagnose_text(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that diagnoses a text with the shipped knowledge only."""
    from npu_graph import bundle
    from npu_graph.cli import InputText
    from npu_graph.diagnosis.record import diagnose

    def run(*texts: str, language: str = "", folders: Sequence[Path] = (bundle.SEED_KNOWLEDGE,)) -> dict[str, Any]:
        return diagnose([InputText("-", text, 0) for text in texts], language, folders)

    return run

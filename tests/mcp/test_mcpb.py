"""The .mcpb bundle: the same bytes each time, a manifest that the public tool accepts, and a server that starts from it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conformance import NODE, PACKAGES
from support import ROOT

MCPB = PACKAGES / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
REQUEST_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def build(output: Path) -> bytes:
    command = [sys.executable, str(ROOT / "tools" / "build_mcpb.py"), "--output", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return output.read_bytes()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("mcpb") / "npu-graph.mcpb"
    build(output)
    return output


@pytest.fixture(scope="module")
def unpacked(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked") / "an extension"
    with zipfile.ZipFile(str(bundle)) as archive:
        archive.extractall(folder)
    return folder


def manifest_of(unpacked: Path) -> dict[str, Any]:
    return json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))


def start_and_ask(unpacked: Path, folders: list[str], method: str) -> dict[str, Any]:
    """Start the server as a client does: the manifest's command with its placeholders filled in."""
    arguments: list[str] = []
    for argument in manifest_of(unpacked)["server"]["mcp_config"]["args"]:
        chosen = folders if argument == "${user_config.folders}" else [argument.replace("${__dirname}", str(unpacked))]
        arguments += chosen
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": REQUEST_META}}
    result = subprocess.run(
        [sys.executable, *arguments],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        cwd=unpacked.parent,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["result"]


def test_the_same_sources_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    assert build(tmp_path / "again.mcpb") == bundle.read_bytes()


def test_it_holds_what_the_server_needs_and_no_more(bundle: Path) -> None:
    names = zipfile.ZipFile(str(bundle)).namelist()
    assert {"manifest.json", "LICENSE", "graph-mcp/server.py", "knowledge/known-patterns.md"} <= set(names)
    assert not [name for name in names if name.split("/")[0] in ("tests", "tools", "npu_sim", "evals", ".git")]
    assert bundle.stat().st_size < 3_000_000


@pytest.mark.parametrize("count", [1, 2])
def test_the_unpacked_server_lists_its_eleven_tools(unpacked: Path, tmp_path: Path, count: int) -> None:
    folders = [str(tmp_path / f"folder {number}") for number in range(count)]
    for folder in folders:
        Path(folder).mkdir()
    tools = start_and_ask(unpacked, folders, "tools/list")["tools"]
    assert len(tools) == 11
    assert [tool["name"] for tool in tools] == [tool["name"] for tool in manifest_of(unpacked)["tools"]]


def test_the_manifest_names_the_prompts_and_their_arguments(unpacked: Path, tmp_path: Path) -> None:
    listed = start_and_ask(unpacked, [str(tmp_path)], "prompts/list")["prompts"]
    written = manifest_of(unpacked)["prompts"]
    assert [(item["name"], [value["name"] for value in item["arguments"]]) for item in listed] == [
        (item["name"], item["arguments"]) for item in written
    ]
    for item in written:
        assert all(f"${{arguments.{name}}}" in item["text"] for name in item["arguments"])


@pytest.mark.skipif(
    not (NODE.is_file() and MCPB.is_file()), reason="no mcpb on this machine; `make .npm-mcp` installs it from npm"
)
class TestThePublicTool:
    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(NODE), str(MCPB), *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    def test_it_accepts_the_manifest(self, unpacked: Path) -> None:
        result = self.run("validate", str(unpacked / "manifest.json"))
        assert (result.returncode, "passes" in result.stdout) == (0, True), result.stdout + result.stderr

    def test_it_refuses_a_broken_one(self, unpacked: Path, tmp_path: Path) -> None:
        broken = {**manifest_of(unpacked), "server": {"type": "cobol"}}
        (tmp_path / "manifest.json").write_text(json.dumps(broken), encoding="utf-8")
        assert self.run("validate", str(tmp_path / "manifest.json")).returncode != 0

    def test_what_it_unpacks_starts(self, bundle: Path, tmp_path: Path) -> None:
        result = self.run("unpack", str(bundle), str(tmp_path / "out"))
        assert result.returncode == 0, result.stderr
        assert len(start_and_ask(tmp_path / "out", [str(tmp_path)], "tools/list")["tools"]) == 11

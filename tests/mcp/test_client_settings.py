"""The settings in references/clients.md: each starts the server as written, and Claude Code and Codex list its tools.

The two CLIs run with a home folder of their own, without an account. Claude Code's first message already lists the tools,
so a closed local port serves as its model there; for a call a script on a local port takes the model's place.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conformance import NODE
from scripted_model import scripted_model
from support import ROOT

PAGE = ROOT / "graph-mcp" / "references" / "clients.md"
AGENTS = ROOT / ".npm-hosts" / "node_modules" / ".bin"
NO_MODEL = "http://127.0.0.1:9"
TOOLS = 11
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def settings(section: str, language: str, project: Path) -> str:
    """Return the section's first block in that language, with the example's two folders replaced by real ones."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    block = re.findall(rf"```{language}\n(.*?)```", text, re.S)[0]
    return block.replace("/opt/npu-graph-skill", str(ROOT)).replace("/home/me/project", str(project))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("section", "key", "variable"),
    [
        ("Claude Code", "mcpServers", "${CLAUDE_PROJECT_DIR:-.}"),
        ("Cursor", "mcpServers", "${workspaceFolder}"),
        ("VS Code", "servers", "${workspaceFolder}"),
    ],
)
def test_an_entry_starts_the_server_once_its_variable_is_filled_in(
    section: str, key: str, variable: str, project: Path
) -> None:
    entry = json.loads(settings(section, "json", project))[key]["npu-graph"]
    assert variable in entry["args"]
    arguments = [str(project) if argument == variable else argument for argument in entry["args"]]
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    result = subprocess.run(
        [entry["command"], *arguments], input=request + "\n", capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert len(json.loads(result.stdout)["result"]["tools"]) == TOOLS, result.stderr


class Agent:
    """A CLI of an agent with a home folder of its own."""

    def __init__(self, name: str, home: Path, project: Path) -> None:
        self.project = project
        self._program = str(AGENTS / name)
        self._environment = {
            "HOME": str(home),
            "CODEX_HOME": str(home / ".codex"),
            "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        (home / ".codex").mkdir(parents=True)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen:
        return subprocess.Popen(
            [self._program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.project,
            env={**self._environment, **variables},
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output
        return output


@pytest.mark.slow
@pytest.mark.skipif(
    not (AGENTS / "claude").exists(), reason="no Claude Code on this machine; `make .npm-hosts` installs it from npm"
)
class TestClaudeCode:
    @pytest.fixture
    def agent(self, tmp_path: Path, project: Path) -> Agent:
        return Agent("claude", tmp_path / "home", project)

    def test_it_lists_every_tool_of_the_project_entry(self, agent: Agent) -> None:
        entry = agent.project.parent / "entry.json"
        entry.write_text(settings("Claude Code", "json", agent.project), encoding="utf-8")
        options = ("--output-format", "stream-json", "--verbose", "--mcp-config", str(entry), "--strict-mcp-config")
        process = agent.start("-p", "hello", *options, ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=NO_MODEL)
        try:
            process.stdin.close()
            first = json.loads(process.stdout.readline())
        finally:
            process.kill()
            process.wait()
        assert [(server["name"], server["status"]) for server in first["mcp_servers"]] == [("npu-graph", "connected")]
        assert len([name for name in first["tools"] if name.startswith("mcp__npu-graph__npu_graph_")]) == TOOLS

    def test_a_call_brings_the_structured_answer_to_the_model(self, agent: Agent) -> None:
        entry = agent.project.parent / "entry.json"
        entry.write_text(settings("Claude Code", "json", agent.project), encoding="utf-8")
        tool = "mcp__npu-graph__npu_graph_diagnose"
        (agent.project / "stack.txt").write_text("RuntimeError: Called NPUGraph::replay without a preceding capture.")
        options = ("--output-format", "stream-json", "--verbose", "--mcp-config", str(entry), "--strict-mcp-config")
        with scripted_model(tool, {"files": ["stack.txt"]}) as address:
            process = agent.start(
                "-p", "hello", *options, "--allowedTools", tool, ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=address
            )
            output, _ = process.communicate(timeout=90)
        messages = [json.loads(line) for line in output.splitlines()]
        (result,) = [
            item for message in messages if message["type"] == "user" for item in message["message"]["content"]
        ]
        assert not result.get("is_error")
        assert json.loads(result["content"])["schema"] == "npu-graph/diagnosis/1"

    def test_the_command_adds_a_server_that_connects(self, agent: Agent) -> None:
        command = settings("Claude Code", "bash", agent.project).split()
        agent.run(*command[1:])
        assert re.search(r"npu-graph: .*Connected", agent.run("mcp", "list"))

    def test_a_project_entry_waits_for_approval(self, agent: Agent) -> None:
        (agent.project / ".mcp.json").write_text(settings("Claude Code", "json", agent.project), encoding="utf-8")
        assert re.search(r"npu-graph: .*Pending approval", agent.run("mcp", "list"))


@pytest.mark.slow
@pytest.mark.skipif(
    not (AGENTS / "codex").exists(), reason="no Codex on this machine; `make .npm-hosts` installs it from npm"
)
class TestCodex:
    @pytest.fixture
    def agent(self, tmp_path: Path, project: Path) -> Agent:
        agent = Agent("codex", tmp_path / "home", project)
        text = settings("Codex", "toml", project)
        (tmp_path / "home" / ".codex" / "config.toml").write_text(text, encoding="utf-8")
        return agent

    def test_it_reads_the_time_outs_of_the_entry(self, agent: Agent) -> None:
        (server,) = json.loads(agent.run("mcp", "list", "--json"))
        assert (server["name"], server["enabled"]) == ("npu-graph", True)
        assert (server["startup_timeout_sec"], server["tool_timeout_sec"]) == (30, 300)

    def test_it_lists_every_tool(self, agent: Agent) -> None:
        process = agent.start("app-server")
        try:
            ask(process, 1, "initialize", {"clientInfo": {"name": "test", "title": "test", "version": "1"}})
            process.stdin.write(json.dumps({"method": "initialized"}) + "\n")
            (server,) = ask(process, 2, "mcpServerStatus/list", {})["data"]
        finally:
            process.kill()
            process.wait()
        assert server["name"] == "npu-graph"
        assert len([name for name in server["tools"] if name.startswith("npu_graph_")]) == TOOLS
        assert len(server["resourceTemplates"]) == 4
        assert len(server["resources"]) > 60

    def test_the_command_adds_the_same_server(self, agent: Agent, tmp_path: Path) -> None:
        fresh = Agent("codex", tmp_path / "another home", agent.project)
        fresh.run(*settings("Codex", "bash", agent.project).split()[1:])
        (added,) = json.loads(fresh.run("mcp", "list", "--json"))
        (written,) = json.loads(agent.run("mcp", "list", "--json"))
        assert added["transport"] == written["transport"]


def ask(process: subprocess.Popen, identity: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to Codex's app server and return its result; what it says in between is skipped."""
    process.stdin.write(json.dumps({"id": identity, "method": method, "params": params}) + "\n")
    process.stdin.flush()
    while True:
        message = json.loads(process.stdout.readline())
        if message.get("id") == identity:
            return message["result"]

"""The MCP server: both protocol eras, safe arguments, bounded work, and an answer to every malformed message."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from support import ROOT

SERVER = str(ROOT / "graph-mcp" / "server.py")
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}}
REPORT = "RuntimeError: Called NPUGraph::replay without a preceding successful capture."


class Client:
    """A process of the server and its messages."""

    def __init__(self, *arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", SERVER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
        )
        self.messages: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        """Close its input, as a client does: the server ends its running calls."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.messages.put(json.loads(line))

    def send_bytes(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float = 30) -> Any:
        return self.messages.get(timeout=seconds)

    def ask(self, method: str, params: dict[str, Any] | None = None, identity: Any = 1) -> Any:
        self.send({"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}})
        while True:
            message = self.receive()
            if message.get("id") == identity:
                return message

    def call(self, name: str, arguments: Any, **meta: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.ask("tools/call", params)["result"]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    running = Client("--root", str(tmp_path), cwd=tmp_path)
    yield running
    running.close()


@pytest.fixture
def legacy(client: Client) -> Client:
    client.ask(
        "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    )
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return client


class TestTheCurrentRevision:
    def test_discover_names_every_version(self, client: Client) -> None:
        result = client.ask("server/discover", MODERN)["result"]
        assert result["supportedVersions"][0] == "2026-07-28"
        assert result["resultType"] == "complete"
        assert result["ttlMs"] >= 0
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "npu-graph"

    @pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
    def test_lists_may_be_cached(self, client: Client, method: str) -> None:
        result = client.ask(method, MODERN)["result"]
        assert {"resultType", "ttlMs", "cacheScope"} <= set(result)

    def test_an_unknown_version_is_refused_with_those_supported(self, client: Client) -> None:
        error = client.ask("tools/list", {"_meta": {VERSION: "1900-01-01"}})["error"]
        assert error["code"] == -32022
        assert "2026-07-28" in error["data"]["supported"]

    @pytest.mark.parametrize(
        "meta",
        [
            None,
            {},
            {VERSION: "2026-07-28"},
            {VERSION: "2026-07-28", CAPABILITIES: None},
            {VERSION: "2026-07-28", CAPABILITIES: []},
            {CAPABILITIES: {}},
        ],
    )
    @pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
    def test_a_request_without_its_version_and_capabilities_is_refused(
        self, client: Client, method: str, meta: Any
    ) -> None:
        error = client.ask(method, {} if meta is None else {"_meta": meta})["error"]
        assert (error["code"], "io.modelcontextprotocol/" in error["message"]) == (-32602, True)

    def test_both_eras_are_served_by_one_process(self, legacy: Client) -> None:
        assert "resultType" not in legacy.ask("tools/list")["result"]
        assert legacy.ask("tools/list", MODERN)["result"]["resultType"] == "complete"
        assert legacy.ask("server/discover")["error"]["code"] == -32602

    def test_there_is_no_handshake_or_ping(self, client: Client) -> None:
        for method in ("initialize", "ping"):
            assert client.ask(method, MODERN)["error"]["code"] == -32601


class TestTheHandshakeRevisions:
    @pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
    def test_a_known_version_is_echoed(self, client: Client, version: str) -> None:
        result = client.ask("initialize", {"protocolVersion": version})["result"]
        assert result["protocolVersion"] == version
        assert "resultType" not in result

    def test_an_unknown_one_gets_the_newest(self, client: Client) -> None:
        assert client.ask("initialize", {"protocolVersion": "2099-01-01"})["result"]["protocolVersion"] == "2025-11-25"

    def test_ping_is_answered(self, legacy: Client) -> None:
        assert legacy.ask("ping")["result"] == {}

    def test_a_batch_belongs_to_one_revision_only(self, client: Client) -> None:
        client.ask("initialize", {"protocolVersion": "2025-03-26"})
        client.send([{"jsonrpc": "2.0", "id": 7, "method": "ping"}, {"jsonrpc": "2.0", "id": 8, "method": "nothing"}])
        assert {item["id"] for item in client.receive()} == {7, 8}
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        client.send([{"jsonrpc": "2.0", "id": 7, "method": "ping"}])
        assert client.receive()["error"]["code"] == -32600


class TestTools:
    def test_each_has_schemas_and_all_four_hints(self, client: Client) -> None:
        tools = client.ask("tools/list", MODERN)["result"]["tools"]
        assert len(tools) >= 4
        for tool in tools:
            assert tool["name"].startswith("npu_graph_")
            assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
            assert {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} <= set(tool["annotations"])

    def test_a_diagnosis_comes_structured_and_as_text(self, legacy: Client) -> None:
        result = legacy.call("npu_graph_diagnose", {"text": REPORT})
        assert result["structuredContent"]["patterns"][0]["id"] == "P-REP-002"
        assert "P-REP-002" in result["content"][0]["text"]
        assert result["isError"] is False

    def test_a_code_is_looked_up(self, legacy: Client) -> None:
        result = legacy.call("npu_graph_lookup_code", {"codes": ["107027", "0x100000"]})
        assert "STREAM_CAPTURED" in json.dumps(result["structuredContent"])
        assert "107027" in result["content"][0]["text"]

    def test_knowledge_is_searched(self, legacy: Client) -> None:
        result = legacy.call("npu_graph_search_knowledge", {"query": "side stream not joined 107025"})
        assert result["structuredContent"]["cases"]
        assert result["content"][0]["text"]

    @pytest.mark.parametrize(
        ("name", "arguments", "words"),
        [
            ("npu_graph_locate_source", {"text": "capture_begin", "torch_npu": "2.10.0"}, "graphs.py:342"),
            ("npu_graph_locate_source", {"text": "captured on a non-default stream", "torch_npu": "2.10.0"}, "cpp:175"),
            ("npu_graph_locate_source", {"text": "capture_beginn"}, "near: capture_begin"),
            ("npu_graph_check_health", {}, "checks: check cann.toolkit"),
        ],
    )
    def test_the_text_alone_holds_the_answer(
        self, legacy: Client, name: str, arguments: dict[str, Any], words: str
    ) -> None:
        """Many clients show the text and nothing else."""
        assert words in legacy.call(name, arguments)["content"][0]["text"]

    @pytest.mark.parametrize(
        ("name", "arguments", "words"),
        [
            ("npu_graph_diagnose", {"txt": "x"}, "text"),
            ("npu_graph_diagnose", {}, "files"),
            ("npu_graph_diagnose", {"text": 3}, "string"),
            ("npu_graph_diagnose", [], "object"),
            ("npu_graph_diagnose", {"text": "x", "language": "fr"}, "en, zh"),
            ("npu_graph_lookup_code", {"codes": []}, "1 to"),
            ("npu_graph_lookup_code", {"codes": "107027"}, "array"),
            ("npu_graph_record_case", {"symptom": "x", "stage": "capture", "layer": "L4"}, "--allow-record"),
        ],
    )
    def test_an_argument_error_is_a_result_that_shows_the_correct_form(
        self, legacy: Client, name: str, arguments: Any, words: str
    ) -> None:
        result = legacy.call(name, arguments)
        assert result["isError"] is True
        assert words in result["content"][0]["text"]

    def test_an_unknown_tool_is_a_protocol_error(self, legacy: Client) -> None:
        assert legacy.ask("tools/call", {"name": "rm", "arguments": {}})["error"]["code"] == -32602

    def test_a_value_that_looks_like_an_option_stays_a_value(self, legacy: Client) -> None:
        result = legacy.call("npu_graph_lookup_code", {"codes": ["--help"]})
        assert "usage" not in json.dumps(result).lower()


class TestGrowingLists:
    def pages(self, legacy: Client, name: str, arguments: dict[str, Any], keys: tuple[str, ...]) -> list[list[Any]]:
        pages, offset = [], 0
        while offset is not None:
            record = legacy.call(name, {**arguments, "offset": offset})["structuredContent"]
            pages.append([item for key in keys for item in record[key]])
            assert len(pages) < 40
            offset = record["next_offset"]
        return pages

    def test_findings_come_in_pages_that_miss_none(self, legacy: Client, tmp_path: Path) -> None:
        block = "def run_{0}(x):\n    g = torch.npu.NPUGraph()\n    with torch.npu.graph(g):\n        print(x.sum().item())\n"
        (tmp_path / "many.py").write_text("import torch\n" + "".join(block.format(n) for n in range(230)))
        pages = self.pages(legacy, "npu_graph_lint_capture", {"paths": ["many.py"], "limit": 100}, ("findings",))
        lines = [finding["line"] for page in pages for finding in page]
        assert (len(pages), len(lines), len(set(lines))) == (3, 230, 230)
        first = legacy.call("npu_graph_lint_capture", {"paths": ["many.py"]})
        assert (len(first["structuredContent"]["findings"]), first["structuredContent"]["left_out"]) == (20, 210)
        assert "next_offset: 20" in first["content"][0]["text"]

    def test_found_patterns_come_in_pages_that_miss_none(self, legacy: Client) -> None:
        def found(**page: int) -> list[list[str]]:
            arguments = {"query": "capture", **page}
            return [
                [item["id"] for item in items]
                for items in self.pages(legacy, "npu_graph_search_knowledge", arguments, ("patterns",))
            ]

        pages = found(limit=30)
        assert len(pages) > 1
        assert {len(page) for page in pages[:-1]} == {30}
        everything = sum(pages, [])
        assert len(everything) == len(set(everything)) == len(sum(found(limit=100), []))

    @pytest.mark.parametrize("page", [{"limit": 0}, {"limit": 101}, {"offset": -1}, {"offset": "5"}, {"limit": True}])
    def test_a_page_that_cannot_be_is_refused(self, legacy: Client, page: dict[str, Any]) -> None:
        result = legacy.call("npu_graph_search_knowledge", {"query": "capture", **page})
        assert (result["isError"], next(iter(page)) in result["content"][0]["text"]) == (True, True)


class TestFiles:
    def test_one_below_the_root_is_read(self, legacy: Client, tmp_path: Path) -> None:
        (tmp_path / "a b.log").write_text(REPORT)
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "b.log").write_text(REPORT)
        for name in ("a b.log", str(tmp_path / "a b.log"), "./logs/b.log", "logs\\b.log", ".\\logs\\b.log"):
            assert legacy.call("npu_graph_diagnose", {"files": [name]})["structuredContent"]["verdict"] == "known"

    def test_nothing_else_is(self, legacy: Client, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        outside = tmp_path_factory.mktemp("outside") / "secret.log"
        outside.write_text(REPORT)
        (tmp_path / "link.log").symlink_to(outside)
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "loop").symlink_to(tmp_path / "folder" / "loop")
        names = [
            str(outside),
            "link.log",
            f"../{outside.parent.name}/secret.log",
            "/etc/passwd",
            "none.log",
            "folder/loop",
            "a\0b",
            f"..\\{outside.parent.name}\\secret.log",
            "folder\\..\\..\\x",
            "\\etc\\passwd",
            ".",
        ]
        for name in names:
            result = legacy.call("npu_graph_diagnose", {"files": [name]})
            assert result["isError"] is True, name
            assert "structuredContent" not in result

    CASES = [
        (
            "npu_graph_parse_log",
            "paths",
            "a.log",
            f"(Worker_TP0 pid=9) ERROR 06-10 16:39:42 [x.py:1] SECRET {REPORT}\n",
        ),
        (
            "npu_graph_lint_capture",
            "paths",
            "a.py",
            "import torch\ndef f(x):\n    g = torch.npu.NPUGraph()\n    with torch.npu.graph(g):\n        SECRET = x.item()\n",
        ),
    ]

    @pytest.mark.parametrize("linked", ["file", "folder", "file to a folder inside"])
    @pytest.mark.parametrize(("tool", "argument", "name", "text"), CASES, ids=[case[0] for case in CASES])
    def test_a_link_in_a_folder_leads_nowhere_else(
        self,
        legacy: Client,
        tmp_path: Path,
        tmp_path_factory: pytest.TempPathFactory,
        tool: str,
        argument: str,
        name: str,
        text: str,
        linked: str,
    ) -> None:
        inside = "inside" in linked
        target = tmp_path / "elsewhere" if inside else tmp_path_factory.mktemp("outside") / "deep"
        target.mkdir()
        (target / name).write_text(text)
        folder = tmp_path / "given"
        folder.mkdir()
        (folder / f"own{name}").write_text("x = 1\n")
        link = folder / ("linked" if linked == "folder" else name)
        link.symlink_to(target if linked == "folder" else target / name)
        result = json.dumps(legacy.call(tool, {argument: ["given"]}))
        assert ("SECRET" in result or ":5" in result or '"line": 5' in result) is inside, result
        if linked != "folder":  # a linter says nothing of a folder that it cannot list
            assert ("leads out of the allowed folders" in result) is not inside, result

    def test_a_team_may_link_its_knowledge(self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        shared = tmp_path_factory.mktemp("shared")
        project = tmp_path / "project"
        (project / ".git").mkdir(parents=True)
        (project / ".npu-graph").symlink_to(shared)
        (shared / "knowledge").mkdir()
        environment = {"NPU_GRAPH_KNOWLEDGE": str(shared / "knowledge")}
        (project / "a.log").write_text("RuntimeError: a wholly new failure in capture_begin 107999")
        client = Client("--allow-record", "--root", str(project), cwd=project, environment=environment)
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        case = {"symptom": "RuntimeError: a wholly new failure in capture_begin 107999", "stage": "capture"}
        client.call("npu_graph_record_case", {**case, "layer": "L4", "owner": "user_code", "verify": ["ran twice"]})
        client.close()
        client = Client("--root", str(project), cwd=project, environment={"NPU_GRAPH_KNOWLEDGE": ""})
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        result = client.call("npu_graph_diagnose", {"files": ["a.log"]})
        client.close()
        assert result["structuredContent"]["cases"], result

    @pytest.mark.parametrize("folder", ["/", "~"])
    def test_a_client_outside_a_project_lends_no_folder(self, tmp_path: Path, folder: str) -> None:
        home = tmp_path / "home"
        home.mkdir()
        (home / "a.log").write_text(REPORT)
        place = home if folder == "~" else Path(Path(home).anchor)
        environment = {"HOME": str(home), "USERPROFILE": str(home), "CLAUDE_PROJECT_DIR": ""}
        client = Client(cwd=place, environment=environment)
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        result = client.call("npu_graph_diagnose", {"files": [str(home / "a.log")]})
        text = client.call("npu_graph_diagnose", {"text": REPORT})
        client.close()
        assert (result["isError"], "--root" in result["content"][0]["text"]) == (True, True)
        assert text["structuredContent"]["verdict"] == "known"


class TestRecording:
    def test_a_case_is_written_only_when_allowed(self, tmp_path: Path) -> None:
        client = Client(
            "--allow-record", cwd=tmp_path, environment={"NPU_GRAPH_KNOWLEDGE": str(tmp_path / "knowledge")}
        )
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        result = client.call(
            "npu_graph_record_case",
            {
                "symptom": "RuntimeError: a new kind of failure in capture_begin 107999",
                "stage": "capture",
                "layer": "L4",
                "owner": "user_code",
                "verify": ["ran twice"],
            },
        )
        client.close()
        assert result["isError"] is False, result
        assert list((tmp_path / "knowledge").rglob("*.md"))


class TestResourcesAndPrompts:
    def test_pages_follow_one_another_to_the_end(self, client: Client) -> None:
        seen: list[str] = []
        params: dict[str, Any] = dict(MODERN)
        while True:
            result = client.ask("resources/list", params)["result"]
            seen += [item["uri"] for item in result["resources"]]
            if "nextCursor" not in result:
                break
            params = {**MODERN, "cursor": result["nextCursor"]}
        assert len(seen) == len(set(seen)) > 60
        assert "npu-graph://patterns/P-CAP-001" in seen

    @pytest.mark.parametrize("cursor", ["x", "-1", "0", "999999", "²", 5, ""])
    def test_a_cursor_of_ones_own_is_refused(self, client: Client, cursor: Any) -> None:
        assert client.ask("resources/list", {**MODERN, "cursor": cursor})["error"]["code"] == -32602

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("patterns/P-CAP-001", "P-CAP-001"),
            ("codes/107027", "capturing stream"),
            ("references/graph-mode-expert/constraints", "107030"),
        ],
    )
    def test_a_resource_is_read(self, client: Client, path: str, words: str) -> None:
        contents = client.ask("resources/read", {**MODERN, "uri": f"npu-graph://{path}"})["result"]["contents"]
        assert words in contents[0]["text"]

    @pytest.mark.parametrize(
        "uri",
        [
            "npu-graph://patterns/P-CAP-999",
            "npu-graph://codes/999999",
            "file:///etc/passwd",
            "npu-graph://references/../../x/y",
            "npu-graph://",
            "x",
            5,
            "npu-graph://patterns/--help",
        ],
    )
    def test_what_is_not_there_is_not_found(self, client: Client, uri: Any) -> None:
        assert client.ask("resources/read", {**MODERN, "uri": uri})["error"]["code"] == -32602

    def test_the_earlier_revisions_have_their_own_code_for_that(self, legacy: Client) -> None:
        assert legacy.ask("resources/read", {"uri": "npu-graph://patterns/P-CAP-999"})["error"]["code"] == -32002

    def test_prompts_are_filled(self, client: Client) -> None:
        for prompt in client.ask("prompts/list", MODERN)["result"]["prompts"]:
            arguments = {item["name"]: "VALUE {x} %s" for item in prompt["arguments"]}
            result = client.ask("prompts/get", {**MODERN, "name": prompt["name"], "arguments": arguments})["result"]
            assert "VALUE {x} %s" in result["messages"][0]["content"]["text"]

    def test_a_missing_prompt_argument_is_named(self, client: Client) -> None:
        error = client.ask("prompts/get", {**MODERN, "name": "npu_graph_five_phases"})["error"]
        assert (error["code"], "report" in error["message"]) == (-32602, True)


MALFORMED = [
    (b"{", -32700),
    (b"[" * 200_000, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', -32700),
    (b"NaN", -32700),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 2_000_000 + b',"method":"ping"}', -32700),
    (b"\xef\xbb\xbf{}", -32700),
    (b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600),
    (b"null", -32600),
    (b"3", -32600),
    (b'"x"', -32600),
    (b"[]", -32600),
    (b'{"id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":5}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
]


class TestHostileMessages:
    @pytest.mark.parametrize(("line", "code"), MALFORMED, ids=range(len(MALFORMED)))
    def test_each_gets_its_error_and_the_server_goes_on(self, client: Client, line: bytes, code: int) -> None:
        client.send_bytes(line + b"\n")
        assert client.receive()["error"]["code"] == code
        assert "result" in client.ask("server/discover", MODERN)

    def test_half_a_character_comes_back_as_it_was_sent(self, client: Client) -> None:
        client.send_bytes(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n')
        assert client.receive() == {"jsonrpc": "2.0", "id": "\ud800", "result": {}}

    def test_a_100_mb_line_is_refused_without_being_kept(self, client: Client) -> None:
        block = b"a" * (1 << 20)
        for _ in range(100):
            client.send_bytes(block)
        client.send_bytes(b"\n")
        assert client.receive()["error"]["code"] == -32700
        assert "result" in client.ask("server/discover", MODERN)

    def test_a_notification_and_a_response_get_no_answer(self, client: Client) -> None:
        client.send({"jsonrpc": "2.0", "method": "no/such"})
        client.send({"jsonrpc": "2.0", "id": 9, "result": {}})
        assert client.ask("server/discover", MODERN, identity="last")["id"] == "last"

    def test_ten_thousand_malformed_messages_leave_it_answering(self, client: Client) -> None:
        generator = random.Random(7)
        seed = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": MODERN}).encode()
        for _ in range(10_000):
            data = bytearray(seed)
            for _ in range(generator.randrange(1, 6)):
                data[generator.randrange(len(data))] = generator.choice(b'{}[]",:0aZ\\\xff\x00 ')
            client.send_bytes(bytes(data).replace(b"\n", b" ") + b"\n")
        assert client.ask("server/discover", MODERN, identity="still here")["id"] == "still here"

    def test_an_id_in_use_is_refused(self, legacy: Client) -> None:
        for _ in range(2):
            legacy.send(
                {
                    "jsonrpc": "2.0",
                    "id": 5,
                    "method": "tools/call",
                    "params": {"name": "npu_graph_diagnose", "arguments": {"text": REPORT * 20000}},
                }
            )
        answers = [legacy.receive(), legacy.receive()]
        assert sorted("error" in answer for answer in answers) == [False, True]


class TestResourcesDoNotBlock:
    def test_the_server_answers_while_one_is_read(self, client: Client) -> None:
        params = {**MODERN, "uri": "npu-graph://patterns/P-CAP-001"}
        client.send({"jsonrpc": "2.0", "id": "read", "method": "resources/read", "params": params})
        assert client.ask("tools/list", MODERN, identity="list")["id"] == "list"
        assert "P-CAP-001" in client.receive()["result"]["contents"][0]["text"]

    def test_a_cancelled_one_is_not_answered(self, client: Client) -> None:
        params = {**MODERN, "uri": "npu-graph://patterns/P-CAP-001"}
        client.send({"jsonrpc": "2.0", "id": "read", "method": "resources/read", "params": params})
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "read"}})
        time.sleep(2)
        assert client.ask("tools/list", MODERN, identity="list")["id"] == "list"
        assert client.messages.empty()


def processes_of(folder: Path) -> list[int]:
    """Return the processes that run the log analyser on files of this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if b"parse_npu_logs.py" in command and os.fsencode(folder / "big.log") in command:
            found.append(int(entry.parent.name))
    return found


def wait_until(holds: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


class TestLongWork:
    SLOW = {"text": "\n".join(f"error code is 10702{index % 10} in step {index}" for index in range(55_000))}

    def test_a_cancelled_call_is_ended_and_not_answered(self, legacy: Client) -> None:
        legacy.send(
            {
                "jsonrpc": "2.0",
                "id": "slow",
                "method": "tools/call",
                "params": {"name": "npu_graph_diagnose", "arguments": self.SLOW},
            }
        )
        time.sleep(0.3)
        legacy.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
        assert legacy.ask("ping", identity="after")["id"] == "after"
        time.sleep(1)
        assert legacy.messages.empty()

    @pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to read processes from")
    @pytest.mark.parametrize("how", ["cancelled", "input closed", "terminated"])
    def test_its_workers_end_with_it(self, tmp_path: Path, how: str) -> None:
        line = f"(Worker_TP0 pid=9) ERROR 06-10 16:39:42 [multiproc_executor.py:962] {REPORT}\n"
        (tmp_path / "big.log").write_text(line * 300_000)
        client = Client("--root", str(tmp_path), cwd=tmp_path)
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        params = {"name": "npu_graph_parse_log", "arguments": {"paths": ["big.log"]}}
        client.send({"jsonrpc": "2.0", "id": "big", "method": "tools/call", "params": params})
        wait_until(lambda: len(processes_of(tmp_path)) > 1)
        if how == "cancelled":
            client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "big"}})
        elif how == "input closed":
            client.process.stdin.close()
        else:
            client.process.terminate()
        wait_until(lambda: not processes_of(tmp_path), seconds=3)
        if how == "cancelled":
            client.close()
        assert client.process.wait(timeout=10) == (143 if how == "terminated" else 0)

    @pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to read processes from")
    def test_a_crash_of_a_call_is_its_result_and_the_server_goes_on(self, legacy: Client, tmp_path: Path) -> None:
        (tmp_path / "big.log").write_text(f"ERROR 06-10 16:39:42 [x.py:1] {REPORT}\n" * 300_000)
        params = {"name": "npu_graph_parse_log", "arguments": {"paths": ["big.log"]}}
        legacy.send({"jsonrpc": "2.0", "id": "big", "method": "tools/call", "params": params})
        wait_until(lambda: bool(processes_of(tmp_path)))
        for process in processes_of(tmp_path):
            os.kill(process, signal.SIGKILL)
        result = legacy.receive()["result"]
        assert (result["isError"], "exit code" in result["content"][0]["text"]) == (True, True)
        assert legacy.ask("ping", identity="after")["id"] == "after"

    def test_an_id_may_be_used_again_after_a_cancellation(self, legacy: Client) -> None:
        def call(arguments: dict[str, Any]) -> None:
            params = {"name": "npu_graph_diagnose", "arguments": arguments}
            legacy.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})

        call(self.SLOW)
        time.sleep(0.3)
        legacy.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})
        call({"text": REPORT})
        assert legacy.receive()["result"]["structuredContent"]["verdict"] == "known"
        assert legacy.ask("ping", identity="after")["id"] == "after"

    def test_a_flood_is_refused_in_part_and_the_server_goes_on(self, legacy: Client) -> None:
        for number in range(300):
            params = {"name": "npu_graph_diagnose", "arguments": {"text": REPORT}}
            legacy.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        while True:
            error = legacy.receive().get("error")
            if error:
                break
        assert (error["code"], "too many" in error["message"]) == (-32603, True)
        assert legacy.ask("ping", identity="after")["id"] == "after"

    def test_a_time_limit_ends_a_call(self, tmp_path: Path) -> None:
        client = Client("--timeout", "0.2", cwd=tmp_path)
        client.ask("initialize", {"protocolVersion": "2025-06-18"})
        result = client.call("npu_graph_diagnose", self.SLOW)
        client.close()
        assert result["isError"] is True
        assert "ended" in result["content"][0]["text"]

    def test_progress_grows_while_a_call_runs(self, legacy: Client) -> None:
        legacy.send(
            {
                "jsonrpc": "2.0",
                "id": "slow",
                "method": "tools/call",
                "params": {"name": "npu_graph_diagnose", "arguments": self.SLOW, "_meta": {"progressToken": "p"}},
            }
        )
        seen = []
        while True:
            message = legacy.receive()
            if message.get("id") == "slow":
                break
            seen.append(message["params"]["progress"])
            assert message["params"]["progressToken"] == "p"
        assert seen
        assert seen == sorted(set(seen))

    def test_the_end_of_input_ends_the_server(self, client: Client) -> None:
        client.process.stdin.close()
        assert client.process.wait(timeout=10) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="the processor time of children is asked for")
@pytest.mark.skipif("NPU_GRAPH_COVERAGE_PYTHON" in os.environ, reason="measuring coverage takes longer than the answer")
def test_it_answers_after_a_tenth_of_a_second_of_work(tmp_path: Path) -> None:
    """Processor time, best of five: wall time on a shared machine says more about its neighbours."""
    import resource

    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": MODERN}).encode() + b"\n"
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-I", "-S", SERVER], input=message, capture_output=True, cwd=tmp_path, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.1, times

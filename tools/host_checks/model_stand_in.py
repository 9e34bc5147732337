"""A stand-in for a model's API on loopback: it calls one tool, then ends, and keeps every request it was sent.

Speaks the streamed form of Anthropic's Messages API (github.com/anthropics/anthropic-sdk-python
src/anthropic/types/raw_message_stream_event.py): message_start, content_block_*, message_delta, message_stop.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

LARGEST_REQUEST = 32 * 1024 * 1024
TOOL_CALL_ID = "toolu_stand_in"


class ModelStandIn:
    """A server that answers the first request that offers the tool with a call of it, and others with a short text.

    Args:
        tool: name of the tool to call; "" calls none.
        arguments: what it is called with.
    """

    def __init__(self, tool: str = "", arguments: dict[str, Any] | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self._call = (tool, arguments or {})
        self._called = False
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """The base address to give to a host."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ModelStandIn:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Keep a request and return the events that answer it."""
        offered = {tool.get("name") for tool in request.get("tools") or []}
        with self._lock:
            self.requests.append(request)
            tool, arguments = self._call
            calls = bool(tool) and tool in offered and not self._called
            self._called = self._called or calls
        return tool_call_events(tool, arguments) if calls else text_events("done")


def text_events(text: str) -> list[dict[str, Any]]:
    """Return the events of an answer that is one short text."""
    return _message({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn")


def tool_call_events(tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an answer that calls a tool."""
    block = {"type": "tool_use", "id": TOOL_CALL_ID, "name": tool, "input": {}}
    return _message(block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use")


def _message(block: dict[str, Any], delta: dict[str, Any], stop_reason: str) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_stand_in",
        "type": "message",
        "role": "assistant",
        "model": "stand-in",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def _handler(stand_in: ModelStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers POST /v1/messages; everything else is not found."""

        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length") or 0), LARGEST_REQUEST)
            body = self.rfile.read(length)
            if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                self.send_error(404)
                return
            events = stand_in.answer(json.loads(body))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in events:
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def do_GET(self) -> None:
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *arguments: Any) -> None:
            """Keep quiet: the requests are kept instead."""

    return Handler

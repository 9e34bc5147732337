"""A stand-in for the model's HTTP interface on a local port: asks for one tool call, and ends after its result."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Iterator


@contextmanager
def scripted_model(tool: str, arguments: dict[str, Any]) -> Iterator[str]:
    """Serve for as long as the block lasts; yields the address that a client is given as its model's."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            contents = [message["content"] for message in request.get("messages", [])]
            blocks = [block for content in contents if isinstance(content, list) for block in content]
            if any(block.get("type") == "tool_result" for block in blocks):
                answer = _stream({"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn")
            else:
                call = {"type": "tool_use", "id": "call_1", "name": tool, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
                answer = _stream(call, delta, "tool_use")
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _stream(block: dict[str, Any], delta: dict[str, Any], stop: str) -> bytes:
    """Return one answer of a single block as server-sent events."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()

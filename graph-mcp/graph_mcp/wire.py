"""Newline-delimited JSON-RPC on standard input and output, bounded, and nothing else on standard output."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, BinaryIO, Iterator

# A longer line is refused and skipped without being held in memory.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_SKIP_BLOCK = 1 << 20
MAX_DIGITS = 30

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022
# Of the revisions that begin with `initialize`; 2026-07-28 forbids it and answers INVALID_PARAMS.
EARLIER_RESOURCE_NOT_FOUND = -32002


class WireError(Exception):
    """A JSON-RPC error to send back.

    Args:
        code: a JSON-RPC or MCP error code.
        message: one sentence.
        data: what else the client needs, or None.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def as_error(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return error


class Output:
    """Writes one message a line; several threads may write."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Write a message. A reader that has gone ends the process quietly through the closed input."""
        data = (
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
        )
        with self._lock:
            try:
                self._stream.write(data)
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                pass


def take_over_stdout() -> Output:
    """Return the output for messages, and point sys.stdout at stderr so that a stray print cannot corrupt it."""
    output = Output(sys.stdout.buffer)
    sys.stdout = sys.stderr
    return output


def read_messages(stream: BinaryIO) -> Iterator[Any]:
    """Yield each parsed message, or a WireError for a line that is no JSON; blank lines are skipped."""
    while True:
        line = stream.readline(MAX_MESSAGE_BYTES + 1)
        if not line:
            return
        if len(line) > MAX_MESSAGE_BYTES and not line.endswith(b"\n"):
            _skip_line(stream)
            yield WireError(PARSE_ERROR, f"a message is longer than {MAX_MESSAGE_BYTES} bytes")
            continue
        if not line.strip():
            continue
        try:
            yield json.loads(line.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_read_integer)
        except UnicodeDecodeError:
            yield WireError(PARSE_ERROR, "a message is not valid UTF-8")
        except RecursionError:
            yield WireError(PARSE_ERROR, "a message is nested too deeply")
        except ValueError as error:
            yield WireError(PARSE_ERROR, f"a message is not valid JSON: {str(error)[:120]}")


def _read_integer(digits: str) -> int:
    """Return the number; a long one is refused, as older Pythons take minutes for a million digits."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer has more than {MAX_DIGITS} digits")
    return int(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _skip_line(stream: BinaryIO) -> None:
    while True:
        block = stream.readline(_SKIP_BLOCK)
        if not block or block.endswith(b"\n"):
            return

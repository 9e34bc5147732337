"""Run a script of the bundle in its own process: bounded in time and output, and ended when the call is cancelled.

A tool call that crashes, hangs or is cancelled so never touches the server. Arguments are passed as a list, never
through a shell, and a leading dash in a user's value cannot become an option.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence

if TYPE_CHECKING:
    import subprocess

BUNDLE = Path(__file__).resolve().parents[2]
# Run in the child; no script of its own, as it is no command for anybody. run_guarded replaces sys.path[0].
GUARD = (
    f"import sys; sys.path[0] = {str(Path(__file__).resolve().parents[1])!r}; "
    "from graph_mcp.guard import run_guarded; run_guarded(sys.argv[1:])"
)
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_ERROR_CHARACTERS = 600
PROGRESS_SECONDS = 1.0


class Outcome(NamedTuple):
    """What a script printed, its exit code, and why it was ended early ('' when it was not)."""

    code: int
    output: str
    error: str
    ended: str


class Job:
    """One running script.

    Args:
        script: path relative to the bundle.
        arguments: options and values.
        standard_input: text for the script's input.
        seconds: time limit.
        folders: where the files that it names lie; given, no link below them leads out of them all.
    """

    def __init__(
        self,
        script: str,
        arguments: Sequence[str],
        standard_input: str,
        seconds: float,
        folders: Sequence[Path] = (),
    ) -> None:
        guard = ["-c", GUARD, _guarded(folders)] if folders else []
        self._command = [sys.executable, *guard, str(BUNDLE / script), *arguments]
        self._input = standard_input.encode("utf-8", "replace")
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._ended = ""

    def run(self, on_progress: Callable[[float], None] | None = None) -> Outcome:
        """Run to the end, calling `on_progress` with the seconds passed about once a second."""
        import subprocess  # only when a call is made: the server's start stays short

        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
        with self._lock:
            if self._ended:
                return Outcome(-1, "", "", self._ended)
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # a group of its own, so that its workers end with it
            )
        collected: dict[str, bytes] = {}
        readers = [
            threading.Thread(target=self._collect, args=(name, collected), daemon=True) for name in ("stdout", "stderr")
        ]
        for reader in [*readers, threading.Thread(target=self._feed, daemon=True)]:
            reader.start()
        start = time.monotonic()
        while True:
            try:
                code = self._process.wait(timeout=PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                passed = time.monotonic() - start
                if passed > self._seconds:
                    self.end(f"ended after {self._seconds:.0f} s")
                elif on_progress is not None:
                    on_progress(passed)
        for reader in readers:
            reader.join(timeout=5)
        error = collected.get("stderr", b"").decode("utf-8", "replace").strip()
        output = collected.get("stdout", b"").decode("utf-8", "replace")
        return Outcome(code, output, error[-MAX_ERROR_CHARACTERS:], self._ended)

    def end(self, why: str) -> None:
        """End the script; safe to call at any time and from any thread."""
        with self._lock:
            self._ended = self._ended or why
            process = self._process
        if process is not None and process.poll() is None:
            _kill_tree(process.pid)

    def _feed(self) -> None:
        stream = self._process.stdin if self._process else None
        if stream is None:
            return
        try:
            stream.write(self._input)
            stream.close()
        except OSError:
            pass  # the script ended without reading everything

    def _collect(self, name: str, collected: dict[str, bytes]) -> None:
        stream = getattr(self._process, name)
        data = bytearray()
        while True:
            block = stream.read(65536)
            if not block:
                break
            data += block
            if len(data) > MAX_OUTPUT_BYTES:
                self.end(f"its output passed {MAX_OUTPUT_BYTES} bytes")
                break
        collected[name] = bytes(data)


def _kill_tree(pid: int) -> None:
    """End a process and those that it started: workers of a killed one would wait for work for ever."""
    if sys.platform == "win32":
        import subprocess

        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)
        return
    import signal

    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _guarded(folders: Sequence[Path]) -> str:
    """Return what the guard allows: the folders, and besides them the knowledge, which a team may link to."""
    import json

    from npu_graph import bundle

    knowledge = [str(folder.resolve()) for folder in bundle.knowledge_folders()]
    return json.dumps([[str(folder) for folder in folders], knowledge])

"""Runs one child process with a time limit; its output is kept within bounds and without secrets."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, NamedTuple, Sequence

from npu_graph.redaction import Redactor, machine_names

# Head and tail of a log that are kept: the first error is in one of them, a progress bar fills the middle.
KEPT_BYTES = 512 * 1024
# After the time limit the child is asked to end; what has not ended after this is killed.
GRACE_SECONDS = 5.0
PASSED, FAILED, TIMEOUT = "passed", "failed", "timeout"


class Outcome(NamedTuple):
    """How a child process ended."""

    status: str
    returncode: int | None
    signal: str
    seconds: float
    log: str


def run_child(command: Sequence[str], environment: dict[str, str], cwd: Path, limit: float, log_file: Path) -> Outcome:
    """Run a command in a process group of its own, and write what it prints to `log_file`.

    Args:
        limit: seconds after which the whole group is ended.
    """
    start = time.monotonic()
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=str(cwd),
        start_new_session=os.name == "posix",
    )
    assert child.stdout is not None
    reader = _BoundedReader(child.stdout)
    timed_out = False
    try:
        child.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        # Workers that outlive the launcher would hold the device for the next step.
        _end_group(child)
        seconds = time.monotonic() - start
        reader.join(GRACE_SECONDS)
        text = Redactor(machine_names()).apply(reader.text())
        log_file.write_text(text, encoding="utf-8")
    code = child.returncode
    name = signal.Signals(-code).name if code is not None and code < 0 and -code in _signals() else ""
    status = TIMEOUT if timed_out else PASSED if code == 0 else FAILED
    return Outcome(status, code, "" if timed_out else name, round(seconds, 1), text)


def _signals() -> set[int]:
    return {int(item) for item in signal.Signals}


def _end_group(child: subprocess.Popen[bytes]) -> None:
    if os.name != "posix":
        if child.poll() is None:
            child.kill()
            child.wait()
        return
    _signal_group(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=GRACE_SECONDS)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


class _BoundedReader(threading.Thread):
    """Reads a pipe to its end and keeps the first and the last KEPT_BYTES."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._head = b""
        self._tail = b""
        self._dropped = 0
        self._lock = threading.Lock()
        self.start()

    def run(self) -> None:
        while True:
            try:
                block = os.read(self._pipe.fileno(), 1 << 16)
            except OSError:
                return
            if not block:
                return
            with self._lock:
                room = KEPT_BYTES - len(self._head)
                self._head += block[:room]
                self._tail += block[room:] if room > 0 else block
                if len(self._tail) > 2 * KEPT_BYTES:
                    self._dropped += len(self._tail) - KEPT_BYTES
                    self._tail = self._tail[-KEPT_BYTES:]

    def text(self) -> str:
        with self._lock:
            parts = [self._head.decode("utf-8", "replace")]
            if self._dropped:
                parts.append(f"\n[... {self._dropped} bytes left out ...]\n")
            parts.append(self._tail.decode("utf-8", "replace"))
        return "".join(parts)

"""Runs one probe in its own process with a time limit, and says how it ended: no fault of a probe reaches the check."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import BinaryIO, Mapping, NamedTuple, Sequence

OK, EXIT, SIGNAL, TIMEOUT, FLOOD, ABSENT, NO_TIME = "ok", "exit", "signal", "timeout", "flood", "absent", "no_time"

# A probe prints kilobytes; this much says that something prints in a loop, and would fill the disk.
MAX_WRITTEN = 16 * 1024 * 1024
# Head and tail kept of what a probe wrote.
MAX_KEPT = 128 * 1024
_POLL_SECONDS = 0.05
# A process that waits inside the driver does not die at once, or at all, when killed; the check goes on without it.
_REAP_SECONDS = 2.0


class Outcome(NamedTuple):
    """How a process ended.

    Attributes:
        kind: ok (exit 0), exit (another code), signal, timeout, flood (output without end), absent (not started),
            no_time (not started, or cut short, because the time of the whole check was used up).
        detail: the exit code, the signal's name, or why it did not start.
        stdout, stderr: head and tail of what it wrote.
        seconds: how long it ran.
    """

    kind: str
    detail: str
    stdout: str
    stderr: str
    seconds: float


def run_bounded(command: Sequence[str], limit: float, env: Mapping[str, str] | None = None, cwd: str = "") -> Outcome:
    """Run a command and return how it ended, within `limit` seconds (and the time to kill it).

    Output goes to files rather than pipes: a grandchild that keeps a pipe open cannot make this wait.
    """
    started = time.monotonic()
    if limit <= 0:
        return Outcome(NO_TIME, "", "", "", 0.0)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=None if env is None else dict(env),
                cwd=cwd or None,
                start_new_session=os.name == "posix",
            )
        except (OSError, ValueError) as error:
            return Outcome(ABSENT, getattr(error, "strerror", None) or str(error), "", "", 0.0)
        kind = _watch(child, started + limit, (out, err))
        if kind:
            _kill(child)
        seconds = time.monotonic() - started
        return _describe(kind, child.returncode, _kept(out), _kept(err), seconds)


def _watch(child: subprocess.Popen[bytes], deadline: float, files: Sequence[BinaryIO]) -> str:
    """Wait for the child; return why it must be killed, or nothing when it ended by itself."""
    while child.poll() is None:
        if time.monotonic() >= deadline:
            return TIMEOUT
        if any(os.fstat(file.fileno()).st_size > MAX_WRITTEN for file in files):
            return FLOOD
        time.sleep(_POLL_SECONDS)
    return ""


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_REAP_SECONDS)


def _describe(kind: str, code: int | None, stdout: str, stderr: str, seconds: float) -> Outcome:
    if kind == TIMEOUT:
        detail = "still there after SIGKILL: it waits inside the driver" if code is None else f"{seconds:.0f}"
        return Outcome(TIMEOUT, detail, stdout, stderr, seconds)
    if kind == FLOOD:
        return Outcome(FLOOD, "", stdout, stderr, seconds)
    if code is not None and code < 0:
        return Outcome(SIGNAL, signal_name(-code), stdout, stderr, seconds)
    return Outcome(OK if code == 0 else EXIT, str(code), stdout, stderr, seconds)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kept(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= MAX_KEPT:
        return file.read().decode("utf-8", "replace")
    head = file.read(MAX_KEPT // 2)
    file.seek(size - MAX_KEPT // 2)
    return head.decode("utf-8", "replace") + "\n[...]\n" + file.read().decode("utf-8", "replace")


def child_script(name: str) -> str:
    """Return the path of a probe of the folder children/."""
    return str(Path(__file__).resolve().parent / "children" / f"{name}.py")

"""A lock and an atomic write that need no fcntl: they work on Windows and on network file systems."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import socket
import time
from pathlib import Path
from types import TracebackType

from npu_graph import cli
from npu_graph.plain_files import read_plain

# The longest the holder of a lock may go without finishing; work under the lock takes milliseconds to seconds.
STALE_SECONDS = 30.0
# A lock is signed by its owner right after it is made: one that stays unsigned belongs to a process that was killed.
UNSIGNED_SECONDS = 1.0
WAIT_SECONDS = 120.0
# On Windows a file that another process has open cannot be replaced for a moment.
REPLACE_TRIES = 40


class FileLock:
    """Held while a file with the lock's name exists; made with O_EXCL, which every file system keeps exclusive.

    A lock whose owner died is taken over: at once when the owner ran on this host and its process is gone,
    otherwise when the same owner's lock has been seen for STALE_SECONDS (watched on our own clock, so that two
    machines need not agree on the time). What the lock protects must survive two holders: see case_store.
    """

    def __init__(self, path: Path, stale_seconds: float = STALE_SECONDS, wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = path
        self._stale_seconds = stale_seconds
        self._wait_seconds = wait_seconds
        self._token = f"{os.getpid()} {secrets.token_hex(8)} {socket.gethostname()}"

    def __enter__(self) -> FileLock:
        deadline = time.monotonic() + self._wait_seconds
        seen, since = "", time.monotonic()
        while not self._try_take():
            if self.path.is_dir():
                raise cli.CommandError(f"{self.path} is a folder where a lock file goes; remove it", cli.ABSENT)
            owner = self._read(self.path)
            now = time.monotonic()
            if owner != seen:
                seen, since = owner, now
            allowed = self._stale_seconds if owner else min(self._stale_seconds, UNSIGNED_SECONDS)
            if _owner_is_gone(owner) or now - since > allowed:
                self._break(owner)
                continue
            if now > deadline:
                raise cli.CommandError(
                    f"{self.path} has been held by another process for {self._wait_seconds:.0f} s; "
                    "nothing was written. Try again; delete that file if no kb.py runs",
                    cli.ABSENT,
                )
            time.sleep(random.uniform(0.001, 0.02))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._read(self.path) == self._token:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def is_held(self) -> bool:
        """Say whether the lock is still ours: another process may have taken it for stale."""
        return self._read(self.path) == self._token

    def _try_take(self) -> bool:
        try:
            handle = os.open(str(self.path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        except PermissionError:
            if self.path.exists():  # Windows: deleted, but still open somewhere
                return False
            raise
        try:
            os.write(handle, self._token.encode("utf-8"))
        except OSError:
            os.close(handle)
            self.path.unlink()
            raise
        os.close(handle)
        return True

    def _break(self, owner: str) -> None:
        """Remove a stale lock. A second lock makes sure that only one process does, and only that owner's."""
        breaker = self.path.with_name(self.path.name + ".break")
        try:
            handle = os.open(str(breaker), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except (FileExistsError, PermissionError):
            with contextlib.suppress(OSError):
                holder = self._read(breaker)
                allowed = self._stale_seconds if holder else min(self._stale_seconds, UNSIGNED_SECONDS)
                if _owner_is_gone(holder) or time.time() - breaker.stat().st_mtime > allowed:
                    breaker.unlink()
            time.sleep(random.uniform(0.001, 0.02))
            return
        with contextlib.suppress(OSError):  # unsigned on a full disk: it is soon taken for stale, which is all right
            os.write(handle, self._token.encode("utf-8"))
        os.close(handle)
        try:
            if self._read(self.path) == owner:
                with contextlib.suppress(OSError):
                    self.path.unlink()
        finally:
            with contextlib.suppress(OSError):
                breaker.unlink()

    @staticmethod
    def _read(path: Path) -> str:
        try:
            return read_plain(path, 400).decode("utf-8", "replace")
        except OSError:
            return ""


def _owner_is_gone(owner: str) -> bool:
    process, _, rest = owner.partition(" ")
    host = rest.partition(" ")[2]
    # os.kill(pid, 0) asks on POSIX, but ends the process on Windows.
    if os.name != "posix" or host != socket.gethostname() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def write_atomically(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a whole file so that a reader, or a crash, sees the old content or the new one, never a part.

    Args:
        path: the file; its folder must exist.
        data: the content.
        durable: also wait until the disk has it, so that it survives a power cut.

    Raises:
        OSError: the disk is full, the folder read-only...; nothing is left behind and the old file stands.
    """
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}-{path.name}")
    try:
        handle = os.open(str(temporary), os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o644)
        with open(handle, "wb") as sink:  # noqa: PTH123 - a descriptor, not a path
            sink.write(data)
            sink.flush()
            if durable:
                os.fsync(sink.fileno())
        replace_file(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def replace_file(source: Path, target: Path) -> None:
    """os.replace, tried again while Windows reports the target as open."""
    for attempt in range(REPLACE_TRIES):
        try:
            source.replace(target)
            return
        except PermissionError:
            if os.name != "nt" or attempt == REPLACE_TRIES - 1:
                raise
            time.sleep(0.05)

"""Open what a folder holds only when it is a regular file: opening a pipe or a device could wait for ever."""

from __future__ import annotations

import contextlib
import errno
import stat
from pathlib import Path
from typing import IO, Iterable


def open_plain(path: Path) -> IO[bytes]:
    """Open a regular file for reading.

    Raises:
        OSError: it is not there, cannot be read, or is a folder, pipe, socket or device.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.open("rb")


def read_plain(path: Path, limit: int) -> bytes:
    """Read at most the first `limit` bytes of a regular file; OSError as for open_plain."""
    with open_plain(path) as source:
        return source.read(limit)


def read_first(folders: Iterable[Path], name: str, limit: int) -> str:
    """Return the text of a file in the first folder that holds it, '' when none does; at most `limit` bytes."""
    for folder in folders:
        with contextlib.suppress(OSError):
            return read_plain(Path(folder) / name, limit).decode("utf-8", "replace")
    return ""

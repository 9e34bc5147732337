"""Find log files, open them whatever their form, and hand out whole lines in blocks of bounded size."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, Iterator, NamedTuple, Sequence

from npu_graph.expressions import compile_on_use

# Blocks of this size keep one block's lines in the processor's cache: 4 MiB blocks run at less than half the speed.
BLOCK = 1 << 19
# A longer line is cut here; the rest of it is skipped at memory speed.
MAX_LINE = 1 << 20
# Deflate cannot exceed 1032:1; logs reach 10 to 60. Above this a file is taken for a bomb once it has grown large.
_MAX_RATIO = 300
_BOMB_FROM = 256 << 20
_MAX_FILES = 20000
_SAMPLE = 65536
_NUL_SHARE = 0.30

# Files of a log folder that hold no log lines.
_NOT_LOGS = compile_on_use(
    r"\.(?:so|o|a|bin|npy|npz|pt|pth|safetensors|onnx|om|db|sqlite|png|jpe?g|zip|tar|tgz|whl|pyc|json|csv|xlsx?|core|lock|pid)$",
    re.IGNORECASE,
)


class Source(NamedTuple):
    """A file to scan: its path ('-' for standard input), size in bytes and time of last change (seconds)."""

    path: str
    size: int
    mtime: float
    packed: bool


class Skipped(NamedTuple):
    """A file that was not scanned, and why."""

    path: str
    reason: str


class Found(NamedTuple):
    """What the given paths lead to."""

    sources: list[Source]
    skipped: list[Skipped]


def find_sources(names: Sequence[str]) -> Found:
    """Return the files behind the names; a directory is walked, symbolic links are followed once.

    A named file is always taken; in a directory, files that hold no log are left out silently (by suffix) or listed
    (unreadable, binary).
    """
    sources: list[Source] = []
    skipped: list[Skipped] = []
    seen: set[tuple[int, int]] = set()
    for name in names:
        if name == "-":
            sources.append(Source("-", 0, 0.0, False))
            continue
        path = Path(name).expanduser()
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            skipped.append(Skipped(name, _reason(error)))
            continue
        if stat.S_ISDIR(status.st_mode):
            for child in _walk(path, skipped, set()):
                _take(child, sources, skipped, seen, named=False)
        else:
            _take(path, sources, skipped, seen, named=True)
    return Found(sources, skipped)


def _walk(folder: Path, skipped: list[Skipped], above: set[tuple[int, int]]) -> Iterator[Path]:
    stack = [folder]
    visited: set[tuple[int, int]] = set()
    given = 0
    while stack:
        current = stack.pop()
        try:
            status = current.stat()
            identity = (status.st_dev, status.st_ino)
            if identity in visited and identity != (0, 0):  # a symbolic link that leads back
                continue
            visited.add(identity)
            children = sorted(current.iterdir())
        except OSError as error:
            skipped.append(Skipped(str(current), _reason(error)))
            continue
        folders = []
        for child in children:
            try:
                is_folder = child.is_dir()
            except OSError as error:
                skipped.append(Skipped(str(child), _reason(error)))
                continue
            if is_folder:
                folders.append(child)
            else:
                given += 1
                if given > _MAX_FILES:
                    skipped.append(Skipped(str(folder), f"more than {_MAX_FILES} files; the rest was not looked at"))
                    return
                yield child
        stack.extend(reversed(folders))


def _take(path: Path, sources: list[Source], skipped: list[Skipped], seen: set[tuple[int, int]], named: bool) -> None:
    if not named and _NOT_LOGS.search(path.name):
        return
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            skipped.append(Skipped(str(path), "not a regular file; pipe it to '-' instead"))
            return
        identity = (status.st_dev, status.st_ino)
        if status.st_ino and identity in seen:
            return
        with path.open("rb") as stream:
            head = stream.read(_SAMPLE)
    except OSError as error:
        skipped.append(Skipped(str(path), _reason(error)))
        return
    seen.add(identity)
    packed = head[:2] == b"\x1f\x8b"
    if not packed and head and head.count(0) > len(head) * _NUL_SHARE:
        skipped.append(Skipped(str(path), "binary, not text"))
        return
    if not packed and (reason := unreadable(head)):
        skipped.append(Skipped(str(path), reason))
        return
    if not head:
        if named:
            skipped.append(Skipped(str(path), "empty"))
        return
    sources.append(Source(str(path), status.st_size, status.st_mtime, packed))


def unreadable(sample: bytes) -> str:
    """Return why the first bytes of a log can give no line, or ''."""
    if sample.count(0) > len(sample) * _NUL_SHARE:
        return "binary, or UTF-16: convert it with iconv -f utf-16 -t utf-8"
    if b"\r" in sample and b"\n" not in sample:
        return "text whose lines end in carriage returns only: convert it with tr '\\r' '\\n'"
    return ""


def peek_stdin() -> bytes:
    """Return the first bytes of standard input and leave them to be read."""
    stream = sys.stdin.buffer
    return stream.peek(_SAMPLE) if isinstance(stream, io.BufferedReader) else b""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class Block(NamedTuple):
    """Consecutive whole lines, and texts in which everything stands that stands in one of the lines.

    The texts are what was read, with the rest of a line that belongs to another block; a line that was put together
    from two reads is a text of its own. Joining them to one text costs more than taking it apart into lines.
    The surplus stands in the texts once more than in the lines: parts of lines that reading cut.
    """

    lines: list[bytes]
    texts: tuple[bytes, ...]
    surplus: tuple[bytes, ...] = ()


class Reader:
    """Hands out the lines that start in [start, end) of a source, in blocks that end at a line end.

    Attributes:
        notes: what was wrong with the source (a truncated archive, a bomb), as counter names.
        at: where the first line of the latest block begins in the file; None where a file cannot be read from there.
    """

    def __init__(self, source: Source, start: int = 0, end: int | None = None) -> None:
        self.source = source
        self.start = start
        self.limit = end
        self.notes: dict[str, int] = {}
        self.at: int | None = None

    def head(self) -> bytes:
        """Return the first bytes of the source, decompressed; b'' for standard input."""
        if self.source.path == "-":
            return b""
        try:
            with self._open() as stream:
                return stream.read(_SAMPLE)
        except (OSError, EOFError, zlib.error):
            return b""

    def blocks(self) -> Iterator[Block]:
        """Yield blocks of whole lines; the last one may lack its line end."""
        if self.source.path == "-":
            yield from self._cut(sys.stdin.buffer, None)
            return
        with self._open() as stream:
            if self.source.packed:
                yield from self._cut(stream, None)
                return
            begin = self.start
            if begin:
                begin = _next_line(stream, begin)
            stream.seek(begin)
            # A file that grows is read up to the size it had when it was opened.
            size = min(os.fstat(stream.fileno()).st_size, max(self.source.size, 0) or sys.maxsize)
            limit = size if self.limit is None else min(self.limit, size)
            yield from self._cut(stream, limit - begin, begin)

    def _open(self) -> BinaryIO:
        if self.source.packed:
            return gzip.open(self.source.path, "rb")  # type: ignore[return-value]
        return Path(self.source.path).open("rb", buffering=0)

    def _cut(self, stream: BinaryIO, left: int | None, begin: int | None = None) -> Iterator[Block]:
        tail = b""
        skipping = False
        total = 0
        while left is None or left > 0:
            data = self._read(stream, BLOCK if left is None else min(BLOCK, left))
            if not data:
                break
            data_at = total
            total += len(data)
            if left is not None:
                left -= len(data)
            if self.source.packed and total > _BOMB_FROM and total > _MAX_RATIO * self.source.size:
                self._note("bomb")
                break
            if skipping:
                end = data.find(b"\n")
                if end < 0:
                    continue
                data = data[end + 1 :]
                data_at += end + 1
                skipping = False
                if not data:
                    continue
            lines = io.BytesIO(data).readlines()
            if begin is not None:
                self.at = begin + data_at - len(tail)
            texts: tuple[bytes, ...] = (data,)
            surplus: tuple[bytes, ...] = (lines[-1],) if not lines[-1].endswith(b"\n") else ()
            if tail:
                surplus = (lines[0], *surplus[: len(lines) - 1])
                lines[0] = tail + lines[0]
                texts = (data, lines[0])
            tail = lines.pop() if not lines[-1].endswith(b"\n") else b""
            if len(tail) > MAX_LINE:
                lines.append(tail[:MAX_LINE] + b"\n")
                texts = (*texts, lines[-1]) if len(lines) > 1 else (data, lines[-1])
                tail, skipping = b"", True
            if lines:
                yield Block(lines, texts, surplus)
            del data, lines, texts, surplus
        if tail:
            if begin is not None:
                self.at = begin + total - len(tail)
            # A line that starts before the end of this stretch belongs to it wholly.
            if self.limit is not None and not self.source.packed:
                tail += _rest_of_line(stream, MAX_LINE)
            yield Block([tail], (tail,))

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        """Read up to size bytes; of a damaged archive, what comes before the damage."""
        if not self.source.packed:
            try:
                return stream.read(size)
            except OSError:
                self._note("read_error")
                return b""
        parts: list[bytes] = []
        while size > 0:
            try:
                part = stream.read1(min(size, 1 << 16))  # type: ignore[attr-defined]
            except (EOFError, OSError, zlib.error):
                self._note("truncated_archive")
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _note(self, what: str) -> None:
        self.notes[what] = self.notes.get(what, 0) + 1


def _next_line(stream: BinaryIO, at: int) -> int:
    """Return where the first line starts at or after `at`."""
    stream.seek(at - 1)
    position = at - 1
    while True:
        data = stream.read(1 << 16)
        if not data:
            return position
        end = data.find(b"\n")
        if end >= 0:
            return position + end + 1
        position += len(data)


def _rest_of_line(stream: BinaryIO, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < limit:
        data = stream.read(1 << 16)
        if not data:
            break
        end = data.find(b"\n")
        if end >= 0:
            parts.append(data[: end + 1])
            break
        parts.append(data)
        size += len(data)
    return b"".join(parts)

"""Read the source line of a frame, only below folders that the user named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

from .dumps import Frame

MAX_SOURCE_BYTES = 2 * 1024 * 1024
MAX_SEARCHED_FILES = 2000
MAX_FOUND = 20


class SourceLines:
    """Source text of frames. A dump is untrusted: it may name any file, so only `.py` files below a root are opened."""

    def __init__(self, roots: Sequence[str] = ()) -> None:
        self._roots = [Path(root).resolve() for root in roots]
        self._files: dict[str, list[str]] = {}

    def text_of(self, frame: Frame) -> str:
        """Return the stripped line, or '' when it is not to be had."""
        lines = self._lines(frame.file) if frame.line > 0 else []
        return lines[frame.line - 1].strip()[:200] if frame.line <= len(lines) else ""

    def search(self, expression: re.Pattern[str]) -> list[tuple[str, int, str]]:
        """Return (file, line number, line) of matching lines in the `.py` files below the roots."""
        found: list[tuple[str, int, str]] = []
        for root in self._roots:
            for path in sorted(root.rglob("*.py"))[:MAX_SEARCHED_FILES]:
                for number, line in enumerate(self._read(str(path)), 1):
                    if expression.search(line[:400]):
                        found.append((str(path.relative_to(root)), number, line.strip()[:200]))
                        if len(found) >= MAX_FOUND:
                            return found
        return found

    def _lines(self, file: str) -> list[str]:
        if not self._roots:
            return []
        if file not in self._files:
            self._files[file] = self._read(file)
        return self._files[file]

    def _read(self, name: str) -> list[str]:
        for root in self._roots:
            for candidate in (Path(name), root / name, root / Path(name).name):
                try:
                    path = candidate.resolve()
                    path.relative_to(root)
                    if path.suffix == ".py" and path.is_file() and path.stat().st_size <= MAX_SOURCE_BYTES:
                        return path.read_text(encoding="utf-8", errors="replace").splitlines()
                except (OSError, ValueError, RuntimeError):
                    continue
        return []

"""Find the user's line: the innermost Python frame outside torch, torch_npu and the probe itself."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from pathlib import Path
from types import FrameType
from typing import NamedTuple

MAX_STACK = 20
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 (strings: compared with co_filename)
# The probe's own way in, and helpers of the standard library that stand between it and the user.
_OWN = {str(Path(_HERE).parent / "probe_capture.py"), str(Path(_HERE).parents[2] / "npu_graph" / "capture_probe.py")}
_HELPERS = {contextlib.__file__, functools.__file__}
_ROOTS: dict[str, bool] = {}
# Libraries that call torch on the user's behalf: their line is never the one to change.
_PACKAGES = ("torch", "torch_npu", "torch_npu_ops", "functorch")


class Place(NamedTuple):
    """A line of Python."""

    file: str
    line: int
    function: str

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()[:200]


def user_stack(limit: int = MAX_STACK) -> list[Place]:
    """Return the user's frames, innermost first; library frames between them are left out."""
    places: list[Place] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(places) < limit:
        file = frame.f_code.co_filename
        if not is_library(file):
            places.append(Place(file, frame.f_lineno, frame.f_code.co_name))
        elif places and file.startswith(_HERE):
            break  # the probe's own caller: the rest is the command line
        frame = frame.f_back
    return places


def is_library(file: str) -> bool:
    """Say whether a file belongs to torch, torch_npu, the interpreter's start or the probe."""
    known = _ROOTS.get(file)
    if known is None:
        parts = file.replace("\\", "/").split("/")
        inside = "site-packages" in parts or "dist-packages" in parts
        known = (
            file.startswith(("<frozen", "<string>"))
            or file.startswith(_HERE)
            or file in _OWN
            or file in _HELPERS
            or (inside and any(name in parts for name in _PACKAGES))
        )
        _ROOTS[file] = known
    return known

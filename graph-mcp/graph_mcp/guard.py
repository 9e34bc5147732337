"""Run a script of the bundle so that no link inside an allowed folder leads out of all of them.

A call's own paths are resolved before it starts; a folder among them may still hold a link to anywhere, put there by
whoever wrote the repository or packed the logs. Python reports every file and folder that it opens to audit hooks: one
that is named below an allowed folder and really lies below none is refused as unreadable, which the scripts report as such.
Worker processes inherit this where they are forked; on Windows, where a link needs a privilege, they do not.
"""

from __future__ import annotations

import errno
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

# What a script names when it opens a file or lists a folder (docs.python.org, "Audit events table").
_EVENTS = ("open", "os.listdir", "os.scandir")


def make_hook(allowed: Sequence[str], besides: Sequence[str]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return the audit hook: what is named below `allowed` must lie there, or below one of `besides`."""
    named, real = _prefixes(allowed), _prefixes([*allowed, *besides])

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not arguments or not isinstance(arguments[0], (str, bytes)):
            return  # a descriptor was opened by name before, and os.PathLike arrives as text
        path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100 - resolve() would follow the link in question
        if _as_prefix(path).startswith(named) and not _as_prefix(os.path.realpath(path)).startswith(real):
            raise PermissionError(errno.EACCES, "a link leads out of the allowed folders", path)

    return hook


def _prefixes(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(_as_prefix(folder) for folder in folders)


def _as_prefix(path: str) -> str:
    return os.path.normcase(path.rstrip(os.sep) + os.sep)


def run_guarded(arguments: Sequence[str]) -> None:
    """Run a script in this process, which does nothing else.

    Args:
        arguments: JSON [[allowed folders], [folders that links may lead to besides]], all of them resolved; the script's
            path; its arguments.
    """
    folders, script, *rest = arguments
    allowed, besides = json.loads(folders)
    sys.argv = [script, *rest]
    # A script's own folder comes first, as when Python runs it directly.
    sys.path[0] = str(Path(script).parent)
    sys.addaudithook(make_hook(allowed, besides))
    runpy.run_path(script, run_name="__main__")

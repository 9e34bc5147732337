"""Which files a call may name: only those below the allowed roots, after links are resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence


class RefusedPathError(Exception):
    """A path outside the roots, or one that is not there; the message says what is allowed."""


def resolve_below(roots: Sequence[Path], name: str, directories: bool = False) -> str:
    """Return the real path of `name`.

    Args:
        roots: allowed folders, resolved.
        name: absolute, or relative to the first root.
        directories: whether a folder may be named.

    Raises:
        RefusedPathError: climbing with `..`, outside every root, missing, or of the wrong kind.
    """
    allowed = ", ".join(str(root) for root in roots)
    if not name or "\0" in name or ".." in Path(name).parts:
        raise RefusedPathError(f"{name!r} is not accepted: give a path without '..' below {allowed}")
    path = Path(name)
    try:
        real = (path if path.is_absolute() else roots[0] / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise RefusedPathError(f"{name!r} does not exist below {allowed}") from None
    if not any(root == real or root in real.parents for root in roots):
        raise RefusedPathError(
            f"{name!r} lies outside the allowed folders ({allowed}); start the server with --root for more"
        )
    if not (real.is_file() or (directories and real.is_dir())):
        kind = "a file or folder" if directories else "a regular file"
        raise RefusedPathError(f"{name!r} is not {kind}")
    return str(real)

"""Which files a call may name: only those below the allowed roots, after links are resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence


class RefusedPathError(Exception):
    """A path outside the roots, or one that is not there; the message says what is allowed."""


def default_roots(environment: Mapping[str, str]) -> list[Path]:
    """Return the client's project folder when none was named, and nothing where that cannot be one.

    Clients that are not started in a project run their servers in `/` or in the home folder: files there are no
    project's, and keys lie among them.
    """
    try:
        folder = Path(environment.get("CLAUDE_PROJECT_DIR") or ".").resolve(strict=True)
    except OSError:
        return []  # a working directory that was deleted
    return [] if folder == folder.parent or folder == _home() else [folder]


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):  # a user without a home
        return None


def resolve_below(roots: Sequence[Path], name: str, directories: bool = False) -> str:
    """Return the real path of `name`.

    Args:
        roots: allowed folders, resolved.
        name: absolute, or relative to the first root.
        directories: whether a folder may be named.

    Raises:
        RefusedPathError: climbing with `..`, outside every root, missing, or of the wrong kind.
    """
    if not roots:
        raise RefusedPathError(f"{name!r} cannot be read: no folder is allowed; start the server with --root DIR")
    allowed = ", ".join(str(root) for root in roots)
    if not name or "\0" in name or ".." in name.replace("\\", "/").split("/"):
        raise RefusedPathError(f"{name!r} is not accepted: give a path without '..' below {allowed}")
    # As written first: a backslash may be part of a name; else as a separator, as clients on Windows write it.
    real = _find(roots[0], name) or _find(roots[0], name.replace("\\", "/"))
    if real is None:
        raise RefusedPathError(f"{name!r} does not exist below {allowed}")
    if not any(root == real or root in real.parents for root in roots):
        raise RefusedPathError(
            f"{name!r} lies outside the allowed folders ({allowed}); start the server with --root for more"
        )
    if not (real.is_file() or (directories and real.is_dir())):
        kind = "a file or folder" if directories else "a regular file"
        raise RefusedPathError(f"{name!r} is not {kind}")
    return str(real)


def _find(first: Path, name: str) -> Path | None:
    """Return the real path, or None where there is none; a relative name is looked up below the first root."""
    path = Path(name)
    try:
        return (path if path.is_absolute() else first / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None

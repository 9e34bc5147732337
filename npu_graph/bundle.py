"""Where the bundle's own files lie, and where a case may be written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEED_KNOWLEDGE = ROOT / "knowledge"
KNOWLEDGE_VARIABLE = "NPU_GRAPH_KNOWLEDGE"
PROJECT_OVERLAY = Path(".npu-graph") / "knowledge"


def knowledge_folders() -> list[Path]:
    """Return the folders to read knowledge from: the shipped seed first, then overlays that exist."""
    folders = [SEED_KNOWLEDGE]
    for overlay in _overlays():
        if _is_folder(overlay) and overlay.resolve() not in [folder.resolve() for folder in folders]:
            folders.append(overlay)
    return folders


def writable_knowledge_folder() -> Path:
    """Return the folder a new case goes to, which need not exist yet.

    $NPU_GRAPH_KNOWLEDGE first; else the bundle's own folder when it can be written; else the project's overlay.
    The order is needed because hosts differ: Codex mounts the skill folder read-only, Claude Code does not.
    """
    chosen = os.environ.get(KNOWLEDGE_VARIABLE)
    if chosen:
        return _expanded(chosen)
    if is_writable(SEED_KNOWLEDGE):
        return SEED_KNOWLEDGE
    return project_root() / PROJECT_OVERLAY


def project_root() -> Path:
    """Return the nearest folder above the working directory that holds .git, else the working directory."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return folder
    return here


def is_writable(folder: Path) -> bool:
    """Say whether a file can really be made there (a permission bit is not enough on a read-only mount)."""
    import tempfile  # of use to a few commands, and it doubles the start of the others

    try:
        with tempfile.TemporaryFile(dir=str(folder)):
            return True
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long for the file system
        return False


def _overlays() -> list[Path]:
    chosen = os.environ.get(KNOWLEDGE_VARIABLE)
    overlays = [_expanded(chosen)] if chosen else []
    with contextlib.suppress(OSError):  # a working directory that was deleted has no project to read from
        overlays.append(project_root() / PROJECT_OVERLAY)
    return overlays


def _expanded(chosen: str) -> Path:
    """Return the folder that the variable names; a user that does not exist stays as written."""
    try:
        return Path(chosen).expanduser()
    except RuntimeError:
        return Path(chosen)

"""A folder in which a variant runs as if it stood in the place of the original: links, and the edited file."""

from __future__ import annotations

import shutil
from pathlib import Path

from npu_graph import cli


def make_overlay(folder: Path, root: Path, files: dict[Path, bytes]) -> None:
    """Make `folder` look like `root` with some files real and everything else a link.

    Modules beside the script are imported from here, and files named relative to `__file__` are found. The user's own
    folder is never written to.

    Args:
        folder: where to build; must not exist.
        root: the folder to mirror.
        files: file under root → content. The script that is started must be among them: Python looks for modules
            beside the real script, not beside a link to it.

    Raises:
        CommandError: exit code 2 when a file is not under root, 3 when the folder cannot be made.
    """
    real: dict[tuple[str, ...], bytes] = {}
    for file, data in files.items():
        try:
            real[file.resolve().relative_to(root.resolve()).parts] = data
        except ValueError:
            raise cli.CommandError(f"{file} is not under {root}; name the folder above both with --root") from None
    try:
        _mirror(folder, root.resolve(), real)
    except OSError as error:
        reason = f"{folder} cannot be written: {error.strerror or error}; use --workdir"
        raise cli.CommandError(reason, cli.NO_INPUT) from None


def _mirror(folder: Path, source: Path, real: dict[tuple[str, ...], bytes]) -> None:
    folder.mkdir(parents=True)
    names = {parts[0] for parts in real}
    for entry in sorted(source.iterdir()):
        if entry.name in names or entry.name == "__pycache__" or _contains(entry, folder):
            continue
        _link(folder / entry.name, entry)
    for name in sorted(names):
        if (name,) in real:
            (folder / name).write_bytes(real[name,])
        else:
            below = {parts[1:]: data for parts, data in real.items() if parts[0] == name}
            _mirror(folder / name, source / name, below)


def _contains(entry: Path, folder: Path) -> bool:
    """Say whether an entry of the source holds the overlay itself (a run folder inside the project)."""
    return entry.is_dir() and entry.resolve() in folder.resolve().parents


def _link(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target, target_is_directory=target.is_dir())
    except OSError:
        # Windows without the right to make links: modules are copied, data stays where it is.
        if target.suffix == ".py":
            shutil.copyfile(str(target), str(link))

#!/usr/bin/env python3
"""Build the release archives (tar.gz and zip) with their checksums; the same commit gives the same bytes.

Usage: make_dist.py [--out DIR]

Packs what install.py copies, and the plugin manifests, under one folder npu-graph-skill/. Times are the commit's
(or $SOURCE_DATE_EPOCH), names are sorted, owner and modes are fixed. Prints each file with its size.

Exit codes: 0 built, 1 refused (a file that is not as committed would be packed), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from npu_graph import __version__
from npu_graph.install_plan import BUNDLE_NAME, shipped_files

# Not copied by install.py, because a copy in a skill folder needs no plugin; an unpacked release may serve as one.
PLUGIN_FOLDER = ".claude-plugin"
CHECKSUMS = "SHA256SUMS"
FILE_MODE, PROGRAM_MODE = 0o644, 0o755
# The first time that a zip archive can hold.
ZIP_EPOCH = 315532800


def packed_files(root: Path) -> list[str]:
    """Return the paths that a release holds, sorted.

    Raises:
        ValueError: one of them is not part of the commit, so the archive could not be built again elsewhere.
    """
    plugin = [path.relative_to(root).as_posix() for path in (root / PLUGIN_FOLDER).iterdir()]
    wanted = sorted([*shipped_files(root), *plugin])
    strange = sorted(set(wanted) - git_paths(root, "ls-files"))
    if strange:
        raise ValueError(f"not known to git: {', '.join(strange[:5])}; commit or remove")
    changed = sorted(set(wanted) & git_paths(root, "diff", "HEAD", "--name-only", "--no-renames"))
    if changed:
        raise ValueError(f"not as committed: {', '.join(changed[:5])}; commit or undo")
    return wanted


def git_paths(root: Path, *command: str) -> set[str]:
    """Return the paths, from the root, that a git command lists."""
    call = ["git", "-c", "core.fileMode=false", *command, "-z"]
    listed = subprocess.run(call, cwd=root, capture_output=True, check=True).stdout
    return set(listed.decode("utf-8").split("\0"))


def build_time(root: Path) -> int:
    """Return the time that every packed file gets: $SOURCE_DATE_EPOCH, else the commit's."""
    chosen = os.environ.get("SOURCE_DATE_EPOCH")
    if chosen:
        return int(chosen)
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, check=True).stdout
    return int(shown)


def file_mode(content: bytes) -> int:
    """Return the mode of a packed file: a script is a program, whatever the checkout's own bits say."""
    return PROGRAM_MODE if content.startswith(b"#!") else FILE_MODE


def tar_bytes(files: list[tuple[str, bytes]], when: int) -> bytes:
    """Return a gzipped tar archive of the files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            info = tarfile.TarInfo(f"{BUNDLE_NAME}/{name}")
            info.size, info.mtime, info.mode = len(content), when, file_mode(content)
            info.uname = info.gname = "root"
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=9, mtime=when)


def zip_bytes(files: list[tuple[str, bytes]], when: int) -> bytes:
    """Return a zip archive of the files."""
    packed = io.BytesIO()
    date = time.gmtime(max(when, ZIP_EPOCH))[:6]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            info = zipfile.ZipInfo(f"{BUNDLE_NAME}/{name}", date)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, so that the mode counts
            info.external_attr = (0o100000 | file_mode(content)) << 16
            archive.writestr(info, content, compresslevel=9)  # a ZipInfo does not take the archive's level
    return packed.getvalue()


def build(root: Path, out: Path) -> list[Path]:
    """Write both archives and their checksums; returns the paths."""
    files = [(name, (root / name).read_bytes()) for name in packed_files(root)]
    when = build_time(root)
    stem = f"{BUNDLE_NAME}-{__version__}"
    archives = {f"{stem}.tar.gz": tar_bytes(files, when), f"{stem}.zip": zip_bytes(files, when)}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(archives.items()))
    archives[CHECKSUMS] = sums.encode("ascii")
    out.mkdir(parents=True, exist_ok=True)
    for name, content in archives.items():
        (out / name).write_bytes(content)
    return [out / name for name in archives]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="default: dist/")
    out = parser.parse_args(argv).out
    try:
        built = build(ROOT, out)
    except ValueError as error:
        print(f"make_dist.py: error: {error}", file=sys.stderr)
        return 1
    for path in built:
        print(f"{path}  {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

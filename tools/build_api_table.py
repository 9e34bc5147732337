#!/usr/bin/env python3
"""Rebuild or check the table of graph-mode names and signatures of every torch_npu wheel.

Usage: build_api_table.py [--check] [--wheels FOLDER] [VERSION ...]

Downloads the wheels of graph-mode-expert/data/torch_npu_releases.tsv from torch_npu 7.0.0 on (or only the VERSIONs
named) by package name, one at a time, reads the Python sources inside without importing or unpacking them, and writes
graph-mode-expert/data/graph_api.tsv. Wheels are deleted after reading unless --wheels names a folder that keeps them.

--check writes nothing and compares with the table. Exit codes: 0 done, 1 --check found a difference, 2 wrong usage,
3 a wheel could not be had or read, 4 pip is absent.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "graph-mode-expert" / "scripts"))

from health import tables, versions
from health.api_reader import Api, read_api

from npu_graph import cli

TABLE = tables.DATA / "graph_api.tsv"
HEADER = ("name", "signature", "wheels")
# torch_npu 7.0.0 is the first release that captures; its wheels are the oldest worth reading. One older wheel shows
# that the reader finds no graphs where there are none.
FIRST_RELEASE = "7.0.0"
CONTROL_WHEEL = "2.1.0.post10"
# A wheel whose release nobody published is worth reading from this torch on.
FIRST_TORCH = "2.7.1"
# The Python sources are the same in every build of a wheel; these tags only choose one that exists.
PYTHON_TAGS = ("311", "310")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
PIP_SECONDS = 600
MAX_SOURCE = 4 * 1024 * 1024


def wanted_wheels() -> list[str]:
    """Return the wheels to read, oldest first."""
    first, first_torch = versions.key(FIRST_RELEASE), versions.key(FIRST_TORCH)
    found = [
        row.wheel
        for row in tables.releases()
        if (versions.key(row.release) >= first if row.release else versions.key(row.torch) >= first_torch)
    ]
    return sorted({*found, CONTROL_WHEEL}, key=versions.key)


def read_wheel(path: Path) -> Api:
    """Return the graph-mode names of a wheel file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {item.filename: item for item in archive.infolist()}

            def read_source(name: str) -> str | None:
                item = names.get("torch_npu/" + name)
                if item is None or item.file_size > MAX_SOURCE:
                    return None
                return archive.read(item).decode("utf-8")

            return read_api(read_source)
    except (zipfile.BadZipFile, OSError, SyntaxError, UnicodeDecodeError) as error:
        raise cli.CommandError(f"{path.name} cannot be read: {error}", cli.NO_INPUT) from None


@contextlib.contextmanager
def wheel_file(version: str, folder: Path | None) -> Iterator[Path]:
    """Yield the wheel of a version, from the folder if it is there, else downloaded."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        kept = sorted(folder.glob(f"torch_npu-{version}-*.whl"))
        yield kept[0] if kept else download(version, folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield download(version, Path(scratch))


def download(version: str, folder: Path) -> Path:
    """Download one wheel with pip and return its path."""
    for tag in PYTHON_TAGS:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", tag, "--implementation", "cp", "--abi", f"cp{tag}", "--dest", str(folder)]
        command += [word for platform in PLATFORMS for word in ("--platform", platform)]
        done = subprocess.run(
            [*command, f"torch_npu=={version}"], capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
        if "No module named pip" in done.stderr:
            raise cli.CommandError("pip is needed to download wheels; or give them with --wheels", cli.ABSENT)
        found = sorted(folder.glob(f"torch_npu-{version}-*.whl"))
        if found:
            return found[0]
    raise cli.CommandError(f"no wheel torch_npu {version} could be downloaded", cli.NO_INPUT)


def build_rows(apis: dict[str, Api]) -> list[tuple[str, str, str]]:
    """Return the table's rows: one for each signature that a name has had, with the wheels that have it so."""
    found: dict[tuple[str, str], list[str]] = {}
    for wheel in sorted(apis, key=versions.key):
        for name, signature in apis[wheel].items():
            found.setdefault((name, signature), []).append(wheel)
    return sorted((name, signature or "-", ",".join(wheels)) for (name, signature), wheels in found.items())


def differences(apis: dict[str, Api]) -> list[str]:
    """Return where the table and the wheels read disagree, one line each."""
    problems = []
    for wheel, api in apis.items():
        stated = tables.api_of(wheel)
        for name in sorted({*stated, *api}):
            if stated.get(name) != api.get(name):
                problems.append(f"{wheel}: {name}: table {stated.get(name)!r}, wheel {api.get(name)!r}")
    return problems


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser(
        "Rebuild or check the table of graph-mode names of every torch_npu wheel.",
        ["build_api_table.py", "build_api_table.py --check --wheels ~/wheels 2.9.0 2.13.0"],
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="default: every wheel that can capture")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="take wheels from here, and keep them here")
    parser.add_argument("--check", action="store_true", help="compare with the table, write nothing")
    options = parser.parse_args(argv)
    if options.versions and not options.check:
        raise cli.CommandError("versions can be named with --check only: the table holds them all")

    apis: dict[str, Api] = {}
    for version in options.versions or wanted_wheels():
        with wheel_file(version, options.wheels) as path:
            apis[version] = read_wheel(path)
        print(f"{version}: {len(apis[version])} names", file=sys.stderr)
    if options.check:
        problems = differences(apis)
        cli.write_text("\n".join(problems) if problems else f"{len(apis)} wheels agree with the table")
        return cli.NEGATIVE if problems else cli.DONE
    lines = ["\t".join(HEADER), *("\t".join(row) for row in build_rows(apis))]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    cli.write_text(f"{TABLE.relative_to(ROOT)}: {len(lines) - 1} rows from {len(apis)} wheels")
    return cli.DONE


if __name__ == "__main__":
    cli.run(main)

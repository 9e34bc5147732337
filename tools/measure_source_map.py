#!/usr/bin/env python3
"""Measure knowledge/source-map.tsv anew: the line of every raise site in every release, read from the sources.

Usage: measure_source_map.py --pytorch GITDIR --torchair GITDIR [--wheel FILE ...] [--check]

GITDIR is a clone of Ascend/pytorch (tags and branches) or Ascend/torchair; a wheel gives the Python files of releases
whose commits are not public. What a site means (the `meaning` column) is kept from the map at hand; a site that no
meaning names is left out unless its file is one of the graph core. --check writes nothing and exits 1 when a line
of the map is not what the sources say.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from source_sites import Site, sites_of

from npu_graph import cli
from npu_graph.source_map import MAP_NAME, Lines, Release, Row, SourceMap, format_lines

MAP = Path(__file__).resolve().parents[1] / "knowledge" / MAP_NAME

# Every site of these files is in the map; of the others, those that bear on graph mode (they have a meaning).
CORE_FILES = (
    *("torch_npu/csrc/core/npu/NPUGraph.cpp", "torch_npu/csrc/npu/Graph.cpp"),
    *("torch_npu/csrc/core/npu/NPUGraphsUtils.h", "torch_npu/csrc/core/npu/NPUGraphsUtils.cpp"),
    *("torch_npu/npu/graphs.py", "torch_npu/npu/_graph_tree.py", "torch_npu/utils/_graph_tree.py"),
    *("torch_npu/npu/_npugraph_utils.py", "torch_npu/npu/_npugraph_conditional_nodes.py"),
    "torch_npu/npu/_aclgraph_update_plan/resolver.py",
)
# The calls of this file are in the map too: they are the frames of a capture's traceback, and tell releases apart.
FRAME_FILES = ("torch_npu/npu/graphs.py",)
TORCHAIR = "torch_npu/dynamo/torchair/"
NPUGRAPH_EX = "torch_npu/dynamo/npugraph_ex/"


class Key(NamedTuple):
    """What makes two places of two releases the same site."""

    file: str
    function: str
    printed: str
    kind: str
    message: str


class Sources:
    """The files of each release: from the tagged commit, and where that is not public, from its wheel."""

    def __init__(self, pytorch: Path, torchair: Path, wheels: Iterable[Path], releases: list[Release]) -> None:
        self._pytorch, self._torchair = pytorch, torchair
        self._wheels = {path.name.split("-")[1]: zipfile.ZipFile(path) for path in wheels}
        self._sites: dict[tuple[str, str], list[Site]] = {}
        # Releases for several PyTorch lines are built with one torchair commit, so that one wheel shows it for all.
        shown = [release for release in releases if release.torchair and release.wheel in self._wheels]
        self._wheel_of_torchair = {release.torchair: release.wheel for release in shown}

    def sites(self, release: Release, path: str) -> list[Site] | None:
        """Return the sites of a file in a release, [] when the release has no such file, None when it is unknown."""
        if release.wheel_only or path.startswith(NPUGRAPH_EX):
            return self._of_wheel(release, path)
        if path.startswith(TORCHAIR):
            tree = f"{release.torchair}:python/torchair/{path[len(TORCHAIR) :]}"
            if release.torchair and self._git(self._torchair, "cat-file", "-t", release.torchair) is not None:
                return self._of_git(self._torchair, tree, path)
            return self._of_wheel(release, path)
        return self._of_git(self._pytorch, f"{release.commit}:{path}", path)

    def _of_git(self, repository: Path, tree: str, path: str) -> list[Site]:
        blob = self._git(repository, "rev-parse", "-q", "--verify", tree)
        if blob is None:
            return []
        key = (path, blob.strip())
        if key not in self._sites:
            text = self._git(repository, "cat-file", "blob", blob.strip())
            self._sites[key] = sites_of(path, text or "")
        return self._sites[key]

    def _of_wheel(self, release: Release, path: str) -> list[Site] | None:
        version = release.wheel
        if version not in self._wheels and path.startswith((TORCHAIR, NPUGRAPH_EX)):
            version = self._wheel_of_torchair.get(release.torchair, "")
        wheel = self._wheels.get(version)
        if wheel is None or not path.endswith(".py"):
            return None
        key = (path, version)
        if key not in self._sites:
            try:
                self._sites[key] = sites_of(path, wheel.read(path).decode("utf-8"))
            except KeyError:
                self._sites[key] = []
        return self._sites[key]

    @staticmethod
    def _git(repository: Path, *arguments: str) -> str | None:
        done = subprocess.run(
            ["git", "-C", str(repository), *arguments], capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        return done.stdout if done.returncode == 0 else None


def measure(releases: list[Release], files: Iterable[str], sources: Sources) -> dict[Key, Lines]:
    """Return the lines of every site per release; a release whose file cannot be read has no entry of its own."""
    measured: dict[Key, Lines] = {}
    unknown: dict[str, set[str]] = {}
    for path in files:
        for release in releases:
            sites = sources.sites(release, path)
            if sites is None:
                unknown.setdefault(path, set()).add(release.id)
                continue
            for site in sites:
                if site.kind == "frame" and path not in FRAME_FILES:
                    continue
                lines = measured.setdefault(Key(path, *site[:4]), {})
                lines[release.id] = (*lines.get(release.id, ()), site.line)
        for key in [key for key in measured if key.file == path]:
            for release in releases:
                if release.id not in unknown.get(path, ()):
                    measured[key].setdefault(release.id, ())
    return {key: {id_: tuple(sorted(set(lines))) for id_, lines in found.items()} for key, found in measured.items()}


def new_rows(old: SourceMap, measured: dict[Key, Lines]) -> list[Row]:
    """Return the rows of the new map: every measured site that is wanted, with the meaning it had."""
    meanings = {Key(*row[:5]): row.meaning for row in old.rows}
    rows = []
    for key, lines in measured.items():
        meaning = meanings.get(key, "-")
        if meaning != "-" or (key.file in CORE_FILES and key.message) or key.kind == "frame":
            rows.append((_first(lines), Row(*key, meaning, format_lines(lines, old.releases))))
    ordered = sorted(rows, key=lambda item: (item[1].file, item[1].kind == "frame", item[0], item[1].message))
    return [row for _, row in ordered]


def write(old: SourceMap, rows: list[Row]) -> str:
    """Return the text of the map: its head, releases, wheels and meanings as they were, and the rows."""
    lines = [*old.head]
    for row in rows:
        lines.append("\t".join(("site", *row)))
    return "\n".join(lines) + "\n"


def _first(lines: Lines) -> tuple[int, ...]:
    return next((numbers for numbers in reversed(list(lines.values())) if numbers), ())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pytorch", type=Path, required=True)
    parser.add_argument("--torchair", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, action="append", default=[])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    old = SourceMap.load([MAP.parent])
    files = sorted({row.file for row in old.rows} | set(CORE_FILES) | set(FRAME_FILES))
    releases = list(old.releases.values())
    measured = measure(releases, files, Sources(options.pytorch, options.torchair, options.wheel, releases))
    text = write(old, new_rows(old, measured))
    gone = [row for row in old.rows if row.meaning != "-" and not any(measured.get(Key(*row[:5]), {}).values())]
    for row in gone:
        print(f"no longer found: {row.file} {row.function}: {row.message}", file=sys.stderr)
    if options.check:
        same = text == MAP.read_text(encoding="utf-8") and not gone
        print(f"{len(measured)} sites measured; the map {'agrees' if same else 'differs'}")
        return cli.DONE if same else cli.NEGATIVE
    MAP.write_text(text, encoding="utf-8")
    print(f"{len(measured)} sites measured, {text.count(chr(10))} lines written")
    return cli.DONE


if __name__ == "__main__":
    cli.run(main)

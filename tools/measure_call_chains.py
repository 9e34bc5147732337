#!/usr/bin/env python3
"""Measure graph-mode-expert/data/call_chains.tsv anew: the line of every step in every release, read from the sources.

Usage: measure_call_chains.py --pytorch GITDIR --runtime GITDIR [--wheel FILE ...] [--check]

GITDIR is a clone of Ascend/pytorch (tags and branches) and one of hicann/runtime; a wheel gives the Python lines of a
release whose commit is not public. Only the last column is written. --check writes nothing and exits 1 when a line is
not what the sources say.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Callable, Iterable, Sequence

TOOLS = Path(__file__).resolve().parent
sys.path[:0] = [str(TOOLS.parent), str(TOOLS)]

from knowledge_checks.functions import Span, spans_named, spans_of
from knowledge_checks.sources import Repository, Wheel

from npu_graph import cli
from npu_graph.source_map import Lines, Release, SourceMap, format_lines

TABLE = TOOLS.parent / "graph-mode-expert" / "data" / "call_chains.tsv"
CANN, CANN_COMMIT = "CANN", "681ef7610"
STEP_CELLS = 9
# (release, file) to its text: '' when the release has no such file, None when that is unknown.
Reader = Callable[[Release, str], "str | None"]


class Finder:
    """Finds the line of a step in a text; each text is split into functions once."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], list[Span]] = {}

    def line(self, file: str, text: str, function: str, wanted: str) -> int:
        """Return the first line inside the function that holds the wanted text, 0 when there is none."""
        key = (file, text)
        if key not in self._spans:
            self._spans[key] = spans_of(file, text)
        rows = text.splitlines()
        spans = spans_named(self._spans[key], function)
        if not spans and f"{function}(" in wanted:
            spans = [Span(function, 1, len(rows))]  # a definition that the splitter does not see
        for span in spans:
            for number in range(span.first, min(span.last, len(rows)) + 1):
                if wanted in rows[number - 1]:
                    return number
        return 0


def read_table(text: str) -> Iterable[list[str]]:
    """Yield the cells of every line; a line that is no step has other numbers of cells."""
    return (line.split("\t") for line in text.splitlines())


def measure(cells: list[str], finder: Finder, releases: dict[str, Release], read: Reader, cann: Repository) -> str:
    """Return the packed lines of one step."""
    _, _, layer, file, function, wanted = cells[:6]
    if layer == CANN:
        return str(finder.line(file, cann.read(CANN_COMMIT, file) or "", function, wanted))
    lines: Lines = {}
    for release in releases.values():
        text = read(release, file)
        if text is not None:
            found = finder.line(file, text, function, wanted)
            lines[release.id] = (found,) if found else ()
    return format_lines(lines, releases)


def reader(pytorch: Repository, wheels: dict[str, Wheel]) -> Reader:
    """Return a function that reads a file of a release: from its commit, else its Python from its wheel."""

    def read(release: Release, file: str) -> str | None:
        if release.commit and pytorch.resolve(release.commit) and not release.wheel_only:
            return pytorch.read(release.commit, file) or ""
        wheel = wheels.get(release.wheel)
        return (wheel.read(file) or "") if wheel and file.endswith(".py") else None

    return read


def new_table(text: str, releases: dict[str, Release], read: Reader, cann: Repository) -> tuple[str, list[str]]:
    """Return the table with its lines measured, and the steps that no release has."""
    finder, lines, nowhere = Finder(), [], []
    for cells in read_table(text):
        if cells[0] == "step" and len(cells) == STEP_CELLS:
            cells[-1] = measure(cells, finder, releases, read, cann)
            if not re.search(r"(?:^| )[1-9]", cells[-1]):
                nowhere.append(f"{cells[1]}: {cells[4]} {cells[5]!r} in {cells[3]}")
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n", nowhere


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pytorch", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, action="append", default=[])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    wheels = {wheel.version: wheel for wheel in map(Wheel, options.wheel)}
    releases = SourceMap.load([TOOLS.parent / "knowledge"]).releases
    old = TABLE.read_text(encoding="utf-8")
    read = reader(Repository("Ascend/pytorch", options.pytorch), wheels)
    text, nowhere = new_table(old, releases, read, Repository("hicann/runtime", options.runtime))
    for step in nowhere:
        print(f"found in no release: {step}", file=sys.stderr)
    if options.check:
        print(f"{text.count(chr(10))} lines; the table {'agrees' if text == old else 'differs'}")
        return cli.DONE if text == old and not nowhere else cli.NEGATIVE
    TABLE.write_text(text, encoding="utf-8")
    print(f"{text.count(chr(10))} lines written")
    return cli.NEGATIVE if nowhere else cli.DONE


if __name__ == "__main__":
    cli.run(main)

#!/usr/bin/env python3
"""Set the version everywhere it stands, and give the changelog's unreleased entries its heading.

Usage: bump_version.py X.Y.Z [--tag] | bump_version.py --check

Refuses, with nothing changed: places that disagree, a version that is not newer (the first release may keep the
number that stands), a version that the changelog already has, and a changelog with nothing unreleased. --tag commits
the changed files and makes the annotated tag vX.Y.Z, in a checkout without other changes; without it git is left alone.
--check only says whether all places agree.

Exit codes: 0 done (or they agree), 1 refused (or they disagree), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]"
VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_HEADING = re.compile(r"^## \[(\d[^\]]*)\]", re.MULTILINE)


class Place(NamedTuple):
    """A file that holds the version between quotes, and how its line begins."""

    file: str
    line: str


class RefusalError(Exception):
    """Nothing was changed; the text says why and what to do."""


# Each is read by someone else: pip; the scripts, the MCP server and its bundle; Claude Code and Codex (a plugin whose
# version does not grow is not updated).
PLACES = (
    Place("pyproject.toml", "version = "),
    Place("npu_graph/__init__.py", "__version__ = "),
    Place(".claude-plugin/plugin.json", '  "version": '),
    Place(".claude-plugin/marketplace.json", '      "version": '),
)


def read_places(root: Path) -> dict[str, str]:
    """Return the version that stands in each place.

    Raises:
        RefusalError: a place is missing, or does not hold exactly one version where it is looked for.
    """
    found = {}
    for place in PLACES:
        path = root / place.file
        if not path.is_file():
            raise RefusalError(f"{place.file} is missing; restore it")
        versions = [match.group(2) for match in _pattern(place).finditer(path.read_text(encoding="utf-8"))]
        if len(versions) != 1:
            raise RefusalError(f"{place.file} holds {len(versions)} versions where one was expected; mend it by hand")
        found[place.file] = versions[0]
    return found


def _pattern(place: Place) -> re.Pattern[str]:
    return re.compile(rf'^({re.escape(place.line)}")([^"\n]*)"', re.MULTILINE)


def standing_version(root: Path) -> str:
    """Return the version on which every place agrees, the changelog's newest heading too.

    Raises:
        RefusalError: they do not.
    """
    found = read_places(root)
    if len(set(found.values())) != 1:
        listed = ", ".join(f"{file} {version}" for file, version in found.items())
        raise RefusalError(f"the places disagree: {listed}; make them equal first")
    (version,) = set(found.values())
    if not VERSION.fullmatch(version):
        raise RefusalError(f"{version} is not of the form X.Y.Z; mend it first")
    headings = _HEADING.findall((root / CHANGELOG).read_text(encoding="utf-8"))
    if headings and headings[0] != version:
        raise RefusalError(f"{CHANGELOG} says {headings[0]}, the other places {version}; make them equal first")
    return version


def plan(root: Path, version: str, date: str) -> dict[str, str]:
    """Return the new text of every file that changes.

    Raises:
        RefusalError: the state is inconsistent, or the version cannot follow it.
    """
    if not VERSION.fullmatch(version):
        raise RefusalError(f"{version!r} is not of the form X.Y.Z")
    before = standing_version(root)
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    released = _HEADING.findall(changelog)
    if version in released:
        raise RefusalError(f"{CHANGELOG} already has {version}; take a newer one")
    if _numbers(version) < _numbers(before) or (version == before and released):
        raise RefusalError(f"{version} does not follow {before}; take a newer one")
    texts = {CHANGELOG: release_heading(changelog, version, date)}
    for place in PLACES:
        text = (root / place.file).read_text(encoding="utf-8")
        texts[place.file] = _pattern(place).sub(rf'\g<1>{version}"', text)
    return texts


def release_heading(changelog: str, version: str, date: str) -> str:
    """Return the changelog with its unreleased entries under the version's heading.

    Raises:
        RefusalError: there is no such section, or nothing in it.
    """
    head, mark, rest = changelog.partition(UNRELEASED + "\n")
    if not mark:
        raise RefusalError(f"{CHANGELOG} has no section {UNRELEASED}; add it")
    entries = rest.partition("\n## [")[0]
    if not re.search(r"^- ", entries, re.MULTILINE):
        raise RefusalError(f"{CHANGELOG} has nothing under {UNRELEASED}; say what changed first")
    return f"{head}{mark}\n## [{version}] - {date}\n{rest}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _git(root: Path, *arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=root, capture_output=True, encoding="utf-8", check=False)
    if result.returncode:
        raise RefusalError(f"git {arguments[0]} failed: {result.stderr.strip()}")
    return result.stdout


def check_taggable(root: Path, tag: str) -> None:
    """Refuse when the checkout has other changes or the tag exists."""
    if _git(root, "status", "--porcelain"):
        raise RefusalError("the checkout has uncommitted changes; commit them first, or leave out --tag")
    if _git(root, "tag", "--list", tag).strip():
        raise RefusalError(f"the tag {tag} exists")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", nargs="?", metavar="X.Y.Z")
    parser.add_argument("--check", action="store_true", help="only say whether all places agree")
    parser.add_argument("--tag", action="store_true", help="commit the changed files and tag the commit vX.Y.Z")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout (default: this one)")
    options = parser.parse_args(argv)
    if options.check == (options.version is not None):
        parser.error("give either a version or --check")
    if options.check and options.tag:
        parser.error("--tag goes with a version")
    root: Path = options.root
    try:
        if options.check:
            version = standing_version(root)
            print(f"{version} in {len(read_places(root))} places and {CHANGELOG}")
            return 0
        version, tag = options.version, f"v{options.version}"
        if options.tag:
            check_taggable(root, tag)
        texts = plan(root, version, time.strftime("%Y-%m-%d", time.gmtime()))
        for file, text in texts.items():
            (root / file).write_bytes(text.encode("utf-8"))
        print(f"{version} written to: {', '.join(sorted(texts))}")
        if options.tag:
            _git(root, "commit", "--quiet", "-m", f"Release {version}", "--", *texts)
            _git(root, "tag", "--annotate", "-m", f"npu-graph-skill {version}", tag)
            print(f"committed and tagged {tag}")
    except RefusalError as refusal:
        print(f"bump_version.py: error: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

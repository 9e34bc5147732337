"""Names, messages and frames of frameworks to file and line, by release or in the files at hand.

Serving frameworks, and the parts of torch_npu that torch.compile passes through.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.diagnosis.repositories import repository_of
from npu_graph.framework_map import (
    COMPILE_PARTS,
    DEFINITION,
    FRAMEWORKS,
    OTHER_PARTS,
    FrameworkMap,
    stated_versions,
)
from npu_graph.framework_rows import Site
from npu_graph.source_map import Place, find_places

from . import source_tree

# Where the images of vLLM-Ascend keep the projects that they install in place.
_WORKSPACES = ("/vllm-workspace/vllm-ascend", "/vllm-workspace/vllm", "/sgl-workspace/sglang/python")
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*")
_OWN_NAME = re.compile(r"[A-Z_.:]")
# A name that so many classes define (forward) names no place.
MAX_MATCHES = 100
# As for torch_npu: a longer table would bury the answer.
MAX_RELEASES_SHOWN = 12


class Framework(NamedTuple):
    """One framework.

    Attributes:
        map: its map.
        release: the one in question, '' when unknown.
        exact: whether the release is in the map, and not the nearest to it.
        tree: its sources on disk.
        alike: the wheels of one release of torch_npu, one for each PyTorch; () for a single one.
    """

    map: FrameworkMap
    release: str
    exact: bool
    tree: source_tree.Tree | None
    alike: tuple[str, ...] = ()


class Finder:
    """Finds what the maps know; they are read when first asked.

    Args:
        versions: framework -> version ('' when not given) of those that are asked for; {} for all.
        texts: what is asked, which may state a version.
        folders: knowledge folders.
        source: the folder of --source; without it installations on the path are looked for.
        wheels: the wheels of torch_npu in question, [] when that is not known.
    """

    def __init__(
        self,
        versions: dict[str, str],
        texts: Sequence[str],
        folders: Sequence[Path],
        source: source_tree.Tree | None,
        wheels: Sequence[str] = (),
    ) -> None:
        self.versions = versions
        self._texts, self._folders, self._source, self._wheels = texts, folders, source, wheels
        self._frameworks: list[Framework] | None = None

    def find(self, text: str) -> list[dict[str, Any]]:
        """Return the match records of a name, a frame or a message; [] when no map has it."""
        if self._frameworks is None:
            names = [name for name in FRAMEWORKS if name in self.versions] or [*FRAMEWORKS, COMPILE_PARTS]
            self._frameworks = [self._load(name) for name in names]
        found = [item for framework in self._frameworks if framework.map.releases for item in _find(text, framework)]
        here = [
            (site, own, fits) for site, own, fits in found if not own.release or own.map.lines_in(site, own.release)
        ]
        ordered = sorted(here or found, key=lambda item: (_is_special(item[0]), -_newest(item[0], item[1])))
        return [_record(*item) for item in ordered[:MAX_MATCHES]]

    def _load(self, name: str) -> Framework:
        framework_map = FrameworkMap.load(name, self._folders)
        tree = _tree_of(framework_map, self._source)
        if name == COMPILE_PARTS:
            alike = tuple(wheel for wheel in self._wheels if wheel in framework_map.releases)
            return Framework(framework_map, alike[0] if alike else "", bool(alike), tree, alike)
        stated = [version for text in self._texts for version in stated_versions(text, name)]
        asked = self.versions.get(name) or ""
        version = asked or (stated[0] if len(set(stated)) == 1 else "") or (tree.version if tree is not None else "")
        release, exact = framework_map.find_release(version)
        if asked and not release:
            known = framework_map.releases
            raise cli.CommandError(
                f"--framework {name}=={asked} is not in the map; expected {known[0]} to {known[-1]}, or no version"
            )
        return Framework(framework_map, release, exact, tree)


def _find(text: str, framework: Framework) -> list[tuple[Site, Framework, list[str]]]:
    """Return the sites of a text, each with the releases that a frame's line fits."""
    name = text.strip().rstrip("() ")
    if _NAME.fullmatch(name) and framework.map.name == COMPILE_PARTS and not _OWN_NAME.search(name):
        return []  # a plain word (stream) is no name of torch_npu's
    if _NAME.fullmatch(name):
        return [(site, framework, []) for site in framework.map.named(name)]
    found: list[tuple[Site, Framework, list[str]]] = []
    places = find_places(text)
    for place in places:
        fits = framework.map.releases_at(place)
        site = _function_of(place, framework) if fits is not None else None
        if site is not None:
            found.append((site, framework, fits or []))
    if not found:
        matches = framework.map.match_text(text)
        found += [(site, framework, []) for site, score in matches if score == matches[0][1]]
    return found


def _is_special(site: Site) -> bool:
    """Say whether the file is one of OTHER_PARTS: the usual one is shown before it."""
    return any(part in site.file for part, _ in OTHER_PARTS)


def _newest(site: Site, framework: Framework) -> int:
    """Return how new the newest release with the site is, 0 for the newest of all."""
    releases = framework.map.releases
    index, lines = site.changes[-1] if site.changes else (0, ())
    return 0 if lines else index - len(releases)


def _function_of(place: Place, framework: Framework) -> Site | None:
    """Return the definition that a frame's line lies in, in the release in question if it is known.

    Of a line without a function it is the check or log that stands there.
    """
    printed = framework.map.printing_at(place)
    sites = [
        site
        for site in framework.map.sites_in(framework.map.file_of(place))
        if site.kind == DEFINITION and site.last_name == place.function
    ]
    release = framework.release or framework.map.releases[-1]
    before = [site for site in sites if any(line <= place.line for line in framework.map.lines_in(site, release))]
    return (before or sites or printed[:1] or [None])[-1]


def _record(site: Site, framework: Framework, fits: Sequence[str]) -> dict[str, Any]:
    framework_map, release = framework.map, framework.release
    lines = framework_map.lines_in(site, release) if release else ()
    by_release = _lines_by_release(site, framework_map)
    if any(framework_map.lines_in(site, wheel) != lines for wheel in framework.alike):
        by_release = {wheel: _joined(framework_map.lines_in(site, wheel)) for wheel in framework.alike}
        release, lines = "", ()
    shown = None
    if framework.tree is not None:
        statement = _statement(site)
        newest = next((value for _, value in reversed(site.changes) if value), ())
        shown = source_tree.read_site(framework.tree, site.file, (lines or newest or (1,))[0], statement)
    return {
        "repo": repository_of(site.file) or framework_map.repository,
        "ref": framework_map.origins.get(release),
        "file": site.file,
        "installed_file": site.file,
        "function": site.name,
        "printed_function": site.last_name,
        "line": lines[0] if len(lines) == 1 else None,
        "lines": list(lines),
        "exact": len(lines) == 1 and framework.exact,
        "near": "" if framework.exact or not release else release,
        "kind": site.kind,
        "message": site.message or _statement(site),
        "stage": None,
        "meaning": {"en": "", "zh": ""},
        "lines_by_release": by_release,
        "members": _members(site, framework) if _statement(site).startswith("class ") else [],
        "members_release": release or framework_map.releases[-1],
        "release": release or None,
        "releases_with_this_line": list(fits),
        "source": shown._asdict() if shown else None,
    }


def _members(site: Site, framework: Framework) -> list[dict[str, Any]]:
    """Return a class's methods in the release in question, else in the newest: name, line, and since when."""
    framework_map = framework.map
    release = framework.release or framework_map.releases[-1]
    found = []
    for member in framework_map.members(site):
        lines = framework_map.lines_in(member, release)
        if lines:
            first = framework_map.releases[member.changes[0][0]]
            later = member.changes[0][0] > site.changes[0][0]
            found.append({"name": member.last_name, "line": lines[0], "since": first if later else None})
    return sorted(found, key=lambda item: item["line"])


def _statement(site: Site) -> str:
    """Return what stands on the site's line: `def _dummy_run` or `class ACLGraphWrapper`, else the message."""
    if site.kind != DEFINITION:
        return site.message
    name = site.last_name
    if not site.file.endswith(".py"):
        return f"{name}("
    return f"class {name}" if name[:1].isupper() else f"def {name}("


def _lines_by_release(site: Site, framework_map: FrameworkMap) -> dict[str, str]:
    """Return the lines of the newest releases in which they change."""
    changes = [
        (framework_map.releases[index], _joined(lines))
        for index, lines in site.changes
        if index < len(framework_map.releases)
    ]
    return dict(changes[-MAX_RELEASES_SHOWN:])


def _joined(lines: Sequence[int]) -> str:
    return "+".join(map(str, lines)) or "-"


def _tree_of(framework_map: FrameworkMap, source: source_tree.Tree | None) -> source_tree.Tree | None:
    """Return the folder that holds the framework's package, found on disk: --source, the path, the images'."""
    package = framework_map.package.rstrip("/")
    if not package:
        return None
    if source is not None:
        folders = [source.root, source.root / "python", source.root.parent]
    else:
        folders = [Path(entry) for entry in sys.path if entry]
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            if os.environ.get(variable):
                folders += sorted(Path(os.environ[variable]).glob("lib/python3*/site-packages"))
        folders += map(Path, _WORKSPACES)
    for folder in folders:
        if (folder / package / "__init__.py").is_file():
            return source_tree.open_package(folder, package)
    return None

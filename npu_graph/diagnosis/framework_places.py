"""Places in a serving framework that a report names, in the release that it states or that its stack shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph.diagnosis.repositories import repository_of
from npu_graph.expressions import compile_on_use
from npu_graph.framework_map import (
    COMPILE_PARTS,
    DEFINITION,
    OTHER_PARTS,
    Fit,
    FrameworkMap,
    fit_releases,
    mentioned,
    own_path,
    span,
    stated_versions,
)
from npu_graph.framework_rows import Site
from npu_graph.source_map import Place, Release

# Named functions that are shown: more would bury those of the stack.
MAX_NAMED = 3
MAX_WORDS = 4000
# A name that many files define says nothing about the place.
_FILES_MOST = 2
_TEXT_READ = 64 * 1024
# A name with an underscore that the text treats as code: private, quoted, called, or after `in`. A plain word
# (forward) or the name of a variable (num_tokens) is no place.
_NAMED = compile_on_use(
    r"(?<![\w.])(_+[a-z]\w{4,80})|`((?:[A-Za-z_]\w{0,60}\.){0,4}[a-z]\w{11,80})(?:\(\))?`|`((?:[A-Za-z_]\w{0,60}\.){1,4}_+[a-z]\w{4,80})(?:\(\))?`"
    r"|(?<![\w.])([a-z]\w{11,80})\(|\bin ([a-z]\w{11,80})\b"
)
# What another message may hold too ("'{}' object has no attribute '{}'") is shorter than this.
_OWN_TEXT = 40
_NAMED_AFTER = {"vllm-ascend": "vllm"}
_OF_COMPILE = compile_on_use(
    r"torch_npu/(?:_inductor|dynamo|utils|op_plugin/meta|npu/_graph_tree)|npugraph_ex|torchair|[_.]inductor\b"
)


class Reading(NamedTuple):
    """What a report tells about one framework.

    Attributes:
        map: the framework's map.
        stated: the versions in the report's words, [] when there is none.
        fit: the releases by the stack's lines, None when no frame tells.
        releases: those the report can be about; [] when nothing tells.
        exact: whether the one stated version is in the map, or the lines alone decide.
    """

    map: FrameworkMap
    stated: list[str]
    fit: Fit | None
    releases: list[str]
    exact: bool

    @property
    def contradicts(self) -> bool:
        """True where the stack's lines are those of other releases than the stated one."""
        if len(self.stated) != 1 or self.fit is None or not self.fit.releases:
            return False
        release, exact = self.map.find_release(self.stated[0])
        return exact and release not in self.fit.releases

    @property
    def is_unknown(self) -> bool:
        """True where a version is stated that no release of the map is near to."""
        return bool(self.stated) and not self.releases


def read_frameworks(text: str, places: Sequence[Place], folders: Sequence[Path]) -> list[Reading]:
    """Return one reading for every framework that the text speaks of and that has a map."""
    readings = []
    for name in mentioned(text):
        framework_map = FrameworkMap.load(name, folders)
        if not framework_map.releases:
            continue
        stated = stated_versions(text, name)
        fit = fit_releases(places, framework_map)
        # Releases of vLLM-Ascend bear the number of the vLLM that they are for.
        named_after = stated_versions(text, _NAMED_AFTER[name]) if not stated and name in _NAMED_AFTER else []
        found = [framework_map.find_release(version) for version in stated or named_after]
        releases = list(dict.fromkeys(release for release, _ in found if release))
        exact = len(found) == 1 and found[0][1] and not named_after
        by_lines = list(fit.releases) if fit is not None and not fit.against else []
        if by_lines and not (exact and releases[0] not in by_lines):
            both = [release for release in releases if release in by_lines]
            releases, exact = both or by_lines, exact or not both or len(both) == 1
        elif by_lines:
            releases, exact = by_lines, True  # the lines contradict the one stated version, and are what ran
        readings.append(Reading(framework_map, stated, fit, releases, exact))
    return readings


def read_compile_parts(
    text: str,
    places: Sequence[Place],
    environment: dict[str, Any],
    releases: Sequence[Release],
    folders: Sequence[Path],
) -> Reading | None:
    """Return what a report tells about the parts of torch_npu that torch.compile passes through.

    Args:
        text: the report.
        places: of its stack.
        environment: what the report's words say of versions.
        releases: those of torch_npu that the report can be about.
        folders: knowledge folders.

    Returns:
        None when it does not speak of those parts. The releases of the reading are wheels.
    """
    if not _OF_COMPILE.search(text):
        return None
    parts = FrameworkMap.load(COMPILE_PARTS, folders)
    fit = fit_releases(places, parts)
    stated = environment["torch_npu"] or ""
    own, is_wheel = parts.find_release(stated)
    known = [own] if is_wheel else [release.wheel for release in releases if release.wheel in parts.releases]
    if fit is not None and environment["torch"]:
        fit = fit._replace(releases=_for_torch(fit.releases, environment["torch"]))
    by_lines = fit.releases if fit is not None and not fit.against else []
    wheels = [wheel for wheel in known if wheel in by_lines] or by_lines or list(dict.fromkeys(known))
    exact = len(wheels) == 1 and (fit is None or not fit.against)
    return Reading(parts, [stated] if stated else [], fit, wheels, exact) if parts.releases else None


def _for_torch(wheels: list[str], torch: str) -> list[str]:
    """Return the wheels that are for a version of torch; all where none is."""
    base = torch.partition("+")[0]
    return [wheel for wheel in wheels if wheel.partition(".post")[0] == base] or wheels


def release_records(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """Return the record's `environment.framework_releases`: what the stack's lines say."""
    return [
        {
            "name": item.map.name,
            "stated": ", ".join(item.stated) or None,
            "releases": list(item.fit.releases),
            "shown": span(item.fit.releases, item.map.releases),
            "from": [_shown(place) for place in item.fit.evidence],
            "not_explained": [_shown(place) for place in item.fit.unknown],
            "of_others": [_shown(place) for place in item.fit.elsewhere],
            "contradicts": item.contradicts,
        }
        for item in readings
        if item.fit is not None
    ]


def _shown(place: Place) -> str:
    """Return a frame as text; a line of a C++ log names no function."""
    where = f"{place.file}:{place.line}"
    return f"{place.function} at {where}" if place.file.endswith(".py") else where


def version_of(repository: str, readings: Sequence[Reading]) -> str | None:
    """Return the version to print beside a frame of a framework's repository, None when it is not known."""
    for item in readings:
        if item.map.repository == repository:
            if len(item.stated) == 1 and not item.contradicts:
                return item.stated[0]
            return span(item.releases, item.map.releases) or None
    return None


def is_explained(file: str, line: int, function: str, readings: Sequence[Reading]) -> bool:
    """Say whether a frame stands where the releases of the stack have it; a file without a map is not in doubt."""
    place = Place(function, own_path(file), line, "", "")
    return not any(item.fit is not None and place in item.fit.against for item in readings)


def find_named(readings: Sequence[Reading], text: str, first: str, places: Sequence[Place]) -> list[dict[str, Any]]:
    """Return anchors of the functions that a report names, those of the first cause before others.

    Args:
        readings: of read_frameworks.
        text: the report.
        first: the first cause's text.
        places: of the stack; what stands in it already is left out.
    """
    in_stack = {place.function for place in places}
    low = text.lower()
    other_hardware = tuple(part for part, word in OTHER_PARTS if word not in low)
    anchors: list[dict[str, Any]] = []
    for item in readings:
        raised = [site for site, _ in item.map.match_text(first) if _own_text(site) >= _OWN_TEXT] if first else []
        here = _present(raised, item)
        if len({(site.file, site.function) for site in here}) == 1 and here[0].last_name not in in_stack:
            anchors.append(_anchor(here[0], item))
    for word in dict.fromkeys(_names_in(first) + _names_in(text[:_TEXT_READ])):
        last = word.rpartition(".")[2]
        if last in in_stack or "_" not in last.strip("_") and not last.startswith("_"):
            continue
        for item in readings:
            sites = _present(item.map.named(word), item) if item.map.is_name(last) else []
            sites = [site for site in sites if not _is_inside_function(site)]
            usual = [site for site in sites if not any(part in site.file for part in other_hardware)]
            if usual and len({site.file for site in usual}) <= _FILES_MOST:
                anchors += [_anchor(site, item) for site in usual[:_FILES_MOST]]
                break
        if len(anchors) >= MAX_NAMED:
            break
    return anchors[:MAX_NAMED]


def find_source(readings: Sequence[Reading], repository: str, file: str, function: str) -> dict[str, Any] | None:
    """Return a pattern's source in the release that the report is about; None where that, or the place, is not known."""
    for item in readings:
        if item.map.repository == repository and item.releases and function:
            name = function.rpartition(".")[2]
            sites = [site for site in _present(item.map.sites_in(file), item) if site.kind == DEFINITION]
            own = [site for site in sites if site.last_name == name]
            return _anchor(own[0], item) if len(own) == 1 else None
    return None


def _names_in(text: str) -> list[str]:
    return [next(name for name in found if name) for found in _NAMED.findall(text)][:MAX_WORDS]


def _is_inside_function(site: Site) -> bool:
    """Say whether the definition stands inside a function (`all_reduce` in a wrapper): its name is not the program's."""
    return any(part[:1].islower() or part[:1] == "_" for part in site.function.split(".")[:-1])


def _own_text(site: Site) -> int:
    """Return the length of the longest text of a message without holes."""
    return max(len(piece.strip()) for piece in site.message.split("{}"))


def _present(sites: Sequence[Site], reading: Reading) -> list[Site]:
    """Return the sites that stand in a release the report can be about, in any release where that is not known."""
    if not reading.releases:
        newest = [site for site in sites if reading.map.lines_in(site, reading.map.releases[-1])]
        return newest or list(sites)[-1:]
    return [site for site in sites if any(reading.map.lines_in(site, release) for release in reading.releases)]


def _anchor(site: Site, reading: Reading) -> dict[str, Any]:
    """Return a site as an anchor; without a release its line is that of the newest, and said to be so."""
    known = reading.map.releases
    releases = reading.releases
    version = span(releases, known)
    if not releases:
        releases = [release for release in known if reading.map.lines_in(site, release)][-1:]
        version = f"newest known, {span(releases, known)}"
    lines = {reading.map.lines_in(site, release) for release in releases}
    alone = len(lines) == 1 and all(len(numbers) == 1 for numbers in lines) and not reading.is_unknown
    return {
        "repo": repository_of(site.file) or reading.map.repository,
        "file": site.file,
        "function": site.name,
        "line": min(lines)[0] if alone else None,
        "version": None if reading.is_unknown else version,
        "exact": alone and bool(reading.releases) and reading.exact,
    }

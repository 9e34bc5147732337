"""Places in vLLM-Ascend, vLLM and SGLang that a report names, in the release that it states or that its stack shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph.framework_map import Fit, FrameworkMap, Site, fit_releases, mentioned, stated_version
from npu_graph.source_map import Place

# Named functions that are shown: more would bury those of the stack.
MAX_NAMED = 3
MAX_WORDS = 4000
# A name that many files define says nothing about the place.
_FILES_MOST = 2
_TEXT_READ = 64 * 1024
# A name with an underscore that the text treats as code: private, quoted, called, or after `in`. A plain word
# (forward) or the name of a variable (num_tokens) is no place.
_NAMED = re.compile(
    r"(?<![\w.])(_+[a-z]\w{4,80})|`(?:[\w.]{0,120}\.)?([a-z]\w{5,80})(?:\(\))?`|\b([a-z]\w{5,80})\(|\bin ([a-z]\w{5,80})\b"
)
# What another message may hold too ("'{}' object has no attribute '{}'") is shorter than this.
_OWN_TEXT = 40
# Files for other hardware define the same names; they count only where the report speaks of it.
_SPECIAL = (("_310p/", "310p"), ("xlite/", "xlite"), ("torchair/", "torchair"))
_NAMED_AFTER = {"vllm-ascend": "vllm"}
# Releases listed one by one; more are given as a span.
_LISTED_MOST = 4


class Reading(NamedTuple):
    """What a report tells about one framework.

    Attributes:
        map: the framework's map.
        stated: the version in the report's words, '' when there is none.
        fit: the releases by the stack's lines, None when no frame tells.
        releases: those the report can be about; [] when nothing tells.
        exact: whether the release itself is in the map, or its lines are.
    """

    map: FrameworkMap
    stated: str
    fit: Fit | None
    releases: list[str]
    exact: bool

    @property
    def contradicts(self) -> bool:
        """True where the stack's lines are not those of the stated version."""
        stated = self.map.find_release(self.stated) if self.stated else ("", False)
        return bool(stated[1] and self.fit is not None and stated[0] not in self.fit.releases and self.fit.releases)


def read_frameworks(text: str, places: Sequence[Place], folders: Sequence[Path]) -> list[Reading]:
    """Return one reading for every framework that the text speaks of and that has a map."""
    readings = []
    for name in mentioned(text):
        framework_map = FrameworkMap.load(name, folders)
        if not framework_map.releases:
            continue
        stated = stated_version(text, name)
        fit = fit_releases(places, framework_map)
        release, exact = framework_map.find_release(stated) if stated else ("", False)
        if not stated and name in _NAMED_AFTER:
            # Releases of vLLM-Ascend bear the number of the vLLM that they are for.
            release, exact = framework_map.find_release(stated_version(text, _NAMED_AFTER[name]))[0], False
        by_lines = list(fit.releases) if fit is not None and not fit.against else []
        if release and (not exact or not by_lines or release in by_lines):
            reading = Reading(framework_map, stated, fit, [release], exact)
        else:
            reading = Reading(framework_map, stated, fit, by_lines, bool(by_lines))
        readings.append(reading)
    return readings


def release_records(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """Return the record's `environment.framework_releases`: what the stack's lines say."""
    return [
        {
            "name": item.map.name,
            "stated": item.stated or None,
            "releases": list(item.fit.releases),
            "from": list(item.fit.evidence),
            "not_explained": list(item.fit.against),
            "contradicts": item.contradicts,
        }
        for item in readings
        if item.fit is not None
    ]


def version_of(repository: str, readings: Sequence[Reading]) -> str | None:
    """Return the version to print beside a frame of a framework's repository, None when it is not known."""
    for item in readings:
        if item.map.repository == repository:
            if item.stated and not item.contradicts:
                return item.stated
            return _span(item.releases) or None
    return None


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
    other_hardware = tuple(part for part, word in _SPECIAL if word not in low)
    anchors: list[dict[str, Any]] = []
    for item in readings:
        raised = [site for site, _ in item.map.match_text(first) if _own_text(site) >= _OWN_TEXT] if first else []
        here = _present(raised, item)
        if len({(site.file, site.function) for site in here}) == 1 and _last_name(here[0]) not in in_stack:
            anchors.append(_anchor(here[0], item))
    for word in dict.fromkeys(_names_in(first) + _names_in(text[:_TEXT_READ])):
        if word in in_stack or "_" not in word.strip("_") and not word.startswith("_"):
            continue
        for item in readings:
            sites = _present(item.map.named(word), item) if item.map.is_name(word) else []
            sites = [site for site in sites if not _is_inside_function(site)]
            usual = [site for site in sites if not any(part in site.file for part in other_hardware)]
            if usual and len({site.file for site in usual}) <= _FILES_MOST:
                anchors += [_anchor(site, item) for site in usual[:_FILES_MOST]]
                break
        if len(anchors) >= MAX_NAMED:
            break
    return anchors[:MAX_NAMED]


def _names_in(text: str) -> list[str]:
    return [next(name for name in found if name) for found in _NAMED.findall(text)][:MAX_WORDS]


def _last_name(site: Site) -> str:
    return site.function.rpartition(".")[2]


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
        return newest or list(sites)
    return [site for site in sites if any(reading.map.lines_in(site, release) for release in reading.releases)]


def _anchor(site: Site, reading: Reading) -> dict[str, Any]:
    releases = reading.releases
    if not releases:
        releases = [release for release in reading.map.releases if reading.map.lines_in(site, release)][-1:]
    lines = {reading.map.lines_in(site, release) for release in releases}
    alone = len(lines) == 1 and all(len(numbers) == 1 for numbers in lines)
    return {
        "repo": reading.map.repository,
        "file": site.file,
        "function": site.name,
        "line": min(lines)[0] if alone else None,
        "version": _span(releases) or None,
        "exact": alone and bool(reading.releases) and reading.exact,
    }


def _span(releases: Sequence[str]) -> str:
    if len(releases) <= _LISTED_MOST:
        return ", ".join(releases)
    return f"{releases[0]} to {releases[-1]}"

"""The framework maps: every function, raise, assert and warning stands where the map says, in each release at hand."""

from __future__ import annotations

import re
from pathlib import Path

from knowledge_checks.findings import Outcome
from knowledge_checks.sources import Sources
from npu_graph.framework_map import COMPILE_PARTS, DEFINITION, MAP_FOLDER, MAP_SUFFIX, VARIABLE, FrameworkMap
from npu_graph.framework_rows import Site


def check(root: Path, sources: Sources) -> Outcome:
    """Read every line that a map names, as text: what stands there must be what the map says."""
    outcome = Outcome("framework maps", "lines of the frameworks, in each release that could be read")
    for path in sorted((root / "knowledge" / MAP_FOLDER).glob(f"*{MAP_SUFFIX}")):
        framework_map = FrameworkMap.load(path.stem, [root / "knowledge"])
        shown = f"knowledge/{MAP_FOLDER}/{path.name}"
        for release in framework_map.releases:
            _check_release(framework_map, release, sources, shown, outcome)
    return outcome


def _check_release(framework_map: FrameworkMap, release: str, sources: Sources, shown: str, outcome: Outcome) -> None:
    # A branch of torch_npu has a wheel's name (v2.7.1), and other content: only the wheel itself is read.
    of_wheels = framework_map.name == COMPILE_PARTS
    repository = None if of_wheels else sources.repositories.get(framework_map.repository)
    package = sources.torch_npu.get(release) if of_wheels else sources.packages.get((framework_map.repository, release))
    known = repository is not None and repository.resolve(f"v{release}")
    for file in framework_map.files:
        sites = [site for site in framework_map.sites_in(file) if framework_map.lines_in(site, release)]
        if not sites:
            continue
        if not known and package is None:
            outcome.leave_out(f"no source of {framework_map.name} {release}", len(sites))
            continue
        text = repository.read(f"v{release}", file) if repository is not None and known else None
        lines = (text if text is not None else (package.read(file) if package is not None else None) or "").split("\n")
        for site in sites:
            for line in framework_map.lines_in(site, release):
                outcome.checked += 1
                there = lines[line - 1] if line <= len(lines) else ""
                if not _is_there(site, there):
                    outcome.fault(
                        shown, 0, f"{file}:{line} in {release}: no {site.kind} of {site.function}: {there[:80]!r}"
                    )


def _is_there(site: Site, line: str) -> bool:
    """Say whether a source line begins what the site is."""
    name = re.escape(site.last_name)
    if not site.file.endswith(".py"):
        return (site.last_name if site.kind == DEFINITION else site.kind) in line
    if site.kind == VARIABLE:
        return re.match(rf"\s*['\"]?{name}['\"]?\s*[:=]", line) is not None
    if site.kind == DEFINITION:
        return re.match(rf"\s*(?:async\s+def|def|class)\s+{name}\b", line) is not None
    if site.kind.startswith("raise") or site.kind == "assert":
        return re.search(rf"\b{site.kind.split()[0]}\b", line) is not None
    word = site.kind.rpartition(".")[2]
    return re.search(rf"\b{word}\w*\s*\(|\b{word[:4]}\w*\(", line) is not None or "_check(" in line

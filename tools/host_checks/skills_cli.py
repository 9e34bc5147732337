"""What the skills CLI (npm package skills) finds in the repository and installs from it."""

from __future__ import annotations

import json

from host_checks.placement import CLAUDE_FOLDER, CODEX_FOLDER, WAYS, Site
from host_checks.results import BUNDLE_NAME, Result

HOST = "skills CLI"
WAY = "skills CLI"


def check(site: Site) -> list[Result]:
    """Install for Claude Code and Codex; exactly one skill must be found and lie in both skill folders."""
    WAYS[WAY](site, CLAUDE_FOLDER)
    answer = site.programs.run("skills", "list", "--json", home=site.home, cwd=site.project)
    try:
        found = [entry["name"] for entry in json.loads(answer.stdout)]
    except ValueError:
        found = [f"no list: {(answer.stderr or answer.stdout).strip()[-200:]}"]
    folders = [
        folder
        for folder in (CLAUDE_FOLDER, CODEX_FOLDER)
        if (site.project / folder / BUNDLE_NAME / "SKILL.md").is_file()
    ]
    return [
        Result(HOST, WAY, "finds exactly one skill, the router", found == [BUNDLE_NAME], ", ".join(found) or "nothing"),
        Result(
            HOST, WAY, "puts it where both hosts look", len(folders) == 2, ", ".join(map(str, folders)) or "nowhere"
        ),
    ]

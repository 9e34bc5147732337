"""What Claude Code makes of the bundle: what it lists, what text its model gets, whether the manifests are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from host_checks.model_stand_in import ModelStandIn
from host_checks.placement import CLAUDE_FOLDER, WAYS, Site
from host_checks.results import BUNDLE_NAME, Result, own_names

HOST = "Claude Code"
WAYS_HERE = ("install.py", "install.py, user", "copy", "git clone", "release archive", "skills CLI", "plugin")
# The sentence above the listing in what the model is sent (2.1.332).
LISTING = "available for use with the Skill tool"
_ENTRY = re.compile(r"^- ([\w:-]+): ", re.MULTILINE)
QUESTION = "RuntimeError: NPU graphs must be captured on a non-default stream."


class Conversation(NamedTuple):
    """What the model was sent in each request, as text, and the names that the host printed at its start."""

    requests: list[str]
    announced: list[str]
    failure: str


def converse(site: Site, prompt: str, skill: str) -> Conversation:
    """Run one prompt; the stand-in for the model calls the Skill tool with this name when skill is not empty."""
    with ModelStandIn("Skill" if skill else "", {"skill": skill}) as model:
        options = ("--output-format", "stream-json", "--verbose")
        result = site.programs.run(
            "claude", "-p", prompt, *options, home=site.home, cwd=site.project, ANTHROPIC_BASE_URL=model.address
        )
        sent = [all_text(request) for request in model.requests]
    events = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    start: dict[str, Any] = next((event for event in events if event.get("subtype") == "init"), {})
    failure = "" if result.returncode == 0 else (result.stderr or result.stdout).strip()[-300:]
    return Conversation(sent, list(start.get("skills", [])), failure)


def all_text(value: Any) -> str:
    """Return every text in a request, one after the other."""
    if isinstance(value, str):
        return value + "\n"
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "".join(all_text(part) for part in parts)


def listed_skills(request: str) -> list[str]:
    """Return the bundle's names in the listing that the model is given."""
    return own_names(_ENTRY.findall(request.partition(LISTING)[2]))


def body(skill_file: Path) -> str:
    """Return a SKILL.md without its frontmatter."""
    return skill_file.read_text(encoding="utf-8").split("---\n", 2)[2].strip()


def check_way(site: Site, way: str) -> list[Result]:
    """Install in one way; look at the listing, at the model's own call, and at the user's command."""
    WAYS[way](site, CLAUDE_FOLDER)
    name = f"{BUNDLE_NAME}:{BUNDLE_NAME}" if way == "plugin" else BUNDLE_NAME
    text = body(site.checkout / "SKILL.md")
    called = converse(site, "hello", name)
    listed = listed_skills(called.requests[0]) if called.requests else []
    after_call = called.requests[1] if len(called.requests) > 1 else ""
    commanded = converse(site, f"/{name} {QUESTION}", "")
    typed = commanded.requests[0] if commanded.requests else ""
    rows = (
        ("lists the router only", listed == [name], called.failure or ", ".join(listed) or "nothing"),
        (
            "the model's call of the skill gives its text and folder",
            text in after_call and "Base directory for this skill: " in after_call and text not in called.requests[0],
            called.failure or f"{len(text)} characters",
        ),
        (
            f"`/{name} STACK` gives the text and the stack",
            text in typed and QUESTION in typed,
            commanded.failure or f"{len(text)} characters and the stack",
        ),
    )
    return [Result(HOST, way, expected, ok, seen if ok else f"not so: {seen}") for expected, ok, seen in rows]


def check_manifests(site: Site) -> list[Result]:
    """Run the host's own validator, strictly, on the folder and on each manifest."""
    results = []
    for target in (".", ".claude-plugin/plugin.json"):
        answer = site.programs.run(
            "claude", "plugin", "validate", "--strict", "--json", target, home=site.home, cwd=site.checkout
        )
        try:
            record = json.loads(answer.stdout)
        except ValueError:
            record = {}
        manifest = record.get("manifest") or {}
        faults = [str(item.get("message", item)) for item in manifest.get("errors", []) + manifest.get("warnings", [])]
        skills = (record.get("provides") or {}).get("skills", [])
        ok = answer.returncode == 0 and record.get("success") is True and len(skills) == 1
        seen = f"{manifest.get('type')} manifest, provides {', '.join(skills)}"
        results.append(
            Result(
                HOST,
                "plugin",
                f"`claude plugin validate --strict {target}` passes",
                ok,
                seen if ok else "; ".join(faults),
            )
        )
    return results

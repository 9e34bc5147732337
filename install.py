#!/usr/bin/env python3
"""Put this bundle into an agent's skill folder, bring it up to date, check it, or take it away.

Usage: install.py install|upgrade|check|remove [--host NAME ...] [--target DIR] [--project DIR]
                  [--delete-cases] [--dry-run] [--output text|json]

The bundle is the folder this file lies in; the copy is named npu-graph-skill. Recorded cases and every other change
of yours under knowledge/ stay through an upgrade and a removal. install on top of a copy of its own is an upgrade.
check without --host and --target looks at the copy it lies in, else at every copy in a known skill folder.

Prints what was done per skill folder. JSON (schema npu-graph/install/1): command, dry_run, results; for check a
result has host, target, ok, version, files, problems, notes; for the others host, target, verb, version_before,
version, counts, steps [{action, path, source}] and remarks. A failure is one line on stderr.

Exit codes: 0 done; 1 refused, failed, or a check found something; 2 wrong usage; 3 no bundle, or nothing to check;
4 Python is too old; 5 internal error.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

if sys.version_info < (3, 8):  # noqa: UP036 - CANN images with Python 3.7 are in use, and deserve a sentence
    sys.stderr.write("install.py: error: Python {}.{} is too old; use 3.8 or newer\n".format(*sys.version_info))
    sys.exit(4)

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from npu_graph import __version__, bundle, cli
from npu_graph.install_plan import (
    BASE_FOLDER,
    BUNDLE_NAME,
    MANIFEST_NAME,
    ROUTER,
    SUB_SKILLS,
    Manifest,
    Step,
    errors_as_refusal,
    holds_knowledge,
    is_installed,
    printable,
    read_manifest,
    scan,
)
from npu_graph.installation import WORK_FOLDER, Outcome, put_in_place, take_away


class Host(NamedTuple):
    """A place where an agent looks for skills: below the project, or below the home folder when user is true.

    moved_by names a variable that replaces the first folder of the path.
    """

    name: str
    folder: str
    user: bool
    moved_by: str = ""


# Where each agent looks for skills. A wrong folder is silent (the agent just never lists the skill), hence the
# sources: the agents' own pages, and the table "Supported Agents" in github.com/vercel-labs/skills README.md.
HOSTS = (
    # code.claude.com/docs/en/skills; github.com/anthropics/claude-code issue 55065 for the variable
    Host("claude", ".claude/skills", user=False),
    Host("claude-user", ".claude/skills", user=True, moved_by="CLAUDE_CONFIG_DIR"),
    # developers.openai.com/codex/skills; github.com/openai/codex codex-rs/core-skills/src/loader.rs: ~/.codex/skills
    # is still read there but deprecated
    Host("codex", ".agents/skills", user=False),
    Host("codex-user", ".agents/skills", user=True),
    # opencode.ai/v1/docs/skills: it also reads the folders of claude and codex
    Host("opencode", ".opencode/skills", user=False),
    Host("opencode-user", ".config/opencode/skills", user=True),
    # docs.trae.ai/ide/skills; vercel-labs/skills README.md, rows trae and trae-cn
    Host("trae", ".trae/skills", user=False),
    Host("trae-user", ".trae/skills", user=True),
    Host("trae-cn-user", ".trae-cn/skills", user=True),
    # cursor.com/docs/context/skills
    Host("cursor", ".cursor/skills", user=False),
    Host("cursor-user", ".cursor/skills", user=True),
    # geminicli.com/docs/cli/using-agent-skills
    Host("gemini", ".gemini/skills", user=False),
    Host("gemini-user", ".gemini/skills", user=True),
    # docs.github.com/en/copilot/concepts/agents/about-agent-skills
    Host("copilot", ".github/skills", user=False),
    Host("copilot-user", ".copilot/skills", user=True),
)

PURPOSE = "Install, upgrade, check or remove the npu-graph skill in an agent's skill folder; your cases are kept."
EXAMPLES = (
    "python3 npu-graph-skill/install.py install --host claude --project ~/serving",
    "python3 npu-graph-skill/install.py upgrade --host codex-user --dry-run",
)

SCHEMA = "npu-graph/install/1"

# Enough for any frontmatter; a SKILL.md is text of some kilobytes.
FRONTMATTER_BYTES = 16 * 1024
NAME_LINE = re.compile(r"name:[ \t]*([\"']?)([^\"'\n]{1,200}?)\1[ \t]*")

# What each action of a plan means to a reader, in the order in which counts are printed.
ACTIONS = {
    "added": "added",
    "restored": "restored",
    "replaced": "replaced",
    "unchanged": "unchanged",
    "dropped": "dropped, no longer part of the bundle",
    "deleted": "deleted",
    "kept": "kept, yours",
    "merged": "merged, your entries and the new ones",
    "saved": "saved, your change",
    "conflict": "offered beside yours",
}
QUIET_ACTIONS = ("added", "replaced", "unchanged", "deleted")


class Place(NamedTuple):
    """A skill folder to work on, and the name of the host it belongs to ("" for --target)."""

    host: str
    folder: Path

    @property
    def target(self) -> Path:
        """The skill's own folder."""
        return self.folder / BUNDLE_NAME


class Health(NamedTuple):
    """What check found at one target."""

    version: str
    files: int
    problems: list[str]
    notes: list[str]


# ---- choosing places -----------------------------------------------------------------------------------------------


def host_folder(host: Host, project: Path, environ: Mapping[str, str]) -> Path:
    """Return the skill folder of a host."""
    if not host.user:
        return project / host.folder
    moved = environ.get(host.moved_by, "") if host.moved_by else ""
    if moved:
        return Path(moved).expanduser() / host.folder.split("/", 1)[1]
    try:
        return Path.home() / host.folder
    except RuntimeError:
        raise cli.CommandError(f"the home folder for {host.name} is unknown; use --target", cli.ABSENT) from None


def known_copies(project: Path, environ: Mapping[str, str]) -> list[Place]:
    """Return every place of a known host where a copy lies, each real folder once."""
    copies: dict[str, Place] = {}
    for host in HOSTS:
        place = Place(host.name, host_folder(host, project, environ))
        if os.path.lexists(str(place.target)):
            copies.setdefault(os.path.realpath(str(place.target)), place)
    return list(copies.values())


def choose_places(
    command: str, hosts: Sequence[str], target: str | None, project: Path, environ: Mapping[str, str]
) -> list[Place]:
    """Return the places that a command line means.

    Raises:
        CommandError: exit code 2 when it names none and the command needs one, 3 when there is nothing to check.
    """
    by_name = {host.name: host for host in HOSTS}
    places = [Place(name, host_folder(by_name[name], project, environ)) for name in dict.fromkeys(hosts)]
    if target is not None:
        folder = Path(target).expanduser().absolute()
        if folder.name == BUNDLE_NAME:
            raise cli.CommandError(f"--target is the folder that holds {BUNDLE_NAME}; give its parent {folder.parent}")
        places.append(Place("", folder))
    if places:
        return places
    copies = known_copies(project, environ)
    if command == "check":
        if os.path.lexists(str(ROOT / MANIFEST_NAME)):
            return [Place("", ROOT.parent)]
        if copies:
            return copies
        raise cli.CommandError("no copy lies in a known skill folder; name one with --target", cli.NO_INPUT)
    there = "; copies are at: " + ", ".join(f"{place.host} ({place.target})" for place in copies) if copies else ""
    raise cli.CommandError(f"say where with --host NAME or --target DIR{there}")


# ---- checking ------------------------------------------------------------------------------------------------------


def check(target: Path, project: Path, environ: Mapping[str, str]) -> Health:
    """Look whether a copy is whole, unchanged where it must be, and able to record cases.

    Raises:
        CommandError: exit code 3 when there is no copy to look at, 1 when it cannot be read.
    """
    with errors_as_refusal(f"{target} cannot be read"):
        if not target.is_dir():
            raise cli.CommandError(f"nothing to check: {target} is not a folder; run install", cli.NO_INPUT)
        manifest = read_manifest(target) or Manifest("", {}, {})
        present = scan(target, is_installed)
    problems, notes = [], [f"Python {sys.version.split()[0]}"]
    if not manifest.files:
        problems.append(f"no list of shipped files ({MANIFEST_NAME}), so nothing could be compared: install again")
    for path, digest in manifest.files.items():
        if path not in present and path not in manifest.offers:
            problems.append(f"missing: {printable(path)}")
        elif path in present and present[path].digest != digest:
            changed = notes if holds_knowledge(path) else problems
            changed.append(f"changed since installation: {printable(path)}")
    problems += skill_problems(target, present)
    for path in sorted(manifest.offers):
        if path in present:
            notes.append(f"waits to be merged into {printable(manifest.offers[path])}: {printable(path)}")
    if os.path.lexists(str(target.parent / WORK_FOLDER)):
        problems.append(f"an interrupted run left {target.parent / WORK_FOLDER}: run upgrade again")
    writable, remark = where_cases_go(target, project, environ)
    (notes if writable else problems).append(remark)
    return Health(manifest.version, len(manifest.files), problems, notes)


def skill_problems(target: Path, present: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the SKILL.md files: missing, misnamed, or one too many."""
    expected = {ROUTER: BUNDLE_NAME, **{f"{name}/{ROUTER}": name for name in SUB_SKILLS}}
    problems = []
    for path, name in expected.items():
        if path not in present or not (target / path).is_file():
            problems.append(f"missing: {path}")
            continue
        found = frontmatter_name(target / path)
        if found != name:
            problems.append(f"{path}: the frontmatter's name is {found!r}, but its folder is {name!r}")
    strays = [path for path in present if path.split("/")[-1] == ROUTER and path not in expected]
    # Codex and OpenCode list every SKILL.md below a skill folder as a skill of its own.
    return problems + [f"stray, hosts list it as a skill: {printable(path)}" for path in sorted(strays)]


def frontmatter_name(path: Path) -> str | None:
    """Return the name in a SKILL.md's frontmatter, or None."""
    with errors_as_refusal(f"{path} cannot be read"), path.open("rb") as source:
        lines = source.read(FRONTMATTER_BYTES).decode("utf-8", "replace").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return None
    for line in lines[1:]:
        if line.rstrip() == "---":
            return None
        match = NAME_LINE.fullmatch(line)
        if match:
            return match.group(2)
    return None


def where_cases_go(target: Path, project: Path, environ: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether a case can be recorded from a copy, and where (the order of npu_graph.bundle)."""
    chosen = environ.get(bundle.KNOWLEDGE_VARIABLE)
    own, overlay = target / "knowledge", project / bundle.PROJECT_OVERLAY
    if chosen:
        folder, why = Path(chosen).expanduser(), f"${bundle.KNOWLEDGE_VARIABLE}"
    elif bundle.is_writable(own):
        folder, why = own, "the copy's own knowledge folder"
    else:
        folder, why = overlay, "the project's overlay, as the copy is read-only"
    existing = folder
    while not os.path.lexists(str(existing)) and existing != existing.parent:
        existing = existing.parent
    if bundle.is_writable(existing):
        return True, f"cases go to {folder} ({why})"
    return False, f"cases cannot be recorded: {folder} ({why}) is not writable; set ${bundle.KNOWLEDGE_VARIABLE}"


# ---- telling -------------------------------------------------------------------------------------------------------


def describe_outcome(place: Place, outcome: Outcome, dry_run: bool) -> str:
    """Return what was done at one place: a headline, counts, and a line for each file the user cares about."""
    counts = Counter(step.action for step in outcome.steps)
    versions = [version for version in (outcome.version_before, outcome.version) if version]
    verb = f"would be {outcome.verb}" if dry_run else outcome.verb
    lines = [f"{BUNDLE_NAME} {' -> '.join(dict.fromkeys(versions))} {verb}: {printable(str(place.target))}"]
    lines.append(
        "  " + ", ".join(f"{counts[action]} {meaning}" for action, meaning in ACTIONS.items() if counts[action])
    )
    for step in outcome.steps:
        if dry_run and step.action != "unchanged" or step.action not in QUIET_ACTIONS:
            lines.append(f"  {step.action}: {describe_step(step, place.target)}")
    lines += [f"  note: {remark}" for remark in outcome.remarks]
    if outcome.verb == "removed" and counts["kept"]:
        lines.append("  what is listed as kept stays; a later install takes it over")
    return "\n".join(lines)


def describe_step(step: Step, target: Path) -> str:
    """Return a step's files in words."""
    path, source = printable(step.path), printable(step.source)
    if step.action == "saved":
        return f"{path} (your {source})"
    if step.action == "conflict":
        known = (target / BASE_FOLDER / step.source).is_file()
        origin = f" (both began as {BASE_FOLDER}/{source})" if known else ""
        return f"{source} stays as you have it; the new one is {path}: merge it{origin}, then delete it"
    return path


def describe_health(place: Place, health: Health) -> str:
    """Return what check found at one place."""
    state = f"{len(health.problems)} problem(s)" if health.problems else "ok"
    lines = [f"{BUNDLE_NAME} {health.version or '(version unknown)'} {state}: {printable(str(place.target))}"]
    lines.append(f"  {health.files} files compared")
    lines += [f"  problem: {problem}" for problem in health.problems]
    lines += [f"  note: {note}" for note in health.notes]
    return "\n".join(lines)


def outcome_record(place: Place, outcome: Outcome) -> dict[str, Any]:
    """Return the JSON result of install, upgrade or remove."""
    return {
        "host": place.host or None,
        "target": str(place.target),
        "verb": outcome.verb,
        "version_before": outcome.version_before,
        "version": outcome.version,
        "counts": dict(Counter(step.action for step in outcome.steps)),
        "steps": [{"action": step.action, "path": step.path, "source": step.source} for step in outcome.steps],
        "remarks": outcome.remarks,
    }


def health_record(place: Place, health: Health) -> dict[str, Any]:
    """Return the JSON result of check."""
    return {"host": place.host or None, "target": str(place.target), "ok": not health.problems, **health._asdict()}


# ---- command line --------------------------------------------------------------------------------------------------


def change(command: str, target: Path, delete_cases: bool, dry_run: bool) -> Outcome:
    """Carry out install, upgrade or remove at one target."""
    if command == "remove":
        return take_away(target, delete_cases, dry_run)
    return put_in_place(ROOT, target, __version__, dry_run, fresh=command == "install")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command on each chosen place; a failure at one does not stop the others."""
    parser = cli.make_parser(PURPOSE, EXAMPLES)
    parser.add_argument("command", choices=("install", "upgrade", "check", "remove"))
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        choices=[host.name for host in HOSTS],
        metavar="NAME",
        help="repeatable; one of " + ", ".join(host.name for host in HOSTS),
    )
    parser.add_argument("--target", metavar="DIR", help=f"any other skill folder; {BUNDLE_NAME}/ is made in it")
    parser.add_argument(
        "--project", metavar="DIR", help="the project (default: the git checkout you are in, else here)"
    )
    parser.add_argument("--delete-cases", action="store_true", help="remove: delete recorded cases and patterns too")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    if options.delete_cases and options.command != "remove":
        parser.error("--delete-cases goes with remove")
    if "" in (options.target, options.project):
        parser.error("--target and --project need the name of a folder, not an empty text")
    with errors_as_refusal("the project folder cannot be used; name another with --project", cli.USAGE):
        project = Path(options.project).expanduser().absolute() if options.project else bundle.project_root()
        if not project.is_dir():
            raise cli.CommandError(f"the project {project} is not a folder; check --project")
    places = choose_places(options.command, options.host, options.target, project, os.environ)

    texts, records, failures, code = [], [], [], cli.DONE
    for place in places:
        try:
            if options.command == "check":
                health = check(place.target, project, os.environ)
                texts.append(describe_health(place, health))
                records.append(health_record(place, health))
                code = max(code, cli.NEGATIVE if health.problems else cli.DONE)
            else:
                outcome = change(options.command, place.target, options.delete_cases, options.dry_run)
                texts.append(describe_outcome(place, outcome, options.dry_run))
                records.append(outcome_record(place, outcome))
        except cli.CommandError as error:
            failures.append(str(error))
            code = max(code, error.exit_code)
    if options.output == "json" and records:
        record = {"schema": SCHEMA, "command": options.command, "dry_run": options.dry_run, "results": records}
        cli.write_json(record)
    elif texts:
        cli.write_text(cli.bound_output("\n".join(texts) + "\n", way_out="--output json"))
    if failures:
        raise cli.CommandError("; ".join(failures), code)
    return code


if __name__ == "__main__":
    cli.run(main)

"""What an installed bundle consists of, what its user changed, and the plan that leads to a new version.

A manifest beside SKILL.md records the SHA-256 of every file that was shipped; whatever differs from it is the user's.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from npu_graph import cli

BUNDLE_NAME = "npu-graph-skill"
ROUTER = "SKILL.md"
SUB_SKILLS = ("graph-mode-expert", "graph-mode-diagnostics", "graph-log-analyzer", "graph-perf", "graph-mcp")

# What is copied, as patterns for names at the top of the bundle; a part that is not there yet is simply absent.
# Everything else (tests, tools, evals, build files) is for maintainers, and hosts that walk the tree would list it.
PARTS = (
    ROUTER,
    *SUB_SKILLS,
    "agents",  # the router's own openai.yaml
    "knowledge",
    "npu_graph",
    "npu_sim",
    "install.py",  # so that an installed copy can check and remove itself
    "README*",
    "LICENSE",
    "CHANGELOG.md",
)

# Never copied, at any depth: caches and build output would differ on every machine, a nested tests/ may hold
# fixtures that a host takes for skills, and the last six are what an earlier upgrade or an editor left behind.
LEFT_OUT = (
    "__pycache__",
    "*.py[co]",
    ".git",
    ".venv",
    ".*_cache",
    ".hypothesis",
    ".npu-graph*",
    ".DS_Store",
    "*.egg-info",
    "build",
    "dist",
    "tests",
    "*.orig",
    "*.orig.*",
    "*.new",
    "*.new.*",
    "*.sw[op]",
    "*~",
)

# Compiled from the case files: the user's copy is kept and written again after the swap, so it is never a conflict.
DERIVED = "knowledge/history.md"

MANIFEST_NAME = ".npu-graph-install.json"
MANIFEST_SCHEMA = "npu-graph/install-manifest/1"
MANIFEST_LIMIT = 8 * 1024 * 1024
# The knowledge texts as shipped: the common ancestor that a three-way merge of a user's edits needs.
BASE_FOLDER = ".npu-graph-base"
BUNDLE = "bundle"
LOCAL = "local"
MERGED = "merged"
PATTERNS = "knowledge/known-patterns.md"


class Entry(NamedTuple):
    """One thing in a tree: kind "file", "link" or "special", and a digest (of the content, or of a link's aim)."""

    kind: str
    digest: str


class Step(NamedTuple):
    """One line of a plan.

    Args:
        action: added, restored, replaced, unchanged, dropped, kept, merged, saved, conflict or deleted.
        path: where the file ends up in the target, with "/" between folders.
        origin: BUNDLE or LOCAL: from where it is copied into the new tree; MERGED: from both; "" when it is not in it.
        source: its path there.
    """

    action: str
    path: str
    origin: str
    source: str


class Manifest(NamedTuple):
    """What a target's manifest says: version, shipped digests by path, and offers (path.new -> the path it is for)."""

    version: str
    files: dict[str, str]
    offers: dict[str, str]


def refusal(message: str, exit_code: int = cli.NEGATIVE) -> cli.CommandError:
    """Return the error for a request that is declined with nothing changed."""
    return cli.CommandError(message, exit_code)


@contextlib.contextmanager
def errors_as_refusal(what: str, exit_code: int = cli.NEGATIVE) -> Iterator[None]:
    """Turn an operating system error into one line: what failed, the reason, the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or cli.one_line(str(error), 120) or type(error).__name__
        if error.errno == errno.EXDEV:  # a container's image layer, or a folder that is a mount of its own
            reason += " (copy the folder once with 'cp -a', put the copy in its place, and try again)"
        place = f": {printable(str(error.filename))}" if error.filename else ""
        raise cli.CommandError(f"{what}: {reason}{place}", exit_code) from None


def printable(path: str) -> str:
    """Return a path fit for one line of output: control characters, quotes and lone surrogates are escaped."""
    return path if path.isprintable() else json.dumps(path)


def first_few(paths: Sequence[str], count: int = 5) -> str:
    """Return the first paths, and how many more there are."""
    shown = ", ".join(printable(path) for path in paths[:count])
    return shown if len(paths) <= count else f"{shown} and {len(paths) - count} more"


def holds_knowledge(path: str) -> bool:
    """Say whether a file is knowledge, which a user's change outranks; the scripts beside it are code."""
    return path.startswith("knowledge/") and not path.startswith("knowledge/scripts/")


# ---- reading trees -------------------------------------------------------------------------------------------------


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file as lower-case hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def scan(root: Path, wanted: Callable[[str], bool]) -> dict[str, Entry]:
    """Return every wanted file below a folder by its "/"-separated path; no link is followed, no pipe opened."""
    found: dict[str, Entry] = {}
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(str(root / prefix)) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not wanted(path):
                    continue
                if entry.is_symlink():
                    aim = os.fsencode(os.readlink(entry.path))
                    found[path] = Entry("link", "link:" + hashlib.sha256(aim).hexdigest())
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(path + "/")
                elif entry.is_file(follow_symlinks=False):
                    found[path] = Entry("file", digest_file(Path(entry.path)))
                else:
                    found[path] = Entry("special", "")
    return found


def is_shipped(path: str) -> bool:
    """Say whether a path of a bundle is part of what is copied."""
    names = path.split("/")
    return any(fnmatchcase(names[0], part) for part in PARTS) and not any(
        fnmatchcase(name, pattern) for name in names for pattern in LEFT_OUT
    )


def is_installed(path: str) -> bool:
    """Say whether a path of an installed copy is content: neither the installer's own record nor Python's cache."""
    names = path.split("/")
    return names[0] not in (MANIFEST_NAME, BASE_FOLDER) and names[-1] != "__pycache__"


def shipped_files(bundle: Path) -> dict[str, str]:
    """Return the digest of each file that a bundle ships, by path.

    Raises:
        CommandError: exit code 3 when the folder is no bundle or holds something that cannot be copied.
    """
    with errors_as_refusal(f"the bundle {bundle} cannot be read", cli.NO_INPUT):
        if not (bundle / ROUTER).is_file():
            raise refusal(f"{bundle} has no {ROUTER}, so it is not a whole bundle; download it again", cli.NO_INPUT)
        found = scan(bundle, is_shipped)
    odd = sorted(path for path, entry in found.items() if entry.kind != "file")
    if odd:
        raise refusal(f"the bundle holds something that is not a plain file: {first_few(odd)}", cli.NO_INPUT)
    return {path: entry.digest for path, entry in found.items()}


def read_manifest(target: Path) -> Manifest | None:
    """Return a target's manifest, or None where there is none.

    Raises:
        CommandError: exit code 1 when it cannot be trusted. Its paths decide what is deleted, so each one must stay
            inside the target.
    """
    path = target / MANIFEST_NAME
    advice = "move the folder away, install again, and copy its knowledge/ files back"
    with errors_as_refusal(f"{path} cannot be read"):
        try:
            info = os.lstat(str(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(info.st_mode) or info.st_size > MANIFEST_LIMIT:
            raise refusal(f"{path} is not a manifest; {advice}")
        data = path.read_bytes()
    try:
        record = json.loads(data.decode("utf-8"))
        version, files, offers = record["version"], record["files"], record["offers"]
        texts = [version, *files, *files.values(), *offers, *offers.values()]
        sound = record["schema"] == MANIFEST_SCHEMA and all(isinstance(text, str) for text in texts)
        sound = sound and all(stays_inside(name) for name in [*files, *offers, *offers.values()])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise refusal(f"{path} is damaged or of another kind than {MANIFEST_SCHEMA}; {advice}")
    return Manifest(version, dict(files), dict(offers))


def stays_inside(path: str) -> bool:
    """Say whether a manifest's path is plain and relative: no climbing, no drive, no absolute path."""
    names = path.split("/")
    return not any(name in ("", ".", "..") or "\\" in name or ":" in name or "\0" in name for name in names)


# ---- planning ------------------------------------------------------------------------------------------------------


class Names:
    """Paths taken in the new tree, so that a saved or offered copy never overwrites anything."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def free(self, wanted: str) -> str:
        """Return the wanted path, or it with the first free number behind it, and take it."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}.{number}"
        self._taken.add(name)
        return name


def plan_changes(owned: Manifest, present: Mapping[str, Entry], shipped: Mapping[str, str]) -> list[Step]:
    """Return the steps from what is present to the new version; pure, so that it can be shown before it is done.

    Args:
        owned: what the installed version shipped; empty for a fresh installation.
        present: what lies in the target now.
        shipped: what the new version ships.
    """
    base = {**owned.files, **{path: owned.files.get(path, "") for path in owned.offers}}
    leaving = {path for path, entry in present.items() if path not in shipped and entry.digest == base.get(path)}
    blocked = paths_in_the_way(present, shipped)
    folders = {path[:end] for path in [*shipped, *present] for end in slashes(path)}
    names = Names(set(shipped) | (set(present) - leaving) | folders)
    new_roots = {root: names.free(root + ".orig") for root in sorted(set(blocked.values()))}
    pending = {offers_for for offer, offers_for in owned.offers.items() if offer in present}
    steps: list[Step] = []
    for path in sorted({*shipped, *present}):
        mine = present.get(path)
        if mine is not None and path in blocked and path not in leaving:
            root = blocked[path]
            steps.append(Step("saved", new_roots[root] + path[len(root) :], LOCAL, path))
            mine = None
        if mine is None and path in shipped:
            steps.append(Step("restored" if path in owned.files else "added", path, BUNDLE, path))
        elif mine is not None:
            steps += decide(path, base.get(path), mine.digest, shipped.get(path), names, pending=path in pending)
    made = {step.path for step in steps if step.origin}
    return [step for step in steps if step.action != "dropped" or step.path not in made]


def decide(path: str, base: str | None, mine: str, new: str | None, names: Names, *, pending: bool) -> list[Step]:
    """Return what becomes of one present file, from three digests: as shipped before, as it is, as shipped now.

    A user's knowledge stays; when the shipped text moved on as well (or an earlier offer still waits: pending), the
    new one is offered beside it. A user's change to anything else is saved, and the shipped file takes its place.
    """
    if new is None:
        return [Step("dropped", path, "", path)] if mine == base else [Step("kept", path, LOCAL, path)]
    if mine == new:
        return [Step("unchanged", path, BUNDLE, path)]
    if mine == base:
        return [Step("replaced", path, BUNDLE, path)]
    if holds_knowledge(path):
        kept = Step("kept", path, LOCAL, path)
        if path == DERIVED or (new == base and not pending):
            return [kept]
        return [kept, Step("conflict", names.free(path + ".new"), BUNDLE, path)]
    return [Step("saved", names.free(path + ".orig"), LOCAL, path), Step("replaced", path, BUNDLE, path)]


def paths_in_the_way(present: Mapping[str, Entry], shipped: Mapping[str, str]) -> dict[str, str]:
    """Return the present paths that block a shipped one, with the path to move: a file where a folder comes, or
    everything in a folder where a file comes."""
    folders = {path[:end] for path in shipped for end in slashes(path)}
    blocked = {path: path for path in present if path in folders}
    for path in present:
        for end in slashes(path):
            if path[:end] in shipped:
                blocked[path] = path[:end]
    return blocked


def slashes(path: str) -> list[int]:
    """Return where the folder names of a path end."""
    return [index for index, character in enumerate(path) if character == "/"]

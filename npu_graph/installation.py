"""Carry out an installation, an upgrade or a removal so that a failure at any moment loses nothing.

A new version is built whole in a work folder next to the target and swapped in by rename: there is always one complete
bundle, at the target or in the work folder, from where the next run restores it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
import stat
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Sequence

from npu_graph import bundle as bundle_files
from npu_graph.case_store import compile_history
from npu_graph.install_plan import (
    BASE_FOLDER,
    BUNDLE,
    BUNDLE_NAME,
    DERIVED,
    LOCAL,
    MANIFEST_NAME,
    MANIFEST_SCHEMA,
    MERGED,
    PATTERNS,
    Entry,
    Manifest,
    Names,
    Step,
    digest_file,
    errors_as_refusal,
    first_few,
    holds_knowledge,
    is_installed,
    plan_changes,
    printable,
    read_manifest,
    refusal,
    scan,
    shipped_files,
)
from npu_graph.pattern_merge import Merged, merge_patterns

# The work folder starts with a dot and holds bundles one level down, so that no host lists a half-built one.
WORK_FOLDER = f".{BUNDLE_NAME}.work"
# Nothing copies for an hour: an older work folder belongs to a run that died.
STALE_SECONDS = 3600

OWNER = "owner"
BEFORE = "knowledge.json"


class Outcome(NamedTuple):
    """What was done (or, in a dry run, would be): the verb, both versions, the plan, and remarks for the user."""

    verb: str
    version_before: str | None
    version: str | None
    steps: list[Step]
    remarks: list[str]


# ---- installing and upgrading --------------------------------------------------------------------------------------


def put_in_place(bundle: Path, target: Path, version: str, dry_run: bool = False, fresh: bool = False) -> Outcome:
    """Install a bundle at a target folder, or upgrade the copy that is there.

    Args:
        bundle: the folder to copy from.
        target: the skill's own folder, named npu-graph-skill.
        version: the bundle's version.
        dry_run: plan only, change nothing.
        fresh: whether the target may be absent (install) or must hold a copy (upgrade).

    Raises:
        CommandError: exit code 3 for a bad bundle, 1 for a refusal or a failure; either way nothing has changed.
    """
    bundle, target = locate(bundle), locate(target)
    refuse_overlap(bundle, target)
    shipped = shipped_files(bundle)
    remarks = [] if dry_run else recover(target)
    outcome, present = plan_target(target, shipped, version, fresh)
    outcome = with_merged_patterns(outcome, bundle, target)
    moves = [step for step in outcome.steps if step.action not in ("unchanged", "kept")]
    if dry_run or (not moves and outcome.version_before == version):
        return outcome._replace(remarks=remarks + outcome.remarks)
    with workspace(target) as work:
        outcome, present = plan_target(target, shipped, version, fresh)
        outcome = with_merged_patterns(outcome, bundle, target)
        stage(bundle, target, work, outcome, shipped)
        swap(work, target, {path: entry.digest for path, entry in present.items() if holds_knowledge(path)})
    return outcome._replace(remarks=remarks + outcome.remarks + settle(target))


def with_merged_patterns(outcome: Outcome, bundle: Path, target: Path) -> Outcome:
    """Return the plan with the pattern file merged where the user and the bundle changed different entries.

    Where both changed one entry the plan stays: the user's file is kept and the new one offered beside it, and a remark
    names the entries.
    """
    offered = [step for step in outcome.steps if step.action == "conflict" and step.source == PATTERNS]
    merged = merged_patterns(bundle, target) if offered else None
    if merged is None:
        return outcome
    if merged.conflicts:
        entries = [heading.strip("# ") or "the text above the first entry" for heading in merged.conflicts]
        return outcome._replace(
            remarks=[f"{PATTERNS}: not merged, changed by you and by this version: {first_few(entries)}"]
        )
    others = [step for step in outcome.steps if step not in offered and step.path != PATTERNS]
    return outcome._replace(steps=[*others, Step("merged", PATTERNS, MERGED, PATTERNS)])


def merged_patterns(bundle: Path, target: Path) -> Merged | None:
    """Merge the pattern file of the bundle with the user's; None when the common ancestor is not there."""
    try:
        # utf-8-sig: an editor on Windows may have put a mark in front.
        places = (target / BASE_FOLDER, target, bundle)
        texts = [(folder / PATTERNS).read_text(encoding="utf-8-sig") for folder in places]
    except (OSError, UnicodeDecodeError):
        return None
    return merge_patterns(*texts)


def locate(folder: Path) -> Path:
    """Return an absolute path whose parents hold no links; the folder itself is left as it is, to be judged."""
    absolute = folder.expanduser().absolute()
    return Path(os.path.realpath(str(absolute.parent))) / absolute.name


def refuse_overlap(bundle: Path, target: Path) -> None:
    """Refuse a target that is the bundle, lies in it, or holds it: a copy would eat its own source."""
    inner, outer = Path(os.path.realpath(str(target))), Path(os.path.realpath(str(bundle)))
    if inner == outer:
        raise refusal(f"{target} is the copy that runs this; run the install.py of the newer bundle you downloaded")
    if outer in inner.parents:
        raise refusal(f"{target} lies inside the bundle {bundle}; name your project with --project or use --target")
    if inner in outer.parents:
        raise refusal(f"the bundle {bundle} lies inside the target {target}; move the bundle elsewhere first")


def plan_target(
    target: Path, shipped: Mapping[str, str], version: str, fresh: bool
) -> tuple[Outcome, dict[str, Entry]]:
    """Return the plan for a target and what is in it now, or refuse."""
    manifest, present = read_target(target)
    if manifest is None and present:
        raise refusal(
            f"{target} was not made by install.py (it holds {first_few(sorted(present))}); "
            "move it away, install, and copy its knowledge/ files back"
        )
    if manifest is None and not fresh:
        raise refusal(f"nothing is installed at {target}; use install")
    special = sorted(path for path, entry in present.items() if entry.kind == "special")
    if special:
        raise refusal(f"{target} holds a pipe, socket or device: {first_few(special)}; move it away first")
    if present.get("knowledge", Entry("", "")).kind == "link":
        raise refusal(f"{target / 'knowledge'} is a link; set $NPU_GRAPH_KNOWLEDGE to its aim and remove the link")
    steps = plan_changes(manifest or Manifest("", {}, {}), present, shipped)
    if manifest is None:
        return Outcome("installed", None, version, steps, []), present
    return Outcome("upgraded", manifest.version, version, steps, []), present


def read_target(target: Path) -> tuple[Manifest | None, dict[str, Entry]]:
    """Return a target's manifest and content; a target that is not a real folder is refused."""
    with errors_as_refusal(f"{target} cannot be read"):
        if target.is_symlink():
            raise refusal(
                f"{target} is a link to {printable(os.readlink(str(target)))}; use --target on the real folder"
            )
        if not os.path.lexists(str(target)):
            return None, {}
        if not target.is_dir():
            raise refusal(f"{target} is not a folder; move it away first")
        return read_manifest(target), scan(target, is_installed)


def stage(bundle: Path, target: Path, work: Path, outcome: Outcome, shipped: Mapping[str, str]) -> None:
    """Build the whole new tree in the work folder: shipped files, the user's files, merge bases, manifest."""
    new = work / "new"
    new.mkdir()
    for step in outcome.steps:
        if step.origin == BUNDLE:
            copy_shipped(bundle / step.source, new / step.path, shipped[step.source])
        elif step.origin == LOCAL:
            copy_kept(target / step.source, new / step.path)
        elif step.origin == MERGED:
            write_merged(bundle, target, new)
    kept = {step.path for step in outcome.steps if step.action == "kept"}
    if DERIVED in kept and (new / "knowledge" / "cases").is_dir():
        compile_history(new / "knowledge")
    for path in filter(holds_knowledge, shipped):
        base = target / BASE_FOLDER / path
        if path not in kept:
            copy_shipped(bundle / path, new / BASE_FOLDER / path, shipped[path])
        elif base.is_file() and not base.is_symlink():
            copy_kept(base, new / BASE_FOLDER / path)
    offers = {step.path: step.source for step in outcome.steps if step.action == "conflict"}
    files = {**shipped, **{offer: shipped[path] for offer, path in offers.items()}}
    write_manifest(new, Manifest(outcome.version or "", files, offers))


def write_merged(bundle: Path, target: Path, new: Path) -> None:
    """Write the merged pattern file into the new tree."""
    merged = merged_patterns(bundle, target)
    if merged is None or merged.conflicts:
        raise refusal(f"{PATTERNS} changed while it was merged; run the upgrade again")
    path = new / PATTERNS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(merged.text, encoding="utf-8")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the record of what was shipped, atomically; no machine path goes in, for projects commit it."""
    record = {
        "schema": MANIFEST_SCHEMA,
        "version": manifest.version,
        "written": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "files": dict(sorted(manifest.files.items())),
        "offers": manifest.offers,
    }
    draft = folder / (MANIFEST_NAME + ".tmp")
    with draft.open("w", encoding="utf-8", newline="\n") as sink:
        sink.write(json.dumps(record, indent=1) + "\n")
        sink.flush()
        os.fsync(sink.fileno())
    draft.replace(folder / MANIFEST_NAME)


def copy_shipped(source: Path, destination: Path, expected: str) -> None:
    """Copy one file of the bundle, writable and with the umask's permissions, and make sure of its content."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(source), str(destination))
    if source.stat().st_mode & stat.S_IXUSR:
        mode = destination.stat().st_mode
        destination.chmod(mode | (mode & 0o444) >> 2)
    if digest_file(destination) != expected:
        raise OSError(errno.EIO, "the bundle changed while it was copied", str(source))


def copy_kept(source: Path, destination: Path) -> None:
    """Copy one file of the user with its times and permissions; on disk before the old tree goes."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(str(source), str(destination), follow_symlinks=False)
    if not destination.is_symlink():
        with destination.open("rb") as written, contextlib.suppress(OSError):  # Windows: needs a writable handle
            os.fsync(written.fileno())


# ---- the work folder: one installer at a time, and nothing half-done ----------------------------------------------


@contextlib.contextmanager
def workspace(target: Path) -> Iterator[Path]:
    """Yield a work folder beside the target; whatever fails, the old copy is back and nothing else is left."""
    work = target.parent / WORK_FOLDER
    made: list[Path] = []
    what = f"nothing was changed: {target} cannot be written"
    try:
        with errors_as_refusal(what):
            make_folders(target.parent, made)
            work.mkdir()
    except BaseException:
        unmake(made)
        raise
    try:
        with errors_as_refusal(what):
            (work / OWNER).write_text(f"{os.getpid()} {platform.node()}", encoding="utf-8")
            yield work
    except BaseException:
        settle(target)
        unmake(made)
        raise


def make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and its parents, noting each one made so that a failure can take them away again."""
    if os.path.lexists(str(folder)):
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        return
    make_folders(folder.parent, made)
    folder.mkdir()
    made.append(folder)


def unmake(made: Sequence[Path]) -> None:
    """Take away the folders that make_folders made, as far as they are empty."""
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            folder.rmdir()


def swap(work: Path, target: Path, before: Mapping[str, str]) -> None:
    """Put the new tree where the old one is; the old one stays in the work folder until settle().

    Args:
        work: the work folder, with the tree in new/.
        target: the skill's folder.
        before: digests of the knowledge when it was copied, so that settle() sees what was recorded since.
    """
    if os.path.lexists(str(target)):
        (work / BEFORE).write_text(json.dumps(before), encoding="utf-8")
        target.rename(work / "old")
    (work / "new").rename(target)


def settle(target: Path) -> list[str]:
    """End a swap, finished or not: an old copy without a new one goes back, late cases are carried over, and the
    work folder goes. Returns remarks."""
    work = target.parent / WORK_FOLDER
    old, record = work / "old", work / BEFORE
    if os.path.lexists(str(old)) and not os.path.lexists(str(target)):
        with errors_as_refusal(f"the earlier copy is whole in {old}; move it back to {target}: it cannot be renamed"):
            old.rename(target)
    remarks: list[str] = []
    if old.is_dir() and record.is_file():
        with errors_as_refusal(f"the new version is in place, but cases recorded meanwhile are only in {old}"):
            remarks = carry_late(old, target, json.loads(record.read_text(encoding="utf-8")))
        with contextlib.suppress(OSError):
            record.unlink()
    with contextlib.suppress(OSError):
        discard(work / "new")
        discard(old)
        for file in (record, work / OWNER):  # the owner last: what lies here is ours as long as it names one
            if file.is_file():
                file.unlink()
        work.rmdir()
    if os.path.lexists(str(work)):
        remarks.append(f"{work} could not be deleted; delete it yourself")
    return remarks


def discard(folder: Path) -> None:
    """Delete a tree, read-only parts included."""
    for place, _, files in os.walk(str(folder)):
        Path(place).chmod(0o700)
        for file in files if os.name == "nt" else ():  # only there a file's own bit stops its deletion
            Path(place, file).chmod(0o600)
    if folder.is_dir():
        shutil.rmtree(str(folder))


def carry_late(old: Path, target: Path, before: Mapping[str, str]) -> list[str]:
    """Copy knowledge that was written into the old tree after it had been copied and before it was swapped out."""
    found = scan(old, leads_to_knowledge)
    present = scan(target, leads_to_knowledge)
    names = Names(set(present))
    remarks = []
    for path, entry in sorted(found.items()):
        here = present.get(path)
        late = holds_knowledge(path) and entry.kind != "special" and entry.digest != before.get(path)
        if not late or (here is not None and here.digest == entry.digest):
            continue
        untouched = here is None or here.digest == before.get(path)
        place = path if untouched else names.free(path + ".orig")
        draft = target / names.free(path + ".late")
        copy_kept(old / path, draft)
        draft.replace(target / place)
        if place != path:
            remarks.append(f"written during the upgrade, merge it by hand: {printable(place)}")
    return remarks


def leads_to_knowledge(path: str) -> bool:
    """Say whether a path is the knowledge folder or lies in it."""
    return path == "knowledge" or path.startswith("knowledge/")


def recover(target: Path) -> list[str]:
    """Finish or undo what an installer that died left beside the target; returns remarks.

    Raises:
        CommandError: exit code 1 when another installer is at work, or the work folder's place is taken.
    """
    work = target.parent / WORK_FOLDER
    if not os.path.lexists(str(work)):
        return []
    with errors_as_refusal(f"{work} cannot be read"):
        real = work.is_dir() and not work.is_symlink()
        if real and not any(work.iterdir()):  # died at birth, or when all was done
            work.rmdir()
            return []
        if not real or not (work / OWNER).is_file():
            raise refusal(f"{work} is in the way and was not made by install.py; move it away")
        if is_busy(work):
            raise refusal(f"another install.py is at work in {target.parent}; wait, or delete {work} if none runs")
    return ["an interrupted run was cleaned up first", *settle(target)]


def is_busy(work: Path) -> bool:
    """Say whether the installer that made a work folder may still run."""
    owner = work / OWNER
    if time.time() - owner.stat().st_mtime > STALE_SECONDS:
        return False
    number, _, node = owner.read_text(encoding="utf-8", errors="replace")[:300].partition(" ")
    if os.name == "nt" or node != platform.node():  # on Windows, os.kill(pid, 0) would end the process
        return True
    try:
        if int(number) in (0, os.getpid()):  # a container hands out the same small ids again
            return False
        os.kill(int(number), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# ---- removing ------------------------------------------------------------------------------------------------------


def take_away(target: Path, delete_cases: bool = False, dry_run: bool = False) -> Outcome:
    """Delete what install.py put there and nobody changed; the rest stays, with a manifest that still knows it.

    Args:
        target: the skill's own folder.
        delete_cases: delete changed and added knowledge as well.
        dry_run: plan only.

    Raises:
        CommandError: exit code 1 when nothing of ours is there or a file cannot be deleted.
    """
    target = locate(target)
    if not dry_run:
        recover(target)
    manifest, present = read_target(target)
    if manifest is None:
        raise refusal(f"nothing that install.py made is at {target}")
    steps = []
    for path, entry in sorted(present.items()):
        ours = entry.kind == "file" and entry.digest == manifest.files.get(path)
        gone = ours or (delete_cases and holds_knowledge(path))
        steps.append(Step("deleted" if gone else "kept", path, "", path))
    if not dry_run:
        if not bundle_files.is_writable(target):
            raise refusal(f"nothing was changed: {target} is read-only")
        with errors_as_refusal(f"not everything in {target} could be deleted; run remove again"):
            delete(target, manifest, steps)
    return Outcome("removed", manifest.version, None, steps, [])


def delete(target: Path, manifest: Manifest, steps: Sequence[Step]) -> None:
    """Carry out a removal; the manifest goes last, so that an interrupted removal can be run again."""
    for step in steps:
        if step.action == "deleted":
            (target / step.path).unlink()
    kept = {step.path for step in steps if step.action == "kept"}
    bases = target / BASE_FOLDER
    if bases.is_symlink():
        bases.unlink()
    elif bases.is_dir():
        for path in set(scan(bases, lambda _: True)) - kept:
            (bases / path).unlink()
    if kept:
        files = {path: digest for path, digest in manifest.files.items() if path in kept}
        offers = {path: aim for path, aim in manifest.offers.items() if path in kept}
        write_manifest(target, Manifest(manifest.version, files, offers))
    else:
        (target / MANIFEST_NAME).unlink()
    prune(target)


def prune(folder: Path) -> None:
    """Remove empty folders from the bottom up, and Python's caches, which only mirror scripts."""
    for place, _, _ in os.walk(str(folder), topdown=False):
        if Path(place).name == "__pycache__":  # os.walk does not descend into a link
            shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            Path(place).rmdir()

"""The ways a user puts the bundle into a host's skill folder, each done as the README says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Callable, NamedTuple

from host_checks.programs import ROOT, Programs, run_bounded

BUNDLE_NAME = "npu-graph-skill"
CLAUDE_FOLDER = Path(".claude") / "skills"
CODEX_FOLDER = Path(".agents") / "skills"
# What install.py calls them; with -user behind, the same folder below the home folder.
INSTALLER_HOSTS = {CLAUDE_FOLDER: "claude", CODEX_FOLDER: "codex"}


class Site(NamedTuple):
    """One throw-away installation: the checkout it comes from, a project, a home folder, and the programs."""

    programs: Programs
    checkout: Path
    project: Path
    home: Path


def make_site(programs: Programs, folder: Path, change: Callable[[Path], None] = lambda checkout: None) -> Site:
    """Make a site in an empty folder; change may plant a fault in the checkout before it is committed."""
    site = Site(programs, folder / "source" / BUNDLE_NAME, folder / "project", folder / "home")
    for path in (site.project, site.home):
        path.mkdir(parents=True)
    copy_checkout(site.checkout)
    change(site.checkout)
    for path in (site.project, site.checkout):
        git("init", "--quiet", ".", cwd=path)
    git("add", "--all", cwd=site.checkout)
    git(
        "-c",
        "user.name=check",
        "-c",
        "user.email=check@localhost",
        "commit",
        "--quiet",
        "-m",
        "state",
        cwd=site.checkout,
    )
    return site


def copy_checkout(into: Path) -> None:
    """Copy what a clone of this working tree would hold: the files git knows, and new ones it does not ignore."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        source = ROOT / name
        if source.is_file():
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def git(*arguments: str, cwd: Path) -> str:
    """Run git and return what it prints; RuntimeError when it fails."""
    return _succeed(["git", *arguments], cwd)


def _succeed(command: list[str], cwd: Path, **options: Any) -> str:
    return succeeded(run_bounded(command, cwd=cwd, **options))


def succeeded(result: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed; RuntimeError with its last words when it failed."""
    if result.returncode:
        words = (result.stderr or result.stdout).strip()[-500:]
        raise RuntimeError(f"{' '.join(map(str, result.args))} failed with {result.returncode}: {words}")
    return result.stdout


# ---- the ways ------------------------------------------------------------------------------------------------------


def by_installer(site: Site, folder: Path) -> None:
    """python3 install.py install --host HOST --project DIR"""
    host = INSTALLER_HOSTS[folder]
    _succeed([sys.executable, "install.py", "install", "--host", host, "--project", str(site.project)], site.checkout)


def by_user_installer(site: Site, folder: Path) -> None:
    """python3 install.py install --host HOST-user"""
    host = f"{INSTALLER_HOSTS[folder]}-user"
    environment = {**os.environ, "HOME": str(site.home)}
    environment.pop("CLAUDE_CONFIG_DIR", None)
    _succeed([sys.executable, "install.py", "install", "--host", host], site.checkout, env=environment)


def by_copy(site: Site, folder: Path) -> None:
    """cp -r npu-graph-skill FOLDER/"""
    target = site.project / folder / BUNDLE_NAME
    shutil.copytree(site.checkout, target, ignore=shutil.ignore_patterns(".git"))


def by_clone(site: Site, folder: Path) -> None:
    """git clone URL FOLDER/npu-graph-skill"""
    git("clone", "--quiet", str(site.checkout), str(site.project / folder / BUNDLE_NAME), cwd=site.project)


def by_archive(site: Site, folder: Path) -> None:
    """tar xzf npu-graph-skill-X.Y.Z.tar.gz -C FOLDER"""
    out = site.home / "dist"
    _succeed([sys.executable, "tools/make_dist.py", "--out", str(out)], site.checkout)
    (archive,) = out.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(site.project / folder)


def by_skills_cli(site: Site, folder: Path) -> None:
    """npx skills add SOURCE --yes --agent claude-code --agent codex"""
    agents = ("--agent", "claude-code", "--agent", "codex")
    succeeded(
        site.programs.run("skills", "add", str(site.checkout), "--yes", *agents, home=site.home, cwd=site.project)
    )


def by_plugin(site: Site, folder: Path) -> None:
    """claude plugin marketplace add SOURCE; claude plugin install npu-graph-skill@npu-graph-skill"""
    for arguments in (("marketplace", "add", str(site.checkout)), ("install", f"{BUNDLE_NAME}@{BUNDLE_NAME}")):
        succeeded(site.programs.run("claude", "plugin", *arguments, home=site.home, cwd=site.project))


WAYS: dict[str, Callable[[Site, Path], None]] = {
    "install.py": by_installer,
    "install.py, user": by_user_installer,
    "copy": by_copy,
    "git clone": by_clone,
    "release archive": by_archive,
    "skills CLI": by_skills_cli,
    "plugin": by_plugin,
}

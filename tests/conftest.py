"""Paths and helpers that every test may use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
DIAGNOSE = "graph-mode-diagnostics/scripts/diagnose.py"
PYTHON_VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "mcp")]


def run_script(
    script: str, *arguments: str, python: str = sys.executable, **options: Any
) -> subprocess.CompletedProcess:
    """Run a script of the bundle with bare Python: isolated, without site-packages."""
    command = [python, "-I", "-S", str(options.pop("root", ROOT) / script), *arguments]
    return subprocess.run(command, capture_output=True, timeout=options.pop("timeout", 60), check=False, **options)


def find_pythons() -> list[tuple[str, str]]:
    """Return (version, path) of every supported Python on this machine."""
    found: dict[str, str] = {}
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    for version in PYTHON_VERSIONS:
        for home in homes:
            for candidate in sorted(home.glob(f"{version}.*/bin/python3")) if home.is_dir() else []:
                found.setdefault(version, str(candidate))
        on_path = shutil.which(f"python{version}")
        if on_path and _answers(on_path):
            found.setdefault(version, on_path)
    return sorted(found.items())


def _answers(python: str) -> bool:
    """Say whether the command really starts (a version manager's stand-in may not)."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture
def diagnose_text(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that diagnoses a text with the shipped knowledge only."""
    from npu_graph import bundle
    from npu_graph.cli import InputText
    from npu_graph.diagnosis.record import diagnose

    def run(*texts: str, language: str = "", folders: Sequence[Path] = (bundle.SEED_KNOWLEDGE,)) -> dict[str, Any]:
        return diagnose([InputText("-", text, 0) for text in texts], language, folders)

    return run

"""Paths and helpers that tests import; no fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
DIAGNOSE = "graph-mode-diagnostics/scripts/diagnose.py"
PYTHON_VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


def run_script(
    script: str, *arguments: str, python: str = sys.executable, **options: Any
) -> subprocess.CompletedProcess:
    """Run a script of the bundle with bare Python: isolated, without site-packages."""
    command = [python, "-I", "-S", str(options.pop("root", ROOT) / script), *arguments]
    return subprocess.run(command, capture_output=True, timeout=options.pop("timeout", 60), check=False, **options)


def import_cpu_torch() -> Any:
    """Import torch without its device backends, or skip the module.

    The variable does not outlive the import: other tests of the run start processes that need the backend.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        return pytest.importorskip("torch", reason="torch is not installed (CPU torch is enough)")


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

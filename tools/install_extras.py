#!/usr/bin/env python3
"""Install the dependency groups named on the command line, as pyproject.toml declares them.

Usage: install_extras.py [--no-deps] GROUP [GROUP ...]

The bundle is not a package to build, so the groups are installed without installing the project.
Exit codes: 0 installed, 2 unknown group, otherwise pip's own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python < 3.11
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

PROJECT_FILE = Path(__file__).resolve().parent.parent / "pyproject.toml"


def main(argv: list[str]) -> int:
    options = ["--no-deps"] if "--no-deps" in argv else []
    argv = [name for name in argv if name != "--no-deps"]
    groups = tomllib.loads(PROJECT_FILE.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    unknown = [name for name in argv if name not in groups]
    if unknown or not argv:
        print(f"unknown group {unknown or '(none given)'}; expected some of {sorted(groups)}", file=sys.stderr)
        return 2
    wanted = sorted({requirement for name in argv for requirement in groups[name]})
    return subprocess.call([sys.executable, "-m", "pip", "install", "--quiet", *options, *wanted])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

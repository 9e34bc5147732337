"""What the measuring tools share: the clones that they are given, and the files of knowledge that they replace."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Mapping, Sequence

from npu_graph import cli


def read_clones(given: Sequence[str], names: Mapping[str, str]) -> dict[str, Path]:
    """Return name -> folder of `--git NAME=GITDIR` arguments.

    Args:
        given: the arguments; NAME is a name or its repository.
        names: name -> repository, of all that can be measured.

    Raises:
        CommandError: an unknown name, one given twice, or a folder that holds no git repository.
    """
    known = {**{repository: name for name, repository in names.items()}, **{name: name for name in names}}
    clones: dict[str, Path] = {}
    for item in given:
        key, _, place = item.partition("=")
        if key not in known:
            raise cli.CommandError(
                f"--git {item}: expected one of {', '.join(names)} (or its repository), then =GITDIR"
            )
        if known[key] in clones:
            raise cli.CommandError(f"--git {known[key]} is given twice; one clone holds all of its history")
        clones[known[key]] = _repository(place)
    return clones


def _repository(place: str) -> Path:
    command = ["git", "-C", place or "/dev/null", "rev-parse", "--git-dir"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode:
        raise cli.CommandError(f"{place or 'nothing'} is no git repository; give a clone with its tags", cli.NO_INPUT)
    return Path(place)


def replace_file(path: Path, text: str, check: bool) -> bool:
    """Write what was measured, or with `check` only compare it; return whether the file already was the same.

    Raises:
        CommandError: a release that the file has was not measured: its source was not given.
    """
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    if check:
        return old == text
    lost = [release for release in _releases(old) if release not in _releases(text)]
    if lost:
        raise cli.CommandError(
            f"{path.name} has releases that none of the given sources has ({', '.join(lost[:5])}); give those too, or "
            "remove the file first to measure without them"
        )
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return old == text


def _releases(text: str) -> list[str]:
    return [line.split("\t")[1] for line in text.splitlines() if line.startswith("release\t")]

"""Carries out a how-to page in a scratch copy of the repository: its edits, then its commands, in the order of the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

STEP_SECONDS = 300
# An HTML comment, which readers do not see, says what becomes of the block below it; a bash block without one is run.
_BLOCK = re.compile(
    r"(?:^<!-- (?P<what>append to|write|merge into|insert into|not run)(?:: (?P<file>[^,\n]+?)(?:, (?P<side>before|after): "
    r"(?P<mark>[^\n]+?))?)? -->\n)?^(?P<fence>`{3,})(?P<kind>\w*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


class Step(NamedTuple):
    """One block of a page: an edit of a file, or commands to run (what is "run")."""

    what: str
    file: str
    side: str
    mark: str
    text: str


def steps(page: str) -> list[Step]:
    """Return the steps of a page in order; blocks that only show something are left out."""
    found = []
    for block in _BLOCK.finditer(page):
        what = block["what"] or ("run" if block["kind"] == "bash" else "not run")
        if what != "not run":
            found.append(Step(what, block["file"] or "", block["side"] or "", block["mark"] or "", block["text"]))
    return found


def carry_out(step: Step, root: Path, python: str = sys.executable) -> str:
    """Do one step below a folder; returns what a command printed.

    Raises:
        AssertionError: a command failed, or the place of an edit is not there.
    """
    if step.what == "run":
        return _run(step.text, root, python)
    path = root / step.file
    if step.what == "write":
        path.write_text(step.text, encoding="utf-8")
        return ""
    before = path.read_text(encoding="utf-8")
    if step.what == "append to":
        after = before + step.text
    elif step.what == "merge into":
        after = json.dumps({**json.loads(before), **json.loads(step.text)}, ensure_ascii=False, indent=2) + "\n"
    else:
        after = _insert(before, step)
    path.write_text(after, encoding="utf-8")
    return ""


def _insert(before: str, step: Step) -> str:
    lines = before.splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if step.mark in line]
    assert len(places) == 1, f"{step.file}: {len(places)} lines hold {step.mark!r}, one was expected"
    at = places[0] + (step.side == "after")
    return "".join([*lines[:at], step.text, *lines[at:]])


def _run(commands: str, root: Path, python: str) -> str:
    """Run commands as a newcomer would, `python3` being the one that has the tests' packages."""
    programs = root / ".howto-bin"
    programs.mkdir(exist_ok=True)
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    (programs / "python3").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=STEP_SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{commands}\nexit {result.returncode}\n{result.stdout[-4000:]}"
    return result.stdout

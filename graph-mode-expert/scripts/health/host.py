"""The machine under examination: its environment, the Python that has torch, the time left, and what probes found."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from . import process
from .process import Outcome

# Seconds that each probe may take, as shares of the whole time limit: importing torch_npu takes seconds on a busy
# aarch64 host, and one probe that hangs must leave time for those after it.
SHARES = {"packages": 0.25, "npu_smi": 0.12, "torch": 0.25, "torch_npu": 0.35, "devices": 0.30, "capture": 0.40}
# Time kept to write the report.
RESERVE_SECONDS = 2.0

STAGE_MARK, RESULT_MARK = "@@STAGE ", "@@RESULT "


class Answer(NamedTuple):
    """What a Python probe told: how it ended, the last stage it announced, and its result (None if it gave none)."""

    outcome: Outcome
    stage: str
    result: dict[str, Any] | None

    @property
    def works(self) -> bool:
        return self.outcome.kind == process.OK and self.result is not None and "error" not in self.result

    @property
    def error(self) -> dict[str, str]:
        """Return type, message and traceback of the exception that the probe met, or nothing."""
        return (self.result or {}).get("error") or {}


class Host:
    """Facts about the machine, each asked for once.

    Args:
        env: environment of the examined process.
        timeout: seconds for the whole check.
        device: number of the device to examine.
        python: the Python whose packages are examined.
        root: folder that stands for / (tests give their own).
    """

    def __init__(
        self,
        env: Mapping[str, str],
        timeout: float = 120.0,
        device: int = 0,
        python: str = sys.executable,
        root: Path = Path("/"),
    ) -> None:
        self.env = dict(env)
        self.device = device
        self.python = python
        self.root = root
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout - min(RESERVE_SECONDS, timeout / 4)
        self._answers: dict[str, Answer] = {}
        self._npu_smi: Outcome | None = None

    def run(self, probe: str, command: list[str], env: Mapping[str, str], cwd: str = "") -> Outcome:
        """Run a command for as long as its share and the time left allow.

        A probe that is stopped before its share was used up did not hang: the ones before it took the time.
        """
        share = SHARES[probe] * self._timeout
        left = self._deadline - time.monotonic()
        outcome = process.run_bounded(command, min(share, left), env, cwd)
        cut_short = outcome.kind == process.TIMEOUT and left < share
        return outcome._replace(kind=process.NO_TIME) if cut_short else outcome

    def probe(self, name: str, *arguments: str) -> Answer:
        """Return what the Python probe children/<name>.py says, running it at the first call."""
        if name not in self._answers:
            # Compilers of CANN leave folders where they run; these go with the scratch folder.
            scratch = tempfile.mkdtemp(prefix="npu-graph-health-")
            command = [self.python, process.child_script(name), *arguments]
            outcome = self.run(name, command, self._child_env(), scratch)
            shutil.rmtree(scratch, ignore_errors=True)
            self._answers[name] = read_answer(outcome)
        return self._answers[name]

    def asked(self, name: str) -> Answer | None:
        """Return what a probe said if it has been run."""
        return self._answers.get(name)

    def npu_smi(self) -> Outcome:
        """Return the outcome of `npu-smi info`, running it at the first call."""
        if self._npu_smi is None:
            found = shutil.which("npu-smi", path=self.env.get("PATH", ""))
            found = found or self._first_file(["usr/local/bin/npu-smi", "usr/local/sbin/npu-smi"])
            if found:
                self._npu_smi = self.run("npu_smi", [found, "info"], self.env)
            else:
                self._npu_smi = Outcome(process.ABSENT, "not on PATH", "", "", 0.0)
        return self._npu_smi

    def packages(self) -> dict[str, str]:
        """Return the versions of the Python packages that matter, by distribution name."""
        result = self.probe("packages").result or {}
        return dict(result.get("versions", {}))

    def device_nodes(self) -> list[str]:
        """Return the device files of NPUs, such as davinci0."""
        folder = self.root / "dev"
        names = [path.name for path in folder.glob("davinci[0-9]*")] if folder.is_dir() else []
        return sorted(names, key=lambda name: int("".join(c for c in name if c.isdigit()) or 0))

    def path(self, absolute: str) -> Path:
        """Return a path of the machine: under the root, unless it came from the environment."""
        return self.root / absolute.lstrip("/")

    def _first_file(self, names: list[str]) -> str | None:
        return next((str(self.root / name) for name in names if (self.root / name).is_file()), None)

    def _child_env(self) -> dict[str, str]:
        env = dict(self.env)
        # The probe runs in a folder of its own; what the user gave relative to theirs must still be found.
        parts = [os.path.abspath(part) for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]  # noqa: PTH100
        if parts:
            env["PYTHONPATH"] = os.pathsep.join(parts)
        env["PYTHONIOENCODING"] = "utf-8"
        return env


def read_answer(outcome: Outcome) -> Answer:
    """Find the marks of a probe in what it printed (other lines come from the libraries)."""
    stage, result = "", None
    for text in outcome.stdout.splitlines():
        if text.startswith(STAGE_MARK):
            stage = text[len(STAGE_MARK) :].strip()
        elif text.startswith(RESULT_MARK):
            try:
                value = json.loads(text[len(RESULT_MARK) :])
            except ValueError:
                continue
            result = value if isinstance(value, dict) else None
    return Answer(outcome, stage, result)

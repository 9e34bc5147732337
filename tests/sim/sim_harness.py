"""Runs scripts under npu_sim/run.py, two at a time, one process each: the state of an ACL process cannot be reset."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "npu_sim" / "run.py"
PRELUDE = Path(__file__).resolve().parent / "prelude.py"
# A Python that has torch and torch_npu; the tests' own by default.
PYTHON = os.environ.get("NPU_SIM_PYTHON", sys.executable)
PROCESS_TIMEOUT = 110  # seconds; a script that needs more hangs


class Script(NamedTuple):
    """A script to run on the simulator, with the options of run.py before it."""

    body: str
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


class Outcome(NamedTuple):
    """How a script ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def reason_to_skip() -> str:
    """Return why the simulator cannot run here, or an empty string."""
    if shutil.which("g++") is None:
        return "g++ is not installed; the simulator is C++"
    probe = "import importlib.metadata as m; print(m.version('torch'), m.version('torch_npu'))"
    done = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        return "torch and torch_npu are not installed in the Python of NPU_SIM_PYTHON (or of the tests)"
    return ""


def run_python(arguments: list[str], env: dict[str, str] | None = None, cwd: Path | None = None) -> Outcome:
    full = dict(os.environ)
    full.update(env or {})
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=PROCESS_TIMEOUT, env=full, cwd=cwd, errors="replace"
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


class Simulator:
    """Starts scripts ahead of the tests that ask for them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1))
        self._running: dict[Script, Future[Outcome]] = {}

    def start(self, script: Script) -> Future[Outcome]:
        if script not in self._running:
            self._running[script] = self._pool.submit(self._run, script, len(self._running))
        return self._running[script]

    def run(self, script: Script) -> Outcome:
        return self.start(script).result()

    def _run(self, script: Script, number: int) -> Outcome:
        home = self._folder / f"case{number}"
        home.mkdir()
        path = home / "script.py"
        path.write_text(PRELUDE.read_text() + "\n" + script.body)
        options = [option.replace("{home}", str(home)) for option in script.options]
        return run_python([PYTHON, str(RUN), *options, str(path)], dict(script.env), home)

    def close(self) -> None:
        for future in self._running.values():
            future.cancel()
        self._pool.shutdown(wait=True)

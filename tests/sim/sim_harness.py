"""Runs scripts under npu_sim/run.py, one process each: the state of an ACL process cannot be reset."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "npu_sim" / "run.py"
PRELUDE = Path(__file__).resolve().parent / "prelude.py"
WARM = Path(__file__).resolve().parent / "warm_interpreter.py"
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
    """Runs scripts, each once: two tests that ask for the same script share its outcome."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outcomes: dict[Script, Outcome] = {}
        self._scripts = 0
        self._warm: subprocess.Popen[str] | None = None

    def run(self, script: Script) -> Outcome:
        if script not in self._outcomes:
            # Variables and options are read while torch_npu is imported.
            fresh = script.env or script.options
            self._outcomes[script] = self.run_fresh(script) if fresh else self._run_warm(script, self._write(script))
        return self._outcomes[script]

    def run_fresh(self, script: Script) -> Outcome:
        """Run a script in an interpreter of its own, as a user does."""
        path = self._write(script)
        return run_python([PYTHON, str(RUN), *script.options, str(path)], dict(script.env), path.parent)

    def _write(self, script: Script) -> Path:
        self._scripts += 1
        home = self._folder / f"case{self._scripts}"
        home.mkdir()
        path = home / "script.py"
        path.write_text(PRELUDE.read_text() + "\n" + script.body)
        return path

    def _run_warm(self, script: Script, path: Path) -> Outcome:
        if self._warm is None or self._warm.poll() is not None:
            self._warm = subprocess.Popen(
                [PYTHON, str(RUN), str(WARM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self._answer("ready")  # after what the import prints
        out, err = path.parent / "out.txt", path.parent / "err.txt"
        request = {
            "script": str(path),
            "folder": str(path.parent),
            "out": str(out),
            "err": str(err),
            "seconds": PROCESS_TIMEOUT,
        }
        assert self._warm.stdin
        self._warm.stdin.write(json.dumps(request) + "\n")
        self._warm.stdin.flush()
        code = int(self._answer("ended"))
        return Outcome(code, out.read_text(errors="replace"), err.read_text(errors="replace"))

    def _answer(self, word: str) -> str:
        """Return what follows `word` on the next line that begins with it."""
        assert self._warm
        assert self._warm.stdout
        for line in self._warm.stdout:
            if line.startswith(word):
                return line[len(word) :].strip()
        raise AssertionError(f"torch_npu could not be imported, or a fork took the interpreter with it: no {word!r}")

    def close(self) -> None:
        if self._warm:
            self._warm.communicate()

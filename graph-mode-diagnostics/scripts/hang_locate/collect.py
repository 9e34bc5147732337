"""Take stacks of running processes with py-spy."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import Sequence

from npu_graph import cli

# A dump takes a second; a process in uninterruptible sleep never answers.
SECONDS = 60
INSTALL = "python3 -m pip install py-spy"


def dump_processes(pids: Sequence[int], again_after: float, native: bool) -> list[cli.InputText]:
    """Return one text for each process and sample.

    Args:
        pids: process ids.
        again_after: seconds until a second sample of each; 0 for one sample.
        native: also take C and C++ frames.

    Where native frames cannot be read, the Python frames are taken and stderr says so.

    Raises:
        CommandError: exit code 4 without py-spy, 3 when no process could be read.
    """
    program = shutil.which("py-spy")
    if program is None:
        raise cli.CommandError(f"--pid needs py-spy, which is not on PATH; install it with: {INSTALL}", cli.ABSENT)
    texts: list[cli.InputText] = []
    problems: list[str] = []
    for sample in range(2 if again_after > 0 else 1):
        if sample:
            time.sleep(again_after)
        for pid in pids:
            text, problem = _dump(program, pid, native)
            if native and not text:
                # py-spy unwinds no stack through libraries without unwind tables; the Python frames are still there.
                text, _ = _dump(program, pid, False)
                if text:
                    print(f"pid {pid}: Python frames only, --native failed: {problem}", file=sys.stderr)
            if text:
                texts.append(cli.InputText(f"py-spy:{pid}", text, 0))
            else:
                problems.append(f"pid {pid}: {problem}")
    if not texts:
        hint = "check the pid; run as the same user or root; a container needs SYS_PTRACE"
        raise cli.CommandError(f"py-spy read no process ({'; '.join(problems)}); {hint}", cli.NO_INPUT)
    return texts


def _dump(program: str, pid: int, native: bool) -> tuple[str, str]:
    """Return the stacks of one process, or '' and why there are none."""
    command = [program, "dump", "--pid", str(pid), *(["--native"] if native else [])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "", f"no answer in {SECONDS} s"
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0 and text.strip():
        return text, ""
    # py-spy prints the error first and its own Rust frames after it.
    lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return "", lines[0] if lines else f"exit code {done.returncode}"

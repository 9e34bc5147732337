"""Take stacks of running processes with py-spy."""

from __future__ import annotations

import shutil
import subprocess
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
            command = [program, "dump", "--pid", str(pid), *(["--native"] if native else [])]
            try:
                done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                problems.append(f"pid {pid}: no answer in {SECONDS} s")
                continue
            text = done.stdout.decode("utf-8", "replace")
            if done.returncode == 0 and text.strip():
                texts.append(cli.InputText(f"py-spy:{pid}", text, 0))
            else:
                lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
                # py-spy prints the error first and its own Rust frames after it.
                problems.append(f"pid {pid}: {lines[0] if lines else f'exit code {done.returncode}'}")
    if not texts:
        hint = "check the pid; run as the same user or root; a container needs SYS_PTRACE"
        raise cli.CommandError(f"py-spy read no process ({'; '.join(problems)}); {hint}", cli.NO_INPUT)
    return texts

"""A process that has imported torch and torch_npu, and that forks for each script: the import costs more than the script.

Started by sim_harness.py under run.py. Each line of standard input is a JSON request; the answer is one line with the
script's exit code. Importing torch_npu touches no device, so a fork has the state of a fresh process; options and
variables are read during the import, so a script that has its own needs a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

POLL_SECONDS = 0.01


def serve() -> str:
    """Answer requests until standard input ends; return, in a fork only, the script to run."""
    import torch  # noqa: F401
    import torch_npu  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            return become(request)
        print("ended", wait_for(child, request["seconds"]), flush=True)
    sys.exit(0)


def become(request: dict) -> str:
    """Give this fork the folder, output and arguments that a fresh process would have."""
    os.setsid()
    os.chdir(request["folder"])
    for number, name in ((1, "out"), (2, "err")):
        descriptor = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    sys.argv = [request["script"]]
    sys.path[0] = request["folder"]
    return request["script"]


def wait_for(child: int, seconds: float) -> int:
    """Return the exit code of the child, negative for a signal; kill it after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    script = serve()
    __file__ = script
    exec(compile(Path(script).read_text(), script, "exec"), globals())

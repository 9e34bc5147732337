"""A process that has imported torch and torch_npu, and that forks for each script: the import costs more than the script.

Started by sim_harness.py under run.py. Each line of standard input is a JSON request; the answer is one line with the
script's exit code. Importing torch_npu makes no ACL call, so a fork has the same state as a fresh process: it sets its
own NPU_SIM_* variables, which the simulator reads at its first call.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from npu_sim import run as launcher

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
        print(wait_for(child, request["seconds"]), flush=True)
    sys.exit(0)


def become(request: dict) -> str:
    """Give this fork the folder, output, options and arguments that a fresh process would have."""
    os.setsid()
    os.chdir(request["folder"])
    for number, name in ((1, "out"), (2, "err")):
        descriptor = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    options = launcher.make_parser().parse_args([*request["options"], request["script"]])
    for name in [name for name in os.environ if name.startswith("NPU_SIM_") and name != "NPU_SIM_CACHE"]:
        del os.environ[name]
    os.environ.update(launcher.settings_of(options))
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
    exec(compile(Path(script).read_text(), script, "exec"), {"__name__": "__main__", "__file__": script})

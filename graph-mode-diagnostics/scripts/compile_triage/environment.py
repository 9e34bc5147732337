"""The environment of a run: what the child is given, and env.txt, which says what it found there."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Sequence

from npu_graph.redaction import Redactor, machine_names

from . import steps

# Variables that bear on compilation and capture; everything else stays out of env.txt.
_TOLD = re.compile(
    r"^(?:ASCEND|ACL|HCCL|TORCH|PYTORCH|NPU|TNG|VLLM|SGLANG|OMP|CPU_AFFINITY|TASK_QUEUE|PER_STREAM|MULTI_STREAM"
    r"|STREAMS_PER|TRITON|TE_|LOCAL_WORLD|WORLD_SIZE|RANK|LOCAL_RANK|PYTHON|LD_LIBRARY_PATH)\w*$"
)
_PACKAGES = ("torch", "torch_npu", "torchair", "triton", "triton-ascend", "numpy", "vllm", "vllm-ascend", "sglang")
# Asked of the Python that will run the script; importing torch would take seconds and may fail.
_ASK = (
    "import sys\ntry:\n from importlib.metadata import version\nexcept ImportError:\n version = None\n"
    "print('Python', sys.version.split()[0])\n"
    "for name in sys.argv[1:]:\n try:\n  print(f'{name} {version(name)}')\n except Exception:\n  pass\n"
)
_CANN_FILES = ("version.cfg", "ascend_toolkit_install.info", "version.info")


def child_environment(given: dict[str, str], folder: Path, step: str, debug_files: bool) -> dict[str, str]:
    """Return the variables of a child: the user's own, where its logs go, and what --env asks for.

    Nothing is set in this process or for the next command of the user.
    """
    environment = dict(os.environ)
    environment["PYTHONUNBUFFERED"] = "1"
    environment.setdefault("PYTHONFAULTHANDLER", "1")
    environment["ASCEND_PROCESS_LOG_PATH"] = str(folder / "plog")
    if debug_files and step != steps.EAGER:
        environment.setdefault("TORCH_COMPILE_DEBUG", "1")
        environment["TORCH_COMPILE_DEBUG_DIR"] = str(folder / "compile_debug")
    environment.update(given)
    return environment


def describe(environment: dict[str, str], command: Sequence[str], python: str) -> str:
    """Return the text of env.txt: versions, variables, command line; secrets are replaced."""
    lines = [
        f"command: {' '.join(command)}",
        f"platform: {platform.platform()} {platform.machine()}",
        *versions(python),
    ]
    lines += [f"{name}={value}" for name, value in sorted(environment.items()) if _TOLD.match(name)]
    return Redactor(machine_names()).apply("\n".join(lines) + "\n")


def python_of(launcher: Sequence[str]) -> str:
    """Return the Python behind a launcher: itself, or the one that torchrun stands beside."""
    found = shutil.which(launcher[0])
    if found is None or "python" in Path(found).name:
        return launcher[0]
    beside = [Path(found).with_name(name) for name in ("python3", "python", "python.exe")]
    return next((str(path) for path in beside if path.exists()), launcher[0])


def versions(python: str) -> list[str]:
    """Return the versions of Python, torch and its kin as that Python has them installed, and of CANN."""
    try:
        asked = subprocess.run(
            [python, "-c", _ASK, *_PACKAGES], capture_output=True, text=True, timeout=30, check=False
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        asked = [f"python: {python} does not answer"]
    return [*asked[:20], *_cann()]


def _cann() -> list[str]:
    home = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return ["CANN: ASCEND_HOME_PATH is not set"]
    for name in _CANN_FILES:
        for path in (Path(home) / name, *sorted(Path(home).glob(f"*/{name}"))[:1]):
            try:
                found = re.search(
                    r"(?im)^(?:version|.*\[)[^0-9\n]{0,40}([0-9][\w.]{2,30})", path.read_text(errors="replace")
                )
            except OSError:
                continue
            if found:
                return [f"CANN {found.group(1)} ({name})"]
    return ["CANN: no version file under ASCEND_HOME_PATH"]

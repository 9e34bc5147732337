"""Builds the simulator's libraries for the torch_npu that this Python would import, into a cache.

The cache key is the C++ source and the compiler flags, and for the libraries also this file and the wheel's version, so
that an edit or another wheel never meets stale ones. Objects are shared by all wheels and CANN versions.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from npu_graph import cli
from npu_sim.cann_versions import missing_functions, version_script

SOURCE = Path(__file__).resolve().parent / "csrc"
# -O2 with vectors: a captured 640x4096 linear layer must replay within a test's patience.
FLAGS = ["-std=c++17", "-O2", "-ftree-vectorize", "-g1", "-fPIC", "-fvisibility=hidden"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
# Every library name that torch_npu opens or is linked with. One small library each, not a symbolic link: dlopen() finds
# a library by the SONAME inside the file.
LIBRARY_NAMES = (
    "ascendcl",
    "opapi",
    "nnopbase",
    "acl_op_compiler",
    "ge_runner",
    "graph",
    "acl_tdt_channel",
    "hccl",
    "atb",
    "runtime",
    "msprofiler",
)
CORE = "libnpu_sim.so"
# Undefined symbols of the wheel that CANN would provide; all others come from torch, libc and Python.
CANN_SYMBOL = re.compile(r"^(acl[a-zA-Z]|rt[A-Z]|Hccl|hccl|Msprof|tdt|_ZNK?(3atb|2ge|3Ops))")
BUILD_TIMEOUT = 600  # seconds for one compiler call

INSTALL = {
    "torch": "pip install torch=={torch}",
    "torch_npu": "pip install --no-deps torch_npu=={torch} && pip install numpy pyyaml packaging",
    "g++": "apt-get install -y g++   (or: yum install -y gcc-c++)",
}
DEFAULT_TORCH = "2.13.0"  # the version the simulator is tested with


class Wheel(NamedTuple):
    """The torch_npu that would be imported."""

    folder: Path
    version: str


def find_wheel() -> Wheel:
    """Return the installed torch_npu; nothing is imported.

    Raises:
        CommandError: exit code 4, with the command that installs what is missing.
    """
    for name in ("torch", "torch_npu"):
        if _package_folder(name) is None:
            raise _absent(name)
    if shutil.which("g++") is None or shutil.which("nm") is None:
        raise _absent("g++")
    folder = _package_folder("torch_npu")
    assert folder is not None
    return Wheel(folder, importlib.metadata.version("torch_npu"))


def _package_folder(name: str) -> Path | None:
    # PathFinder looks without importing: `import torch` alone would already load torch_npu.
    spec = importlib.machinery.PathFinder.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _absent(name: str) -> cli.CommandError:
    version = DEFAULT_TORCH
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version("torch").split("+")[0]
    command = INSTALL[name].format(torch=version)
    return cli.CommandError(
        f"{name} is not installed; the simulator runs the real wheel. Install it: {command}", cli.ABSENT
    )


def cache_root() -> Path:
    """Return the folder for built libraries: $NPU_SIM_CACHE, the user's cache, or a temporary folder."""
    named = os.environ.get("NPU_SIM_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    home = Path(base) if base else Path.home() / ".cache"
    candidate = home / "npu-graph-sim"
    with contextlib.suppress(OSError):
        candidate.mkdir(parents=True, exist_ok=True)
        if os.access(candidate, os.W_OK):
            return candidate
    return Path(tempfile.gettempdir()) / f"npu-graph-sim-{os.getuid()}"


def sources() -> list[Path]:
    """Return the C++ files to compile, in a fixed order."""
    return sorted(SOURCE.rglob("*.cpp"))


def library_folder(cann: str, sanitize: bool = False) -> Path:
    """Return the folder with the libraries for this wheel and CANN version, building what is missing.

    Args:
        cann: a version such as "9.1.0"; functions newer than it are left out.
        sanitize: with AddressSanitizer and UndefinedBehaviorSanitizer.

    Raises:
        CommandError: exit code 4 when torch, torch_npu or a compiler is absent; 5 when the compiler fails.
    """
    wheel = find_wheel()
    flags = FLAGS + (SANITIZE if sanitize else [])
    # The objects are the same for every wheel; only the stubs that are linked to them differ.
    objects = _once(cache_root() / f"objects-{_key(flags)}", lambda folder: _compile(folder, flags))
    home = cache_root() / f"{wheel.version}-{_key(flags, Path(__file__).read_text(), str(wheel.folder), wheel.version)}"
    hidden = missing_functions(cann)
    suffix = hashlib.sha256(" ".join(hidden).encode()).hexdigest()[:8]
    return _once(home / f"lib-{suffix}", lambda folder: _link(folder, objects, wheel, hidden, flags))


def _key(flags: Sequence[str], *more: str) -> str:
    digest = hashlib.sha256()
    for path in [*sorted(SOURCE.rglob("*.h")), *sources()]:
        digest.update(str(path.name).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(" ".join([*flags, *more]).encode())
    return digest.hexdigest()[:16]


def _once(folder: Path, make):  # type: ignore[no-untyped-def]
    """Return `folder`, made by `make` in a temporary folder and renamed; a second builder waits for the first."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f"{folder.name}.lock"):
        if folder.is_dir():
            return folder
        return _make(folder, make)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        # A file system without locks: both build, and the rename keeps them apart.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(folder: Path, make):  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory(prefix=folder.name + ".", dir=folder.parent) as scratch:
        work = Path(scratch) / "new"
        work.mkdir()
        make(work)
        # Another builder may have won the race; then its folder is as good.
        with contextlib.suppress(OSError):
            work.rename(folder)
    return folder


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[-300:])
        raise cli.CommandError(f"the compiler failed on the simulator's source: {first}", cli.INTERNAL)
    return done.stdout


def _compile(folder: Path, flags: Sequence[str]) -> None:
    def one(path: Path) -> None:
        target = folder / ("_".join(path.relative_to(SOURCE).parts) + ".o")
        _run(["g++", *flags, "-Wall", "-Wextra", f"-I{SOURCE}", "-c", str(path), "-o", str(target)])

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for _ in pool.map(one, sources()):
            pass


def _symbols(path: Path, option: str) -> list[str]:
    lines = _run(["nm", option, str(path)]).splitlines()
    return [line.split()[-1].split("@")[0] for line in lines if line.strip()]


def undefined_symbols(wheel: Wheel) -> list[str]:
    """Return the CANN symbols that the wheel's libraries need when they are loaded."""
    files = [
        *wheel.folder.glob("lib/*.so"),
        *wheel.folder.glob("_C*.so"),
        *wheel.folder.glob("dynamo/torchair/core/*.so"),
    ]
    needed = {name for path in files for name in _symbols(path, "-uD") if CANN_SYMBOL.match(name)}
    return sorted(needed)


def stub_source(names: Sequence[str]) -> str:
    """Return C++ that defines each name as a function that reports it as not modelled."""
    lines = ['extern "C" int npu_sim_unmodelled(const char*);']
    for index, name in enumerate(names):
        lines.append(
            f'extern "C" __attribute__((visibility("default"))) long stub_{index}() __asm__("{name}");\n'
            f'long stub_{index}() {{ return npu_sim_unmodelled("{name}"); }}'
        )
    return "\n".join(lines) + "\n"


def _link(folder: Path, objects: Path, wheel: Wheel, hidden: Sequence[str], flags: Sequence[str]) -> None:
    inputs = sorted(objects.glob("*.o"))
    defined = {name for path in inputs for name in _symbols(path, "--defined-only")}
    stubs = folder / "stubs.cpp"
    stubs.write_text(stub_source([name for name in undefined_symbols(wheel) if name not in defined]))
    exports = folder / "exports.map"
    exports.write_text(version_script(hidden))
    _run(
        ["g++", *flags, "-shared", "-o", str(folder / CORE), f"-Wl,-soname,{CORE}", f"-Wl,--version-script={exports}"]
        + (["-Wl,-z,defs"] if flags == FLAGS else [])  # the sanitizers' own symbols come with the process
        + [str(stubs), *map(str, inputs), "-lpthread", "-ldl"]
    )
    for name in LIBRARY_NAMES:
        _run(
            ["g++", "-shared", "-o", str(folder / f"lib{name}.so"), f"-Wl,-soname,lib{name}.so", "-Wl,--no-as-needed"]
            + [f"-L{folder}", "-l:" + CORE, "-Wl,-rpath,$ORIGIN", "-x", "c++", "/dev/null"]
        )


def environment(folder: Path, settings: dict[str, str], base: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which a process finds the simulator's libraries.

    Args:
        folder: what library_folder() returned.
        settings: NPU_SIM_* variables.
        base: the environment to extend; this process's own by default.
    """
    env = dict(os.environ if base is None else base)
    for name in [name for name in env if name.startswith("NPU_SIM_") and name != "NPU_SIM_CACHE"]:
        del env[name]
    env.update(settings)
    old = env.get("LD_LIBRARY_PATH")
    env["LD_LIBRARY_PATH"] = str(folder) + (os.pathsep + old if old else "")
    return env

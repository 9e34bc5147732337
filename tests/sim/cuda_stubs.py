#!/usr/bin/env python3
"""Stand-ins for the CUDA libraries of a torch build for GPUs, so that its CPU part imports without several GB of CUDA.

Usage: cuda_stubs.py TORCH_LIB_FOLDER OUTPUT_FOLDER. Then put OUTPUT_FOLDER into LD_LIBRARY_PATH. Every CUDA function
returns 100 (cudaErrorNoDevice). Only to try versions of torch that have no CPU build at hand; needs gcc and binutils.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

CUDA_LIBRARY = re.compile(r"^lib(cu|nv|nccl)")
CUDA_FUNCTION = re.compile(r"^(cu[a-zA-Z_]|nv[a-zA-Z]|nccl|__cuda)")
# Symbol versions are named after the library, except this one.
VERSION_OF = {"NVSHMEM": "libnvshmem_host"}


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted_libraries(folder: Path) -> dict[str, tuple[str, set[str]]]:
    """Return, for each CUDA library that torch is linked with, its symbol version ("" for none) and functions."""
    files = sorted(folder.glob("*.so*"))
    needed: set[str] = set()
    by_version: dict[str, set[str]] = defaultdict(set)
    defined: set[str] = set()
    for file in files:
        needed |= set(re.findall(r"NEEDED\).*\[(.+)\]", output_of("readelf", "-d", str(file))))
        for line in output_of("nm", "-uD", str(file)).splitlines():
            name, _, version = line.split()[-1].partition("@")
            by_version[version.lstrip("@")].add(name)
        defined |= {
            line.split()[-1].partition("@")[0]
            for line in output_of("nm", "-D", "--defined-only", str(file)).splitlines()
        }
    own = {file.name for file in files}
    plain = {name for name in by_version[""] - defined if CUDA_FUNCTION.match(name)}
    libraries = {}
    for library in sorted(name for name in needed - own if CUDA_LIBRARY.match(name)):
        version = next((v for v in by_version if v == library or library.startswith(VERSION_OF.get(v, "?"))), "")
        # Nothing says which library an unversioned function is from: each of those libraries has them all.
        libraries[library] = (version, by_version[version] if version else plain)
    return libraries


def build(library: str, version: str, functions: set[str], folder: Path) -> None:
    source = "int nothing;\n" + "".join(
        f'long f{i}(void) __asm__("{name}"); long f{i}(void) {{ return 100; }}\n'
        for i, name in enumerate(sorted(functions))
    )
    command = ["gcc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / library), f"-Wl,-soname,{library}"]
    if version:
        script = folder / f"{library}.map"
        script.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, input=source, text=True, check=True)


def main() -> None:
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    for library, (version, functions) in wanted_libraries(folder).items():
        build(library, version, functions, target)
        print(f"{library}: {len(functions)} functions")


if __name__ == "__main__":
    main()

"""Probe: versions of the installed packages that matter, without importing any of them."""

import importlib.util
import json
import platform
import sys

sys.path.pop(0)  # the folder of this script; its names must not hide a package

NAMES = (
    *("torch", "torch-npu", "triton", "triton-ascend", "torchair", "torchvision", "torchaudio"),
    *("numpy", "pyyaml", "packaging", "transformers"),
    *("vllm", "vllm-ascend", "sglang", "verl", "mindie-turbo"),
)


def versions():
    try:
        from importlib import metadata
    except ImportError:
        return {}
    found = {}
    for name in NAMES:
        try:
            found[name] = metadata.version(name)
        except Exception:  # a broken installation of one package says nothing about the others
            continue
    return found


def folder(name):
    """Return where a package lies; finding a top-level package does not import it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    return list(spec.submodule_search_locations or [spec.origin or ""])[0]


print(
    "@@RESULT "
    + json.dumps(
        {
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "machine": platform.machine(),
            "system": platform.system(),
            "libc": " ".join(platform.libc_ver()),
            "versions": versions(),
            "folders": {name: folder(name) for name in ("torch", "torch_npu", "triton", "npugraph_ex")},
        }
    )
)

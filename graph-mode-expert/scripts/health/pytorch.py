"""Group torch: PyTorch is installed, imports and computes on the CPU, and is a build that torch_npu can live with."""

from __future__ import annotations

from . import import_errors
from .host import Host
from .model import PASS, WARN, Check, check, critical


def run(host: Host) -> list[Check]:
    """Check the group."""
    packages = host.probe("packages")
    if packages.result is None:
        return [critical("torch.python", "broken", import_errors.endings(packages), python=host.python)]
    python = f"Python {packages.result['python']} {packages.result['machine']} {packages.result['executable']}"
    checks = [check("torch.python", "ok", PASS, [python])]
    if "torch" not in packages.result["versions"] and not packages.result["folders"]["torch"]:
        return [*checks, critical("torch.installed", "missing", [python], python=packages.result["executable"])]

    answer = host.probe("torch")
    if not answer.works:
        return [*checks, import_errors.failed("torch.import", answer)]
    found = answer.result or {}
    evidence = [f"torch {found['version']}", found["folder"]]
    checks.append(check("torch.import", "ok", PASS, evidence))
    if found["cuda"] or found["hip"]:
        evidence = [f"torch {found['version']} is built for CUDA {found['cuda'] or found['hip']}"]
        checks.append(check("torch.build", "cuda", WARN, evidence))
    else:
        checks.append(check("torch.build", "ok", PASS, ["CPU build", f"C++11 ABI: {found['cxx11_abi']}"]))
    return checks

"""Group torch_npu: it imports, and torch, torch_npu, CANN, Python and triton-ascend belong together."""

from __future__ import annotations

from pathlib import Path

from . import cann, import_errors, tables, versions
from .host import Host
from .model import FAIL, PASS, SKIP, WARN, Check, check, critical
from .tables import Release

# The first torch_npu release that captures (data/torch_npu_releases.tsv, feature columns of its source).
FIRST_WITH_GRAPHS = "7.0.0"


def run(host: Host) -> list[Check]:
    """Check the group."""
    packages = host.packages()
    installed = packages.get("torch-npu", "")
    folder = (host.probe("packages").result or {}).get("folders", {}).get("torch_npu", "")
    cann_version = _cann_version(host)
    checks = _check_shadow()
    if not installed and not folder:
        return [
            *checks,
            critical("torch_npu.installed", "missing", [f"python: {host.python}"], **advice(packages, cann_version)),
        ]
    checks.append(check("torch_npu.installed", "ok", PASS, [f"torch_npu {installed or 'from ' + folder}"]))

    python = str((host.probe("packages").result or {}).get("python", ""))
    if installed:
        checks.append(check_torch(installed, packages, cann_version))
        checks.append(check_python(installed, python))
        checks.append(check_cann(installed, cann_version))
    answer = host.probe("torch_npu", *tables.probed_names())
    if answer.works:
        found = answer.result or {}
        evidence = [f"torch_npu {found['version']} ({found['git_version'][:12]})", found["folder"]]
        checks.append(check("torch_npu.import", "ok", PASS, evidence))
    else:
        checks.append(import_errors.failed("torch_npu.import", answer))
    checks += check_companions(packages, cann_version, installed, python)
    return checks


def _cann_version(host: Host) -> str:
    toolkit = cann.find_toolkit(host)
    return toolkit.version if toolkit else ""


def advice(packages: dict[str, str], cann_version: str) -> dict[str, str]:
    """Return what to install: the torch_npu wheel for this torch, and for this CANN where one is published."""
    torch = versions.public(packages.get("torch", ""))
    fitting = [row for row in tables.releases() if row.torch == torch]
    published = [row for row in fitting if row.cann]
    paired = [row for row in published if versions.line(row.cann) == versions.line(cann_version)]
    for row in paired + published + fitting:
        return {"install": f"pip install torch_npu=={row.wheel}", "torch": torch, "pair": _pair(row)}
    for row in tables.releases():
        if row.cann and versions.line(row.cann) == versions.line(cann_version):
            install = f"pip install torch=={row.torch} torch_npu=={row.wheel}"
            return {"install": install, "torch": torch or "none", "pair": _pair(row)}
    row = next(row for row in tables.releases() if row.cann)
    install = f"pip install torch=={row.torch} torch_npu=={row.wheel}"
    return {"install": install, "torch": torch or "none", "pair": _pair(row)}


def _pair(row: Release) -> str:
    return (
        f"torch_npu {row.wheel} / torch {row.torch} / CANN {row.cann or 'not published'} / Python {row.python or '?'}"
    )


def _check_shadow() -> list[Check]:
    """A source checkout in the working directory hides the installed package from `python3 script.py` started there."""
    here = Path.cwd()
    if (here / "torch_npu" / "__init__.py").is_file() and not list((here / "torch_npu").glob("_C*.so")):
        return [check("torch_npu.shadow", "source_tree", WARN, [str(here / "torch_npu")], path=here)]
    return []


def check_torch(installed: str, packages: dict[str, str], cann_version: str) -> Check:
    """Does torch_npu belong to this torch?"""
    row = tables.find_release(installed)
    torch = versions.public(packages.get("torch", ""))
    wanted = row.torch if row else ".".join(str(part) for part in versions.key(installed)[0][:3])
    evidence = [f"torch {packages.get('torch', 'none')}, torch_npu {installed} is built for torch {wanted}"]
    values = {**advice(packages, cann_version), "wanted": wanted, "torch_npu": installed}
    if versions.line(torch) != versions.line(wanted):
        return critical("torch_npu.torch", "mismatch", evidence, **values)
    if versions.key(torch)[0] != versions.key(wanted)[0]:
        return check("torch_npu.torch", "patch_differs", WARN, evidence, **values)
    return check("torch_npu.torch", "ok", PASS, evidence)


def check_python(installed: str, python: str) -> Check:
    """Is there a published wheel of this torch_npu for this Python?"""
    row = tables.find_release(installed)
    evidence = [f"Python {python}, torch_npu {installed}"]
    if not row or not row.python:
        return check("torch_npu.python", "unknown", SKIP, evidence)
    if versions.line(python) not in row.pythons:
        return check(
            "torch_npu.python", "unsupported", WARN, [*evidence, row.source], pythons=row.python, python=python
        )
    return check("torch_npu.python", "ok", PASS, evidence)


def check_cann(installed: str, cann_version: str) -> Check:
    """Is this CANN the one that this torch_npu release was published with?"""
    row = tables.find_release(installed)
    if row and row.release and versions.key(row.release) < versions.key(FIRST_WITH_GRAPHS):
        evidence = [f"torch_npu {installed} is release {row.release}", row.source]
        return critical("torch_npu.cann", "no_graphs", evidence, release=row.release, torch_npu=installed)
    if not cann_version:
        return check("torch_npu.cann", "no_cann", SKIP, [f"torch_npu {installed}"])
    if not row or not row.cann:
        evidence = [f"torch_npu {installed}, CANN {cann_version}"]
        return check("torch_npu.cann", "unpublished", SKIP, evidence, torch_npu=installed)
    evidence = [f"torch_npu {installed} (release {row.release}) pairs with CANN {row.cann}, found CANN {cann_version}"]
    mine, paired = versions.key(cann_version), versions.key(row.cann)
    values = {
        "torch_npu": installed,
        "cann": cann_version,
        "paired": row.cann,
        "wheel": _wheel_for(row.torch, cann_version),
    }
    if versions.line(cann_version) == versions.line(row.cann):
        return check("torch_npu.cann", "ok", PASS, evidence)
    outcome = "cann_older" if mine < paired else "cann_newer"
    return check("torch_npu.cann", outcome, WARN, [*evidence, row.source], **values)


def _wheel_for(torch: str, cann_version: str) -> str:
    """Return the wheel of the same torch published for this CANN, as an instruction, or a dash."""
    for row in tables.releases():
        if row.torch == torch and row.cann and versions.line(row.cann) == versions.line(cann_version):
            return f"torch_npu=={row.wheel}"
    return "-"


def check_companions(packages: dict[str, str], cann_version: str, installed: str, python: str) -> list[Check]:
    """Do triton-ascend and what npugraph_ex imports fit?"""
    checks = []
    if "triton-ascend" in packages:
        checks.append(_check_triton(packages, cann_version, python))
    elif "triton" in packages:
        evidence = [f"triton {packages['triton']} without triton-ascend"]
        checks.append(check("torch_npu.triton", "community", WARN, evidence))
    wheel = tables.nearest_wheel(installed) if installed else ""
    if wheel and "torch_npu.dynamo.npugraph_ex" in tables.api_of(wheel) and "packaging" not in packages:
        checks.append(check("torch_npu.packaging", "missing", WARN, [f"torch_npu {installed} has npugraph_ex"]))
    return checks


def _check_triton(packages: dict[str, str], cann_version: str, python: str) -> Check:
    version = packages["triton-ascend"]
    evidence = [f"triton-ascend {version}, CANN {cann_version or 'unknown'}, Python {python}"]
    rows = tables.read_table("triton_ascend")
    row = next((row for row in rows if versions.key(row["triton_ascend"]) == versions.key(version)), None)
    if row is None:
        known = ", ".join(f"{other['triton_ascend']} for CANN {other['cann']}" for other in rows)
        return check("torch_npu.triton", "unknown", SKIP, evidence, known=known)
    values = {"version": version, "cann": row["cann"], "pythons": row["python"]}
    if cann_version and versions.line(cann_version) not in [versions.line(one) for one in row["cann"].split(",")]:
        return check("torch_npu.triton", "cann", WARN, [*evidence, row["source"]], **values)
    if versions.line(python) not in row["python"].split(","):
        return check("torch_npu.triton", "python", FAIL, [*evidence, row["source"]], **values)
    if "triton" in packages and versions.key(version) <= versions.key("3.2.0"):
        evidence.append(f"triton {packages['triton']} is installed too")
        return check("torch_npu.triton", "overwritten", WARN, [*evidence, row["source"]], **values)
    return check("torch_npu.triton", "ok", PASS, evidence)

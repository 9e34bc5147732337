"""Group cann: toolkit, its environment, operator packages for the SoC, driver and firmware, and whether they match."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

from . import npu_smi, tables, versions
from .host import Host
from .model import FAIL, PASS, SKIP, WARN, Check, check, critical

# Where the installers put the toolkit: under ascend-toolkit up to 8.3, under cann from 8.5 on.
TOOLKIT_PLACES = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann", "/usr/local/Ascend/nnae/latest")
HOME_PLACES = ("Ascend/ascend-toolkit/latest", "Ascend/cann")
# The oldest CANN with aclmdlRICaptureBegin (data/feature_minimums.tsv).
FIRST_WITH_CAPTURE = "8.1.RC1"
CORE_LIBRARY = "libascendcl.so"
# Folders of the toolkit that import torch_npu demands (_cann_package_check, in every wheel from 2.1.0.post12 on).
REQUIRED_FOLDERS = ("runtime", "compiler")
# A library lies in TOOLKIT/lib64 or TOOLKIT/<machine>-linux/lib64.
TOOLKIT_DEPTH = 4
KERNELS = "built-in/op_impl/ai_core/tbe/kernel"
MAX_INFO = 64 * 1024

_VERSION = r"(\d{1,4}(?:\.\d{1,4}){0,3}(?:[.\-]?(?:RC|alpha|beta|T)[.\d]{0,12})?)"
_CFG = re.compile(r"^toolkit_running_version=\[[^\]:]{0,80}:" + _VERSION, re.M | re.I)
_INFO = re.compile(r"^\s*version\s{0,4}=\s{0,4}" + _VERSION, re.M | re.I)
_PATH_VERSION = re.compile(r"(?:cann-|ascend-toolkit/)" + _VERSION, re.I)


class Toolkit(NamedTuple):
    """A CANN toolkit folder, how it was found, and its version ('' when no file tells)."""

    folder: Path
    found_by: str
    version: str


def run(host: Host) -> list[Check]:
    """Check the group."""
    toolkit = find_toolkit(host)
    smi = npu_smi.parse(host.npu_smi().stdout + host.npu_smi().stderr)
    driver = driver_version(host) or smi.version
    checks = [check_toolkit(host, toolkit)]
    if toolkit:
        checks += [check_version(toolkit), check_environment(host, toolkit), check_kernels(host, toolkit, smi)]
    checks.append(check_driver(host, driver))
    checks += check_driver_fits(toolkit.version if toolkit else "", driver, smi)
    return checks


def find_toolkit(host: Host) -> Toolkit | None:
    """Return the toolkit that the environment names, else one in a usual place."""
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        value = host.env.get(variable)
        if value and Path(value).is_dir():
            return Toolkit(Path(value), variable, toolkit_version(Path(value)))
    places = [host.path(place) for place in TOOLKIT_PLACES]
    home = host.env.get("HOME")
    places += [Path(home) / place for place in HOME_PLACES] if home else []
    for place in places:
        if place.is_dir():
            return Toolkit(place, "", toolkit_version(place))
    return None


def toolkit_version(folder: Path) -> str:
    """Return the version of a toolkit folder from its version files, else from its path."""
    machine = platform.machine() or "aarch64"
    for name, expression in (
        ("version.cfg", _CFG),
        (f"{machine}-linux/ascend_toolkit_install.info", _INFO),
        ("aarch64-linux/ascend_toolkit_install.info", _INFO),
        ("x86_64-linux/ascend_toolkit_install.info", _INFO),
        ("ascend_toolkit_install.info", _INFO),
        ("toolkit/version.info", _INFO),
        ("runtime/version.info", _INFO),
        ("compiler/version.info", _INFO),
    ):
        found = expression.search(read_small(folder / name))
        if found:
            return found.group(1)
    try:
        found = _PATH_VERSION.search(str(folder.resolve()))
    except OSError:
        found = None
    return found.group(1) if found else ""


def read_small(path: Path) -> str:
    """Return the head of a file, or nothing when it cannot be read."""
    try:
        with path.open("rb") as source:
            return source.read(MAX_INFO).decode("utf-8", "replace")
    except OSError:
        return ""


def check_toolkit(host: Host, toolkit: Toolkit | None) -> Check:
    """Is there a toolkit, and has its set_env.sh been sourced?"""
    named = host.env.get("ASCEND_HOME_PATH", "")
    library = find_core_library(host)
    if named and not Path(named).is_dir():
        return critical("cann.toolkit", "home_invalid", [f"ASCEND_HOME_PATH={named}"], path=named)
    if toolkit is None:
        if library:
            return check("cann.toolkit", "library_only", WARN, [library], path=library)
        return critical("cann.toolkit", "missing", ["ASCEND_HOME_PATH is not set", *TOOLKIT_PLACES])
    if not toolkit.found_by:
        folder = str(toolkit.folder)
        evidence = [f"found {folder}; ASCEND_HOME_PATH is not set"]
        script = toolkit.folder / "set_env.sh"
        shown = str(script if script.is_file() else toolkit.folder.parent / "set_env.sh")
        status = WARN if library else FAIL
        return check("cann.toolkit", "not_sourced", status, evidence, script=shown)
    return check("cann.toolkit", "ok", PASS, [f"{toolkit.found_by}={toolkit.folder}"])


def check_version(toolkit: Toolkit) -> Check:
    """Is this CANN new enough to capture?"""
    if not toolkit.version:
        return check("cann.version", "unknown", WARN, [f"no version file under {toolkit.folder}"])
    if versions.key(toolkit.version) < versions.key(FIRST_WITH_CAPTURE):
        return critical("cann.version", "too_old", [f"CANN {toolkit.version}"], cann=toolkit.version)
    return check("cann.version", "ok", PASS, [f"CANN {toolkit.version}"])


def check_environment(host: Host, toolkit: Toolkit) -> Check:
    """Are the folders that import torch_npu looks at there, and is one toolkit alone on the library path?"""
    opp = host.env.get("ASCEND_OPP_PATH", "")
    if toolkit.found_by == "ASCEND_HOME_PATH":
        if not opp:
            return critical("cann.environment", "opp_unset", ["ASCEND_OPP_PATH is not set"])
        if not Path(opp).is_dir():
            return critical("cann.environment", "opp_invalid", [f"ASCEND_OPP_PATH={opp}"], path=opp)
        missing = [name for name in REQUIRED_FOLDERS if not (toolkit.folder / name).is_dir()]
        if missing:
            evidence = [f"{toolkit.folder}/{name} is not there" for name in missing]
            return critical("cann.environment", "incomplete", evidence, path=toolkit.folder, missing=", ".join(missing))
    library = find_core_library(host)
    if not library:
        return check("cann.environment", "library_path", FAIL, ["LD_LIBRARY_PATH has no folder with " + CORE_LIBRARY])
    other = toolkit_of(Path(library))
    if toolkit.found_by and other and other != _resolved(toolkit.folder):
        evidence = [f"{toolkit.found_by}={toolkit.folder}", f"first {CORE_LIBRARY}: {library}"]
        return check("cann.environment", "two_toolkits", WARN, evidence, library=library)
    return check("cann.environment", "ok", PASS, [library])


def find_core_library(host: Host) -> str:
    """Return the libascendcl.so that the loader would take from LD_LIBRARY_PATH, or nothing."""
    for folder in host.env.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder and (Path(folder) / CORE_LIBRARY).is_file():
            return str(Path(folder) / CORE_LIBRARY)
    return ""


def toolkit_of(library: Path) -> Path | None:
    """Return the toolkit folder that a library lies in, or None when no folder above it looks like one."""
    for folder in list(_resolved(library).parents)[:TOOLKIT_DEPTH]:
        if any((folder / name).exists() for name in ("version.cfg", "set_env.sh", "opp")):
            return folder
    return None


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except OSError:
        return path


def check_kernels(host: Host, toolkit: Toolkit, smi: npu_smi.Report) -> Check:
    """Are the compiled operators of this SoC installed? Without them no operator runs."""
    opp = Path(host.env.get("ASCEND_OPP_PATH") or toolkit.folder / "opp")
    present = _kernel_folders(opp)
    if not smi.chips:
        return check("cann.kernels", "no_device", SKIP, present)
    soc = npu_smi.family(smi.chips[0].name, smi.chips)
    if not soc.folder:
        return check("cann.kernels", "unknown_soc", SKIP, [f"npu-smi shows {soc.name}", *present], soc=soc.name)
    evidence = [f"{soc.name} needs {soc.folder}", "installed: " + (", ".join(present) or "none")]
    if soc.folder in present:
        return check("cann.kernels", "ok", PASS, evidence)
    values = {"soc": soc.name, "folder": soc.folder, "package": _ops_package(soc.product)}
    return critical("cann.kernels", "missing", [*evidence, str(opp / KERNELS)], **values)


def _kernel_folders(opp: Path) -> list[str]:
    try:
        return sorted(path.name for path in (opp / KERNELS).iterdir() if path.name.startswith("ascend"))
    except OSError:
        return []


def _ops_package(product: str) -> str:
    """Return the word that names a product in Ascend-cann-<word>-ops (8.5 on) and Ascend-cann-kernels-<word>."""
    return {"A2": "910b", "A3": "A3", "310P": "310p"}.get(product, "<chip>")


def driver_version(host: Host) -> str:
    """Return the driver version from its version.info, wherever the driver is installed."""
    found = _INFO.search(read_small(_driver_folder(host) / "driver" / "version.info"))
    return found.group(1) if found else ""


def _driver_folder(host: Host) -> Path:
    installed = read_small(host.path("/etc/ascend_install.info"))
    found = re.search(r"^Driver_Install_Path_Param=(\S{1,200})", installed, re.M)
    return host.path(found.group(1)) if found else host.path("/usr/local/Ascend")


def check_driver(host: Host, driver: str) -> Check:
    """Is there a driver, and of which version?"""
    firmware = _INFO.search(read_small(_driver_folder(host) / "firmware" / "version.info"))
    evidence = [f"driver {driver}"] if driver else []
    evidence += [f"firmware {firmware.group(1)}"] if firmware else []
    if driver:
        return check("cann.driver", "ok", PASS, evidence)
    nodes = host.device_nodes()
    if nodes:
        return check("cann.driver", "unknown", WARN, [f"{len(nodes)} device nodes, no version.info, no npu-smi"])
    return check("cann.driver", "missing", FAIL, ["no version.info of a driver, no npu-smi, no /dev/davinci*"])


def check_driver_fits(cann: str, driver: str, smi: npu_smi.Report) -> list[Check]:
    """Does the driver fit CANN, and is it new enough for parameter update?"""
    if not driver:
        return []
    checks = [_check_pair(cann, driver)] if cann else []
    soc = npu_smi.family(smi.chips[0].name, smi.chips) if smi.chips else npu_smi.Soc("", "", "")
    checks.append(_check_update(driver, soc))
    return checks


def _check_pair(cann: str, driver: str) -> Check:
    rows = [row for row in tables.read_table("cann_driver") if row["cann"] == versions.line(cann)]
    line = versions.line(driver)
    evidence = [f"CANN {cann}, driver {driver}"]
    row = next((row for row in rows if row["hdk"] == line), None)
    lines = ", ".join(other["hdk"] for other in rows if other["relation"] != "unsupported")
    values = {"cann": cann, "driver": driver, "lines": lines}
    if row and row["relation"] == "unsupported":
        return check("cann.driver_pair", "unsupported", FAIL, [*evidence, row["source"]], **values)
    if row:
        return check("cann.driver_pair", "ok", PASS, evidence)
    if rows and all(versions.key(line) < versions.key(other["hdk"]) for other in rows):
        return check("cann.driver_pair", "older", WARN, [*evidence, rows[0]["source"]], **values)
    return check("cann.driver_pair", "unknown", SKIP, evidence, **values)


def _check_update(driver: str, soc: npu_smi.Soc) -> Check:
    minimum, source = _update_minimum(soc.product)
    evidence = [f"driver {driver}, needed {minimum} ({soc.name or 'SoC unknown'})"]
    if versions.key(driver) < versions.key(minimum):
        values = {"driver": driver, "minimum": minimum}
        return check("cann.driver_update", "too_old", WARN, [*evidence, source], **values)
    return check("cann.driver_update", "ok", PASS, evidence)


def _update_minimum(product: str) -> tuple[str, str]:
    rows = [row for row in tables.read_table("feature_minimums") if row["feature"].startswith("parameter update")]
    row = next((row for row in rows if product in row["products"].split(",")), rows[0])
    return row["minimum"], row["source"]

"""A machine made for a test: CANN, driver, npu-smi, packages and variables, each as the test wants it."""

from __future__ import annotations

import sys
from pathlib import Path

import npu_smi_tables
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "graph-mode-expert" / "scripts"
SCRIPT = SCRIPTS / "check_graph_health.py"
DOUBLES = Path(__file__).resolve().parent / "doubles"
for folder in (ROOT, SCRIPTS):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import check_graph_health as script
from health.host import Host
from health.model import GROUPS, Check


class World:
    """A healthy A2 machine with torch_npu 2.5.1 (release 7.0.0), CANN 8.1.RC1 and driver 25.0.rc1 until changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.home = folder / "cann"
        self.site = folder / "site"
        self.bin = folder / "bin"
        self.device = 0
        self.timeout = 40.0
        self.python = sys.executable
        for path in (self.root, self.home, self.site, self.bin, folder / "home"):
            path.mkdir(parents=True)
        self.env = {
            "PATH": str(self.bin),
            "HOME": str(folder / "home"),
            "PYTHONPATH": f"{DOUBLES}:{self.site}",
            "ASCEND_HOME_PATH": str(self.home),
            "ASCEND_OPP_PATH": str(self.home / "opp"),
            "LD_LIBRARY_PATH": str(self.home / "lib64"),
        }
        self.cann("8.1.RC1")
        self.kernels("ascend910b")
        self.npu_smi(npu_smi_tables.A2.replace("25.2.1", "25.0.rc1"))
        for name, version in (("torch", "2.5.1+cpu"), ("torch-npu", "2.5.1"), ("numpy", "1.26.4")):
            self.package(name, version)
        self.env["FAKE_TORCH_NPU_VERSION"] = "2.5.1"

    def cann(self, version: str) -> None:
        """Lay a toolkit of this version."""
        (self.home / "lib64").mkdir(exist_ok=True)
        (self.home / "runtime").mkdir(exist_ok=True)
        (self.home / "compiler").mkdir(exist_ok=True)
        (self.home / "lib64" / "libascendcl.so").touch()
        text = f"runtime_running_version=[7.7.0.1.1:{version}]\ntoolkit_running_version=[7.7.0.1.1:{version}]\n"
        (self.home / "version.cfg").write_text(text)

    def kernels(self, *folders: str) -> None:
        """Lay the operator packages of these SoCs, and no others."""
        parent = self.home / "opp" / "built-in" / "op_impl" / "ai_core" / "tbe" / "kernel"
        parent.mkdir(parents=True, exist_ok=True)
        for path in list(parent.iterdir()):
            path.rmdir()
        for name in folders:
            (parent / name).mkdir()

    def driver(self, version: str) -> None:
        """Lay a driver of this version."""
        for name in ("driver", "firmware"):
            path = self.root / "usr" / "local" / "Ascend" / name / "version.info"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"Version={version}\nascendhal_version=7.35.19\n")

    def npu_smi(self, text: str, code: int = 0, before: str = "") -> None:
        """Put an npu-smi on PATH that prints the text."""
        (self.folder / "npu-smi.txt").write_text(text)
        program = self.bin / "npu-smi"
        program.write_text(f"#!/bin/sh\n{before}\n/bin/cat '{self.folder / 'npu-smi.txt'}'\nexit {code}\n")
        program.chmod(0o755)

    def package(self, name: str, version: str) -> None:
        """Say that a distribution of this version is installed."""
        for old in self.site.glob(f"{name.replace('-', '_')}-*.dist-info"):
            (old / "METADATA").unlink()
            old.rmdir()
        if version:
            folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def release(self, torch_npu: str, torch: str = "") -> None:
        """Install another torch_npu, with the torch it belongs to unless named."""
        torch = torch or torch_npu.split(".post", maxsplit=1)[0]
        self.package("torch-npu", torch_npu)
        self.package("torch", torch + "+cpu")
        self.env["FAKE_TORCH_NPU_VERSION"] = torch_npu
        self.env["FAKE_TORCH_VERSION"] = torch + "+cpu"

    def without_torch_npu(self) -> None:
        """Take torch_npu away, torch stays."""
        self.package("torch-npu", "")
        only_torch = self.folder / "only_torch"
        only_torch.mkdir()
        (only_torch / "torch").symlink_to(DOUBLES / "torch")
        self.env["PYTHONPATH"] = f"{only_torch}:{self.site}"

    def without(self, *names: str) -> None:
        """Take variables away."""
        for name in names:
            self.env.pop(name, None)

    def host(self) -> Host:
        return Host(self.env, self.timeout, self.device, self.python, self.root)

    def checks(self, *groups: str) -> list[Check]:
        """Run the groups (all unless named) on this machine."""
        return script.run_checks(self.host(), groups or tuple(GROUPS))


@pytest.fixture(name="world")
def healthy_machine(tmp_path: Path) -> World:
    """A healthy machine."""
    return World(tmp_path / "machine")

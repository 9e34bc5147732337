"""Every way in which a check fails or warns, as a machine that has that fault."""

from __future__ import annotations

import json
import time
from typing import Callable, NamedTuple

import npu_smi_tables
import pytest
from fake_machine import World, script
from health import torch_npu_package
from health.model import FAIL, SKIP, WARN, Check

CRIT = "CRIT"


class Scenario(NamedTuple):
    """What must be found (`check/outcome`), how grave it is, and how to make the machine and check it."""

    found: str
    status: str
    run: Callable[[World], list[Check]]


SCENARIOS: list[Scenario] = []


def scenario(found: str, status: str) -> Callable[[Callable[[World], list[Check]]], None]:
    """Register a scenario."""

    def register(run: Callable[[World], list[Check]]) -> None:
        SCENARIOS.append(Scenario(found, status, run))

    return register


# --- CANN and driver


@scenario("cann.toolkit/home_invalid", CRIT)
def _(world: World) -> list[Check]:
    world.env["ASCEND_HOME_PATH"] = str(world.folder / "gone")
    return world.checks("cann")


@scenario("cann.toolkit/missing", CRIT)
def _(world: World) -> list[Check]:
    world.without("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH")
    return world.checks("cann")


@scenario("cann.toolkit/library_only", WARN)
def _(world: World) -> list[Check]:
    world.without("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")
    return world.checks("cann")


@scenario("cann.toolkit/not_sourced", FAIL)
def _(world: World) -> list[Check]:
    world.without("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH")
    place = world.root / "usr" / "local" / "Ascend"
    place.mkdir(parents=True)
    (place / "cann").symlink_to(world.home)
    return world.checks("cann")


@scenario("cann.version/unknown", WARN)
def _(world: World) -> list[Check]:
    (world.home / "version.cfg").unlink()
    return world.checks("cann")


@scenario("cann.version/too_old", CRIT)
def _(world: World) -> list[Check]:
    world.cann("8.0.RC3")
    return world.checks("cann")


@scenario("cann.environment/opp_unset", CRIT)
def _(world: World) -> list[Check]:
    world.without("ASCEND_OPP_PATH")
    return world.checks("cann")


@scenario("cann.environment/opp_invalid", CRIT)
def _(world: World) -> list[Check]:
    world.env["ASCEND_OPP_PATH"] = str(world.folder / "gone")
    return world.checks("cann")


@scenario("cann.environment/incomplete", CRIT)
def _(world: World) -> list[Check]:
    (world.home / "compiler").rmdir()
    return world.checks("cann")


@scenario("cann.environment/library_path", FAIL)
def _(world: World) -> list[Check]:
    world.without("LD_LIBRARY_PATH")
    return world.checks("cann")


@scenario("cann.environment/two_toolkits", WARN)
def _(world: World) -> list[Check]:
    other = world.folder / "cann-8.0.0" / "lib64"
    other.mkdir(parents=True)
    (other / "libascendcl.so").touch()
    (other.parent / "version.cfg").touch()
    world.env["LD_LIBRARY_PATH"] = f"{other}:{world.env['LD_LIBRARY_PATH']}"
    return world.checks("cann")


@scenario("cann.kernels/missing", CRIT)
def _(world: World) -> list[Check]:
    world.kernels("ascend310p")
    return world.checks("cann")


@scenario("cann.kernels/unknown_soc", SKIP)
def _(world: World) -> list[Check]:
    world.npu_smi(npu_smi_tables.A2.replace("910B3", "777X "))
    return world.checks("cann")


@scenario("cann.driver/unknown", WARN)
def _(world: World) -> list[Check]:
    (world.bin / "npu-smi").unlink()
    (world.root / "dev").mkdir()
    (world.root / "dev" / "davinci0").touch()
    return world.checks("cann")


@scenario("cann.driver/missing", FAIL)
def _(world: World) -> list[Check]:
    (world.bin / "npu-smi").unlink()
    return world.checks("cann")


@scenario("cann.driver_pair/unsupported", FAIL)
def _(world: World) -> list[Check]:
    world.cann("9.1.0")
    world.driver("25.0.rc1.1")
    return world.checks("cann")


@scenario("cann.driver_pair/older", WARN)
def _(world: World) -> list[Check]:
    world.cann("8.3.RC1")
    world.driver("25.2.0")
    return world.checks("cann")


@scenario("cann.driver_update/too_old", WARN)
def _(world: World) -> list[Check]:
    world.driver("24.1.rc3")
    return world.checks("cann")


@scenario("cann.driver_update/too_old", WARN)
def _(world: World) -> list[Check]:
    world.npu_smi(npu_smi_tables.A310P)  # 25.0.rc1 is enough for A2 and A3, not for 310P
    return world.checks("cann")


# --- PyTorch


@scenario("torch.python/broken", CRIT)
def _(world: World) -> list[Check]:
    world.python = "/bin/false"
    return world.checks("torch")


@scenario("torch.installed/missing", CRIT)
def _(world: World) -> list[Check]:
    world.env["PYTHONPATH"] = str(world.site)
    world.package("torch", "")
    return world.checks("torch")


@scenario("torch.build/cuda", WARN)
def _(world: World) -> list[Check]:
    world.env["FAKE_CUDA"] = "12.4"
    return world.checks("torch")


# --- imports, of torch and of torch_npu

_SITE = "/opt/py/site-packages/torch_npu"
IMPORT_ERRORS = (
    ("no_hccl", "libhccl.so: cannot open shared object file: No such file or directory"),
    ("no_cann_library", "libascendcl.so: cannot open shared object file: No such file or directory"),
    ("no_driver_library", "libascend_hal.so: cannot open shared object file: No such file or directory"),
    ("no_atb", "libatb.so: cannot open shared object file: No such file or directory"),
    ("no_torch_library", "libtorch_cpu.so: cannot open shared object file: No such file or directory"),
    ("no_library", "libssl.so.1.1: cannot open shared object file: No such file or directory"),
    ("old_libc", f"/lib64/libm.so.6: version `GLIBC_2.34' not found (required by {_SITE}/lib/libtorch_npu.so)"),
    ("old_libc", f"/lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by {_SITE}/_C.so)"),
    ("wrong_machine", f"{_SITE}/lib/libtorch_npu.so: wrong ELF class: ELFCLASS32"),
    ("static_tls", "/usr/lib/aarch64-linux-gnu/libgomp.so.1: cannot allocate memory in static TLS block"),
    ("atb_symbol", f"{_SITE}/lib/libtorch_npu.so: undefined symbol: _ZN3atb15CreateOperationINS_5infer9SortParam"),
    ("torch_symbol", f"{_SITE}/_C.so: undefined symbol: _ZN3c1021throwNullDataPtrErrorEv"),
    ("torch_symbol", f"{_SITE}/_C.so: undefined symbol: _ZNK5torch8autograd4Node4nameB5cxx11Ev"),
    ("cann_symbol", f"{_SITE}/lib/libtorch_npu.so: undefined symbol: MsprofSysCycleTime"),
    ("cann_symbol", f"{_SITE}/lib/libtorch_npu.so: undefined symbol: _ZN2ge8Operator7SetAttrEPKcb"),
    ("symbol", f"{_SITE}/lib/libtorch_npu.so: undefined symbol: EVP_MD_CTX_new"),
    ("home_invalid", "ASCEND_HOME_PATH : /usr/local/Ascend/latest does not exist. Please run 'source set_env.sh'"),
    ("opp_unset", "ASCEND_OPP_PATH environment variable is not set. Please check whether the opp package"),
    ("opp_invalid", "ASCEND_RUNTIME_PATH : /usr/local/Ascend/latest/runtime does not exist. Please check"),
    ("two_accelerators", "Two accelerators cannot be used at the same time in PyTorch: npu and cuda. You can install"),
    ("not_built", "No module named 'torch_npu._C'"),
    ("no_module", "No module named 'yaml'"),
    ("wrong_torch", "cannot import name 'SymInt' from 'torch' (/opt/py/site-packages/torch/__init__.py)"),
    ("wrong_torch", "module 'torch._C' has no attribute '_get_accelerator'"),
    ("bad_setting", "TASK_QUEUE_ENABLE should be 0, 1 or 2"),
    ("permission", f"{_SITE}/lib/libtorch_npu.so: cannot open shared object file: Permission denied"),
    ("other", "the moon is in the wrong phase"),
)


def _import_scenario(package: str, outcome: str, text: str) -> None:
    @scenario(f"{package}.import/{outcome}", CRIT)
    def _(world: World) -> list[Check]:
        world.env["FAKE_FAULT"] = f"import_{package}=import:{text}"
        return world.checks(package)


for _outcome, _text in IMPORT_ERRORS:
    _import_scenario("torch_npu", _outcome, _text)
_import_scenario("torch", "static_tls", IMPORT_ERRORS[9][1])


def _ending_scenario(place: str, kind: str, found: str, group: str, timeout: float = 40.0, status: str = CRIT) -> None:
    @scenario(found, status)
    def _(world: World) -> list[Check]:
        world.timeout = timeout
        world.env["FAKE_FAULT"] = f"{place}={kind}"
        return world.checks(*group.split())


for _kind, _outcome in (("crash", "crash"), ("kill", "killed"), ("flood", "flood")):
    _ending_scenario("import_torch_npu", _kind, f"torch_npu.import/{_outcome}", "torch_npu")
    _ending_scenario("capture", _kind, f"capture.basic/{_outcome}", "capture")
_ending_scenario("import_torch_npu", "hang", "torch_npu.import/hang", "torch_npu", 8.0)
_ending_scenario("import_torch", "crash", "torch.import/crash", "torch")
_ending_scenario("import_torch", "hang", "torch.import/hang", "torch", 8.0)
_ending_scenario("capture", "hang", "capture.basic/hang", "capture", 8.0)
_ending_scenario("replay", "hang", "capture.replay/hang", "capture", 8.0)
_ending_scenario("replay", "crash", "capture.replay/crash", "capture")
_ending_scenario("update", "hang", "capture.update/hang", "capture", 8.0, FAIL)
_ending_scenario("update", "crash", "capture.update/crash", "capture", status=FAIL)
_ending_scenario("count", "hang", "devices.torch/hang", "devices", 8.0)
_ending_scenario("open", "crash", "devices.torch/crash", "devices")


@scenario("capture.basic/no_time", SKIP)
def _(world: World) -> list[Check]:
    # What came before took so long that less is left than the capture's own share: its end then shows no hang.
    world.timeout = 8.0
    world.env["FAKE_FAULT"] = "capture=hang"
    host = world.host()
    host.packages()
    time.sleep(0.45 * world.timeout)
    return script.run_checks(host, ("capture",))


# --- versions that do not belong together


@scenario("torch_npu.installed/missing", CRIT)
def _(world: World) -> list[Check]:
    world.without_torch_npu()
    return world.checks("torch_npu")


@scenario("torch_npu.shadow/source_tree", WARN)
def _(world: World) -> list[Check]:
    checkout = world.folder / "checkout" / "torch_npu"
    checkout.mkdir(parents=True)
    (checkout / "__init__.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout.parent)
        return world.checks("torch_npu")


@scenario("torch_npu.torch/mismatch", CRIT)
def _(world: World) -> list[Check]:
    world.release("2.7.1.post2", torch="2.8.0")
    return world.checks("torch_npu")


@scenario("torch_npu.torch/patch_differs", WARN)
def _(world: World) -> list[Check]:
    world.release("2.7.1.post2", torch="2.7.0")
    return world.checks("torch_npu")


@scenario("torch_npu.python/unsupported", WARN)
def _(world: World) -> list[Check]:
    return [torch_npu_package.check_python("2.12.0", "3.9.18")]


@scenario("torch_npu.cann/no_graphs", CRIT)
def _(world: World) -> list[Check]:
    world.release("2.1.0.post10")
    return world.checks("torch_npu")


@scenario("torch_npu.cann/cann_older", WARN)
def _(world: World) -> list[Check]:
    world.release("2.7.1.post4")
    return world.checks("torch_npu")


@scenario("torch_npu.cann/cann_newer", WARN)
def _(world: World) -> list[Check]:
    world.release("2.7.1")
    world.cann("9.0.0")
    return world.checks("torch_npu")


@scenario("torch_npu.triton/community", WARN)
def _(world: World) -> list[Check]:
    world.package("triton", "3.2.0")
    return world.checks("torch_npu")


@scenario("torch_npu.triton/cann", WARN)
def _(world: World) -> list[Check]:
    world.package("triton-ascend", "3.2.0")
    return world.checks("torch_npu")


@scenario("torch_npu.triton/overwritten", WARN)
def _(world: World) -> list[Check]:
    packages = {"triton-ascend": "3.2.0", "triton": "3.5.0"}
    return torch_npu_package.check_companions(packages, "8.5.0", "2.7.1.post2", "3.11.4")


@scenario("torch_npu.triton/python", FAIL)
def _(world: World) -> list[Check]:
    return torch_npu_package.check_companions({"triton-ascend": "3.2.0"}, "8.5.0", "2.7.1.post2", "3.13.1")


@scenario("torch_npu.packaging/missing", WARN)
def _(world: World) -> list[Check]:
    return torch_npu_package.check_companions({"torch": "2.13.0"}, "9.1.0", "2.13.0", "3.11.4")


# --- devices


@scenario("devices.npu_smi/absent", WARN)
def _(world: World) -> list[Check]:
    (world.bin / "npu-smi").unlink()
    (world.root / "dev").mkdir()
    (world.root / "dev" / "davinci7").touch()
    return world.checks("devices")


@scenario("devices.npu_smi/absent_no_nodes", SKIP)
def _(world: World) -> list[Check]:
    (world.bin / "npu-smi").unlink()
    return world.checks("devices")


@scenario("devices.npu_smi/hang", FAIL)
def _(world: World) -> list[Check]:
    world.timeout = 10.0
    world.env["PATH"] += ":/bin:/usr/bin"
    world.npu_smi(npu_smi_tables.A2, before="sleep 60")
    return world.checks("devices")


def _npu_smi_scenario(outcome: str, text: str) -> None:
    @scenario(f"devices.npu_smi/{outcome}", FAIL)
    def _(world: World) -> list[Check]:
        world.npu_smi(text, code=1)
        return world.checks("devices")


for _outcome, _text in (
    ("in_use", npu_smi_tables.HELD),
    ("driver", npu_smi_tables.NO_DRIVER),
    ("libraries", npu_smi_tables.NO_LIBRARY),
    ("permission", npu_smi_tables.NO_PERMISSION),
    ("unreadable", "something new\n"),
    ("empty", ""),
):
    _npu_smi_scenario(_outcome, _text)


@scenario("devices.health/mine", FAIL)
def _(world: World) -> list[Check]:
    world.npu_smi(npu_smi_tables.A2.replace("| OK   ", "| Alarm", 1))
    return world.checks("devices")


@scenario("devices.health/others", WARN)
def _(world: World) -> list[Check]:
    world.npu_smi(npu_smi_tables.A3)
    return world.checks("devices")


@scenario("devices.processes/busy", WARN)
def _(world: World) -> list[Check]:
    world.device = 1
    return world.checks("devices")


@scenario("devices.torch/error", CRIT)
def _(world: World) -> list[Check]:
    world.env["FAKE_FAULT"] = "count=raise:SetPrecisionMode:156 NPU function error, error code is 500001"
    return world.checks("devices")


@scenario("devices.torch/none", CRIT)
def _(world: World) -> list[Check]:
    world.env["FAKE_DEVICES"] = "0"
    return world.checks("devices")


@scenario("devices.torch/no_such_device", FAIL)
def _(world: World) -> list[Check]:
    world.device = 9
    return world.checks("devices")


@scenario("devices.torch/wrong_result", CRIT)
def _(world: World) -> list[Check]:
    world.env["FAKE_SUM"] = "7"
    return world.checks("devices")


@scenario("devices.count/differs", WARN)
def _(world: World) -> list[Check]:
    world.env["FAKE_DEVICES"] = "1"
    return world.checks("devices")


@scenario("devices.soc/unsupported", CRIT)
def _(world: World) -> list[Check]:
    world.npu_smi(npu_smi_tables.A910A)
    world.env.update(FAKE_SOC="Ascend910ProB", FAKE_DEVICES="1")
    return world.checks("devices")


# --- NPUGraph API


@scenario("api.core/missing", CRIT)
def _(world: World) -> list[Check]:
    world.env["FAKE_WITHOUT"] = "NPUGraph"
    return world.checks("api")


@scenario("api.names/missing", FAIL)
def _(world: World) -> list[Check]:
    world.env["FAKE_WITHOUT"] = "graph_task_update_begin"
    return world.checks("api")


@scenario("api.names/unknown_release", SKIP)
def _(world: World) -> list[Check]:
    world.release("9.9.9")
    return world.checks("api")


@scenario("api.signatures/changed", WARN)
def _(world: World) -> list[Check]:
    world.release("2.5.1.post1")  # its graph() has one parameter more than that of the stand-in
    return world.checks("api")


# --- variables


def _variable_scenario(found: str, status: str, release: str = "", **variables: str) -> None:
    @scenario(f"variables.{found}", status)
    def _(world: World) -> list[Check]:
        if release:
            world.release(release)
        world.env.update(variables)
        return world.checks("variables")


_PINNED = "expandable_segments:True,pin_memory_expandable_segments:True"
for _found, _status, _release, _variables in (
    ("task_queue/two", CRIT, "", {"TASK_QUEUE_ENABLE": "2"}),
    ("launch_blocking/old_release", CRIT, "2.7.1", {"ASCEND_LAUNCH_BLOCKING": "1"}),
    ("launch_blocking/slow", WARN, "2.7.1.post2", {"ASCEND_LAUNCH_BLOCKING": "1"}),
    ("launch_blocking/unknown", WARN, "9.9.9", {"ASCEND_LAUNCH_BLOCKING": "1"}),
    ("pinned_segments/refused", CRIT, "2.11.0", {"PYTORCH_NPU_ALLOC_CONF": _PINNED}),
    ("pinned_segments/refused", CRIT, "2.13.0", {"PYTORCH_ALLOC_CONF": _PINNED}),
    ("pinned_segments/later", WARN, "2.10.0", {"PYTORCH_NPU_ALLOC_CONF": _PINNED}),
    ("allocator_names/both", CRIT, "2.13.0", {"PYTORCH_NPU_ALLOC_CONF": "x:1", "PYTORCH_ALLOC_CONF": "x:1"}),
    ("allocator_names/both", CRIT, "2.10.0.post7", {"PYTORCH_NPU_ALLOC_CONF": "x:1", "PYTORCH_ALLOC_CONF": "x:1"}),
    ("allocator_names/not_read", WARN, "2.11.0", {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    ("task_queue/refused", CRIT, "", {"TASK_QUEUE_ENABLE": "3"}),
    ("logs/no_such_module", CRIT, "2.6.0", {"TORCH_NPU_LOGS": "dispatch,+acl"}),
    ("allocator_key/unknown", WARN, "", {"PYTORCH_NPU_ALLOC_CONF": "expandable_segment:True"}),
    ("no_caching/set", WARN, "", {"PYTORCH_NO_NPU_MEMORY_CACHING": "1"}),
    ("hccl_aiv/aiv", WARN, "", {"HCCL_OP_EXPANSION_MODE": "AIV"}),
    ("logs/no_such_module", CRIT, "2.9.0", {"TORCH_NPU_LOGS": "+aclgraph"}),
    ("logs/no_such_module", CRIT, "2.9.0.post2", {"TORCH_NPU_LOGS": "+npugraph"}),
    ("logs/no_plus", WARN, "2.13.0", {"TORCH_NPU_LOGS": "aclgraph"}),
    ("logs/replaces", WARN, "2.13.0", {"TORCH_NPU_LOGS": "+aclgraph", "TORCH_LOGS": "dynamo"}),
    ("plog/stdout", WARN, "", {"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}),
    ("plog/off", WARN, "", {"ASCEND_GLOBAL_LOG_LEVEL": "4"}),
    ("plog/flood", WARN, "", {"ASCEND_GLOBAL_LOG_LEVEL": "0"}),
    ("compact_errors/set", WARN, "", {"TORCH_NPU_COMPACT_ERROR_OUTPUT": "1"}),
    ("visible_devices/invalid", FAIL, "", {"ASCEND_RT_VISIBLE_DEVICES": "npu0"}),
    ("autoload/off", SKIP, "", {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
    ("value/invalid", WARN, "", {"TASK_QUEUE_ENABLE": "yes"}),
    ("value/invalid", WARN, "", {"STREAMS_PER_DEVICE": "16"}),
    ("name/absent", WARN, "", {"TORCH_NPU_GRAPHS_LOG_LEVEL": "DEBUG"}),
    ("name/absent", WARN, "", {"ACL_PROFILE": "1"}),
    ("name/misspelt", WARN, "", {"TASK_QUEUE_ENABLED": "1"}),
):
    _variable_scenario(_found, _status, _release, **_variables)


def _config_scenario(outcome: str, status: str, content: str) -> None:
    @scenario(f"variables.acl_config/{outcome}", status)
    def _(world: World) -> list[Check]:
        path = world.folder / "acl.json"
        path.write_text(content)
        world.env["TORCH_ACL_INIT_CONFIG_PATH"] = str(path)
        return world.checks("variables")


_config_scenario("unreadable", FAIL, "{not json")
_config_scenario("no_default_device", WARN, "{}")
_config_scenario("sections", WARN, json.dumps({"defaultDevice": {"default_device": "0"}, "profiler": {"switch": "on"}}))


# --- capture and replay


def _capture_scenario(found: str, status: str, **variables: str) -> None:
    @scenario(f"capture.{found}", status)
    def _(world: World) -> list[Check]:
        world.env.update(variables)
        return world.checks("capture")


_REFUSED = "raise:capture_begin:NPUGraph.cpp:214 NPU function error: AclmdlRICaptureBegin, error code is {}"
for _found, _status, _variables in (
    ("basic/error", CRIT, {"FAKE_FAULT": "capture=" + _REFUSED.format(207005)}),
    ("replay/error", CRIT, {"FAKE_FAULT": "replay=" + _REFUSED.format(507011)}),
    ("replay/stale", CRIT, {"FAKE_REPLAY": "stale"}),
    ("replay/differs", CRIT, {"FAKE_REPLAY": "wrong"}),
    ("update/driver", WARN, {"FAKE_FAULT": "update=" + _REFUSED.format(207019)}),
    ("update/driver", WARN, {"FAKE_FAULT": "update=" + _REFUSED.format("107033 EE9999: runtime result = 207000")}),
    ("update/error", WARN, {"FAKE_FAULT": "task_group=" + _REFUSED.format(507009)}),
    ("update/lost", FAIL, {"FAKE_UPDATE": "lost"}),
    ("update/wrong", FAIL, {"FAKE_UPDATE": "wrong"}),
):
    _capture_scenario(_found, _status, **_variables)


# --- memory


@scenario("memory.free/low", WARN)
def _(world: World) -> list[Check]:
    world.env["FAKE_FREE_MB"] = "2000"
    return world.checks("devices", "memory")


@scenario("memory.unaccounted/some", WARN)
def _(world: World) -> list[Check]:
    world.npu_smi(npu_smi_tables.A2.replace("3391 / 65536", "41000/ 65536"))
    return world.checks("memory")

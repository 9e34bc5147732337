"""Group variables: what is set, what it does to capture, what cannot work together, and names that nothing reads."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Callable, NamedTuple

from health import tables, versions
from health.host import Host
from health.model import FAIL, PASS, SKIP, WARN, Check, check, critical
from health.tables import read_table

# Variables with these beginnings belong to the stack; a misspelt one is looked for among them.
PREFIXES = (
    "ASCEND_", "TORCH_NPU", "TASK_QUEUE", "HCCL_", "ACL_", "PYTORCH_NPU", "NPU_", "STREAMS_PER", "PER_STREAM", "TNG_",
)  # fmt: skip
# So close to a known name that it is a slip of the pen; names of CANN that are merely similar stay below.
SLIP_RATIO = 0.9
# Keys of the allocator (NPUAllocatorConfig.cpp of v2.12.0, lines 37-62).
ALLOCATOR_KEYS = (
    *("max_split_size_mb", "garbage_collection_threshold", "expandable_segments", "base_addr_aligned_kb", "page_size"),
    *("segment_size_mb", "large_segment_size_mb", "multi_stream_lazy_reclaim", "per_process_memory_fraction"),
    *("pinned_mem_register", "pinned_reserve_segment_size_mb", "release_lock_on_npumalloc"),
    *("roundup_power2_divisions", "pin_memory_expandable_segments"),
)
# First torch line whose capture_begin refuses pin_memory_expandable_segments, and whose allocator refuses two names.
PIN_REFUSED_FROM, TWO_NAMES_FROM = "2.11", "2.10"


class Setting(NamedTuple):
    """What the rules look at: the environment, the torch line, and whether this release has a name of the API table."""

    env: dict[str, str]
    torch_line: str
    wheel: str
    api: dict[str, str]

    def known(self) -> bool:
        return bool(self.wheel)

    def on(self, name: str) -> bool:
        return self.env.get(name, "").strip().lower() in ("1", "true")


Rule = Callable[[Setting], "Check | None"]


def run(host: Host) -> list[Check]:
    """Check the group."""
    installed = host.packages().get("torch-npu", "")
    wheel = tables.nearest_wheel(installed) if installed else ""
    setting = Setting(host.env, versions.line(installed), wheel, tables.api_of(wheel) if wheel else {})
    checks = [found for rule in RULES for found in [rule(setting)] if found]
    checks += check_values(host.env, {found.values.get("name", "") for found in checks})
    checks += check_names(host.env)
    return [
        show_set(host.env),
        *(checks or [check("variables.combinations", "ok", PASS, ["none that hinders capture"])]),
    ]


def show_set(env: dict[str, str]) -> Check:
    """List what is set, with its effect."""
    rows = {row["name"]: row for row in read_table("variables")}
    evidence = [
        f"{name}={env[name]}: {row['effect']}" for name, row in rows.items() if name in env and row["kind"] != "absent"
    ]
    return check("variables.set", "ok", PASS, evidence or ["no variable of the table is set"])


def known_names() -> list[str]:
    """Return the names of the table, those that exist in no release included."""
    return [row["name"] for row in read_table("variables")]


def check_values(env: dict[str, str], reported: set[str]) -> list[Check]:
    """Report values outside those that a variable takes."""
    checks = []
    for row in read_table("variables"):
        name, allowed = row["name"], row["values"]
        value = env.get(name)
        if value is None or not allowed or name in reported or value.strip() in allowed.split("|"):
            continue
        evidence = [f"{name}={value}", row["source"]]
        # torch_npu raises on these two; of the others it uses the default, with a warning at most.
        status = FAIL if name in ("TASK_QUEUE_ENABLE", "ASCEND_LAUNCH_BLOCKING") else WARN
        values = {"name": name, "value": value, "allowed": allowed.replace("|", ", ")}
        checks.append(check("variables.value", "invalid", status, evidence, **values))
    return checks


def check_names(env: dict[str, str]) -> list[Check]:
    """Report names that no release reads, and names that look misspelt."""
    rows = {row["name"]: row for row in read_table("variables")}
    checks = []
    for name in sorted(env):
        if name in rows and rows[name]["kind"] == "absent":
            evidence = [f"{name}={env[name]}", rows[name]["source"]]
            checks.append(check("variables.name", "absent", WARN, evidence, name=name, effect=rows[name]["effect"]))
        elif name not in rows and name.startswith(PREFIXES):
            near = difflib.get_close_matches(name, list(rows), 1, SLIP_RATIO)
            if near:
                checks.append(
                    check("variables.name", "misspelt", WARN, [f"{name}={env[name]}"], name=name, near=near[0])
                )
    return checks


def _task_queue(setting: Setting) -> Check | None:
    if setting.env.get("TASK_QUEUE_ENABLE", "").strip() != "2":
        return None
    return critical("variables.task_queue", "two", ["TASK_QUEUE_ENABLE=2"], name="TASK_QUEUE_ENABLE")


def _launch_blocking(setting: Setting) -> Check | None:
    if not setting.on("ASCEND_LAUNCH_BLOCKING"):
        return None
    evidence = [
        f"ASCEND_LAUNCH_BLOCKING={setting.env['ASCEND_LAUNCH_BLOCKING']}, torch_npu wheel {setting.wheel or 'unknown'}"
    ]
    values = {"name": "ASCEND_LAUNCH_BLOCKING"}
    if not setting.known():
        return check("variables.launch_blocking", "unknown", WARN, evidence, **values)
    # The release that skips the sync while capturing (7.3.0) is the one that brought debug_dump to Python.
    if "torch.npu.NPUGraph.debug_dump" not in setting.api:
        return critical("variables.launch_blocking", "old_release", evidence, **values)
    return check("variables.launch_blocking", "slow", WARN, evidence, **values)


def _pinned_segments(setting: Setting) -> Check | None:
    for name in ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        options = allocator_options(setting.env.get(name, ""))
        if options.get("pin_memory_expandable_segments", "").lower() != "true":
            continue
        evidence = [f"{name}={setting.env[name]}"]
        if setting.torch_line and versions.key(setting.torch_line) < versions.key(PIN_REFUSED_FROM):
            return check("variables.pinned_segments", "later", WARN, evidence, name="")
        return critical("variables.pinned_segments", "refused", evidence, name="")
    return None


def allocator_options(text: str) -> dict[str, str]:
    """Read `key:value,key:value`; values in brackets may hold commas."""
    return {
        key.strip(): value.strip()
        for key, value in re.findall(r"([A-Za-z_0-9]{1,60})\s*:\s*(\[[^\]]{0,200}\]|[^,\[]{0,200})", text[:4000])
    }


def _allocator_keys(setting: Setting) -> Check | None:
    options = allocator_options(setting.env.get("PYTORCH_NPU_ALLOC_CONF", ""))
    strange = sorted(key for key in options if key not in ALLOCATOR_KEYS)
    if not strange:
        return None
    evidence = [f"PYTORCH_NPU_ALLOC_CONF={setting.env['PYTORCH_NPU_ALLOC_CONF']}"]
    return check(
        "variables.allocator_key", "unknown", WARN, evidence, key=", ".join(strange), keys=", ".join(ALLOCATOR_KEYS)
    )


def _two_allocator_names(setting: Setting) -> Check | None:
    both = [name for name in ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF") if setting.env.get(name)]
    if len(both) < 2:
        return None
    evidence = [f"{name}={setting.env[name]}" for name in both]
    newer = not setting.torch_line or versions.key(setting.torch_line) >= versions.key(TWO_NAMES_FROM)
    return check("variables.allocator_names", "both", FAIL if newer else WARN, evidence)


def _no_caching(setting: Setting) -> Check | None:
    value = setting.env.get("PYTORCH_NO_NPU_MEMORY_CACHING")
    if value is None:
        return None
    return check("variables.no_caching", "set", WARN, [f"PYTORCH_NO_NPU_MEMORY_CACHING={value}"])


def _hccl_aiv(setting: Setting) -> Check | None:
    if setting.env.get("HCCL_OP_EXPANSION_MODE", "").strip().upper() != "AIV":
        return None
    return check("variables.hccl_aiv", "aiv", WARN, ["HCCL_OP_EXPANSION_MODE=AIV"], name="HCCL_OP_EXPANSION_MODE")


def _npu_logs(setting: Setting) -> Check | None:
    value = setting.env.get("TORCH_NPU_LOGS")
    if not value:
        return None
    evidence = [f"TORCH_NPU_LOGS={value}"]
    words = [word.strip() for word in value.split(",") if word.strip()]
    for word in words:
        name = word.lstrip("+-")
        if name in ("aclgraph", "npugraph") and setting.known() and f"TORCH_NPU_LOGS={name}" not in setting.api:
            return check("variables.logs", "no_such_module", WARN, evidence, module=name, wheel=setting.wheel)
    if any(word in ("aclgraph", "npugraph") for word in words):
        return check("variables.logs", "no_plus", WARN, evidence)
    if setting.env.get("TORCH_LOGS"):
        return check("variables.logs", "replaces", WARN, [*evidence, f"TORCH_LOGS={setting.env['TORCH_LOGS']}"])
    return None


def _plog(setting: Setting) -> Check | None:
    env = setting.env
    if "1" in (env.get("ASCEND_SLOG_PRINT_TO_STDOUT", "").strip(), env.get("ASCEND_LOG_PRINT_TO_STDOUT", "").strip()):
        return check("variables.plog", "stdout", WARN, ["ASCEND_SLOG_PRINT_TO_STDOUT=1: no plog files are written"])
    level = env.get("ASCEND_GLOBAL_LOG_LEVEL", "").strip()
    if level == "4":
        return check("variables.plog", "off", WARN, ["ASCEND_GLOBAL_LOG_LEVEL=4"])
    if level in ("0", "1"):
        return check("variables.plog", "flood", WARN, [f"ASCEND_GLOBAL_LOG_LEVEL={level}"])
    return None


def _compact_errors(setting: Setting) -> Check | None:
    if not setting.on("TORCH_NPU_COMPACT_ERROR_OUTPUT"):
        return None
    return check("variables.compact_errors", "set", WARN, ["TORCH_NPU_COMPACT_ERROR_OUTPUT=1"])


def _acl_config(setting: Setting) -> Check | None:
    name = setting.env.get("TORCH_ACL_INIT_CONFIG_PATH")
    if not name:
        return None
    evidence = [f"TORCH_ACL_INIT_CONFIG_PATH={name}"]
    try:
        text = Path(name).read_text(encoding="utf-8")[: 1 << 20]
        content = json.loads(text)
    except (OSError, ValueError) as error:
        return check("variables.acl_config", "unreadable", FAIL, [*evidence, str(error)], path=name)
    sections = sorted(set(content) & {"dump", "profiler"}) if isinstance(content, dict) else []
    if "defaultDevice" not in json.dumps(content):
        return check("variables.acl_config", "no_default_device", WARN, evidence)
    if sections:
        return check("variables.acl_config", "sections", WARN, [*evidence, ", ".join(sections)])
    return None


def _visible_devices(setting: Setting) -> Check | None:
    value = setting.env.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        return None
    if not re.fullmatch(r"\s*\d{1,4}(?:-\d{1,4})?(?:\s*,\s*\d{1,4}(?:-\d{1,4})?)*\s*", value[:2000]):
        return check("variables.visible_devices", "invalid", FAIL, [f"ASCEND_RT_VISIBLE_DEVICES={value}"])
    return None


def _autoload(setting: Setting) -> Check | None:
    if setting.env.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
        return None
    return check("variables.autoload", "off", SKIP, ["TORCH_DEVICE_BACKEND_AUTOLOAD=0"])


# One rule, one fault: each returns a check when the environment has it.
RULES: tuple[Rule, ...] = (
    _task_queue,
    _launch_blocking,
    _pinned_segments,
    _two_allocator_names,
    _allocator_keys,
    _no_caching,
    _hccl_aiv,
    _npu_logs,
    _plog,
    _compact_errors,
    _acl_config,
    _visible_devices,
    _autoload,
)

"""Group variables: what is set, what it does to capture, what cannot work together, and names that nothing reads."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from . import tables, versions
from .api_reader import LOG_MODULES
from .host import Host
from .model import FAIL, PASS, SKIP, WARN, Check, check, critical
from .tables import read_table

# Variables with these beginnings belong to the stack; a misspelt one is looked for among them.
PREFIXES = (
    *("ASCEND_", "TORCH_NPU", "TASK_QUEUE", "HCCL_", "ACL_", "PYTORCH_NPU", "NPU_", "STREAMS_PER", "PER_STREAM"),
    *("TNG_",),
)
# So close to a known name that it is a slip of the pen; names of CANN that are merely similar stay below.
SLIP_RATIO = 0.9
# Keys of the allocator (NPUAllocatorConfig.cpp of v2.12.0, lines 37-62).
ALLOCATOR_KEYS = (
    *("max_split_size_mb", "garbage_collection_threshold", "expandable_segments", "base_addr_aligned_kb", "page_size"),
    *("segment_size_mb", "large_segment_size_mb", "multi_stream_lazy_reclaim", "per_process_memory_fraction"),
    *("pinned_mem_register", "pinned_reserve_segment_size_mb", "release_lock_on_npumalloc"),
    *("roundup_power2_divisions", "pin_memory_expandable_segments"),
)
ALLOCATOR_NAMES = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# First torch line whose capture_begin refuses pin_memory_expandable_segments (its text is in the libraries of the
# wheels from 2.11.0 on, and in no 2.10 wheel).
PIN_REFUSED_FROM = "2.11"
# The wheels whose libraries read PYTORCH_ALLOC_CONF, and then refuse both names together: these and all newer ones.
READS_COMMON_NAME = ("2.10.0.post7", "2.11.0.post3", "2.12.0.post3", "2.13.0")
MAX_CONFIG = 1 << 20

_ALLOCATOR_OPTION = re.compile(r"([A-Za-z_0-9]{1,60})\s{0,8}:\s{0,8}(\[[^\]]{0,200}\]|[^,\[]{0,200})")
_DEVICE_LIST = re.compile(r"\s*\d{1,4}(?:-\d{1,4})?(?:\s*,\s*\d{1,4}(?:-\d{1,4})?)*\s*")


class Setting(NamedTuple):
    """What the rules look at: the environment, and what is known of this torch_npu (nothing: wheel is empty)."""

    env: dict[str, str]
    torch_line: str
    wheel: str
    api: dict[str, str]

    def get(self, name: str) -> str:
        return self.env.get(name, "").strip()

    def on(self, name: str) -> bool:
        return self.get(name).lower() in ("1", "true")

    def is_older_than(self, line: str) -> bool:
        return bool(self.torch_line) and versions.key(self.torch_line) < versions.key(line)


class Finding(NamedTuple):
    """What a rule found: the check `variables.<subject>`, and the variables that it is about."""

    subject: str
    outcome: str
    status: str
    names: tuple[str, ...] = ()
    values: dict[str, Any] = {}
    evidence: tuple[str, ...] = ()


# Not a status of a check: a FAIL that is critical.
CRITICAL = "CRITICAL"
Rule = Callable[[Setting], Optional[Finding]]


def run(host: Host) -> list[Check]:
    """Check the group."""
    installed = host.packages().get("torch-npu", "")
    wheel = tables.nearest_wheel(installed) if installed else ""
    setting = Setting(host.env, versions.line(installed), wheel, tables.api_of(wheel) if wheel else {})
    findings = [found for rule in RULES for found in [rule(setting)] if found]
    reported = {name for found in findings for name in found.names}
    findings += check_values(host.env, reported) + check_names(host.env)
    reported |= {name for found in findings for name in found.names}
    checks = [_as_check(found, host.env) for found in findings]
    if not any(item.status in (FAIL, WARN) for item in checks):
        checks.append(check("variables.combinations", "ok", PASS))
    return [*show_set(host.env, reported), *checks]


def _as_check(found: Finding, env: dict[str, str]) -> Check:
    evidence = [*(f"{name}={env[name]}" for name in found.names if name in env), *found.evidence]
    values = {"name": found.names[0] if found.names else "", **found.values}
    if found.status == CRITICAL:
        return critical(f"variables.{found.subject}", found.outcome, evidence, **values)
    return check(f"variables.{found.subject}", found.outcome, found.status, evidence, **values)


def show_set(env: dict[str, str], reported: set[str]) -> list[Check]:
    """List what is set, each with its effect, but for the paths of CANN and what a rule reports."""
    checks = []
    for row in read_table("variables"):
        name = row["name"]
        if name in env and name not in reported and row["kind"] not in ("absent", "cann"):
            values = {"effect": row["effect"], "effect_zh": row["effect_zh"]}
            checks.append(check("variables.set", "set", PASS, [f"{name}={env[name]}"], **values))
    return checks if checks or reported else [check("variables.set", "none", PASS)]


def known_names() -> list[str]:
    """Return the names of the table, those that exist in no release included."""
    return [row["name"] for row in read_table("variables")]


def check_values(env: dict[str, str], reported: set[str]) -> list[Finding]:
    """Report values outside those that a variable takes."""
    findings = []
    for row in read_table("variables"):
        name, allowed = row["name"], row["values"]
        if name not in env or not allowed or name in reported or env[name].strip() in allowed.split("|"):
            continue
        values = {"value": env[name], "allowed": allowed.replace("|", ", ")}
        findings.append(Finding("value", "invalid", WARN, (name,), values, (row["source"],)))
    return findings


def check_names(env: dict[str, str]) -> list[Finding]:
    """Report names that no release reads, and names that look misspelt."""
    rows = {row["name"]: row for row in read_table("variables")}
    findings = []
    for name in sorted(env):
        if name in rows and rows[name]["kind"] == "absent":
            values = {"effect": rows[name]["effect"], "effect_zh": rows[name]["effect_zh"]}
            findings.append(Finding("name", "absent", WARN, (name,), values, (rows[name]["source"],)))
        elif name not in rows and name.startswith(PREFIXES):
            near = difflib.get_close_matches(name, list(rows), 1, SLIP_RATIO)
            if near:
                findings.append(Finding("name", "misspelt", WARN, (name,), {"near": near[0]}))
    return findings


def allocator_options(text: str) -> dict[str, str]:
    """Read `key:value,key:value`; a value in brackets may hold commas."""
    return {key: value.strip() for key, value in _ALLOCATOR_OPTION.findall(text[:4000])}


def _task_queue(setting: Setting) -> Finding | None:
    value = setting.get("TASK_QUEUE_ENABLE")
    if value == "2":
        return Finding("task_queue", "two", CRITICAL, ("TASK_QUEUE_ENABLE",))
    if value.isdigit() and value not in ("0", "1"):
        return Finding("task_queue", "refused", CRITICAL, ("TASK_QUEUE_ENABLE",))
    return None


def _launch_blocking(setting: Setting) -> Finding | None:
    names = ("ASCEND_LAUNCH_BLOCKING",)
    if not setting.on(names[0]):
        return None
    if not setting.wheel:
        return Finding("launch_blocking", "unknown", WARN, names)
    evidence = (f"torch_npu as wheel {setting.wheel}",)
    # The release that skips the sync while capturing (7.3.0) is the one that brought debug_dump to Python.
    if "torch.npu.NPUGraph.debug_dump" not in setting.api:
        return Finding("launch_blocking", "old_release", CRITICAL, names, evidence=evidence)
    return Finding("launch_blocking", "slow", WARN, names, evidence=evidence)


def _pinned_segments(setting: Setting) -> Finding | None:
    for name in _allocator_names(setting):
        if allocator_options(setting.get(name)).get("pin_memory_expandable_segments", "").lower() == "true":
            if setting.is_older_than(PIN_REFUSED_FROM):
                return Finding("pinned_segments", "later", WARN, (name,))
            return Finding("pinned_segments", "refused", CRITICAL, (name,))
    return None


def _allocator_names(setting: Setting) -> tuple[str, ...]:
    """Return the variables that this release takes allocator options from (both, where it is not known)."""
    if not setting.wheel:
        return ALLOCATOR_NAMES
    mine = versions.key(setting.wheel)
    for first in READS_COMMON_NAME:
        if mine >= versions.key(first) and (mine[0] == versions.key(first)[0] or first == READS_COMMON_NAME[-1]):
            return ALLOCATOR_NAMES
    return ALLOCATOR_NAMES[:1]


def _common_allocator_name(setting: Setting) -> Finding | None:
    if not setting.get(ALLOCATOR_NAMES[1]):
        return None
    if _allocator_names(setting) != ALLOCATOR_NAMES:
        return Finding("allocator_names", "not_read", WARN, ALLOCATOR_NAMES[1:], {"wheel": setting.wheel})
    if setting.get(ALLOCATOR_NAMES[0]):
        return Finding("allocator_names", "both", CRITICAL if setting.wheel else WARN, ALLOCATOR_NAMES)
    return None


def _allocator_keys(setting: Setting) -> Finding | None:
    options = allocator_options(setting.get(ALLOCATOR_NAMES[0]))
    strange = sorted(key for key in options if key not in ALLOCATOR_KEYS)
    if not strange:
        return None
    values = {"key": ", ".join(strange), "keys": ", ".join(ALLOCATOR_KEYS)}
    return Finding("allocator_key", "unknown", WARN, ALLOCATOR_NAMES[:1], values)


def _no_caching(setting: Setting) -> Finding | None:
    if "PYTORCH_NO_NPU_MEMORY_CACHING" in setting.env:
        return Finding("no_caching", "set", WARN, ("PYTORCH_NO_NPU_MEMORY_CACHING",))
    return None


def _hccl_aiv(setting: Setting) -> Finding | None:
    if setting.get("HCCL_OP_EXPANSION_MODE").upper() == "AIV":
        return Finding("hccl_aiv", "aiv", WARN, ("HCCL_OP_EXPANSION_MODE",))
    return None


def _npu_logs(setting: Setting) -> Finding | None:
    names = ("TORCH_NPU_LOGS",)
    words = [word.strip() for word in setting.get(names[0]).split(",") if word.strip()]
    for module in (word.lstrip("+-") for word in words):
        if module in LOG_MODULES and setting.wheel and f"TORCH_NPU_LOGS={module}" not in setting.api:
            return Finding("logs", "no_such_module", CRITICAL, names, {"module": module, "wheel": setting.wheel})
    if any(word in ("aclgraph", "npugraph") for word in words):
        return Finding("logs", "no_plus", WARN, names)
    if words and setting.get("TORCH_LOGS"):
        return Finding("logs", "replaces", WARN, (*names, "TORCH_LOGS"))
    return None


def _plog(setting: Setting) -> Finding | None:
    for name in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT"):
        if setting.get(name) == "1":
            return Finding("plog", "stdout", WARN, (name,))
    level = setting.get("ASCEND_GLOBAL_LOG_LEVEL")
    if level == "4":
        return Finding("plog", "off", WARN, ("ASCEND_GLOBAL_LOG_LEVEL",))
    if level in ("0", "1"):
        return Finding("plog", "flood", WARN, ("ASCEND_GLOBAL_LOG_LEVEL",))
    return None


def _compact_errors(setting: Setting) -> Finding | None:
    if setting.on("TORCH_NPU_COMPACT_ERROR_OUTPUT"):
        return Finding("compact_errors", "set", WARN, ("TORCH_NPU_COMPACT_ERROR_OUTPUT",))
    return None


def _acl_config(setting: Setting) -> Finding | None:
    names = ("TORCH_ACL_INIT_CONFIG_PATH",)
    path = setting.get(names[0])
    if not path:
        return None
    try:
        with Path(path).open(encoding="utf-8") as source:
            content = json.loads(source.read(MAX_CONFIG))
    except (OSError, ValueError) as error:
        return Finding("acl_config", "unreadable", FAIL, names, {"path": path}, (str(error),))
    keys = set(content) if isinstance(content, dict) else set()
    if "defaultDevice" not in keys:
        return Finding("acl_config", "no_default_device", WARN, names)
    sections = sorted(keys & {"dump", "profiler"})
    return Finding("acl_config", "sections", WARN, names, evidence=(", ".join(sections),)) if sections else None


def _visible_devices(setting: Setting) -> Finding | None:
    name = "ASCEND_RT_VISIBLE_DEVICES"
    if name in setting.env and not _DEVICE_LIST.fullmatch(setting.env[name][:2000]):
        return Finding("visible_devices", "invalid", FAIL, (name,))
    return None


def _autoload(setting: Setting) -> Finding | None:
    if setting.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return Finding("autoload", "off", SKIP, ("TORCH_DEVICE_BACKEND_AUTOLOAD",))
    return None


# One rule, one fault: each says whether the environment has it.
RULES: tuple[Rule, ...] = (
    *(_task_queue, _launch_blocking, _pinned_segments, _common_allocator_name, _allocator_keys, _no_caching),
    *(_hccl_aiv, _npu_logs, _plog, _compact_errors, _acl_config, _visible_devices, _autoload),
)

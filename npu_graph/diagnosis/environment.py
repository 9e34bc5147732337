"""Versions, device and variables that a report states."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.framework_map import FRAMEWORKS, MENTIONED, Ran, ran, stated_versions
from npu_graph.source_map import CERTAIN, Place, Release, SourceMap

_VERSION = r"v?(\d{1,4}(?:\.\d{1,4}){1,3}(?:[-.+]?(?:rc|RC|post|dev|beta|alpha|a|b|cpu|T|SPC)[\w.]{0,24}){0,3})"
# (key, expression): the first that matches wins, so exact spellings stand before loose ones.
_VERSIONS = (
    (
        "torch_npu",
        compile_on_use(
            r"(?<![\w-])torch[_-]npu(?:\s{1,2}Version: |\s?(?:version|版本)?[\s:=|：-]{1,6}|\s?\(|[ \t]{2,60})"
            + _VERSION
        ),
    ),
    ("torch", compile_on_use(r"(?:PyTorch version:|\btorch(?:\s?==|\s?=|:|\s|[ \t]{2,60}|\s?\|))\s?" + _VERSION)),
    (
        "cann",
        compile_on_use(
            r"\bCANN(?:[_ ]VERSION)?(?:\s?[:=|]\s?|\s)(?:package_name=\S{1,60},?\s{1,3}version=)?" + _VERSION
        ),
    ),
    (
        "driver",
        compile_on_use(
            r"(?:\bHDK(?:版本)?\s?(?:>=)?|\bdriver(?: version)?\s?[:=]?|npu-smi|驱动(?:版本)?[:：]?)\s{0,3}" + _VERSION
        ),
    ),
    ("python", compile_on_use(r"\b[Pp]ython(?: version:|\s?[:=]\s?|\s)" + _VERSION)),
)
_SOC = compile_on_use(
    r"\b(Ascend ?910_93\d{2}|Ascend ?(?:910B\d?C?|910C|910A|910_\w{2,6}|310P\d?|310B|950\w{0,8}|910)|Atlas ?(?:800I? A2|800T? A2|A2|A3|300I|310P)"
    r"|910B[1-4]|310P[1357]|A2|A3)\b"
)
# The first that a text names is its framework: what runs on vLLM stands before it.
_FRAMEWORKS = (
    *((name, MENTIONED[name]) for name in ("vllm-ascend", "sglang", "xllm")),
    ("verl", compile_on_use(r"\bverl\b")),
    ("llama.cpp", compile_on_use(r"llama\.cpp|\bggml", re.IGNORECASE)),
    ("mindie", compile_on_use(r"\bmindie\b", re.IGNORECASE)),
    ("vllm", MENTIONED["vllm"]),
    ("speculators", compile_on_use(r"\bspeculators\b")),
)
# How far before a version the command stands that installs it, and how many versions are looked at.
_COMMAND_MOST, _MOST_READ = 400, 200
_INSTALLS = compile_on_use(r"\b(?:pip3?|conda|uv)\b.{0,40}\b(?:install|add)\b", re.IGNORECASE)
# Variables whose value bears on capture; only `NAME=value` counts, so a sentence that names one does not set it.
# torch_npu's own error text ends with advice to set ASCEND_LAUNCH_BLOCKING=1: that is not a setting either.
_VARIABLE = compile_on_use(
    r"(?<!environment variable )(?<!Note: )\b((?:TASK_QUEUE_ENABLE|PER_STREAM_QUEUE|STREAMS_PER_DEVICE|MULTI_STREAM_MEMORY_REUSE|LOCAL_WORLD_SIZE"
    r"|(?:ASCEND|HCCL|TORCH|PYTORCH|TORCHINDUCTOR|VLLM|SGLANG|ACL|CPU_AFFINITY|TNG)_[A-Z0-9_]{2,50}))"
    r"\s?=\s?[\"']?([^\s\"']{1,200})"
)
# A variable with such a word in its name holds what no record may repeat (VLLM_API_KEY).
_OF_SECRETS = frozenset(("KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "AUTH"))


def find_environment(text: str) -> dict[str, Any]:
    """Return the record's `environment`: what the report says, None where it says nothing."""
    environment: dict[str, Any] = dict.fromkeys(("torch", "torch_npu", "cann", "driver", "soc", "python"))
    for key, expression in _VERSIONS:
        told = [(_ran(text, *item.span()), item.group(1)) for item in islice(expression.finditer(text), _MOST_READ)]
        best = min((item for item in told if item[0] is not Ran.NO), key=lambda item: item[0], default=None)
        if best is not None:
            environment[key] = best[1].rstrip(".")
    soc = _SOC.search(text)
    environment["soc"] = soc.group(1) if soc else None
    environment["framework"] = _find_framework(text)
    environment["variables"] = {
        name: value.rstrip(",;.") for name, value in _VARIABLE.findall(text) if not _OF_SECRETS & set(name.split("_"))
    }
    return environment


def _ran(text: str, start: int, end: int) -> Ran:
    """Say whether a version is of what ran: not where it stands in a command that installs it, or is asked for."""
    line = max(text.rfind("\n", 0, start) + 1, start - _COMMAND_MOST)
    return Ran.NO if _INSTALLS.search(text, line, start) is not None else ran(text, start, end)


def find_releases(
    environment: dict[str, Any], places: Sequence[Place], source_map: SourceMap
) -> tuple[list[Release], dict[str, Any] | None]:
    """Return the torch_npu releases that the report can be about, and the record's `torch_npu_inferred`.

    The second is None when the lines of the stack say nothing, or only what the report states anyway. A stated
    version is believed for the lines, unless the stack contradicts it for certain.
    """
    stated, exact = source_map.find_release(environment["torch_npu"] or "", environment["torch"] or "")
    found = source_map.infer_release(places, environment["torch"] or (stated[0].pytorch if len(stated) == 1 else ""))
    if found is None:
        return (stated if exact else []), None
    fits = [release for release in stated if release.id in found.ids]
    if fits and not found.against:
        return fits, None
    releases = [source_map.releases[release_id] for release_id in found.ids]
    inferred = {
        "value": found.value or None,
        "sure": found.sure,
        "from": found.evidence,
        "not_explained": found.against,
        "alternatives": list(dict.fromkeys(release.release for release in releases if release.release != found.value)),
        "wheels": [release.wheel for release in releases if release.wheel and release.status == "final"],
        "contradicts": bool(stated) and not fits,
    }
    if stated and not (found.value and found.sure == CERTAIN):
        return (stated if exact else []), inferred
    final = [release for release in releases if source_map.root(release.id) == found.value]
    return final, inferred


def _find_framework(text: str) -> dict[str, str | None] | None:
    for name, expression in _FRAMEWORKS:
        found = expression.search(text)
        if found and name in FRAMEWORKS:
            stated = stated_versions(text, name)
            return {"name": name, "version": stated[-1] if len(stated) == 1 else None}
        if found:
            near = compile_on_use(re.escape(found.group(0)) + r"(?: version)?[\s:=|]{1,4}" + _VERSION, re.IGNORECASE)
            version = near.search(text)
            return {"name": name, "version": version.group(1).rstrip(".") if version else None}
    return None

"""Sorts the ways in which `import torch` and `import torch_npu` fail; each has its own remedy."""

from __future__ import annotations

import re
from typing import NamedTuple, Pattern, Sequence

from npu_graph.cli import one_line

from . import process
from .host import Answer
from .model import SKIP, Check, check, critical

# How a probe that gave no result ended.
CRASHED, HUNG, FLOODED, KILLED, NO_TIME = "crash", "hang", "flood", "killed", "no_time"
OTHER = "other"


class Kind(NamedTuple):
    """A class of import errors: the outcome that its text carries, and a group `what` that fills the text."""

    outcome: str
    expression: Pattern[str]


def _kind(outcome: str, expression: str) -> Kind:
    return Kind(outcome, re.compile(expression))


_MISSING = r"{}: cannot open shared object file"
# The first that matches wins: the specific ones stand before the general ones.
KINDS = (
    _kind("permission", r"(?P<what>[\w./+-]{0,200}): (?:cannot open shared object file: )?Permission denied"),
    # set_env.sh was not sourced, or CANN is not installed: vllm-project/vllm-ascend#262.
    _kind("no_hccl", _MISSING.format(r"(?P<what>libhccl\.so[\w.]{0,12})")),
    # The driver is not mounted into the container: vllm-project/vllm-ascend#1440.
    _kind(
        "no_driver_library",
        _MISSING.format(r"(?P<what>lib(?:ascend_hal|drvdsmi_host|dcmi|mmpa|c_sec)\.so[\w.]{0,12})"),
    ),
    _kind(
        "no_cann_library",
        _MISSING.format(
            r"(?P<what>lib(?:ascendcl|acl_op_compiler|acl_tdt_channel|ge_runner|ge_common|graph|runtime|opapi|msprofiler)"
            r"\.so[\w.]{0,12})"
        ),
    ),
    # NNAL (ATB) is a package of its own: vllm-project/vllm-ascend#152.
    _kind("no_atb", _MISSING.format(r"(?P<what>libatb\.so[\w.]{0,12})")),
    _kind("no_torch_library", _MISSING.format(r"(?P<what>lib(?:torch|c10)\w{0,30}\.so[\w.]{0,12})")),
    _kind("no_library", r"(?P<what>lib[\w.+-]{1,60}\.so[\w.]{0,12}): cannot open shared object file"),
    _kind("old_libc", r"version [`'](?P<what>GLIBC(?:XX)?_[\d.]{1,12}|CXXABI_[\d.]{1,12})'? not found"),
    # A wheel for the other processor architecture.
    _kind("wrong_machine", r"(?P<what>wrong ELF class|invalid ELF header|Exec format error|ELF load command)"),
    # Ascend/pytorch#7: an older libgomp is found first.
    _kind("static_tls", r"(?P<what>[\w./+-]{0,200}): cannot allocate memory in static TLS block"),
    # A symbol of NNAL: vllm-project/vllm-ascend#117.
    _kind("atb_symbol", r"undefined symbol: (?P<what>_ZN3atb\w{1,200}|_ZN3Mki\w{1,200})"),
    # A symbol of torch: the wheel was built for another torch, or with the other C++ ABI.
    _kind(
        "torch_symbol", r"undefined symbol: (?P<what>_Z(?:T[IVS])?N?K?(?:3c10|2at|5torch|8torch_npu|7c10_npu)\w{1,200})"
    ),
    # A symbol of CANN: wheel and CANN do not belong together. triton-lang/triton-ascend#328 (MsprofSysCycleTime).
    _kind("cann_symbol", r"undefined symbol: (?P<what>(?:acl|Msprof|[Hh]ccl|rt|ge|_ZNK?2ge|tdt|Adx)\w{1,200})"),
    _kind("symbol", r"undefined symbol: (?P<what>\w{1,200})"),
    _kind("home_invalid", r"ASCEND_HOME_PATH : (?P<what>\S{1,200}) does not exist"),
    _kind("opp_unset", r"(?P<what>ASCEND_OPP_PATH) environment variable is not set"),
    _kind("opp_invalid", r"(?P<what>ASCEND_(?:OPP|RUNTIME|COMPILER)_PATH : \S{1,200}) does not exist"),
    _kind("two_accelerators", r"Two accelerators cannot be used at the same time .{0,20}: (?P<what>npu and \w{1,20})"),
    _kind("not_built", r"No module named '(?P<what>torch_npu\._C|torch\._C)'"),
    _kind("no_module", r"No module named '(?P<what>[\w.]{1,100})'"),
    _kind("wrong_torch", r"cannot import name '(?P<what>\w{1,100})' from '?(?:partially initialized module )?'?torch"),
    _kind("wrong_torch", r"module 'torch[\w.]{0,60}' has no attribute '(?P<what>\w{1,100})'"),
    _kind(
        "bad_setting",
        r"(?P<what>Invalid log settings|[A-Z][A-Z_]{5,60} (?:should|must|is invalid|only support)[^\n]{0,120})",
    ),
)


def outcome(answer: Answer) -> str:
    """Return the class of what went wrong in a probe."""
    ended = answer.outcome
    if ended.kind == process.NO_TIME:
        return NO_TIME
    if ended.kind == process.TIMEOUT:
        return HUNG
    if ended.kind == process.FLOOD:
        return FLOODED
    if ended.kind == process.SIGNAL:
        return KILLED if ended.detail in ("SIGKILL", "SIGTERM") else CRASHED
    kind = _find(_text(answer))
    return kind[0] if kind else OTHER


def values(answer: Answer) -> dict[str, str]:
    """Return what fills the text of the class: the library or symbol, the stage, the signal, the seconds."""
    kind = _find(_text(answer))
    error = answer.error
    message = f"{error.get('type', '')}: {error.get('message', '')}" if error else answer.outcome.stderr.strip()[-200:]
    return {
        "what": one_line(kind[1] if kind else message, 200),
        "stage": answer.stage or "start",
        "signal": answer.outcome.detail,
        "seconds": f"{answer.outcome.seconds:.0f}",
    }


def failed(name: str, answer: Answer, known: Sequence[str] = ()) -> Check:
    """Return the check of a probe that gave no result.

    Args:
        known: outcomes that have a text of their own under this check; others become "error" (all, if empty).
    """
    found = outcome(answer)
    if found == NO_TIME:
        return check(name, NO_TIME, SKIP, endings(answer), **values(answer))
    if known and found not in known:
        found = "error"
    return critical(name, found, endings(answer), **values(answer))


def endings(answer: Answer) -> list[str]:
    """Return evidence: how the probe ended, the exception, and the place where it was raised."""
    ended = answer.outcome
    lines = []
    if ended.kind == process.SIGNAL:
        lines.append(f"killed by {ended.detail} at stage: {answer.stage or 'start'}")
    elif ended.kind == process.TIMEOUT:
        lines.append(f"no answer after {ended.seconds:.0f} s at stage: {answer.stage or 'start'}")
    elif ended.kind != process.OK:
        lines.append(f"ended with {ended.kind} {ended.detail} at stage: {answer.stage or 'start'}")
    error = answer.error
    if error:
        lines += _frames(error.get("traceback", ""))
        lines += [f"{error['type']}: {text}" if at == 0 else text for at, text in enumerate(_lines(error["message"]))]
    else:
        lines += [text for text in ended.stderr.splitlines() if text.strip()][-4:]
    return lines


def _text(answer: Answer) -> str:
    error = answer.error
    return f"{error.get('type')}: {error.get('message')}\n" if error else answer.outcome.stderr[-20000:]


def _find(text: str) -> tuple[str, str] | None:
    for kind in KINDS:
        found = kind.expression.search(text[:20000])
        if found:
            return kind.outcome, found.group("what")
    return None


def _frames(traceback: str) -> list[str]:
    """Return the last place of a traceback."""
    places = [text.strip() for text in traceback.splitlines() if text.lstrip().startswith('File "')]
    return places[-1:]


def _lines(message: str, limit: int = 6) -> list[str]:
    return [text for text in message.splitlines() if text.strip()][:limit] or [""]

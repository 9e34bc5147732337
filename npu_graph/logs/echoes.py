"""Which errors only report the failure of another process, and which rank they name as the one waited for."""

from __future__ import annotations

import re

from npu_graph.expressions import compile_on_use

_A_PROCESS_WAITED = "a process waited for one that failed or never came"
# Errors by which a process only reports that another one failed, or that it is going down. Never a first cause while
# an error of another kind exists.
_ECHOES = (
    (
        compile_on_use(
            r"Worker failed with error|EngineDeadError|EngineCore (?:died|encountered)|Engine core init\w+ failed"
            r"|WorkerProc initialization failed|died unexpectedly|Failed core proc|Executor failed|ChildFailedError"
            r"|exitcode|SIGQUIT|SIGTERM|Child process .{0,40}(?:exit|die)|scheduler .{0,30}exception",
        ),
        "a process says that another one failed",
    ),
    (
        # A timeout as a message or as an exception; AclrtSynchronizeStreamWithTimeout is only a function, which fails
        # for other reasons as well (107027: the stream is in capture).
        compile_on_use(
            r"(?<![A-Za-z_])[Tt]ime[sd]?[ -]?[Oo]ut(?![A-Za-z_])|(?<![A-Za-z])TIMEOUT(?![A-Za-z])"
            r"|Timeout(?:Error|Exception|Expired)|(?:Read|Write|Connect|Pool)Timeout\b"
            r"|[Nn]otify [Ww]ait|NOTIFY WAIT|Notify register|no connect|recv fail"
            r"|[Cc]onnection (?:reset|refused|closed)|Broken ?[Pp]ipe|shm_broadcast|Server disconnected"
            r"|wait .{0,40}(?:expired|too long)"
        ),
        _A_PROCESS_WAITED,
    ),
    (
        # Waits that torch_npu reports by their code alone: 107019 wait, 507046 stream, 507047 event, 507048 FFTS+
        # task, 507915 CCU task ran out of time (knowledge/error-code-map.md).
        compile_on_use(r"error code is (?:107019|507046|507047|507048|507915)\b"),
        _A_PROCESS_WAITED,
    ),
    (
        compile_on_use(
            r"EOFError|resource_tracker|leaked|Exception ignored|Bad file descriptor|cancelled|KeyboardInterrupt"
        ),
        "a process going down",
    ),
)
# A timeout of a kernel on the device is a fault of that kernel, not a wait for a peer.
_OWN_TIMEOUT = compile_on_use(
    r"aicore timeout|aicpu timeout|aivec timeout|vector core timeout|507014|507017", re.IGNORECASE
)
_NAMED_RANK = compile_on_use(r"remote ?rank(?:s| ?id)?[ :=]{0,3}\[? ?(\d{1,6})\b", re.IGNORECASE)


def echo_of(text: str) -> str:
    """Return why an error is only a consequence of another one, or ''."""
    if _OWN_TIMEOUT.search(text):
        return ""
    return next((why for expression, why in _ECHOES if expression.search(text)), "")


def named_rank(text: str) -> str:
    """Return the rank that a waiting process names as the remote one (EI0002 and HCCL do), or ''."""
    found = _NAMED_RANK.search(text)
    return found.group(1) if found is not None else ""

"""Log lines that bear on a hang: what each log says, and what it says last."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from .scan import lines_with

MAX_PER_KIND = 20
MAX_LINE = 2000

# Each row: kind, words one of which the line must hold, expression. Sources: those of patterns P-HANG-001 to 003 and
# of the codes in error-code-map.md.
_ROWS = (
    ("pending_comm", ("pending NCCL",), r"Waiting for pending NCCL work to finish before starting graph capture"),
    (
        "sync_timeout",
        ("107020", "507046", "sync timeout", "WithTimeout"),
        r"\b(?:107020|507046)\b|stream sync timeout|Synchronize(?:Stream|Device)WithTimeout",
    ),
    (
        "task_timeout",
        ("507048", "task timeout", "stuck notify num"),
        r"\b507048\b|fftsplus task timeout|stuck notify num:\d{1,6}",
    ),
    (
        "kernel_timeout",
        ("507014", "507034", "507035", "timeout", "timed out"),
        r"\b(?:507014|507034|507035)\b|aic(?:ore)? (?:task )?timeout|aiv(?:ec)? (?:task )?timeout"
        r"|(?:aicore|vector core) execution timed? ?out|[Kk]ernel .{0,80} (?:timed out|timeout)",
    ),
    (
        "update_failed",
        ("update_capture_record", "graph_task_update_", "cpu_update_input list"),
        r"update_capture_record|graph_task_update_(?:begin|end)|elements in the incoming cpu_update_input list",
    ),
    (
        "updatable",
        ("auto_dispatch_capture", "cpu_update_input", "graph_params", "attn_params"),
        r"auto_dispatch_capture|cpu_update_input|update_full_graph_params|update_attn_params",
    ),
    ("replaying", ("eplaying",), r"[Rr]eplaying (?:acl|npu|cuda) ?graph"),
    ("no_block", ("shared memory broadcast",), r"No available shared memory broadcast block found in \d{1,6} seconds"),
    (
        "rpc_timeout",
        ("timed out", "Watchdog timeout"),
        r"RPC call to \w{1,60} timed out|execute_model timed out|Watchdog timeout",
    ),
    (
        "connect_timeout",
        ("EI0006", "socket times out", "socket timeout", "CONNECT TIMEOUT"),
        r"\bEI0006\b|Getting socket times out|get socket timeout|CONNECT TIMEOUT DETECT",
    ),
    (
        "exited",
        ("died", "exited", "was killed", "exitcode", "Signal ", "Out of memory: Kill"),
        r"(?:Worker|worker|process) .{0,60}(?:died|exited|was killed)|exitcode: -?\d{1,4}"
        r"|Signal \d{1,2} \(SIG[A-Z]{2,8}\)|Out of memory: Kill",
    ),
)
_KINDS = tuple((kind, words, re.compile(expression)) for kind, words, expression in _ROWS)


class Event(NamedTuple):
    """One telling line. `last` is true when it is among the last lines of its log."""

    kind: str
    source: str
    line: int
    text: str
    last: bool


def read_events(texts: Sequence[tuple[str, str]]) -> list[Event]:
    """Return telling lines of logs, bounded per kind and file."""
    events: list[Event] = []
    for source, text in texts:
        tail = _start_of_tail(text)
        for kind, words, expression in _KINDS:
            found: list[Event] = []
            for number, full in lines_with(text, words):
                line = full[:MAX_LINE]
                if expression.search(line):
                    found.append(Event(kind, source, number, line.strip()[:300], number >= tail))
            events += found[:MAX_PER_KIND] + [event for event in found[MAX_PER_KIND:] if event.last]
    return events


def _start_of_tail(text: str) -> int:
    """Return the number of the third last line that is not blank."""
    end = len(text)
    for _ in range(3):
        stripped = len(text[max(0, end - MAX_LINE) : end].rstrip()) + max(0, end - MAX_LINE)
        start = text.rfind("\n", 0, stripped)
        if start < 0:
            return 1
        end = start
    return text.count("\n", 0, end) + 2

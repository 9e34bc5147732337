"""Log lines that bear on a hang: what each log says, and what it says last."""

# ruff: noqa: E501 (a table of expressions)
from __future__ import annotations

import re
from typing import NamedTuple, Sequence

MAX_PER_KIND = 20
MAX_LINE = 2000

# Each row: kind, text that must occur (cheap), expression. The sources are those of the patterns P-HANG-001 to 003.
_ROWS = (
    ("pending_comm", "pending NCCL", r"Waiting for pending NCCL work to finish before starting graph capture"),
    (
        "sync_timeout",
        "",
        r"\b(?:107020|507046)\b|stream sync timeout|SynchronizeStreamWithTimeout|SynchronizeDeviceWithTimeout",
    ),
    (
        "task_timeout",
        "",
        r"\b507048\b|fftsplus task timeout|stuck notify num:\d{1,6}|ModelExecute\w{0,8} .{0,80}timeout",
    ),
    (
        "kernel_timeout",
        "",
        r"\b(?:507014|507034|507035)\b|aic(?:ore)? (?:task )?timeout|aiv(?:ec)? (?:task )?timeout"
        r"|(?:aicore|vector core) execution timed? ?out|kernel .{0,80} (?:timed out|timeout)",
    ),
    ("device_fault", "", r"aicore exception|aicore error|aivec error|\b(?:507011|507015)\b|MTE instruction error"),
    (
        "update_failed",
        "",
        r"update_capture_record|graph_task_update_(?:begin|end)|elements in the incoming cpu_update_input list",
    ),
    ("updatable", "", r"auto_dispatch_capture|cpu_update_input|update_full_graph_params|update_attn_params"),
    ("replaying", "eplay", r"[Rr]eplaying (?:acl|npu|cuda) ?graph"),
    ("no_block", "shared memory broadcast", r"No available shared memory broadcast block found in \d{1,6} seconds"),
    ("rpc_timeout", "", r"RPC call to \w{1,60} timed out|execute_model timed out|Watchdog timeout"),
    ("connect_timeout", "", r"\bEI0006\b|Getting socket times out|get socket timeout|CONNECT TIMEOUT DETECT"),
    (
        "exited",
        "",
        r"(?:Worker|worker|process) .{0,60}(?:died|exited|was killed)|exitcode: -?\d{1,4}|Signal \d{1,2} \(SIG[A-Z]{2,8}\)"
        r"|Out of memory: Kill",
    ),
)
_KINDS = tuple((kind, literal, re.compile(expression)) for kind, literal, expression in _ROWS)
_ANY = re.compile("|".join(f"(?:{expression})" for _, _, expression in _ROWS))


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
        lines = text.split("\n")
        filled = [number for number, line in enumerate(lines, 1) if line.strip()]
        tail = filled[-3] if len(filled) >= 3 else 1
        counts: dict[str, int] = {}
        for number, full in enumerate(lines, 1):
            line = full[:MAX_LINE]
            if not _ANY.search(line):
                continue
            for kind, literal, expression in _KINDS:
                if (literal and literal not in line) or not expression.search(line):
                    continue
                counts[kind] = counts.get(kind, 0) + 1
                if counts[kind] <= MAX_PER_KIND or number >= tail:
                    events.append(Event(kind, source, number, line.strip()[:300], number >= tail))
    return events

"""One log line taken apart: which program wrote it, when, at which level, in which process and rank."""

from __future__ import annotations

import re
from typing import NamedTuple

from npu_graph.expressions import compile_on_use
from npu_graph.logs.stamps import Clock, Stamp

# Longer lines are cut before any expression sees them: a whole JSON document on one line is no reason to be slow.
MAX_TEXT = 4000

BAD_LEVELS = frozenset(["ERROR", "FATAL", "CRITICAL"])
_GLOG_LEVELS = {b"V": "DEBUG", b"D": "DEBUG", b"I": "INFO", b"W": "WARNING", b"E": "ERROR", b"F": "FATAL"}

# What a container or launcher puts before a line. `who` names a process, `stamp` is the runtime's own time.
# Each is tried only where its first byte can stand.
_STAMP_PREFIX = compile_on_use(
    rb"(?P<stamp>20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (?:std(?:out|err) [FP] )?"
)
_COMPOSE_PREFIX = compile_on_use(rb"[A-Za-z0-9][\w.-]{0,60} {0,30}\| ?")
_RANK_PREFIX = compile_on_use(rb"(?P<rank>rank ?\d{1,5}) ?: ")
_BRACKET_PREFIX = compile_on_use(
    rb"\[(?:pod|container)/[\w./-]{1,200}\] "  # kubectl logs --prefix
    rb"|\[(?P<rank>rank ?\d{1,5})\]:? ?(?!\[\d{1,9}\] \[20)"  # torchrun, c10d; not torch_npu's old head
    rb"|\[(?:default|stdout|stderr)(?P<local>\d{1,5})\]:"  # torchrun --tee: a local rank
)
_ACTOR_PREFIX = compile_on_use(rb"\([\w.:-]{1,40} pid=(?P<actor>\d{1,9}), ip=(?P<ip>[\d.]{7,15})\) ?")  # Ray
_MAX_PREFIXES = 4
_SERVICE_WHO = compile_on_use(rb"\((?P<who>[A-Za-z][\w .:-]{0,60}?) ?pid=(?P<pid>\d{1,9})(?:, ip=[\d.]{7,15})?\) ?")
# Processes of a service that own no device: their number is no rank.
_NOT_A_RANK = ("EngineCore", "APIServer", "ApiServer")
_RANK_NAME = compile_on_use(rb"(DP|PP|TP)(\d{1,4})")

_PLOG = compile_on_use(
    rb"\[(?P<level>[A-Z_]{3,12}|\d{1,2})\] ?(?P<module>[A-Za-z_]\w{0,23}|\d{1,3})\((?P<pid>\d{1,9})[,:]"
    rb"(?P<proc>[^)\n]{0,80})\):(?P<stamp>20\d\d-\d\d-\d\d[- ]\d\d:\d\d:\d\d\.\d{3}\.\d{3})? ?"
)
_GLOG = compile_on_use(
    rb"(?P<level>[VDIWEF])(?P<stamp>(?:20\d\d)?\d{4} \d\d:\d\d:\d\d\.\d{6})(?:\d{3})? {1,4}(?P<pid>\d{1,9})"
    rb"(?: (?P<file>[^\]\s]{1,300}))?\] ?(?:\[rank:(?P<rank>-?\d{1,6})\] ?)?(?:\[(?P<frame>\d+/\d+(?:_\d+)?)\] ?)?"
)
_C10 = compile_on_use(
    rb"\[(?:(?P<rank>rank\d{1,5})\]:\[)?(?P<level>[VDIWEF])(?P<stamp>\d{4} \d\d:\d\d:\d\d\.\d{6})\d{0,3} "
    rb"(?P<file>[^\]\s]{1,300})\] ?"
)
_OLD_NPU = compile_on_use(
    rb"(?:\[rank:(?P<rank>-?\d{1,6})\]:)?\[(?P<pid>\d{1,9})\] \[(?P<stamp>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d:\d{3})\] "
    rb"(?P<file>[\w.]{1,80}): \[(?P<level>[A-Z]{3,10})\] (?:\[\d{1,12}\] )?"
)
_VLLM = compile_on_use(
    rb"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) "
    rb"\[(?P<file>[^\]\n]{1,120})\] ?"
)
_SGLANG = compile_on_use(
    rb"\[(?P<stamp>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{3,6})?)(?P<who>[^\]\n]{0,40})\] ?"
    rb"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ] ?)?"
)
_PYTHON = compile_on_use(
    rb"(?P<stamp>20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{3,6})?),? {1,2}(?:- )?(?:\[?[\w./:-]{1,80}\]? - )?"
    rb"\[?(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b\]?[ :-]{0,3}"
)
_PTA = compile_on_use(
    rb"\[(?P<level>[A-Z]{4,8})\] (?P<stamp>20\d\d-\d\d-\d\d-\d\d:\d\d:\d\d) "
    rb"\(PID: ?(?P<pid>\d{1,9}), Device: ?(?P<device>-?\d{1,5}), RankID: ?(?P<rank>-?\d{1,6})\) ?"
)
_CANN = compile_on_use(
    rb"(?P<code>[EW][A-Z1-9]\d{4}):? ?(?:\[PID: ?(?P<pid>\d{1,9})\] (?P<stamp>20[\d:.-]{21,27})? ?)?"
    rb"(?:\([EW][A-Z1-9]\d{4}\):? {0,3})?"
)
_CANN_USER = compile_on_use(
    rb"\[PID: ?(?P<pid>\d{1,9})\] (?P<stamp>20[\d:.-]{21,27}) (?=.{0,80}\((?P<code>[EW][A-Z1-9]\d{4})\))"
)
_SYSLOG = compile_on_use(
    rb"(?P<stamp>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d) (?P<who>[\w.-]{1,64}) (?=kernel|systemd|dmesg)"
)
_UPTIME = compile_on_use(rb"\[ {0,6}\d{1,9}\.\d{6}\] ")

_FORMATS = (
    ("pta", _PTA),
    ("plog", _PLOG),
    ("torch_npu", _GLOG),
    ("c10", _C10),
    ("torch_npu_old", _OLD_NPU),
    ("vllm", _VLLM),
    ("sglang", _SGLANG),
    ("python", _PYTHON),
    ("cann", _CANN),
    ("cann", _CANN_USER),
    ("kernel", _SYSLOG),
    ("kernel", _UPTIME),
)
# The first byte of each format: the expressions are tried only where they can match.
_STARTS = {
    "pta": b"[",
    "plog": b"[",
    "torch_npu": b"VDIWEF",
    "c10": b"[",
    "torch_npu_old": b"[",
    "vllm": b"DIWECF",
    "sglang": b"[",
    "python": b"2",
    "cann": b"EW[",
    "kernel": b"JFMASOND[",
}


_BY_START = {
    bytes([start]): tuple(item for item in _FORMATS if start in _STARTS[item[0]])
    for start in sorted(set(b"".join(_STARTS.values())))
}


class LogLine(NamedTuple):
    """A line taken apart. `text` is the message without prefixes; `pid`, `rank` and `name` are '' where absent."""

    form: str
    level: str
    module: str
    file: str
    pid: str
    rank: str
    name: str
    code: str
    stamp: Stamp | None
    text: bytes


def parse_line(raw: bytes, clock: Clock) -> LogLine:
    """Take a raw line apart, whatever its format; linear in the bounded line."""
    data = raw[:MAX_TEXT].rstrip(b"\r\n")
    if b"\r" in data:  # a progress bar: what stands on screen is the last state
        data = next((part for part in reversed(data.split(b"\r")) if part.strip()), b"")
    if b"\x1b" in data:
        data = _ANSI.sub(b"", data)
    rank, pid, name, outer, at = "", "", "", None, 0
    for _ in range(_MAX_PREFIXES):
        found = _prefix_at(data, at)
        if found is None:
            break
        groups = found.groupdict()
        if groups.get("rank"):
            rank = groups["rank"][4:].strip().decode()
        if groups.get("local"):
            rank = rank or groups["local"].decode()
        if groups.get("actor"):
            pid = groups["actor"].decode()
        if groups.get("stamp"):
            outer = clock.dated(groups["stamp"])
        at = found.end()
    names = []
    for _ in range(_MAX_PREFIXES):  # `(EngineCore_DP0 pid=1) (Worker_TP1_EP1 pid=2) `: the innermost one speaks
        found = _SERVICE_WHO.match(data, at)
        if found is None:
            break
        name = found.group("who").decode("latin-1").strip()
        names.append(name)
        pid = found.group("pid").decode()
        at = found.end()
    if names and not name.startswith(_NOT_A_RANK):
        rank = rank_of_name("_".join(names)) or rank
    line = _parse_format(data, at, clock)
    if not at and line.text[:1] not in b"[E":  # nothing stands before it, and no error block in it
        return line
    inner = line
    if line.form in ("vllm", "sglang", "python", "c10", "torch_npu") and line.text[:1] in b"[E":
        # A torch_npu or CANN error block inside a service's line: its own stamp and ids are the closer ones.
        block = _parse_format(line.text, 0, clock)
        if block.form in ("pta", "cann", "plog"):
            inner = block._replace(level=line.level if block.level not in BAD_LEVELS else block.level)
    stamp = inner.stamp or line.stamp or outer
    if inner.stamp is not None and inner.stamp.resolution >= 1_000_000 and line.stamp is not None:
        stamp = min(inner.stamp, line.stamp, key=lambda item: item.resolution)
    return inner._replace(
        level=inner.level or line.level,
        pid=inner.pid or line.pid or pid,
        rank=inner.rank or line.rank or rank,
        name=inner.name or line.name or name,
        file=inner.file or line.file,
        stamp=stamp,
    )


def read_stamp(raw: bytes, clock: Clock) -> Stamp | None:
    """Return the stamp of a raw line: that of `parse_line`, without the rest for the two most frequent formats."""
    if b"\r" not in raw and b"\x1b" not in raw:
        found = _PLOG.match(raw)
        if found is not None:
            return clock.dated(found.group("stamp")) if found.group("stamp") else None
        found = _GLOG.match(raw)
        # What begins like this can be an error block with a stamp of its own.
        if found is not None and raw[found.end() : found.end() + 1] not in b"[E":
            return clock.glog(found.group("stamp"))
    return parse_line(raw, clock).stamp


def _prefix_at(data: bytes, at: int) -> re.Match[bytes] | None:
    first = data[at : at + 1]
    if first == b"[":
        return _BRACKET_PREFIX.match(data, at) if data[at + 1 : at + 2] in b"rpcds" else None
    if first == b"(":
        return _ACTOR_PREFIX.match(data, at) if data.find(b", ip=", at, at + 70) > 0 else None
    found = _STAMP_PREFIX.match(data, at) if first == b"2" else None
    if found is None and data.find(b"|", at, at + 100) > 0:
        found = _COMPOSE_PREFIX.match(data, at)
    if found is None and first == b"r":
        found = _RANK_PREFIX.match(data, at)
    return found


_ANSI = compile_on_use(rb"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|[@-Z\\-_])")


def _parse_format(data: bytes, at: int, clock: Clock) -> LogLine:
    for form, expression in _BY_START.get(data[at : at + 1], ()):
        found = expression.match(data, at)
        if found is None:
            continue
        groups = found.groupdict()
        raw_stamp = groups.get("stamp")
        stamp = None
        if raw_stamp:
            if form in ("torch_npu", "c10"):
                stamp = clock.glog(raw_stamp)
            elif form == "vllm":
                stamp = clock.short(raw_stamp)
            elif form == "kernel":
                stamp = clock.syslog(raw_stamp)
            else:
                stamp = clock.dated(raw_stamp)
        level = groups.get("level") or b""
        level_text = _GLOG_LEVELS.get(level, "") or level.decode("latin-1").replace("WARN", "WARNING")[:7].rstrip()
        if form == "cann":
            level_text = "ERROR" if groups["code"][:1] == b"E" else "WARNING"
        who = (groups.get("who") or groups.get("proc") or b"").decode("latin-1").strip()
        rank = (groups.get("rank") or b"").decode()
        rank = rank[4:] if rank.startswith("rank") else rank
        if rank.startswith("-"):
            rank = ""
        return LogLine(
            form,
            {"CRITICA": "CRITICAL"}.get(level_text, level_text),
            (groups.get("module") or b"").decode("latin-1"),
            (groups.get("file") or b"").decode("latin-1"),
            (groups.get("pid") or b"").decode(),
            rank or rank_of_name(who),
            "" if form == "kernel" else who,
            (groups.get("code") or b"").decode(),
            stamp,
            data[at:] if form in ("cann", "pta") else data[found.end() :],
        )
    return LogLine("text", "", "", "", "", "", "", "", None, data[at:])


def rank_of_name(name: str) -> str:
    """Return the rank in a worker's name: `Worker_DP0_TP1_EP1` and `VLLM::Worker_TP1` give 'DP0.TP1' and 'TP1'."""
    parts = _RANK_NAME.findall(name.encode("latin-1", "replace"))
    return ".".join((kind + number).decode() for kind, number in parts)

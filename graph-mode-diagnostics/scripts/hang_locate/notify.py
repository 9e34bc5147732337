"""Who waits for whom, from HCCL's texts: EI0002 blocks, task exceptions of plog, AI CPU and link errors."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from .identity import Names
from .scan import lines_with

MAX_LINE = 4000
MAX_RECORDS = 20000

# hcomm src/framework error text EI0002: "... record from remote rank: [24]. base information: [... tag[...] ...].
# task information: [notify id:[..], stage:[..], remote rank:[24]]. group information: [group:[g], user define
# information[..], rankSize[32], rankId[25], peerRankId[24]]". Earlier CANN: no colon, no group information.
_WORDS = (
    "has not received the Notify",
    "information is",
    "emote rank",
    "localRank:",
    "createLink para:",
    "no connect",
    "Occurred",
    "status[LOST]",
)
_NOTIFY = re.compile(r"has not received the Notify record from remote rank:? ?\[(\d{1,6}|[a-z]{1,10})\]")
_PID = re.compile(r"\[PID: ?(\d{1,9})\]")
_HCCL_PID = re.compile(r"HCCL\((\d{1,9}),")
_TAG = re.compile(r"\btag ?[\[:](\w[^\],]{0,150})")
_GROUP = re.compile(r"\bgroup ?:?\[([^\]]{1,120})\]")
_SIZE = re.compile(r"rankSize\[(\d{1,6})\]")
_OWN = re.compile(r"\brankId\[(\d{1,6})")
_PEER = re.compile(r"peerRankId\[(\d{1,6})\]|rankId\[\d{1,6} (\d{1,6})\]")
_REMOTE = re.compile(r"remote rank ?:? ?\[(\d{1,6})\]")
# Three lines of task_exception_handler.cc belong together: base, groupRank, opData (same pid).
_GROUP_LINE = "groupRank information is"
_OP_LINE = "opData information is"
_BASE_LINE = "base information is"
_OP = re.compile(r"(index|count|reduceType|dataType)\[([^\]]{1,40})\]")
# aicpu_communicator.cc: "type:NOTIFY WAIT, localRank:1, remoteRank:0"; 4294967295 stands for none.
_AICPU = re.compile(r"type:NOTIFY WAIT, localRank:(\d{1,10}), remoteRank:(\d{1,10})")
_NO_RANK = 4294967295
_AICPU_GROUP = re.compile(r"\bgroup:([\w.%-]{1,120}), opIndex")
# transport_manager.cc: a link between two ranks that never came up.
_LINK = re.compile(r"createLink para:rank\[(\d{1,6})\].{0,200}?(?:dst_rank|remoteRank)\[(\d{1,6})\]")
# comm_base.cc LINK_ERROR_INFO: |  dest_ip(rank_id)  |  src_ip(rank_id)   |   Role   |   Status   |
_LINK_ROW = re.compile(
    r"\|\s{1,8}[\w.:%-]{2,60}\((\d{1,6})\)\s{1,8}\|\s{1,8}[\w.:%-]{2,60}\((\d{1,6})\)\s{1,8}\|\s{1,8}(?:server|client)"
    r"\s{1,8}\|\s{1,8}no connect"
)
# The cluster heartbeat names the rank that is gone: newer text, older one, and the trace line of heartbeat.cc.
_LOST = re.compile(
    r"Cluster Exception Location\[IP/ID\]:\[([^\]]{1,60})\].{0,200}?ExceptionType:\[([^\]]{1,60})\]"
    r"|serverId\[([^\]]{1,60})\], deviceId\[(\d{1,4})\], ([A-Z][\w ]{3,40} Occurred)"
    r"|rank \[([^\]]{1,60})\] status\[(LOST)\] by rank"
)


class Wait(NamedTuple):
    """One rank that waits for another inside a communicator. `remote` is -1 where the text says unknown."""

    group: str
    size: int
    own: int
    remote: int
    tag: str
    pid: int
    kind: str
    source: str
    line: int
    text: str


class Operation(NamedTuple):
    """What a rank of a communicator was running when it failed: two ranks that differ are the mismatch."""

    group: str
    own: int
    name: str
    values: tuple[tuple[str, str], ...]
    source: str
    line: int


class Lost(NamedTuple):
    """A rank that HCCL's heartbeat reports as gone or stuck."""

    where: str
    what: str
    source: str
    line: int


class Notices(NamedTuple):
    """All that HCCL said in one or more logs."""

    waits: list[Wait]
    operations: list[Operation]
    lost: list[Lost]


def read_notices(texts: Sequence[tuple[str, str]]) -> Notices:
    """Read (file name, text) pairs."""
    notices = Notices([], [], [])
    for source, text in texts:
        _read_one(source, text, notices)
    return notices


class _Pending:
    """The task exception that a process is reporting, line by line; `index` is its wait in the list, or -1."""

    def __init__(self) -> None:
        self.tag = ""
        self.group = ""
        self.own = -1
        self.index = -1


def _read_one(source: str, text: str, notices: Notices) -> None:
    pending: dict[int, _Pending] = {}
    for number, full in lines_with(text, _WORDS):
        line = full[:MAX_LINE]
        if len(notices.waits) >= MAX_RECORDS:
            return
        for found in _LOST.finditer(line):
            newer, kind, server, device, older, traced, status = found.groups()
            where = newer or traced or f"{server}, device {device}"
            notices.lost.append(Lost(where, kind or older or f"status {status.capitalize()}", source, number))
        who = _HCCL_PID.search(line) or _PID.search(line)
        pid = int(who.group(1)) if who else 0
        shown = line.strip()[:300]
        notify = _NOTIFY.search(line)
        if notify:
            notices.waits.append(_of_block(line, notify.group(1), pid, source, number, shown))
            continue
        link = _LINK.search(line)
        if link:
            tag = _first(_TAG, line)
            notices.waits.append(
                Wait(
                    _group_of_tag(tag),
                    0,
                    int(link.group(1)),
                    int(link.group(2)),
                    tag,
                    pid,
                    "link",
                    source,
                    number,
                    shown,
                )
            )
            continue
        row = _LINK_ROW.search(line)
        if row:
            remote, own = int(row.group(1)), int(row.group(2))
            notices.waits.append(Wait("", 0, own, remote, "", pid, "link", source, number, shown))
            continue
        aicpu = _AICPU.search(line)
        if aicpu:
            own, remote = int(aicpu.group(1)), int(aicpu.group(2))
            wait = Wait("", 0, own, -1 if remote == _NO_RANK else remote, "", pid, "notify", source, number, shown)
            notices.waits.append(wait)
            state = pending.setdefault(pid, _Pending())
            state.index, state.own, state.group = len(notices.waits) - 1, own, ""
            continue
        if "information is" in line:
            _task_exception(line, pending.setdefault(pid, _Pending()), pid, source, number, notices)


def _of_block(line: str, remote: str, pid: int, source: str, number: int, shown: str) -> Wait:
    tag = _first(_TAG, line)
    group = _first(_GROUP, line) or _group_of_tag(tag)
    return Wait(
        group,
        int(_first(_SIZE, line) or 0),
        int(_first(_OWN, line) or -1),
        int(remote) if remote.isdigit() else -1,
        tag,
        pid,
        "notify",
        source,
        number,
        shown,
    )


def _task_exception(line: str, state: _Pending, pid: int, source: str, number: int, notices: Notices) -> None:
    """Join the lines of one task exception: base (tag), groupRank (who), task (for whom), opData (what)."""
    if _BASE_LINE in line:
        state.tag, state.index = _first(_TAG, line), -1
        return
    if _GROUP_LINE in line:
        state.group, state.own = _first(_GROUP, line), int(_first(_OWN, line) or -1)
        peer = _PEER.search(line)
        remote = int(peer.group(1) or peer.group(2)) if peer else -1
        size = int(_first(_SIZE, line) or 0)
        state.index = len(notices.waits)
        notices.waits.append(
            Wait(state.group, size, state.own, remote, state.tag, pid, "notify", source, number, line.strip()[:300])
        )
        return
    if _OP_LINE in line:
        tag = _first(_TAG, line) or state.tag
        group = _AICPU_GROUP.findall(line)[:1] or [state.group or _group_of_tag(tag)]
        if state.index >= 0 and not notices.waits[state.index].group:  # AI CPU: the group stands on this line only
            notices.waits[state.index] = notices.waits[state.index]._replace(group=group[0], tag=tag)
        values = tuple(sorted((name, value) for name, value in _OP.findall(line)))
        notices.operations.append(Operation(group[0], state.own, tag.partition("_")[0], values, source, number))
        return
    remote_rank = _REMOTE.search(line)
    if remote_rank and state.index >= 0 and notices.waits[state.index].remote < 0:
        notices.waits[state.index] = notices.waits[state.index]._replace(remote=int(remote_rank.group(1)))


def _first(expression: re.Pattern[str], line: str) -> str:
    found = expression.search(line)
    return found.group(1) if found else ""


def _group_of_tag(tag: str) -> str:
    """`AllReduce_group_name_1654NHRAllReduceComm_device` and `AllGather_group_name_119` name the communicator."""
    found = re.search(r"(group_name_\d{1,9}|hccl_world_group)", tag)
    return found.group(1) if found else ""


def world_rank(wait_group: str, group_rank: int, waits: Sequence[Wait], names: Names) -> tuple[int | None, str]:
    """Return (world rank, how it is known) of a rank of a communicator.

    HCCL numbers ranks inside the communicator; torch_npu's `RankID:` is the world rank of the same process. A rank
    that reported itself is known by its pid; for another, the numbering is taken over only where every known member
    has the same number in both.
    """
    known: dict[int, int] = {}
    for item in waits:
        rank = names.rank_of(item.source, item.pid) if item.group == wait_group and item.own >= 0 else None
        if rank is not None:
            known[item.own] = rank
    if group_rank in known:
        return known[group_rank], "reported"
    if len(known) >= 2 and all(own == rank for own, rank in known.items()):
        return group_rank, "same numbering as the members that reported"
    return None, "unknown"

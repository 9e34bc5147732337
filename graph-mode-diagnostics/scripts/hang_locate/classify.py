"""From what ranks stand in, what HCCL said and what the devices do, to classes of hang with scores and evidence."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .device import BUSY_FROM, IDLE_TO, Chip
from .events import Event
from .grouping import (
    Blocker,
    Group,
    differing_operations,
    name_members,
    odd_ones,
    ranges,
    silent_ranks,
)
from .identity import Process
from .notify import Notices
from .waits import DEVICE_KINDS, Standing, fold

KNOWN_FROM = 0.7
CANDIDATE_FROM = 0.35
MAX_EVIDENCE = 8


class Evidence(NamedTuple):
    """A line of the input that supports a claim."""

    source: str
    line: int
    text: str


class Claim(NamedTuple):
    """A class with its score (0..1), evidence and the ranks it names."""

    name: str
    score: float
    evidence: list[Evidence]
    who: list[str]


class Facts(NamedTuple):
    """Everything that was read."""

    workers: list[Standing]
    drivers: list[Standing]
    groups: list[Group]
    notices: Notices
    blockers: list[Blocker]
    events: list[Event]
    chips: list[Chip]
    update_code: list[Evidence]

    def of_kind(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]


def classify(facts: Facts) -> list[Claim]:
    """Return the claims that hold at least as candidates, best first."""
    makers = (
        _graph_update,
        _event_never_recorded,
        _collective_missed,
        _capture_pending_comm,
        _device_kernel,
        _host_lock,
        _peer_lost,
        _rendezvous,
        _no_work,
        _still_working,
    )
    claims = [make(facts) for make in makers]
    moved = moving(facts.workers)
    found = []
    for claim in claims:
        score = claim.score - 0.3 if moved and claim.name != "still_working" else claim.score
        if score >= CANDIDATE_FROM:
            found.append(claim._replace(score=round(min(score, 0.95), 2), evidence=claim.evidence[:MAX_EVIDENCE]))
    return sorted(found, key=lambda claim: -claim.score)


def moving(standings: Sequence[Standing]) -> list[Process]:
    """Return processes whose stacks changed between two samples: they are slow, not hung."""
    return [item.process for item in standings if _changed(item.process)]


def unmoved(standings: Sequence[Standing]) -> bool:
    """Say whether every process was sampled at least twice and none moved."""
    return bool(standings) and all(len(item.process.samples) > 1 and not _changed(item.process) for item in standings)


def _changed(process: Process) -> bool:
    if len(process.samples) < 2:
        return False
    before, after = (
        {thread.ident: fold(thread.frames) for thread in sample.threads} for sample in process.samples[-2:]
    )
    return any(before[ident] != after[ident] for ident in before.keys() & after.keys())


def _standing(item: Standing) -> Evidence:
    where = f"{item.process.label}: {item.waiting}"
    if item.waiting.user is not None and item.waiting.user != item.waiting.at:
        where += f", called from {item.waiting.user}"
    if item.waiting.source_line:
        where += f": {item.waiting.source_line}"
    return Evidence(item.process.source, item.waiting.thread.line, where)


def _event(event: Event) -> Evidence:
    return Evidence(event.source, event.line, event.text)


def _chip(chip: Chip) -> Evidence:
    return Evidence(chip.source, chip.line, f"NPU {chip.physical}: AI Core {chip.load} %, health {chip.health}")


def _graph_update(facts: Facts) -> Claim:
    hits = [(item, wait) for item in facts.workers for wait in item.threads if wait.kind == "graph_update"]
    if not hits:
        return Claim("graph_update", 0, [], [])
    evidence = [Evidence(item.process.source, wait.thread.line, f"{item.process.label}: {wait}") for item, wait in hits]
    score = 0.75 + (0.1 if unmoved(facts.workers) else 0)
    return Claim("graph_update", score, evidence, [item.process.label for item, _ in hits])


def _event_never_recorded(facts: Facts) -> Claim:
    standing = [item for item in facts.workers if item.waiting.kind in ("device_sync", "replay")]
    updating = any(wait.kind == "graph_update" for item in facts.workers for wait in item.threads)
    if not standing or updating or facts.notices.waits:
        return Claim("event_never_recorded", 0, [], [])
    evidence = [_standing(standing[0])]
    # All ranks at one place: none of them is what the others wait for.
    score = 0.4 if len(facts.groups) == 1 else 0.2
    failed = facts.of_kind("update_failed")
    markers = facts.of_kind("updatable")
    in_graph = [item for item in standing if item.in_graph]
    if in_graph or facts.of_kind("replaying"):
        score += 0.1
        evidence += [_standing(item) for item in in_graph[:1] if item is not standing[0]]
        evidence += [_event(event) for event in facts.of_kind("replaying")[-1:]]
    if failed:
        score += 0.35
        evidence += [_event(event) for event in failed[:2]]
    elif facts.update_code or markers:
        score += 0.2
        evidence += facts.update_code[:2] + [_event(event) for event in markers[:1]]
    if facts.chips and all(chip.load <= IDLE_TO for chip in facts.chips):
        score += 0.15
        evidence += [_chip(facts.chips[0])]
    elif any(chip.load >= BUSY_FROM for chip in facts.chips):
        score -= 0.2
    return Claim("event_never_recorded", score, evidence, [item.process.label for item in standing])


def _collective_missed(facts: Facts) -> Claim:
    score, evidence, who = _from_stacks(facts)
    roots = [item for item in facts.blockers if not item.itself_waits and item.evidence.kind == "notify"]
    if facts.blockers and any(item.evidence.kind == "notify" for item in facts.blockers):
        shown = roots[:3] or facts.blockers[:1]
        evidence += [Evidence(item.evidence.source, item.evidence.line, item.evidence.text) for item in shown]
        names = [describe_blocker(item) for item in roots]
        agree = bool(set(names) & set(who))
        score = max(score + (0.2 if agree else 0.05 if score else 0), 0.6 if roots else 0.45)
        who += [name for name in names if name not in who]
    elif facts.notices.waits and any(wait.kind == "notify" for wait in facts.notices.waits):
        score = max(score, 0.4)
        first = facts.notices.waits[0]
        evidence.append(Evidence(first.source, first.line, first.text))
    for group, size, silent, example in silent_ranks(facts.notices):
        score = max(score, 0.55) + 0.05
        text = f"{size - len(silent)} of {size} ranks of {group} report a wait; silent: {ranges(silent)}"
        evidence.append(Evidence(example.source, example.line, text))
        who += [f"rank {rank} of {group}" for rank in silent[:8] if not any(str(rank) in name.split() for name in who)]
    for group, usual, others in differing_operations(facts.notices):
        score = max(score, 0.65) + 0.1
        for item in (usual[0], others[0]):
            values = ", ".join(f"{name}[{value}]" for name, value in item.values)
            evidence.append(Evidence(item.source, item.line, f"rank {item.own} of {group}: {item.name} {values}"))
        if len(usual) > len(others):
            who += [f"rank {item.own} of {group}" for item in others if f"rank {item.own} of {group}" not in who]
    return Claim("collective_missed", score, evidence, who)


def _from_stacks(facts: Facts) -> tuple[float, list[Evidence], list[str]]:
    """What the stacks alone say: a majority that waits on the device, and others that stand elsewhere."""
    if len(facts.groups) < 2:
        # All at one place in a collective: the order or the size may still differ, which stacks do not show.
        stuck = facts.groups and len(facts.groups[0].members) > 1 and facts.groups[0].kind in DEVICE_KINDS
        return (0.35 if stuck else 0.0), [_standing(facts.groups[0].first)] if stuck else [], []
    odd = odd_ones(facts.groups)
    waiting = [group for group in facts.groups if group.kind in DEVICE_KINDS and group not in odd]
    if not waiting:
        return 0.0, [], []
    rest = odd or [group for group in facts.groups if group is not waiting[0]]
    score = 0.5 if odd else 0.4
    base, other = waiting[0].first, rest[0].first
    if base.mode != other.mode and "dummy" in (base.mode, other.mode):
        score += 0.2
    elif base.mode != other.mode:
        score += 0.1
    if base.in_graph != other.in_graph:
        score += 0.1
    if rest[0].kind not in DEVICE_KINDS:
        score += 0.15
    if base.waiting.kind == "collective":
        score += 0.05
    evidence = [_standing(base), *(_standing(group.first) for group in rest[:4])]
    return score, evidence, [item.process.label for group in odd for item in group.members]


def describe_blocker(item: Blocker) -> str:
    """Return the name of a waited-for rank: its world rank where known, else its place in the communicator."""
    if item.world is not None:
        return f"rank {item.world}"
    return f"rank {item.group_rank} of {item.group or 'an unnamed group'}"


def _capture_pending_comm(facts: Facts) -> Claim:
    inside = [item for item in facts.workers if item.waiting.kind == "capture_begin"]
    warned = facts.of_kind("pending_comm")
    last = [event for event in warned if event.last]
    evidence = [_standing(item) for item in inside[:3]] + [_event(event) for event in (last or warned)[:3]]
    score = 0.0
    if inside:
        score = 0.6 + (0.2 if warned else 0) + (0.1 if last else 0)
    elif last and not facts.workers:
        score = 0.5
    return Claim("capture_pending_comm", score, evidence, [item.process.label for item in inside])


def _device_kernel(facts: Facts) -> Claim:
    waiting = [item for item in facts.workers if item.waiting.kind in ("device_sync", "replay", "capture_end")]
    busy = [chip for chip in facts.chips if chip.load >= BUSY_FROM]
    timeouts = facts.of_kind("kernel_timeout")
    score = 0.0
    if busy and (waiting or not facts.workers):
        score = 0.6 if waiting else 0.4
    if timeouts:
        score = max(score + 0.25, 0.7)
    elif waiting and not facts.chips and not facts.notices.waits and len(facts.groups) == 1:
        score = max(score, 0.35)  # a synchronise alone does not tell a busy device from an idle one
    evidence = [_standing(item) for item in waiting[:1]] + [_chip(chip) for chip in busy[:3]]
    return Claim("device_kernel", score, evidence + [_event(event) for event in timeouts[:2]], [])


def _host_lock(facts: Facts) -> Claim:
    score, evidence, who = 0.0, [], []
    for item in facts.workers or facts.drivers:
        held = [wait for wait in item.threads if wait.kind in ("lock", "join")]
        if item.waiting.kind not in ("lock", "join") or item.waiting not in held:
            blocked = [wait for wait in item.threads if wait.kind == "blocked" and wait.user is not None]
            if item.waiting.kind == "blocked" and len(blocked) > 1:
                score = max(score, 0.45)
                evidence += [
                    Evidence(item.process.source, w.thread.line, f"{item.process.label}: {w}") for w in blocked[:3]
                ]
                who.append(item.process.label)
            continue
        locks = [wait for wait in held if wait.kind == "lock"]
        mine = 0.75 if len(locks) > 1 else 0.5
        mine += 0.1 if any(wait.source_line for wait in held) else 0
        mine += 0.1 if unmoved([item]) else 0
        score = max(score, mine)
        evidence += [
            Evidence(
                item.process.source,
                wait.thread.line,
                f"{item.process.label}, thread {wait.thread.name or wait.thread.ident}: {wait}"
                + (f", called from {wait.user}" if wait.user not in (None, wait.at) else "")
                + (f": {wait.source_line}" if wait.source_line else ""),
            )
            for wait in held[:4]
        ]
        who.append(item.process.label)
    if who and len(who) < len(facts.workers):
        score -= 0.15  # the others wait on the device for this one: the collective is the hang, the lock its reason
    return Claim("host_lock", score, evidence, who)


def _peer_lost(facts: Facts) -> Claim:
    lost, exited = facts.notices.lost, facts.of_kind("exited")
    gone = [item for item in lost if "Lost" in item.what]
    evidence = [Evidence(item.source, item.line, f"{item.where}: {item.what}") for item in lost[:4]]
    evidence += [_event(event) for event in exited[:3]]
    score = 0.0
    if gone:
        score = 0.75 + (0.1 if exited else 0)
    elif exited:
        score = 0.5 + (0.15 if facts.notices.waits or facts.workers else 0)
    elif lost:
        score = 0.45
    return Claim("peer_lost", score, evidence, sorted({item.where for item in lost}))


def _rendezvous(facts: Facts) -> Claim:
    inside = [item for item in facts.workers if item.waiting.kind == "rendezvous"]
    timeouts = facts.of_kind("connect_timeout")
    links = [wait for wait in facts.notices.waits if wait.kind == "link"]
    absent = [item for item in facts.workers if item.waiting.kind != "rendezvous"] if inside else []
    score = 0.0
    if inside:
        score = 0.65 + (0.15 if timeouts or links else 0) + (0.05 if absent else 0)
    elif timeouts or links:
        score = 0.55 + (0.15 if timeouts and links else 0)
    evidence = [_standing(item) for item in (inside[:2] + absent[:2])] + [_event(event) for event in timeouts[:2]]
    evidence += [Evidence(wait.source, wait.line, wait.text) for wait in links[:2]]
    who = [item.process.label for item in absent]
    who += [describe_blocker(item) for item in facts.blockers if item.evidence.kind == "link" and not item.itself_waits]
    return Claim("rendezvous", score, evidence, who)


def _no_work(facts: Facts) -> Claim:
    idle = [item for item in facts.workers if item.waiting.kind in ("idle", "sleep")]
    if not idle or len(idle) < len(facts.workers):
        return Claim("no_work", 0, [], [])
    evidence = [_standing(item) for item in idle[:2]] + [_standing(item) for item in facts.drivers[:4]]
    return Claim("no_work", 0.75, evidence, [item.process.label for item in facts.drivers])


def _still_working(facts: Facts) -> Claim:
    moved = moving(facts.workers)
    busy = [item for item in facts.workers if item.waiting.kind in ("compile", "load", "running", "child")]
    if moved:
        evidence = [
            Evidence(process.source, process.line, f"{process.label}: the stack changed between two samples")
            for process in moved[:4]
        ]
        return Claim("still_working", 0.75, evidence, [process.label for process in moved])
    if busy and len(busy) * 2 > len(facts.workers):
        known = [item for item in busy if item.waiting.kind in ("compile", "load")]
        score = 0.55 if known else 0.4
        return Claim("still_working", score, [_standing(item) for item in busy[:3]], [name_members(busy)])
    return Claim("still_working", 0, [], [])

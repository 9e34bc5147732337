"""Clusters of errors over all processes, the first failure among them, its echoes, and clocks that disagree."""

from __future__ import annotations

import re
from typing import AbstractSet, Any, Mapping, NamedTuple, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.logs.averages import median
from npu_graph.logs.blocks import Part, find_heads, is_wrapper
from npu_graph.logs.echoes import echo_of, named_rank
from npu_graph.logs.partial import Partial
from npu_graph.logs.processes import merged_processes, process_id
from npu_graph.logs.segment import Cluster
from npu_graph.logs.stamps import DAY, SECOND
from npu_graph.logs.timeline import Place, Timeline

# Where an error was raised, deepest first; used only where times cannot decide.
_DEPTH = ((compile_on_use(r"aicore|aicpu|vector core|aivec|HBM|ECC|device fault|LINK", re.IGNORECASE), 0),)
_DEPTH_OF_FORM = {"kernel": 0, "plog": 1, "cann": 1, "pta": 2, "torch_npu": 2, "text": 3, "vllm": 4, "sglang": 4}
# A stamp without a year (vLLM, glog) that lies so far after the full one of its block was given the wrong year.
_WRONG_YEAR = 300 * DAY
# A run that goes on this long after the last error of a kind was not stopped by it.
SURVIVED_S = 60


class Occurrence(NamedTuple):
    """The first error of one kind in one process."""

    key: str
    process: str
    place: Place
    us: int | None
    resolution: int
    inherited: bool
    latest_us: int | None  # the latest time it can have happened at; None when nothing tells
    echo: str  # why it is only a consequence, or ''
    retracted: bool
    survived: bool
    depth: int
    cluster: Cluster
    last_us: int | None
    names: str = ""  # the rank that it waited for, or ''
    head: Place | None = None  # the exception line of the block that this line is a part of


class Group(NamedTuple):
    """Errors of one kind over all processes."""

    key: str
    text: str
    level: str
    form: str
    total: int
    processes: dict[str, int]
    first: Occurrence
    last_us: int | None
    echo: str


class Skew(NamedTuple):
    """By how much the second host's clock is ahead of the first's."""

    host: str
    other: str
    offset_s: float
    spread_s: float
    samples: int
    basis: str


class Failures(NamedTuple):
    """What went wrong."""

    groups: list[Group]  # most frequent first
    first: Occurrence | None
    only_echoes: bool
    others: list[Occurrence]  # the next candidates
    echoes: list[Occurrence]  # what followed, in time order
    skews: list[Skew]
    errors: int
    unclustered: int
    named: dict[str, int]  # ranks that waiting processes name, with the number of those processes


def find_failures(partial: Partial, timeline: Timeline) -> Failures:
    """Order the errors of all processes and choose the first that is no echo."""
    skews = _skews(timeline)
    ahead = {skew.other: int(skew.offset_s * SECOND) for skew in skews if _is_real(skew)}
    activity = _last_activity(timeline)
    occurrences: list[Occurrence] = []
    nameless: set[tuple[Place, str]] = set()  # lines that do not say which process they are of
    errors = unclustered = 0
    for info, segment in partial.sources():
        errors += segment.errors
        unclustered += segment.other_errors
        for (pid, key), cluster in segment.clusters.items():
            process = process_id(info, segment, pid)
            line, us, resolution, inherited = cluster.first
            last_us = cluster.last[1]
            shift = ahead.get(info.host, 0)
            latest = _latest(cluster, info.ended)
            retracted = cluster.last[0] < segment.retracted.get(pid, -1)
            active = activity.get(process)
            survived = active is not None and last_us is not None and active > last_us + SURVIVED_S * SECOND
            occurrences.append(
                Occurrence(
                    key,
                    process,
                    Place(info.id, line),
                    us - shift if us is not None else None,
                    resolution,
                    inherited,
                    latest - shift if latest is not None else None,
                    echo_of(f"{key} {cluster.text}"),
                    retracted,
                    survived,
                    _depth(cluster),
                    cluster,
                    last_us - shift if last_us is not None else None,
                    named_rank(cluster.text),
                )
            )
            if not pid and process.endswith(f"file {info.path}"):
                nameless.add((occurrences[-1].place, key))
    occurrences = _in_blocks(occurrences, nameless)
    occurrences.sort(key=_order)
    named = _named_ranks(occurrences)
    standing = [item for item in occurrences if not item.echo and not item.retracted]
    stopping = [item for item in standing if not item.survived]
    candidates = stopping or standing or [item for item in occurrences if not item.retracted]
    heads = {item.place for item in candidates}
    candidates = [item for item in candidates if item.head not in heads]
    ranks = {name: rank for name, (_, rank) in merged_processes(partial).items()}
    first = _first(candidates, occurrences, named, ranks)
    others = [item for item in candidates if first is not None and item.key != first.key][:4]
    after = [
        item
        for item in occurrences
        if first is not None
        and item is not first
        and item.head != first.place
        and (_order(item) >= _order(first) or item.names)
    ]
    only_echoes = bool(first and first.echo)
    return Failures(_groups(occurrences), first, only_echoes, others, after, skews, errors, unclustered, named)


def _in_blocks(occurrences: Sequence[Occurrence], nameless: AbstractSet[tuple[Place, str]]) -> list[Occurrence]:
    """Let the parts of an error block agree: on its time, its process, and whether it is an echo."""
    result = sorted(occurrences, key=lambda item: (item.place, item.process, item.key))
    known = [(item.place, item.key) not in nameless for item in result]
    heads = find_heads(
        [
            Part(item.place.source, item.place.line, item.process, named, item.cluster.form, item.cluster.text)
            for item, named in zip(result, known)
        ]
    )
    members: dict[int, list[int]] = {}
    for index, head in enumerate(heads):
        if head is not None:
            members.setdefault(head, []).append(index)
    for head, indexes in members.items():
        parts = [result[index] for index in indexes]
        whole = _timed(result[head], parts)
        waited = next((part for part in parts if part.echo and part.names), None)
        if waited is not None and not whole.echo:
            whole = whole._replace(echo=waited.echo)
        if not known[head]:
            whole = whole._replace(process=parts[0].process)
        result[head] = whole
        for index, part in zip(indexes, parts):
            echo = part.echo or (whole.echo if is_wrapper(part.cluster.text) else "")
            result[index] = part._replace(echo=echo, head=whole.place)
    return result


def _timed(head: Occurrence, parts: Sequence[Occurrence]) -> Occurrence:
    """Give an exception line the finest stamp of its block, where its own is coarser or an earlier line's.

    CANN also prints errors that it kept from before; a stamp outside the time of the exception line is not used.
    """
    stamped = [part for part in parts if part.us is not None and not part.inherited]
    if not stamped:
        return head
    best = min(stamped, key=lambda part: (part.resolution, part.place.line))
    us = best.us or 0
    latest = us + max(best.resolution, 1) - 1
    wrong_year = head.us is not None and head.us - us > _WRONG_YEAR
    if head.us is not None and not wrong_year:
        is_older = latest < head.us
        is_no_finer = not head.inherited and (best.resolution >= head.resolution or us >= head.us + head.resolution)
        if is_older or is_no_finer or us < head.us:  # a stamp of whole seconds says no more than the line before
            return head
    if head.inherited and head.latest_us is not None and not wrong_year:
        latest = min(latest, head.latest_us)  # the line stands before the stamped one
    last_us = us if head.last_us is None or wrong_year else max(us, head.last_us)
    return head._replace(us=us, resolution=best.resolution, inherited=False, latest_us=latest, last_us=last_us)


def _named_ranks(occurrences: Sequence[Occurrence]) -> dict[str, int]:
    processes: dict[str, set[str]] = {}
    for item in occurrences:
        if item.names and item.echo:
            processes.setdefault(item.names, set()).add(item.process)
    return {rank: len(processes[rank]) for rank in sorted(processes, key=lambda rank: (-len(processes[rank]), rank))}


def _first(
    candidates: Sequence[Occurrence],
    occurrences: Sequence[Occurrence],
    named: Mapping[str, int],
    ranks: Mapping[str, str],
) -> Occurrence | None:
    """Return the earliest candidate, or that of a rank which others waited for, unless it is proved to be later."""
    if not candidates or candidates[0].echo:
        return candidates[0] if candidates else None
    earliest = candidates[0]
    for rank in named:
        ends = [
            item.latest_us for item in occurrences if item.names == rank and item.echo and item.latest_us is not None
        ]
        for item in candidates:
            if ranks.get(item.process) != rank or (item.us is not None and ends and item.us > max(ends)):
                continue
            return earliest if _is_before(earliest, item) else item
    return earliest


def _is_before(one: Occurrence, other: Occurrence) -> bool:
    """Say whether one error is proved to have happened before another."""
    if one is other:
        return True
    if one.place.source == other.place.source:
        return one.place.line < other.place.line
    return one.latest_us is not None and other.us is not None and one.latest_us < other.us


def _latest(cluster: Cluster, ended: int | None) -> int | None:
    """Return the latest time the first line of a cluster can have been written at.

    A line without a stamp follows the stamped line before it, by any time up to the next stamped line, or up to the
    last writing of the file.
    """
    _, us, resolution, inherited = cluster.first
    if us is not None and not inherited:
        return us + max(resolution, 1) - 1
    if cluster.before is not None:
        return cluster.before
    return ended if ended is not None and us is not None and ended >= us else None


def _order(item: Occurrence) -> tuple[Any, ...]:
    """Sort by the latest time an error can have.

    So a 1-second stamp never goes before a microsecond of that second, and a line without a stamp goes before
    another file's error only where the stamps around it prove it.
    """
    latest = item.latest_us if item.latest_us is not None else 1 << 62
    return (latest, item.depth, item.place.source, item.place.line, item.process, item.key)


def _depth(cluster: Cluster) -> int:
    for expression, depth in _DEPTH:
        if expression.search(cluster.text):
            return depth
    return _DEPTH_OF_FORM.get(cluster.form, 4)


def _last_activity(timeline: Timeline) -> dict[str, int]:
    """Return when each process last captured or replayed a graph."""
    latest: dict[str, int] = {}
    for capture in timeline.captures:
        if capture.end_us is not None:
            latest[capture.process] = max(latest.get(capture.process, 0), capture.end_us)
    for item in timeline.replays:
        if item.replays.last is not None:
            latest[item.process] = max(latest.get(item.process, 0), item.replays.last)
    return latest


def _groups(occurrences: Sequence[Occurrence]) -> list[Group]:
    by_key: dict[str, list[Occurrence]] = {}
    for item in occurrences:
        by_key.setdefault(item.key, []).append(item)
    groups = []
    for key, items in by_key.items():
        processes: dict[str, int] = {}
        for item in items:
            processes[item.process] = processes.get(item.process, 0) + item.cluster.count
        first = items[0]
        last = max((item.last_us for item in items if item.last_us is not None), default=None)
        total = sum(processes.values())
        groups.append(
            Group(
                key,
                first.cluster.text,
                first.cluster.level,
                first.cluster.form,
                total,
                processes,
                first,
                last,
                first.echo,
            )
        )
    groups.sort(key=lambda group: (-group.total, _order(group.first)))
    return groups


def _skews(timeline: Timeline) -> list[Skew]:
    """Estimate clock differences from captures, which ranks of one model make together and in the same order."""
    ends: dict[str, list[list[int]]] = {}
    for process in sorted({item.process for item in timeline.captures}):
        host, slash, _ = process.partition("/")
        own = [item.end_us for item in timeline.captures if item.process == process and item.state == "complete"]
        times = [us for us in own if us is not None]
        if slash and times:
            ends.setdefault(host, []).append(times)
    hosts = sorted(ends)
    skews = []
    for other in hosts[1:]:
        pairs = [(mine, theirs) for mine in ends[hosts[0]] for theirs in ends[other] if len(mine) == len(theirs)]
        differences = [(b - a) / SECOND for mine, theirs in pairs for a, b in zip(mine, theirs)]
        if len(differences) < 3:
            continue
        offset = median(differences)
        spread = median(abs(value - offset) for value in differences)
        skews.append(Skew(hosts[0], other, offset, spread, len(differences), "ends of captures in the same order"))
    return skews


def _is_real(skew: Skew) -> bool:
    return abs(skew.offset_s) > max(3 * skew.spread_s, 0.05)

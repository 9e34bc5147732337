"""Ranks that stand at the same place, the ones that do not, and the ranks that others wait for."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .identity import Names
from .notify import Notices, Operation, Wait, world_rank
from .waits import Standing, fold


class Group(NamedTuple):
    """Processes with the same folded stack."""

    stack: tuple[str, ...]
    members: list[Standing]

    @property
    def first(self) -> Standing:
        return self.members[0]

    @property
    def kind(self) -> str:
        return self.first.waiting.kind


class Blocker(NamedTuple):
    """A rank of a communicator for which others wait."""

    group: str
    group_rank: int
    world: int | None
    known_by: str
    waiters: int
    itself_waits: bool
    evidence: Wait


def group_by_stack(standings: Sequence[Standing]) -> list[Group]:
    """Return groups of worker processes, largest first."""
    groups: dict[tuple[str, ...], list[Standing]] = {}
    for item in standings:
        groups.setdefault(fold(item.waiting.thread.frames), []).append(item)
    found = [Group(stack, members) for stack, members in groups.items()]
    return sorted(found, key=lambda group: -len(group.members))


def odd_ones(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that differ from the largest. With no majority, no side is the odd one."""
    if len(groups) < 2 or len(groups[0].members) == len(groups[1].members):
        return []
    return list(groups[1:])


def find_blockers(notices: Notices, names: Names) -> list[Blocker]:
    """Return the ranks that others wait for: those that wait for nobody first, then by number of waiters."""
    blockers: list[Blocker] = []
    for group in sorted({wait.group for wait in notices.waits}):
        waits = [wait for wait in notices.waits if wait.group == group]
        waiters = {wait.own for wait in waits if wait.own >= 0}
        for remote in sorted({wait.remote for wait in waits if wait.remote >= 0}):
            towards = [wait for wait in waits if wait.remote == remote]
            world, known_by = world_rank(group, remote, waits, names)
            count = len({(wait.own, wait.pid, wait.source) for wait in towards})
            blockers.append(Blocker(group, remote, world, known_by, count, remote in waiters, towards[0]))
    return sorted(blockers, key=lambda item: (item.itself_waits, -item.waiters, item.group, item.group_rank))


def silent_ranks(notices: Notices) -> list[tuple[str, int, list[int], Wait]]:
    """Return (group, size, ranks without a report, an example) where most members reported a wait and few did not."""
    result = []
    for group in sorted({wait.group for wait in notices.waits if wait.group}):
        waits = [wait for wait in notices.waits if wait.group == group and wait.own >= 0]
        size = max((wait.size for wait in waits), default=0)
        reported = {wait.own for wait in waits}
        silent = [rank for rank in range(min(size, 100_000)) if rank not in reported]
        if silent and len(reported) >= 2 and len(silent) <= max(1, size // 4):
            result.append((group, size, silent, waits[0]))
    return result


def differing_operations(notices: Notices) -> list[tuple[str, list[Operation], list[Operation]]]:
    """Return (group, majority, others) where members of one communicator ran different operations.

    The last report of each rank counts; the operation's name, position, size and type must agree.
    """
    result = []
    for group in sorted({item.group for item in notices.operations if item.group}):
        last = {item.own: item for item in notices.operations if item.group == group}
        kinds: dict[tuple[str, tuple[tuple[str, str], ...]], list[Operation]] = {}
        for item in last.values():
            kinds.setdefault((item.name, item.values), []).append(item)
        if len(kinds) > 1:
            ordered = sorted(kinds.values(), key=len, reverse=True)
            result.append((group, ordered[0], [item for items in ordered[1:] for item in items]))
    return result


def ranges(numbers: Sequence[int]) -> str:
    """Return '0-6,8-511' for a sorted list of ranks."""
    parts: list[str] = []
    start = previous = None
    for number in [*sorted(set(numbers)), None]:
        if number is not None and previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = number
    return ",".join(parts)


def name_members(members: Sequence[Standing]) -> str:
    """Return the names of processes, ranks condensed."""
    ranks = [item.process.rank for item in members if item.process.label == f"rank {item.process.rank}"]
    others = [item.process.label for item in members if item.process.label != f"rank {item.process.rank}"]
    shown = others[:12] + ([f"and {len(others) - 12} more"] if len(others) > 12 else [])
    text = (
        f"{'ranks' if len(ranks) > 1 else 'rank'} {ranges([rank for rank in ranks if rank is not None])}"
        if ranks
        else ""
    )
    return ", ".join(part for part in (text, *shown) if part)

"""The kernels of equal blocks side by side: more or fewer of a kind, longer or shorter ones, padded, or exchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npu_graph.profiles.blocks import EXACT, Block, Side, kernel_key, leading
from npu_graph.profiles.tasks import COMMUNICATION, plain_type
from npu_graph.profiles.timestamps import to_us

# Kernels whose change is below this share of the block's change are noise in a table.
_SHOWN_SHARE = 0.01
_MAX_ROWS = 20


@dataclass
class KernelSum:
    """All kernels of one kind in one profile's blocks: count, time (ns), names, formats, summed leading dimensions."""

    count: int = 0
    time: int = 0
    names: set[str] = field(default_factory=set)
    formats: set[str] = field(default_factory=set)
    sizes: int = 0
    sized: int = 0
    communication: bool = False

    def add(self, other: KernelSum) -> None:
        """Add the kernels of another kind to this one."""
        self.count += other.count
        self.time += other.time
        self.names |= other.names
        self.formats |= other.formats
        self.sizes += other.sizes
        self.sized += other.sized
        self.communication |= other.communication

    @property
    def size(self) -> float:
        """The mean leading dimension, 0 when no shape says one."""
        return self.sizes / self.sized if self.sized else 0.0


class KernelChange(NamedTuple):
    """One kind of kernel in both profiles. Counts and changes are per block, times in ns."""

    kernel: str
    graph: KernelSum
    eager: KernelSum
    per_graph_block: float
    per_eager_block: float
    by_count: float
    by_duration: float

    @property
    def in_both(self) -> bool:
        return bool(self.graph.count and self.eager.count)

    @property
    def formats_differ(self) -> bool:
        graph, eager = self.graph.formats - {""}, self.eager.formats - {""}
        return bool(graph and eager and graph != eager)

    @property
    def padded(self) -> bool:
        """Say whether the graph's kernels have more rows than eager's."""
        return self.in_both and self.graph.size > self.eager.size > 0

    @property
    def names_differ(self) -> bool:
        """Say whether other kernels were chosen, apart from the number that a second compilation appends."""
        return self.in_both and {plain_type(n) for n in self.graph.names} != {plain_type(n) for n in self.eager.names}


def pair_kernels(
    graph: Side, eager: Side, left: list[Block], right: list[Block], level: str
) -> tuple[KernelChange, ...]:
    """Return every kind of kernel of the blocks, largest change first.

    Args:
        left, right: equal blocks of the graph profile and of the eager one.
        level: how alike two kernels must be (blocks.LEVELS).
    """
    equal = set(_sums(graph, left, EXACT, set())) & set(_sums(eager, right, EXACT, set()))
    sums, others = _sums(graph, left, level, equal), _sums(eager, right, level, equal)
    _join_bare(sums, others)
    changes = []
    for key in set(sums) | set(others):
        in_graph, in_eager = sums.get(key, KernelSum()), others.get(key, KernelSum())
        per_g, per_e = in_graph.count / len(left), in_eager.count / len(right)
        mean_g = in_graph.time / in_graph.count if in_graph.count else 0.0
        mean_e = in_eager.time / in_eager.count if in_eager.count else 0.0
        by_count = (per_g - per_e) * (mean_e if in_eager.count else mean_g)
        by_duration = per_g * (mean_g - mean_e) if in_eager.count and in_graph.count else 0.0
        changes.append(KernelChange(key, in_graph, in_eager, per_g, per_e, by_count, by_duration))
    changes.sort(key=lambda change: (-abs(change.by_count + change.by_duration), change.kernel))
    return tuple(changes)


def _sums(side: Side, blocks: list[Block], level: str, exact: set[str]) -> dict[str, KernelSum]:
    """Return the sums per kind of kernel.

    Args:
        exact: kinds that both sides have with all shapes equal; the others are told apart only at `level`.
    """
    table, order = side.profile.table, side.use.order
    sums: dict[str, KernelSum] = {}
    for block in blocks:
        for index in order[block.first : block.last]:
            type_, shapes = table.text("type", index), table.text("shapes", index)
            key = kernel_key(type_, shapes, EXACT)
            if key not in exact:
                key = kernel_key(type_, shapes, level)
            entry = sums.setdefault(key, KernelSum())
            entry.count += 1
            entry.time += table.duration[index]
            entry.names.add(table.text("name", index))
            entry.formats.add(table.text("formats", index))
            entry.communication = table.kind[index] == COMMUNICATION
            size = leading(shapes)
            # One dimension is a weight or a bias; tokens come with a hidden dimension.
            if size is not None and "," in shapes.partition(";")[0]:
                entry.sizes += size
                entry.sized += 1
    return sums


def _join_bare(sums: dict[str, KernelSum], others: dict[str, KernelSum]) -> None:
    """Where one side has no shapes for a type (a Triton kernel in a graph), compare that type as a whole."""
    bare = {key for side in (sums, others) for key in side if " " not in key}
    for side in (sums, others):
        for key in [key for key in side if " " in key and key.partition(" ")[0] in bare]:
            side.setdefault(key.partition(" ")[0], KernelSum()).add(side.pop(key))


def change_rows(changes: tuple[KernelChange, ...]) -> list[dict[str, Any]]:
    """Return the changes worth a row of a table (us per block)."""
    total = sum(abs(change.by_count + change.by_duration) for change in changes) or 1.0
    shown = [
        change
        for change in changes
        if abs(change.by_count + change.by_duration) >= _SHOWN_SHARE * total or change.formats_differ
    ]
    return [_row(change) for change in shown[:_MAX_ROWS]]


def _row(change: KernelChange) -> dict[str, Any]:
    graph, eager = change.graph, change.eager
    return {
        "kernel": change.kernel[:160],
        "count_graph": round(change.per_graph_block, 3),
        "count_eager": round(change.per_eager_block, 3),
        "mean_graph_us": to_us(graph.time / graph.count) if graph.count else 0.0,
        "mean_eager_us": to_us(eager.time / eager.count) if eager.count else 0.0,
        "change_us": to_us(change.by_count + change.by_duration),
        "by_count_us": to_us(change.by_count),
        "by_duration_us": to_us(change.by_duration),
        "size_graph": round(graph.size, 2) if graph.sized else None,
        "size_eager": round(eager.size, 2) if eager.sized else None,
        "other_names": sorted(graph.names ^ eager.names)[:4] if change.names_differ else [],
        "formats_differ": change.formats_differ,
    }

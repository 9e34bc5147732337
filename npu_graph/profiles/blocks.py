"""Repeating blocks of kernels (a layer, a decode step): the unit in which two profiles can honestly be compared.

A window answers the wrong question: with prefill and start-up inside, graph mode looked 17 % slower in a run whose
decode was 1.96 times faster. The same block in both profiles does the same work, so its times may be divided.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

from npu_graph.profiles import intervals
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.tasks import COMMUNICATION, EAGER_MODEL, UNKNOWN, plain_type

# How alike two kernels must be to count as the same work, strictest first.
# `exact`: all input shapes.
# `tokens`: leading dimensions only of the first input; that of a KV cache is its number of blocks, which follows from
# the memory that was free at start.
# `padded`: no leading dimension, because padding to a capture size changes it.
# `type`: shapes were not recorded.
EXACT, TOKENS, PADDED, TYPE = "exact", "tokens", "padded", "type"
LEVELS = (EXACT, TOKENS, PADDED, TYPE)
# Fewer repeats than this are no block; fewer than ENOUGH_BLOCKS are shown but marked.
MIN_BLOCKS = 3
ENOUGH_BLOCKS = 5
# A level is good enough when blocks hold this share of the smaller profile's kernels.
_GOOD_SHARE = 0.6
# When more kernels than this are without shapes, the match is one by type, whatever level found it.
_MOSTLY = 0.5
_MAX_KERNELS = 100_000
_MAX_ANCHORS = 24
_HASH_MASK = (1 << 64) - 1


class Block(NamedTuple):
    """One repeat: places [first, last) in the kernel order, and its times (ns). `period` runs to the next anchor."""

    first: int
    last: int
    period: int
    computing: int
    exposed: int
    free: int
    by_model: int
    by_stream: int


class BlockGroup(NamedTuple):
    """The repeats of one block in one profile (or, for a comparison, in each)."""

    signature: int
    kernels: int
    sides: tuple[list[Block], ...]


class Blocks(NamedTuple):
    """Groups of equal blocks, largest share of time first; `level` says how equal."""

    level: str
    anchor: str
    groups: list[BlockGroup]


class Side(NamedTuple):
    """One profile as the block search sees it."""

    profile: Profile
    use: GraphUse


def kernel_key(type_: str, shapes: str, level: str) -> str:
    """Return the text under which two kernels count as the same work."""
    base = plain_type(type_)
    if level == TYPE or not shapes:
        return base
    if level == EXACT:
        return f"{base} {shapes}"
    first, separator, others = shapes.partition(";")
    masked = ";".join(_mask(part) for part in others.split(";")) if separator else ""
    return f"{base} {first if level == TOKENS else _mask(first)}{separator}{masked}"


def _mask(shape: str) -> str:
    _, comma, rest = shape.partition(",")
    return "*" + comma + rest


def leading(shapes: str) -> int | None:
    """Return the leading dimension of the first input."""
    text = shapes.partition(";")[0].partition(",")[0]
    return int(text) if text.isdigit() and len(text) < 10 else None


def find_blocks(sides: Sequence[Side]) -> Blocks:
    """Return the blocks that repeat at least MIN_BLOCKS times in every side."""
    best = Blocks(EXACT, "", [])
    best_share = 0.0
    smaller = min((min(len(side.use.order), _MAX_KERNELS) for side in sides), default=0)
    if not smaller:
        return best
    bare = set().union(*(_types_without_shapes(side) for side in sides))
    for level in LEVELS:
        keys = [_keys(side, level, bare) for side in sides]
        anchor, found = _best_anchor(keys)
        if not anchor:
            continue
        share = _matched(found) / smaller
        if share > best_share * 1.2:
            best_share = share
            best = Blocks(level, anchor, _measure(sides, found))
        if best_share >= _GOOD_SHARE:
            break
    if best.groups and _share_of(sides[0], bare) > _MOSTLY:
        best = best._replace(level=TYPE)
    return best


def _types_without_shapes(side: Side) -> set[str]:
    """Return the types of which some kernels have no shapes (a Triton kernel has them in eager, not in a graph)."""
    table = side.profile.table
    pairs = {(table.number_of("type", i), table.number_of("shapes", i)) for i in side.use.order}
    return {plain_type(table.texts.values[type_]) for type_, shapes in pairs if not table.texts.values[shapes]}


def _share_of(side: Side, types: set[str]) -> float:
    """Return the share of kernels that are of these types."""
    table = side.profile.table
    numbers = {number for number, text in enumerate(table.texts.values) if plain_type(text) in types}
    return sum(table.number_of("type", index) in numbers for index in side.use.order) / len(side.use.order)


def _keys(side: Side, level: str, bare: set[str]) -> _KeyTable:
    table, use = side.profile.table, side.use
    cache: dict[tuple[int, int], str] = {}
    keys: list[str] = []
    for index in use.order[:_MAX_KERNELS]:
        numbers = (table.number_of("type", index), table.number_of("shapes", index))
        key = cache.get(numbers)
        if key is None:
            type_, shapes = table.text("type", index), table.text("shapes", index)
            key = cache[numbers] = kernel_key(type_, "" if plain_type(type_) in bare else shapes, level)
        keys.append(key)
    return _KeyTable(keys)


class _KeyTable:
    """Keys in order, the places of each, and running sums of their hashes (a multiset's hash is a difference)."""

    def __init__(self, keys: list[str]) -> None:
        self.places: dict[str, list[int]] = {}
        self.sums = [0]
        total = 0
        for place, key in enumerate(keys):
            self.places.setdefault(key, []).append(place)
            total = (total + _hash(key)) & _HASH_MASK
            self.sums.append(total)

    def __getitem__(self, key: str) -> list[int]:
        return self.places.get(key, [])

    def units(self, anchor: str) -> dict[int, list[tuple[int, int]]]:
        """Return the stretches between neighbouring anchors, grouped by the kernels they hold."""
        units: dict[int, list[tuple[int, int]]] = {}
        places = self[anchor]
        for first, last in zip(places, places[1:]):
            units.setdefault((self.sums[last] - self.sums[first]) & _HASH_MASK, []).append((first, last))
        return units


def _hash(key: str) -> int:
    """A hash that is the same in every process (Python's own is salted)."""
    value = 0xCBF29CE484222325
    for byte in key.encode("utf-8", "replace")[:4096]:
        value = ((value ^ byte) * 0x100000001B3) & _HASH_MASK
    return value


_Found = Dict[int, Tuple[List[Tuple[int, int]], ...]]


def _best_anchor(keys: list[_KeyTable]) -> tuple[str, _Found]:
    """Return the kernel that cuts the profiles into the most, and then the largest, equal blocks."""
    shared = [key for key in keys[0].places if all(len(table[key]) > MIN_BLOCKS for table in keys)]
    shared.sort(key=lambda key: (len(keys[0][key]), keys[0][key][0]))
    tried: dict[tuple[int, ...], str] = {}
    for key in shared:
        tried.setdefault(tuple(len(table[key]) for table in keys), key)
    candidates = []
    for anchor in list(tried.values())[:_MAX_ANCHORS]:
        found = _equal_units(keys, anchor)
        if found:
            size = sum(_size(units[0]) for units in found.values()) / len(found)
            # Only the score is kept: the spans of two dozen anchors would outweigh the profile itself.
            candidates.append((_matched(found), size, anchor))
    if not candidates:
        return "", {}
    most = max(candidate[0] for candidate in candidates)
    good = [candidate for candidate in candidates if candidate[0] >= 0.75 * most]
    _, _, anchor = max(good, key=lambda candidate: (candidate[1], candidate[0]))
    return anchor, _equal_units(keys, anchor)


def _equal_units(keys: list[_KeyTable], anchor: str) -> _Found:
    """Return the stretches between anchors that hold the same kernels in every side, often enough."""
    per_side = [table.units(anchor) for table in keys]
    return {
        signature: tuple(side[signature] for side in per_side)
        for signature in per_side[0]
        if _size(per_side[0][signature]) > 1 and all(len(side.get(signature, ())) >= MIN_BLOCKS for side in per_side)
    }


def _size(spans: list[tuple[int, int]]) -> int:
    return spans[0][1] - spans[0][0]


def _matched(found: _Found) -> int:
    """Return how many kernels lie in blocks that every side has, counting each side's smaller number."""
    return sum(_size(units[0]) * min(len(side) for side in units) for units in found.values())


def _measure(sides: Sequence[Side], found: _Found) -> list[BlockGroup]:
    groups = [
        BlockGroup(
            signature,
            _size(units[0]),
            tuple([_block(side, first, last) for first, last in spans] for side, spans in zip(sides, units)),
        )
        for signature, units in found.items()
    ]
    groups.sort(key=lambda group: -sum(block.period for block in group.sides[0]))
    return groups


def _block(side: Side, first: int, last: int) -> Block:
    table, order = side.profile.table, side.use.order
    start, end = table.start[order[first]], table.start[order[last]]
    work: list[intervals.Interval] = []
    talk: list[intervals.Interval] = []
    by_model = by_stream = 0
    for place in range(first, last):
        index = order[place]
        (talk if table.kind[index] == COMMUNICATION else work).append((table.start[index], min(table.end(index), end)))
        by_model += table.model[index] not in (EAGER_MODEL, UNKNOWN)
        by_stream += side.use.in_graph[place]
    computing, talking = intervals.union(work), intervals.union(talk)
    shared = intervals.overlap(computing, talking)
    exposed = intervals.length(talking) - shared
    busy = intervals.length(computing)
    return Block(first, last, end - start, busy, exposed, end - start - busy - exposed, by_model, by_stream)

"""Three-way merge of known-patterns.md by entry: what a team added or changed meets what a new version ships."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADING = re.compile(r"(### P-[A-Z]+-\d+|## .+)")


class Merged(NamedTuple):
    """The merged text, and the headings that both sides changed (the text is then of no use)."""

    text: str
    conflicts: list[str]


def merge_patterns(base: str, mine: str, new: str) -> Merged:
    """Merge two descendants of `base` entry by entry.

    Blank lines at the end of an entry do not count: an entry appended behind the last shipped one adds some to it.

    Args:
        base: the text as shipped before.
        mine: the text as the user has it.
        new: the text as shipped now; its order is kept.
    """
    if any(_open_fence(text) for text in (base, mine, new)):
        return Merged("", ["a fence is not closed"])
    sides = [_blocks(text) for text in (base, mine, new)]
    if any(len(blocks) != len(dict(blocks)) for blocks in sides):
        return Merged("", ["a heading stands twice"])
    old, ours, theirs = (dict(blocks) for blocks in sides)
    result: list[tuple[str, str]] = []
    conflicts: list[str] = []
    for key, block in sides[2]:
        before, local = old.get(key), ours.get(key)
        if _same(local, before) or _same(local, block):
            result.append((key, block))
        elif _same(block, before):
            if local is not None:
                result.append((key, local))
        else:
            conflicts.append(key)
    for key, local in ours.items():
        if key in theirs:
            continue
        if key in old:
            if not _same(local, old[key]):
                conflicts.append(key)
        else:
            result.insert(_place_after(key, [name for name, _ in sides[1]], [name for name, _ in result]), (key, local))
    return Merged(_joined([block for _, block in result]), conflicts)


def _same(one: str | None, other: str | None) -> bool:
    return (one is None) == (other is None) and (one or "").rstrip() == (other or "").rstrip()


def _joined(blocks: list[str]) -> str:
    """Join entries with a blank line between two."""
    parts = [block if block.endswith("\n\n") or not block else block.rstrip("\n") + "\n\n" for block in blocks[:-1]]
    return "".join(parts + blocks[-1:])


def _open_fence(text: str) -> bool:
    return sum(line.startswith("```") for line in text.splitlines()) % 2 == 1


def _blocks(text: str) -> list[tuple[str, str]]:
    """Split into (heading, text with its heading); a heading inside a fence does not count."""
    blocks: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in text.splitlines(keepends=True):
        if line.startswith("```"):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found:
            blocks.append((found.group(1), []))
        blocks[-1][1].append(line)
    return [(key, "".join(lines)) for key, lines in blocks]


def _place_after(key: str, order: list[str], present: list[str]) -> int:
    """Return where an entry that only the user has goes: behind the nearest one before it that is still there."""
    for earlier in reversed(order[: order.index(key)]):
        if earlier in present:
            return present.index(earlier) + 1
    return len(present)

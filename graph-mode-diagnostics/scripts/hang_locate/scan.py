"""Find the lines of a large text that hold one of some words, without looking at the others."""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterator, Sequence


def lines_with(text: str, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) in order. A search for plain words is many times faster than an expression per line."""
    starts: set[int] = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            starts.add(text.rfind("\n", 0, at) + 1)
            end = text.find("\n", at)
            at = text.find(word, end) if end >= 0 else -1
    if not starts:
        return
    ends = [-1]
    at = text.find("\n")
    while at >= 0:
        ends.append(at)
        at = text.find("\n", at + 1)
    for start in sorted(starts):
        number = bisect_right(ends, start - 1)
        stop = ends[number] if number < len(ends) else len(text)
        yield number, text[start:stop]

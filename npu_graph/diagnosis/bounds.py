"""Choose what is read of inputs too large to diagnose whole: the neighbourhood of their error lines, first and last."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from npu_graph.expressions import compile_on_use

# A longer line is cut in pieces: a signature then runs on bounded text.
MAX_LINE = 2000
# Of one raw line, its head and its tail: characters, and lines of a trace that a JSON log holds in one string.
MAX_RAW_LINE = 80_000
MAX_TRACE_LINES = 1000
# More lines than this is a log; only the neighbourhood of its error lines is diagnosed.
MAX_LINES = 20000
# The same bound in characters: every signature is looked for in all of the text.
MAX_CHARACTERS = 1_500_000
# All inputs together may have so many times as much; small ones leave their share to the others.
MAX_FULL_INPUTS = 2
CONTEXT_LINES = 40
# Of the lines near an error the first are read, for the first failure, and some of the last, for how it ended.
_FIRST_SHARE = 0.75
# Lines worth their neighbourhood in a log too large to diagnose whole.
_TELLING = compile_on_use(
    r"Traceback|Error\b|ERROR|FATAL|error code|[Ff]ailed|Exception|\bERR\d{5}|\bE[A-Z0-9]\d{4}\b|失败|错误|报错|capture"
)


class Size(NamedTuple):
    """How much a text is: cleaned lines at most, and characters."""

    lines: int
    characters: int


class Choice(NamedTuple):
    """What is read of one input: (number, line), how many lines stand far from any error, how many near one too many."""

    lines: list[tuple[int, str]]
    far: int
    too_many: int


def holds_trace(line: str) -> bool:
    """Say whether a line holds a trace in one string, where line ends are written as backslash and n."""
    return len(line) > 200 and line.count("\\n") >= 3 and ("Traceback" in line or "rror" in line)


def size_of(line: str) -> Size:
    """Return how much a raw line is once it is cleaned."""
    if len(line) <= MAX_LINE and "\\n" not in line:
        return Size(1, len(line))
    characters = min(len(line), MAX_RAW_LINE)
    parts = min(line.count("\\n"), MAX_TRACE_LINES) if holds_trace(line) else 0
    return Size(1 + parts + characters // MAX_LINE, characters)


def choose_lines(inputs: Sequence[Sequence[str]]) -> list[Choice]:
    """Return what is read of each input; a large one never takes the place of another."""
    sizes = [_size_of_all(raw) for raw in inputs]
    lines = _shares([size.lines for size in sizes], MAX_LINES)
    characters = _shares([size.characters for size in sizes], MAX_CHARACTERS)
    return [_choose(raw, size, Size(*share)) for raw, size, share in zip(inputs, sizes, zip(lines, characters))]


def _size_of_all(raw: Sequence[str]) -> Size:
    long = [line for line in raw if len(line) > MAX_LINE or "\\n" in line]
    sizes = list(map(size_of, long))
    return Size(
        len(raw) - len(long) + sum(size.lines for size in sizes),
        sum(map(len, raw)) - sum(map(len, long)) + sum(size.characters for size in sizes),
    )


def _shares(wanted: Sequence[int], most: int) -> list[int]:
    """Return how much of each is read: at most `most` of one, and MAX_FULL_INPUTS times as much of all."""
    left = MAX_FULL_INPUTS * most
    shares = [0] * len(wanted)
    by_size = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for done, index in enumerate(by_size):
        shares[index] = min(wanted[index], most, left // (len(wanted) - done))
        left -= shares[index]
    return shares


def _choose(raw: Sequence[str], size: Size, share: Size) -> Choice:
    if size.lines <= share.lines and size.characters <= share.characters:
        return Choice(list(enumerate(raw, 1)), 0, 0)
    wanted = _near_errors(raw) or range(len(raw))
    first = Size(int(share.lines * _FIRST_SHARE), int(share.characters * _FIRST_SHARE))
    chosen = _fitting(raw, wanted, first) or list(wanted[:1])
    used = _size_of_all([raw[index] for index in chosen])
    rest = Size(share.lines - used.lines, share.characters - used.characters)
    chosen += reversed(_fitting(raw, wanted[: len(chosen) - 1 : -1], rest))
    too_many = len(wanted) - len(chosen)
    return Choice([(index + 1, raw[index]) for index in chosen], len(raw) - len(wanted), too_many)


def _near_errors(raw: Sequence[str]) -> list[int]:
    """Return the indexes of the lines that tell of an error, and of those around them."""
    near: list[int] = []
    done = 0  # what lies before is decided
    for index, line in enumerate(raw):
        if _TELLING.search(line[:MAX_LINE]):
            stop = min(len(raw), index + CONTEXT_LINES)
            near.extend(range(max(done, index - CONTEXT_LINES), stop))
            done = stop
    return near


def _fitting(raw: Sequence[str], wanted: Sequence[int], share: Size) -> list[int]:
    """Return the first of the wanted lines that fit."""
    chosen: list[int] = []
    lines, characters = share
    for index in wanted:
        size = size_of(raw[index])
        lines -= size.lines
        characters -= size.characters
        if lines < 0 or characters < 0:
            break
        chosen.append(index)
    return chosen

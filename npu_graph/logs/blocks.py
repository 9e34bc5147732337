"""Error blocks: an exception line and what torch_npu and CANN print under it in the same process are one error."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from npu_graph.expressions import compile_on_use

# Lines between two parts of a block: a message of several lines, or other ranks that write to the same stream.
_GAP = 40
# Where the exception line names no process, only its closest lines are surely of the same block.
_NAMELESS_GAP = 6
_EXCEPTION = compile_on_use(r"(?:[A-Za-z_][\w.]{0,120}\.)?[A-Z]\w{0,60}(?:Error|Exception|Failure)(?::|\(| |$)")
# Parts that say nothing of their own: torch_npu's closing line and CANN's heading.
_WRAPPER = compile_on_use(r"\[ERROR\] 20[\d:-]{10,20} \(PID:|E[A-Z1-9]\d{4}: Inner Error!?\s*$")


class Part(NamedTuple):
    """The first line of one kind of error in one process."""

    source: str
    line: int
    process: str
    named: bool  # whether it is known which process the line is of
    form: str
    text: str


def find_heads(parts: Sequence[Part]) -> list[int | None]:
    """Return for each part the index of the exception line whose block it belongs to, None for all others.

    Args:
        parts: in the order of files and lines.
    """
    heads: list[int | None] = [None] * len(parts)
    open_blocks: dict[tuple[str, str], tuple[int, int]] = {}  # (source, process) -> (head, last line of the block)
    for index, part in enumerate(parts):
        if _EXCEPTION.match(part.text):
            open_blocks[(part.source, part.process if part.named else "")] = (index, part.line)
            continue
        if part.form not in ("pta", "cann"):
            continue
        for process, gap in ((part.process, _GAP), ("", _NAMELESS_GAP)):
            head, reached = open_blocks.get((part.source, process), (-1, 0))
            if head >= 0 and part.line - reached <= gap:
                heads[index] = head
                open_blocks[(part.source, process)] = (head, part.line)
                break
    return heads


def is_wrapper(text: str) -> bool:
    """Say whether a part of a block only repeats that there was an error."""
    return _WRAPPER.match(text) is not None

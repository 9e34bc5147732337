"""Python exceptions in a report: frames, message with its torch_npu and CANN lines, and how chained ones relate."""

from __future__ import annotations

from itertools import count
from typing import Iterator, NamedTuple, Sequence

from npu_graph.diagnosis.reading import BLOCK_LINE, Line
from npu_graph.expressions import compile_on_use

_HEADER = "Traceback (most recent call last)"
# The head of a frame may have been cut off by whoever copied it: `site-packages/x/y.py", line 12, in f`.
_FRAME = compile_on_use(
    r'\s*(?:File "?([^"\n]{1,400}?)"?|([^\s"]{1,400}\.py)"), line (\d{1,7})(?:, in (.{1,200}))?\s*$'
)
# A class name at the start of the line, then a colon or the line's end.
_RAISED = compile_on_use(r"\s*((?:[A-Za-z_]\w*\.){0,8}[A-Z_]\w*)(?:: ?(.*)|)$")
_ERROR_NAME = compile_on_use(
    r"(?:Error|Exception|Exit|Interrupt|Iteration|Warning|Timeout|Unsupported|Failed|Group|Violation)$"
)
# The same inside a sentence of a service log: "... failed with RuntimeError: text".
_INLINE = compile_on_use(r"\b((?:[a-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception)|torch\._dynamo\.exc\.[A-Z]\w*): ?(\S.*)$")
# The same as Python writes an exception object: `ValueError('text')`, alone on its line.
_AS_OBJECT = compile_on_use(
    r"\s*((?:[A-Za-z_]\w*\.){0,8}[A-Z]\w{0,60}(?:Error|Exception))\((?:'(.{1,1000})'|\"(.{1,1000})\"),?\)\s*$"
)
# A warning that is only printed: `UserWarning: text`, or with the place in front.
_WARNED = compile_on_use(r"\s*(?:\S{1,300}:\d{1,7}: )?(?:[A-Za-z_]\w*\.){0,8}[A-Z]?\w{0,60}Warning: ")
# An exception that ended a C++ process: `what():  text`, after the line that names its class.
_WHAT = compile_on_use(r"\s*what\(\):\s{1,8}(\S.{0,1000})$")
_DURING = "During handling of the above exception"
_CAUSED = "The above exception was the direct cause"
# A line that a logger wrote at one of these levels is no part of an exception's message.
_ORDINARY_LEVELS = ("INFO", "WARNING", "DEBUG")
MAX_MESSAGE_LINES = 80
MAX_FRAMES = 400


class Frame(NamedTuple):
    """One frame of a Python stack, with the input line it stands on."""

    file: str
    line: int
    function: str
    at: int


class Raised(NamedTuple):
    """One exception as printed.

    `relation` is '' for the first of a chain, 'during' when raised while handling the one before, 'caused_by' when
    raised from it. `order` is the position in the report, for "which came first".
    """

    type: str
    message: str
    text: str
    line: int
    frames: list[Frame]
    relation: str
    chain: int
    stream: str
    source: str
    order: int


def find_exceptions(lines: Sequence[Line]) -> list[Raised]:
    """Return every exception of the report in order of appearance; ranks that interleave are read apart."""
    by_stream: dict[tuple[str, str], list[tuple[int, Line]]] = {}
    for index, line in enumerate(lines):
        by_stream.setdefault((line.source, line.stream), []).append((index, line))
    raised: list[Raised] = []
    chains = count(1)  # one for all processes: exceptions of two of them are never of one chain
    for chunk in by_stream.values():
        raised += _read_stream(chunk, chains)
    return sorted(raised, key=lambda item: item.order)


def find_cut_frames(lines: Sequence[Line]) -> list[Frame]:
    """Return the frames of the last traceback whose exception was cut off; [] when there is none."""
    frames: list[Frame] = []
    for line in lines:
        found = _FRAME.match(line.text) if "line " in line.text else None
        if _HEADER in line.text:
            frames = []
        elif found and len(frames) < MAX_FRAMES:
            file, cut_file, number, function = found.groups()
            frames.append(Frame(file or cut_file, int(number), (function or "").strip(), line.number))
    return frames


def _read_stream(lines: Sequence[tuple[int, Line]], chains: Iterator[int]) -> list[Raised]:
    raised: list[Raised] = []
    frames: list[Frame] = []
    relation = ""
    chain = next(chains)
    in_block = False
    position = 0
    while position < len(lines):
        order, line = lines[position]
        text = line.text
        frame = _FRAME.match(text) if "line " in text else None
        if _HEADER in text:
            frames, in_block = [], True
            if not relation:
                chain = next(chains)
        elif text.lstrip().startswith(_DURING):
            relation = "during"
        elif text.lstrip().startswith(_CAUSED):
            relation = "caused_by"
        elif frame:
            if len(frames) < MAX_FRAMES:
                file, cut_file, number, function = frame.groups()
                frames.append(Frame(file or cut_file, int(number), (function or "").strip(), line.number))
            in_block = True
        else:
            head = _exception_head(text, in_block and bool(frames))
            if head:
                end = _message_end(lines, position)
                body = "\n".join(item.text for _, item in lines[position:end])
                name, message = head
                if not in_block and not relation:
                    chain = next(chains)
                raised.append(
                    Raised(name, message, body, line.number, frames, relation, chain, line.stream, line.source, order)
                )
                frames, relation, in_block = [], "", False
                position = end
                continue
        position += 1
    return raised


def _exception_head(text: str, expected: bool) -> tuple[str, str] | None:
    """Return (type, message) when the line names an exception; any class name will do where one is expected."""
    what = _WHAT.match(text)
    if what:
        return "C++ exception", what.group(1)
    found = _RAISED.match(text)
    if found and _is_exception_name(found.group(1), bool(found.group(2)), expected and not text.startswith("    ")):
        return found.group(1), (found.group(2) or "").strip()
    as_object = _AS_OBJECT.match(text)
    if as_object:
        return as_object.group(1), as_object.group(2) or as_object.group(3)
    if not expected:
        inline = _INLINE.search(text)
        if inline:
            return inline.group(1), inline.group(2).strip()
    return None


def _is_exception_name(name: str, has_message: bool, expected: bool) -> bool:
    last = name.rpartition(".")[2]
    if last.endswith("Warning"):
        # torch_npu prints warnings at every start; one is a failure only where a traceback ends in it.
        return expected
    if _ERROR_NAME.search(last):
        return has_message or expected
    return expected and "." in name and has_message


def _message_end(lines: Sequence[tuple[int, Line]], start: int) -> int:
    """Return the position after the message: it ends at a new traceback, a relation line, or a blank before prose."""
    end = start + 1
    limit = min(len(lines), start + MAX_MESSAGE_LINES)
    while end < limit:
        text = lines[end][1].text
        ordinary = lines[end][1].level in _ORDINARY_LEVELS and lines[start][1].level not in _ORDINARY_LEVELS
        starts_another = ordinary or " function error: " in text
        if starts_another or _HEADER in text or text.lstrip().startswith((_DURING, _CAUSED)) or _FRAME.match(text):
            break
        if not text.strip():
            following = lines[end + 1][1].text if end + 1 < limit else ""
            if not BLOCK_LINE.match(following):
                break
        elif not BLOCK_LINE.match(text) and (_WARNED.match(text) or _exception_head(text, expected=False)):
            break
        end += 1
    return end

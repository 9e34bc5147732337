"""Clean what people paste: every line without colours, quoting and log prefixes, with the process it came from."""

from __future__ import annotations

from typing import NamedTuple, Sequence
from unicodedata import category

from npu_graph.cli import InputText
from npu_graph.diagnosis.bounds import MAX_LINE, MAX_RAW_LINE, MAX_TRACE_LINES, choose_lines, holds_trace
from npu_graph.expressions import compile_on_use

_ANSI = compile_on_use(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
# Control characters, invisible marks and tags: none may hide text from the reader, or carry text only an agent sees.
_UNSEEN_CATEGORIES = ("Cc", "Cf", "Zl", "Zp", "Co", "Cs", "Cn")
_QUOTE = compile_on_use(r"(?:> ?){1,8}")
_FENCE = compile_on_use(r"\s{0,8}(?:```|~~~)")

# What services put before each line. Each alternative starts at the line's head and is removed with one space, so
# that the indentation of a traceback stays. `who` names the process, which separates interleaved ranks.
_PREFIXES = tuple(
    compile_on_use(expression)
    for expression in (
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]{0,12}(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ",  # kubelet
        r"(?P<who>[A-Za-z0-9][\w.-]{0,60}) {0,20}\|(?: |$)",  # docker compose
        r"\s{0,8}\| ",  # members of an exception group
        r"\((?P<who>[A-Za-z][\w .:-]{0,60}pid=\d{1,9})[^)]{0,80}\)(?: |$)",  # vLLM worker, Ray actor
        r"\[(?P<who>rank ?\d{1,5})\](?:: ?| |$)",  # torchrun, c10d
        r"\[(?P<who>(?:default|stdout|stderr)?\d{1,5})\]: ?",  # torchrun --tee
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?P<who>[^\]]{0,40})\] ?",  # SGLang
        r"(?:ERROR|INFO|WARNING|DEBUG|CRITICAL|FATAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,120}\](?: |$)",  # vLLM
        r"[VIWE](?:\d{4}|\d{8}) \d\d:\d\d:\d\d\.\d{6,9} \d{1,9} [^\] ]{1,200}\] (?:\[[\w/]{1,30}\] ){0,3}",  # glog
        r"\[[VIWEF]\d{3,4} \d\d:\d\d:\d\d\.\d{6,9} [^\] ]{1,200}\] ?",  # c10 warning
        r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3,6} (?:- )?(?:[\w.]{1,60} - )?(?:ERROR|INFO|WARNING|DEBUG)(?: -|:)? ",
    )
)
# The level that vLLM and Python loggers print before their text.
_LEVEL = compile_on_use(
    r"\b(ERROR|INFO|WARNING|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[| - (ERROR|INFO|WARNING|DEBUG) - "
)
_MAX_PREFIXES = 5
# What was not read, told by input; more would hide the report.
MAX_LEFT_OUT = 20
# Lines of a torch_npu or CANN block: a service's logger prefixes only the first line of a message, so the others
# belong to the process that wrote it.
BLOCK_LINE = compile_on_use(
    r"\s*(?:\[(?:ERROR|Error|PID|WARN|ASSERT)\b|[EW][A-Z0-9]\d{4}\b|TraceBack \(most recent|Solution:|Possible Cause:"
    r"|\[FUNC:|\(E[A-Z0-9]\d{4}\)|rt[A-Z]\w+ exec|Since the operator is called|Exception raised from|frame #\d)"
)


class Line(NamedTuple):
    """One cleaned line: its number in the input (1-based), the text, the process, the file, the logger's level."""

    number: int
    text: str
    stream: str
    source: str
    level: str = ""


class Report(NamedTuple):
    """A cleaned report and what had to be left out of it."""

    lines: list[Line]
    left_out: list[str]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


def read_report(inputs: Sequence[InputText]) -> Report:
    """Clean the inputs, in order, into one report."""
    lines: list[Line] = []
    left_out: list[str] = []
    for item, chosen in zip(inputs, choose_lines([_raw_lines(item.text) for item in inputs])):
        if item.skipped_bytes:
            left_out.append(f"{item.name}: {item.skipped_bytes} bytes in the middle were not read")
        if chosen.far:
            left_out.append(f"{item.name}: {chosen.far} lines far from any error were not diagnosed")
        if chosen.too_many:
            left_out.append(
                f"{item.name}: {chosen.too_many} lines in the middle were too many to diagnose; give the part in question"
            )
        for number, text in chosen.lines:
            if len(text) > MAX_RAW_LINE:
                left_out.append(f"{item.name}: the middle of line {number} ({len(text)} characters) was not read")
            for line in clean_line(number, text, item.name):
                continues = not line.stream and lines and lines[-1].source == item.name and BLOCK_LINE.match(line.text)
                lines.append(line._replace(stream=lines[-1].stream) if continues else line)
    return Report(lines, left_out[:MAX_LEFT_OUT])


def _raw_lines(text: str) -> list[str]:
    """Return the lines of an input; a lone carriage return ends one only where nothing else does: else it is a bar's."""
    return (text if "\n" in text else text.replace("\r", "\n")).split("\n")


def clean_line(number: int, raw: str, source: str = "-") -> list[Line]:
    """Return the cleaned pieces of one raw line (usually one)."""
    text = raw.rstrip("\r\n")
    if "\r" in text:  # a progress bar: what stands on screen is the last state
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    text = _head_and_tail(text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _visible(text)
    quoted = _QUOTE.match(text)
    if quoted and not text.startswith(">>>"):
        text = text[quoted.end() :]
    if _FENCE.match(text):
        text = ""
    level = _LEVEL.search(text[:200])
    text, stream = _strip_prefixes(text)
    parts = _split_escaped(text)
    pieces = [part[at : at + MAX_LINE] for part in parts for at in range(0, max(len(part), 1), MAX_LINE)]
    written = (level.group(1) or level.group(2)) if level else ""
    return [Line(number, piece, stream, source, written) for piece in pieces]


def _head_and_tail(text: str) -> str:
    """Return a line with its middle cut out where it is too long: a trace ends in its exception."""
    return text if len(text) <= MAX_RAW_LINE else text[: MAX_RAW_LINE // 2] + text[-(MAX_RAW_LINE // 2) :]


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        char for char in text if char == "\t" or char.isprintable() or category(char) not in _UNSEEN_CATEGORIES
    )


def _strip_prefixes(text: str) -> tuple[str, str]:
    stream = ""
    for _ in range(_MAX_PREFIXES):
        for prefix in _PREFIXES:
            found = prefix.match(text)
            if found and found.end():
                who = (found.groupdict().get("who") or "").strip()
                stream = who or stream
                text = text[found.end() :]
                break
        else:
            break
    return text, stream


def _split_escaped(text: str) -> Sequence[str]:
    """Split a trace that a JSON log holds in one string, where line ends are written as backslash and n."""
    if not holds_trace(text):
        return [text]
    parts = text.replace("\\r", "").replace('\\"', '"').replace("\\t", "\t").split("\\n")
    if len(parts) <= MAX_TRACE_LINES:
        return parts
    return parts[: MAX_TRACE_LINES // 2] + parts[-(MAX_TRACE_LINES // 2) :]

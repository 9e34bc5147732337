"""Clean what people paste: every line without colours, quoting and log prefixes, with the process it came from."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence
from unicodedata import category

from npu_graph.cli import InputText
from npu_graph.expressions import compile_on_use

# A longer line is cut in pieces: a signature then runs on bounded text. Traces in one JSON string are split first.
MAX_LINE = 2000
MAX_PIECES = 40
# More lines than this is a log; only the neighbourhood of its error lines is diagnosed.
MAX_LINES = 20000
# The same bound in characters: every signature is looked for in all of the text.
MAX_CHARACTERS = 1_500_000
CONTEXT_LINES = 40

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
# Lines of a torch_npu or CANN block: a service's logger prefixes only the first line of a message, so the others
# belong to the process that wrote it.
BLOCK_LINE = compile_on_use(
    r"\s*(?:\[(?:ERROR|Error|PID|WARN|ASSERT)\b|[EW][A-Z0-9]\d{4}\b|TraceBack \(most recent|Solution:|Possible Cause:"
    r"|\[FUNC:|\(E[A-Z0-9]\d{4}\)|rt[A-Z]\w+ exec|Since the operator is called|Exception raised from|frame #\d)"
)
# Lines worth their neighbourhood in a log too large to diagnose whole.
_TELLING = compile_on_use(
    r"Traceback|Error\b|ERROR|FATAL|error code|[Ff]ailed|Exception|\bERR\d{5}|\bE[A-Z0-9]\d{4}\b|失败|错误|报错|capture"
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
    for item in inputs:
        if item.skipped_bytes:
            left_out.append(f"{item.name}: {item.skipped_bytes} bytes in the middle were not read")
        # Lone carriage returns end lines where there is no other line end; elsewhere they are a progress bar.
        text = item.text if "\n" in item.text else item.text.replace("\r", "\n")
        raw = text.split("\n")
        chosen, dropped = _bounded(raw)
        if dropped:
            left_out.append(f"{item.name}: {dropped} lines far from any error were not diagnosed")
        for number, text in chosen:
            for line in clean_line(number, text, item.name):
                continues = not line.stream and lines and lines[-1].source == item.name and BLOCK_LINE.match(line.text)
                lines.append(line._replace(stream=lines[-1].stream) if continues else line)
    return Report(lines[: 2 * MAX_LINES], left_out)


def clean_line(number: int, raw: str, source: str = "-") -> list[Line]:
    """Return the cleaned pieces of one raw line (usually one)."""
    text = raw.rstrip("\r\n")
    if "\r" in text:  # a progress bar: what stands on screen is the last state
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    if "\x1b" in text:
        text = _ANSI.sub("", text[: MAX_LINE * MAX_PIECES])
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
    return [Line(number, piece, stream, source, written) for piece in pieces[:MAX_PIECES]]


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


def _split_escaped(text: str) -> Iterable[str]:
    """Split a trace that a JSON log holds in one string, where line ends are written as backslash and n."""
    if len(text) > 200 and text.count("\\n") >= 3 and ("Traceback" in text or "rror" in text):
        return text.replace("\\r", "").replace('\\"', '"').replace("\\t", "\t").split("\\n")
    return [text]


def _bounded(raw: Sequence[str]) -> tuple[list[tuple[int, str]], int]:
    """Return (number, line) pairs to look at, and how many lines were left out."""
    if len(raw) <= MAX_LINES and sum(map(len, raw)) <= MAX_CHARACTERS:
        return list(enumerate(raw, 1)), 0
    keep: set[int] = set()
    for index, line in enumerate(raw):
        if _TELLING.search(line[:MAX_LINE]):
            keep.update(range(max(0, index - CONTEXT_LINES), min(len(raw), index + CONTEXT_LINES)))
            if len(keep) >= MAX_LINES:
                break
    chosen = _fitting(raw, sorted(keep) or range(len(raw)))
    return [(index + 1, raw[index]) for index in chosen], len(raw) - len(chosen)


def _fitting(raw: Sequence[str], wanted: Sequence[int]) -> list[int]:
    """Return the first of the wanted lines that keep both bounds; one line alone always fits."""
    chosen: list[int] = []
    characters = 0
    for index in wanted[:MAX_LINES]:
        characters += min(len(raw[index]), MAX_LINE * MAX_PIECES)
        if chosen and characters > MAX_CHARACTERS:
            break
        chosen.append(index)
    return chosen

"""Which lines are errors, and which errors are the same apart from numbers, pointers and ids."""

from __future__ import annotations

from npu_graph.expressions import compile_on_use
from npu_graph.logs.lines import BAD_LEVELS, LogLine

_FOLDED = compile_on_use(rb"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\d+")
_EXCEPTION = compile_on_use(
    rb"(?:[A-Za-z_][\w.]{0,120}\.)?[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Failure)(?::|\(|$| )"
)
_CODED = compile_on_use(rb"\bERR\d{5}\b|\bE[A-Z1-9]\d{4}\b|NPU function error|error code is \d")
_KERNEL = compile_on_use(
    rb"Segmentation fault|core dumped|[Oo]ut of memory: Kill|^Killed|SIGQUIT received|^Fatal Python error"
)
_RETRACTED = b"error log can be ignored"
# A frame, a caret line or a heading of a traceback is part of an error, not one of its own.
_CONTINUATION = compile_on_use(
    rb"\s|File \"|Traceback \(most recent|During handling of|The above exception|\^|~|\[Error\]: |Solution: "
)
_PLOG_PLACE = compile_on_use(rb"\[([\w./-]{1,80}:\d{1,6})\]")
_CANN_IDS = compile_on_use(rb":? ?(?:\[PID: ?\d{1,9}\] ?)?(?:20[\d:.-]{21,27} ?)?(?:\(E\w{5}\):? {0,3})?")
_KEY_BYTES = 160


def is_error(line: LogLine) -> bool:
    """Say whether a line reports an error of its own."""
    text = line.text
    if line.form == "plog":
        return line.level in BAD_LEVELS
    if line.form in ("pta", "cann"):
        return line.level in BAD_LEVELS
    if not text.strip() or _CONTINUATION.match(text):
        return False
    if line.level in BAD_LEVELS:
        return True
    if line.form not in ("text", "kernel", "c10"):
        return False
    return bool(_EXCEPTION.match(text) or _KERNEL.search(text) or (_CODED.search(text) and b"rror" in text))


def is_retraction(text: bytes) -> bool:
    """Say whether the line declares the errors before it void (HCCL's retry does)."""
    return _RETRACTED in text and b"Process group work" not in text


def error_key(line: LogLine) -> str:
    """Return the name under which equal errors are counted; short, readable, the same on every rank."""
    if line.form == "plog":
        place = _PLOG_PLACE.match(line.text)
        if place is not None:
            return f"{line.module} {place.group(1).decode()}"
    folded = _FOLDED.sub(b"#", line.text[:_KEY_BYTES]) if line.form != "pta" else _after_ids(line.text)
    if line.code:
        code = line.code.encode()
        rest = _CANN_IDS.sub(b"", line.text[len(code) :], 1) if line.text.startswith(code) else line.text
        folded = code + b" " + _FOLDED.sub(b"#", rest[:_KEY_BYTES])
    return folded.decode("utf-8", "replace").strip()


def _after_ids(text: bytes) -> bytes:
    at = text.find(b") ERR")
    return text[at + 2 : at + 2 + _KEY_BYTES].rstrip(b". ") if at >= 0 else _FOLDED.sub(b"#", text[:_KEY_BYTES])

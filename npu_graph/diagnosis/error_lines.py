"""Error codes, torch_npu call sites and CANN log errors that stand in a report's lines."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from npu_graph.diagnosis.reading import Line
from npu_graph.expressions import compile_on_use

# Ways in which torch_npu, CANN and the frameworks print a numeric code.
_NUMERIC_CODE = compile_on_use(
    r"(?:error ?code(?: is|:|=| =)?|errcode:?=?|errorcode:?=?|runtime result =|retcode(?: is|=|:)?|error=|error:|ret=|ret =|ret:"
    r"|code(?: is|:|=)?|failed[,:]|错误码(?:是|为|:|：)?)\s{0,3}(0x[0-9a-f]{5,8}|\d{5,10})\b",
    re.IGNORECASE,
)
_LETTER_CODE = compile_on_use(r"\b(ERR\d{5}|[EW][A-Z1-9]\d{4}|ACL_ERROR_[A-Z_]{3,60})\b")
# A bare number counts only in the ranges that ACL, the runtime and aclnn use, and not as part of a longer token.
_BARE_CODE = compile_on_use(r"(?<![\w.:=/-])(?:107|207|507|161|361|561)\d{3}(?![\w/-]|\.\d)")
_IDENTITY_BEFORE = compile_on_use(r"(?:pid|tid|port|PID|id|=)\s?$")

_CALL_SITE = compile_on_use(
    r"([A-Za-z_~(][\w:~<>()]{0,80}):((?:[\w./-]{0,200}/)?[\w-]{1,80}\.(?:cpp|ts|h|cc)):(\d{1,6}) "
    r"((?:NPU|OPS|HCCL) function error|NPU warning): ?(.{0,300}?)(?:, error code is (\d{1,9})|$)"
)
_DEVICE_FAULT = compile_on_use(
    r"aicore exception|(?:aivec|aivector|aicore) error|exception of aivec|MTE instruction|aicpu exception|AICPU execution|Kernel task happen error|vector core exception"
    r"|there is an? \w{0,20} ?error exception|Assertion `|errorStr: timeout or trap|out of range\[",
)
_PLOG_ERROR = compile_on_use(
    r"\[(ERROR|FATAL)\] ?([A-Z]{2,12})\(\d{1,9},[^)\n]{0,80}\)?:?(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d[.\d]{0,8})?"
)
_CANN_BLOCK = compile_on_use(r"\s*(?:\[PID: ?\d+\] [\d:.-]{10,32} \S{0,80}\(?)?([EW][A-Z1-9]\d{4})\b")
# A C++ process that ends itself: glog's fatal level, and an exception nobody caught.
_FATAL = compile_on_use(r"\s*F(?:\d{4,8} [\d:.]{8,20} \d{1,9})? ?[\w./-]{1,120}\.(?:cpp|cc|h):\d{1,6}\] (.{1,400})")
_SENTENCE = compile_on_use(
    r"Assert \(.{1,200}\) failed\[FUNC|Watchdog caught collective|captured-stream|[Tt]he resources are insufficient|Alloc sq cq fail|stream resources are insufficient"
)
_REASON = compile_on_use(r"(?:reason=\[?|ErrCode=\d{6}, desc=\[)([^\]\[\n]{4,200})")


class CodeMention(NamedTuple):
    """A code as printed, and where."""

    code: str
    line: int
    order: int
    text: str


class CallSite(NamedTuple):
    """`function:FILE:LINE NPU function error: call, error code is N`, the head of a torch_npu error.

    `file` may be `compiler_depend.ts`, which aarch64 builds up to release 7.3.0 print in place of the real name;
    the line number is the real file's all the same.
    """

    function: str
    file: str
    file_line: int
    call: str
    code: str
    line: int
    order: int


class LogError(NamedTuple):
    """An error line of a CANN log or error block: the component that wrote it, and its text."""

    component: str
    text: str
    line: int
    order: int
    time: str


def find_codes(lines: Sequence[Line]) -> list[CodeMention]:
    """Return every code mention in order; a number is taken only where the text says that it is a code."""
    mentions: list[CodeMention] = []
    for order, line in enumerate(lines):
        text = line.text
        found: dict[int, str] = {}
        for match in _NUMERIC_CODE.finditer(text):
            found[match.start(1)] = match.group(1)
        for match in _LETTER_CODE.finditer(text):
            found[match.start(1)] = match.group(1)
        for match in _BARE_CODE.finditer(text):
            before = text[max(0, match.start() - 6) : match.start()]
            if match.start() not in found and not _IDENTITY_BEFORE.search(before):
                found[match.start()] = match.group(0)
        mentions += [CodeMention(found[at], line.number, order, text.strip()[:300]) for at in sorted(found)]
    return mentions


def find_call_sites(lines: Sequence[Line]) -> list[CallSite]:
    """Return the torch_npu call sites in order."""
    sites: list[CallSite] = []
    for order, line in enumerate(lines):
        if " function error" not in line.text and "NPU warning" not in line.text:
            continue
        for match in _CALL_SITE.finditer(line.text):
            function, file, number, _, call, code = match.groups()
            sites.append(CallSite(function, file, int(number), call.strip(), code or "", line.number, order))
    return sites


def find_log_errors(lines: Sequence[Line]) -> list[LogError]:
    """Return error lines of plog and of CANN's error blocks, in order."""
    errors: list[LogError] = []
    for order, line in enumerate(lines):
        text = line.text
        plog = _PLOG_ERROR.search(text) if "[ERROR]" in text or "[FATAL]" in text else None
        if plog:
            errors.append(LogError(plog.group(2), text.strip()[:600], line.number, order, plog.group(3) or ""))
            continue
        block = _CANN_BLOCK.match(text)
        fatal = _FATAL.match(text)
        if (
            block
            or fatal
            or "reason=" in text
            or "desc=[" in text
            or _DEVICE_FAULT.search(text)
            or _SENTENCE.search(text)
        ):
            component = block.group(1) if block else "process" if fatal else "CANN"
            errors.append(LogError(component, text.strip()[:600], line.number, order, ""))
    return errors


# `报错：`, `it fails with:`, `the following error:` at a line's end: what follows is the text of the error.
_TELLS = compile_on_use(
    r"(?:报错(?:如下|信息)?|错误(?:如下|信息)?|提示(?:如下)?)[\s`\"'*]{0,4}[:：]?\s{0,4}$"
    r"|^(?!.{0,40}\bexpected\b).{0,200}\b(?:(?:errors?|message|exception)\s{0,2}[:：]|(?:fail(?:s|ed)?|crash(?:es|ed)?) with[:：]?)\s{0,4}$",
    re.IGNORECASE,
)
# `报错 assert isinstance(...)`, the text on the same line.
_TOLD_HERE = compile_on_use(
    r"(?:报错|错误信息|error message)\s{0,2}[:：]?\s{1,3}([\x21-\x7e][\x20-\x7e]{19,300})$", re.IGNORECASE
)
_TOLD_AFTER = 3  # blank lines and a fence may stand between
_ERROR_TEXT = compile_on_use(r"(?=[^\n]{0,20}[A-Za-z]{3})[\x21-\x7e][\x20-\x7e]{19,600}$")
# A command that was typed, above its output.
_COMMAND = compile_on_use(r"[$#>] |(?:python3?|bash|torchrun|vllm|export|cd|docker) \S")
# A heading, and a text that others wrote.
_HEADING = compile_on_use(r"\s*(?:Steps?|How|When|Where|Note|Notice|Please|Expected|Actual|Related|Related to)\b")
_OF_OTHERS = compile_on_use(
    r"\b(?:docs?|documentation|manual|readme|faq) (?:says?|states?|reads?)\b|what the (?:docs?|manual|readme|faq)\b"
    r"|\b(?:other issues?|related issue)\b|(?:文档|手册)(?:里|中|说|写)",
    re.IGNORECASE,
)
# `text that refuses something`, quoted in a sentence.
_QUOTED_SPAN = compile_on_use(r"`([^`\n]{20,300})`")
# Words, not code: a capital, then at least five words.
_SENTENCE_ALONE = compile_on_use(r"\s*[A-Z][\w'()]{0,40}(?: [^\s=]{1,60}){4,80}[^:{]$")
_REFUSES = compile_on_use(
    r"\b(?:fail(?:s|ed|ure)?|errors?|cannot|can't|could not|unable|mismatch\w*|exceed\w*|only supports?|"
    r"(?:not|do not|does not) support|unsupported|should be|not equal|does not match|invalid|not found|no such|out of)\b",
    re.IGNORECASE,
)
# A person speaks there, not a program.
_PERSON = compile_on_use(r"\b(?:I|we|my|our|me|us|you|your|please|thanks?|issue|expected)\b", re.IGNORECASE)


def find_told_errors(lines: Sequence[Line]) -> list[LogError]:
    """Return error texts that a report quotes without the line of a log they came from, in order.

    They follow `报错：` or the like, stand in backticks or alone between blank lines (a fence leaves those) and refuse
    something, or were logged at level ERROR and refuse something.
    """
    errors: dict[int, LogError] = {}
    for order, line in enumerate(lines):
        around = [lines[at].text.strip() for at in (order - 1, order + 1) if 0 <= at < len(lines)]
        is_alone = not any(around) and _SENTENCE_ALONE.match(line.text.rstrip()) and not _HEADING.match(line.text)
        if is_alone and _refuses(line.text):
            errors[order] = LogError("message", line.text.strip()[:600], line.number, order, "")
        quotes = [] if _OF_OTHERS.search(line.text) else _QUOTED_SPAN.findall(line.text)
        quoted = next((text for text in quotes if " " in text and _refuses(text)), "")
        logged = line.text.strip() if line.level == "ERROR" and _REFUSES.search(line.text) else ""
        if quoted or logged:
            errors.setdefault(order, LogError("message", quoted or logged, line.number, order, ""))
        here = _TOLD_HERE.search(line.text)
        if here:
            errors.setdefault(order, LogError("message", here.group(1), line.number, order, ""))
        if not _TELLS.search(line.text):
            continue
        for at in range(order + 1, min(order + 1 + _TOLD_AFTER, len(lines))):
            text = lines[at].text.strip()
            if text and not text.startswith("```") and not _COMMAND.match(text):
                if (
                    _ERROR_TEXT.fullmatch(text)
                    and not _PERSON.search(text)
                    and lines[at].level not in ("INFO", "WARNING", "DEBUG")
                ):
                    errors.setdefault(at, LogError("message", text, lines[at].number, at, ""))
                break
    return [errors[order] for order in sorted(errors)]


def _refuses(text: str) -> bool:
    return _REFUSES.search(text) is not None and _PERSON.search(text) is None


# What a kernel, CANN or an allocator reports, often later than the call that caused it (in lower case).
_OF_DEVICE = compile_on_use(
    r"out of memory|function error|error code is|runtime result|\b(?:107|145|161|207|507|561)\d{3}\b"
    r"|\baclnn\w|ai ?core|aivec|\be[a-z1-9]\d{4}\b"
)


def speaks_of_device(text: str) -> bool:
    """Say whether an error text is the device's or CANN's: then it says nothing about the code around it."""
    return _OF_DEVICE.search(text.lower()) is not None


def is_device_fault(text: str) -> bool:
    """Say whether the text reports a fault of a running kernel rather than a refused call."""
    return bool(_DEVICE_FAULT.search(text))


# What CANN adds to a code in words: `Reason: the invalid device is 1.`
_IN_WORDS = re.compile(r"\bReason: ?(\S.{3,300})$")


def words_of(text: str) -> str:
    """Return the reason that a line of CANN gives beside its code, ''."""
    found = _IN_WORDS.search(text)
    return found.group(1).strip() if found else reason_of(text)


# A sentence of CANN behind its code, or before the place in its sources that it was said at.
_SAID_OF_CODE = re.compile(r"\b[EW][A-Z0-9]\d{4}\)?: {1,4}(?:\[PID: ?\d{1,9}\] )?(\S.{8,300}?)(?:\[FUNC:|$)")
_SAID_AT = re.compile(r"(\S.{8,300}?) ?\[FUNC:")
_STAMP = re.compile(r"^\[PID: ?\d{1,9}\] |^\d{4}-\d\d-\d\d-[\d:.]{8,18} ")
# What says no more than that something failed, and its number.
_SAYS_NOTHING = re.compile(
    r"^(?:inner error|traceback|rt\w{1,60} (?:execut\w{1,4} )?failed|solution|possible cause)|execut\w{1,4} failed, reason=",
    re.IGNORECASE,
)


def sentences_of(text: str) -> list[str]:
    """Return what the lines of CANN in a failure's text say of it in words; those beside a code first."""
    lines = [line.strip() for line in text.split("\n")]
    beside = [said.group(1) for said in map(_SAID_OF_CODE.search, lines) if said]
    others = [said.group(1) for said in map(_SAID_AT.search, lines) if said and not _SAID_OF_CODE.search(said.string)]
    bare = [_STAMP.sub("", _STAMP.sub("", words)).strip() for words in beside + others]
    return list(dict.fromkeys(words for words in bare if " " in words and not _SAYS_NOTHING.search(words)))


def reason_of(text: str) -> str:
    """Return CANN's reason string (`reason=...`), or ''."""
    found = _REASON.search(text)
    return found.group(1).strip() if found else ""

"""Which of a report's failures explains the rest, and why each of the others was set aside."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from npu_graph.diagnosis.error_lines import (
    CallSite,
    CodeMention,
    LogError,
    is_device_fault,
    reason_of,
)
from npu_graph.diagnosis.reading import Line
from npu_graph.diagnosis.tracebacks import Frame, Raised
from npu_graph.expressions import compile_on_use


class Reason(NamedTuple):
    """Why a failure is a consequence, in both languages of the report."""

    en: str
    zh: str


# Exceptions of ordinary control flow: handling one of them when the real failure comes is no cause
# (a cache miss, an optional attribute, an optional import).
_CONTROL_FLOW = frozenset(
    [
        "KeyError",
        "StopIteration",
        "StopAsyncIteration",
        "IndexError",
        "AttributeError",
        "Empty",
        "Full",
        "ModuleNotFoundError",
        "ImportError",
        "FileNotFoundError",
        "LookupError",
        "CancelledError",
        "TimeoutError",
    ]
)

# A framework saying that something else failed. Its text often repeats the inner error, which is then used instead.
_RETHROWS = (
    (compile_on_use(r"Worker failed with error"), Reason("the executor's note that a worker failed", "执行器只是转述 worker 失败")),
    (compile_on_use(r"Engine core initialization failed|Failed core proc|EngineDeadError|EngineCore (?:died|encountered)"), Reason("the API server's note that the engine died", "API 服务只是转述引擎退出")),
    (compile_on_use(r"WorkerProc initialization failed|worker .{0,40}died unexpectedly|Executor failed"), Reason("the executor's note that a worker died", "执行器只是转述 worker 退出")),
    (compile_on_use(r"NPUModelRunner (?:init )?failed, error is"), Reason("the model runner's wrapper", "model runner 的外层包装")),
    (compile_on_use(r"Capture (?:cuda|npu) graph failed"), Reason("SGLang's wrapper with its general suggestions", "SGLang 的外层包装，附带的是通用建议")),
    (compile_on_use(r"cancelled|shm_broadcast.{0,60}(?:time|No available)|RPC call .{0,80}timed out"), Reason("a peer that waited for the failed process", "等待失败进程的另一方")),
    (compile_on_use(r"ChildFailedError|exitcode\s*: -?\d+|SIGQUIT received|signal \d+ \(SIG"), Reason("the launcher's note that a process ended", "启动器只是转述进程结束")),
    (compile_on_use(r"Server disconnected|Connection (?:reset|refused)|EOFError|BrokenPipe"), Reason("a peer that lost its connection", "失去连接的另一方")),
)  # fmt: skip
_INNER_ERROR = compile_on_use(
    r"error is (?!NPUModelRunner)(.{4,1000})|failed with error:? ?['\"]?(.{4,1000})|failed: (.{4,1000})", re.DOTALL
)

# Codes with which closing a capture fails when something inside it failed before: consequences in that case.
_CAPTURE_END_ECHOES = frozenset(["107025", "107027", "107033", "107036", "507903"])
_CAPTURE_END = compile_on_use(
    r"capture_end|CaptureEnd|EndCapture|endCaptureErr|graphs\.py.{0,80}__exit__", re.IGNORECASE
)
# An allocation that failed earlier leaves work pending; what waits for it then times out.
_ALLOCATION = compile_on_use(
    r"\b207001\b|\b207018\b|\bEL0004\b|alloc(?:ate)? device memory failed|Memory_Allocation_Failure|rtMalloc.{0,40}fail",
    re.IGNORECASE,
)
_WAIT_OR_OOM = compile_on_use(
    r"\b1070(?:19|20|27)\b|\b50704[67]\b|OutOfMemory|Synchronize\w*WithTimeout|sync(?:hronize)? timeout", re.IGNORECASE
)
_SPEAKS_OF_DEVICE = compile_on_use(r"npu|acl|capture|replay|error code|cann|hccl")
_OWN_ALLOCATOR = compile_on_use(r"NPU out of memory\. Tried to allocate")


# A copy refused by the capture mode is logged in many healthy services; beside a device fault it is not the cause
# (maintainers in vllm-project/vllm-ascend#11514).
_MODE_REFUSAL = compile_on_use(r"\b107030\b|capture mode does not support|not relaxed", re.IGNORECASE)
_DEVICE_CODE = compile_on_use(
    r"\b5070(?:11|14|15|17|18|34|35|36|42|43|44|45)\b|model (?:stream )?execute failed", re.IGNORECASE
)


# Bounds that keep the work linear in a storm of error lines: lines joined to one failure, and failures looked at.
_MAX_JOINED = 40
_MAX_LOG_FAILURES = 400
# The first line of a CANN block, which says nothing by itself.
_BARE_HEADER = compile_on_use(r"[EW][A-Z0-9]\d{4}: (?:AclNN )?(?:Inner|Internal) [Ee]rror!?")


# A line that a program wrote rather than a person.
IN_A_LOG = compile_on_use(
    r"^\s*\[[A-Z]|^\s*\(\w[\w ]{0,40}pid=|\d\d:\d\d:\d\d|error code is|runtime result|function error|retCode=",
    re.MULTILINE,
)


class Failure(NamedTuple):
    """One failure of the report: a Python exception or an error line of a log."""

    kind: str  # "exception" or "log"
    type: str
    message: str
    text: str
    line: int
    order: int
    frames: list[Frame]
    stream: str
    chain: int
    relation: str


class SetAside(NamedTuple):
    """A failure that is a consequence, and the reason for saying so."""

    failure: Failure
    why: Reason


class FirstCause(NamedTuple):
    """The failure that explains the rest (None when the report holds none), and what was set aside."""

    failure: Failure | None
    wrapped_by: list[SetAside]


def find_first_cause(
    lines: Sequence[Line],
    raised: Sequence[Raised],
    sites: Sequence[CallSite],
    codes: Sequence[CodeMention],
    logs: Sequence[LogError],
) -> FirstCause:
    """Choose the earliest failure that is not a consequence of another one in the report."""
    failures = _exception_failures(raised)
    failures += _log_failures(lines, failures, sites, codes, logs)
    failures.sort(key=lambda item: item.order)
    if not failures:
        return FirstCause(None, [])
    aside: dict[int, SetAside] = {}
    for rule in _RULES:
        for index, why in rule(failures, [i not in aside for i in range(len(failures))]):
            if index not in aside and len(aside) < len(failures) - 1:
                aside[index] = SetAside(failures[index], why)
    standing = [index for index in range(len(failures)) if index not in aside]
    chosen = _choose(failures, standing)
    rest = [
        SetAside(failures[index], _why_later(failures[chosen], failures[index]))
        for index in standing
        if index != chosen
    ]
    echoes = sorted([*aside.values(), *rest], key=lambda item: item.failure.order)
    return FirstCause(_unwrapped(failures[chosen]), echoes)


def _exception_failures(raised: Sequence[Raised]) -> list[Failure]:
    return [
        Failure("exception", e.type, e.message, e.text, e.line, e.order, e.frames, e.stream, e.chain, e.relation)
        for e in _without_compile_wrappers(raised)
    ]


# What torch.compile and Triton raise around the exception itself: it follows, on the same line or below the quoted code.
_COMPILE_WRAPPER = compile_on_use(r"(?:BackendCompilerFailed|InductorError|LoweringException|CompilationError)$")
_RAISED_NEXT = compile_on_use(r"(?:backend='[^']{1,60}' raised:|at \d{1,6}:\d{1,6}:)?\s*$")
_RAISED_HERE = compile_on_use(r"((?:[A-Za-z_]\w*\.){0,8}[A-Z]\w{0,60}(?:Error|Exception)): ?(.*)")


def _without_compile_wrappers(raised: Sequence[Raised]) -> list[Raised]:
    """Return the exceptions with torch.compile's wrappers replaced by what they wrap; the frames are the wrapper's."""
    found: list[Raised] = []
    for item in raised:
        before = found[-1] if found else None
        is_next = (
            before is not None
            and _COMPILE_WRAPPER.search(before.type)
            and _RAISED_NEXT.fullmatch(before.message)
            and not item.frames
            and not item.relation
            and item.stream == before.stream
            and item.source == before.source
            and item.line - before.line <= before.text.count("\n") + 2  # a blank line may stand between
        )
        if before is not None and is_next:
            found[-1] = before._replace(
                type=item.type, message=item.message, text=f"{before.text}\n{item.text}", line=item.line
            )
            continue
        found.append(_unwrapped_here(item))
    return found


def _unwrapped_here(item: Raised) -> Raised:
    """Return the exception that a wrapper names on its own line: `InductorError: LoweringException: KeyError: x`."""
    while _COMPILE_WRAPPER.search(item.type):
        inner = _RAISED_HERE.match(item.message)
        if inner is None:
            break
        item = item._replace(type=inner.group(1), message=inner.group(2))
    return item


def _log_failures(
    lines: Sequence[Line],
    exceptions: Sequence[Failure],
    sites: Sequence[CallSite],
    codes: Sequence[CodeMention],
    logs: Sequence[LogError],
) -> list[Failure]:
    """Return error lines that are not part of an exception's own message, one failure per neighbourhood."""
    inside: set[int] = set()
    for item in exceptions:
        inside.update(range(item.order, item.order + item.text.count("\n") + 1))
    marked: dict[int, str] = {}
    for log in logs:
        marked.setdefault(log.order, log.component)
    for site in sites:
        marked.setdefault(site.order, "torch_npu")
    for code in codes:
        # An ERR line only says which part of torch_npu speaks; the failure is the line it is attached to.
        if not code.code.startswith("ERR"):
            marked.setdefault(code.order, "code")
    failures: list[Failure] = []
    last, last_kind, joined = -10, "", 0
    for order in sorted(set(marked) - inside):
        text = lines[order].text.strip()
        near = order - last <= 3 and failures and failures[-1].stream == lines[order].stream
        last = order
        kind = _kind_of(text)
        if near and joined < _MAX_JOINED and (not kind or kind == last_kind):
            head = failures[-1]
            if head.type == "code" and marked[order] != "code" and not IN_A_LOG.search(head.text):
                # Somebody's sentence names a code; the line of the log is the failure.
                head = head._replace(
                    type=marked[order], message=(reason_of(text) or text)[:600], line=lines[order].number
                )
            failures[-1] = head._replace(text=f"{head.text}\n{text}")
            joined += 1
            continue
        if len(failures) >= _MAX_LOG_FAILURES:
            break
        last_kind, joined = kind, 0
        if near and _BARE_HEADER.fullmatch(failures[-1].text):
            failures.pop()
        message = reason_of(text) or text
        failures.append(
            Failure(
                "log", marked[order], message[:600], text, lines[order].number, order, [], lines[order].stream, -1, ""
            )
        )
    return failures


def _kind_of(text: str) -> str:
    """Return which of the kinds that explain one another the text is of, or ''."""
    if _ALLOCATION.search(text):
        return "allocation"
    if is_device_fault(text) or _DEVICE_CODE.search(text):
        return "fault"
    return "refusal" if _MODE_REFUSAL.search(text) else ""


def _rethrows(failures: Sequence[Failure], standing: Sequence[bool]) -> list[tuple[int, Reason]]:
    found = []
    for index, item in enumerate(failures):
        said = f"{item.type}: {item.message[:600]}"
        what = next((reason for expression, reason in _RETHROWS if expression.search(said)), None)
        if what is not None and not _holds_the_only_copy(failures, index):
            found.append((index, what))
    # The last one standing is kept for its inner text, so the earliest is judged last.
    return list(reversed(found))


def _holds_the_only_copy(failures: Sequence[Failure], index: int) -> bool:
    """Say whether a wrapper repeats an inner error that stands nowhere else in the report: then it is the evidence."""
    inner = _INNER_ERROR.search(failures[index].message)
    if inner is None:
        return False
    text = next(group for group in inner.groups() if group).strip("'\" ")[:40].lower()
    if index >= _MAX_LOG_FAILURES or not _SPEAKS_OF_DEVICE.search(text):
        return False
    return not any(text in other.text.lower() for position, other in enumerate(failures) if position != index)


def _control_flow(failures: Sequence[Failure], standing: Sequence[bool]) -> list[tuple[int, Reason]]:
    """An exception that was being handled when a real failure came, where its type is ordinary control flow."""
    found = []
    for index, item in enumerate(failures):
        follower = failures[index + 1] if index + 1 < len(failures) else None
        is_handled = follower is not None and follower.relation == "during" and follower.chain == item.chain
        if follower is None or not is_handled or item.type.rpartition(".")[2] not in _CONTROL_FLOW:
            continue
        if follower.type.rpartition(".")[2] not in _CONTROL_FLOW:
            why = Reason(
                f"{item.type} was being handled (ordinary control flow) when the failure came",
                f"处理 {item.type}（正常控制流）时才发生真正的失败",
            )
            found.append((index, why))
    return found


def _chained_later(failures: Sequence[Failure], standing: Sequence[bool]) -> list[tuple[int, Reason]]:
    """A later member of an exception chain: raised from, or while handling, an earlier one that stands."""
    found = []
    firsts: dict[int, Failure] = {}  # of each chain, the earliest that stands
    for index, item in enumerate(failures):
        if item.kind != "exception":
            continue
        first = firsts.get(item.chain)
        if first is None and standing[index]:
            firsts[item.chain] = item
        if first is not None and item.relation:
            word, chinese = (
                ("raised from", "由") if item.relation == "caused_by" else ("raised while handling", "在处理")
            )
            why = Reason(
                f"{word} the {first.type} at line {first.line}",
                f"{chinese}第 {first.line} 行的 {first.type} {'引发' if item.relation == 'caused_by' else '时引发'}",
            )
            found.append((index, why))
    return found


def _closing_captures(failures: Sequence[Failure], standing: Sequence[bool]) -> list[tuple[int, Reason]]:
    """`graph.__exit__` always calls capture_end, so its failure after an error in the body is a consequence."""
    found = []
    broken: set[str] = set()  # streams in which something else stands before
    for index, item in enumerate(failures):
        if not _CAPTURE_END.search(item.text):
            if standing[index]:
                broken.add(item.stream)
        elif item.stream in broken and any(code in item.text for code in _CAPTURE_END_ECHOES):
            why = Reason(
                "closing the capture failed because it was already broken; graph.__exit__ always calls capture_end",
                "捕获先前已被破坏，graph.__exit__ 总会调用 capture_end，因此收尾必然失败",
            )
            found.append((index, why))
    return found


def _waits_after_allocation(failures: Sequence[Failure], standing: Sequence[bool]) -> list[tuple[int, Reason]]:
    """A wait that times out, or an OutOfMemory wrapper, when the device refused an allocation (207001, EL0004)."""
    if not any(_ALLOCATION.search(item.text) for item in failures):
        return []
    why = Reason(
        "follows from the failed device allocation (207001/EL0004): the wait or the wrapper only reports it",
        "由先前的显存申请失败（207001/EL0004）引起，此处的等待超时或包装只是转述",
    )
    return [
        (index, why)
        for index, item in enumerate(failures)
        if _WAIT_OR_OOM.search(f"{item.type} {item.text}")
        and not _ALLOCATION.search(item.text)
        and not _OWN_ALLOCATOR.search(item.text)
    ]


def _refusals_beside_faults(failures: Sequence[Failure], standing: Sequence[bool]) -> list[tuple[int, Reason]]:
    """A refused copy (107030) in the log of a process whose kernel failed."""
    if not any(_kind_of(item.text) == "fault" for item in failures):
        return []
    why = Reason(
        "a copy refused by the capture mode is common noise beside a device fault, and not its cause",
        "设备故障旁边常见的捕获模式拒绝拷贝日志，不是原因",
    )
    return [(index, why) for index, item in enumerate(failures) if _kind_of(item.text) == "refusal"]


_RULES = (
    _rethrows,
    _control_flow,
    _chained_later,
    _closing_captures,
    _waits_after_allocation,
    _refusals_beside_faults,
)


def _choose(failures: Sequence[Failure], standing: Sequence[int]) -> int:
    """Prefer the allocation that failed, then the earliest exception or device fault, then the earliest line."""
    written = [index for index in standing if not _is_a_sentence(failures[index])]
    standing = written or standing
    for index in standing:
        if failures[index].kind == "log" and _ALLOCATION.search(failures[index].text):
            return index
    for index in standing:
        item = failures[index]
        if item.kind == "exception" or _kind_of(item.text) == "fault":
            return _with_frames(failures, standing, index)
    return standing[0]


# A shorter message is another's as well.
_OWN_WORDS = 8


def _with_frames(failures: Sequence[Failure], standing: Sequence[int], chosen: int) -> int:
    """Return the same exception with its stack, where the chosen one is only named in a sentence before it."""
    first = failures[chosen]
    if first.kind != "exception" or first.frames:
        return chosen
    name = first.type.rpartition(".")[2]
    return next(
        (
            index
            for index in standing
            if failures[index].frames
            and failures[index].type.rpartition(".")[2] == name
            and len(failures[index].message) >= _OWN_WORDS
            and failures[index].message[:40] in first.message
        ),
        chosen,
    )


def _is_a_sentence(item: Failure) -> bool:
    """Say whether a failure is no more than a code, or an error that is quoted, in words of the reporter."""
    if IN_A_LOG.search(item.text):
        return False
    if item.kind == "log":
        return item.type == "code"
    return not item.frames and not item.relation and not item.text.lstrip().startswith((item.type, "what()", "E   "))


def _why_later(first: Failure, other: Failure) -> Reason:
    if other.type == first.type and other.message[:60] == first.message[:60]:
        return Reason("the same failure, printed again", "同一个失败的重复打印")
    if other.stream and first.stream and other.stream != first.stream:
        return Reason(
            f"from another process ({other.stream}); compare times if you doubt the order",
            f"来自另一个进程（{other.stream}），如怀疑先后请对比时间",
        )
    if other.order < first.order and other.kind == "exception":
        return Reason(
            "an earlier exception, not shown to lead to the failure", "更早的异常，但没有证据表明它导致了该失败"
        )
    if other.order < first.order:
        return Reason(
            "a log line before the failure, without an error of its own kind", "失败之前的日志行，本身不是独立错误"
        )
    return Reason(
        f"later than line {first.line}, not shown to follow from it: if it is another problem, diagnose it apart",
        f"晚于第 {first.line} 行，但没有证据表明由它引起；如属另一个问题请单独诊断",
    )


def _unwrapped(item: Failure) -> Failure:
    """Return the failure with a wrapper's words taken off its message, where it repeats the inner error."""
    for expression, _ in _RETHROWS:
        if expression.search(item.message):
            inner = _INNER_ERROR.search(item.message)
            if inner:
                text = next(group for group in inner.groups() if group)
                return item._replace(message=text.strip().rstrip("'\""))
    return item

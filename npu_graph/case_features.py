"""What makes two reports alike: weighted features of a text, and the score of two sets of them.

Numbers, addresses, paths and log prefixes are folded, so the same failure of another run has the same features.
Weights are fixed: a score means the same whatever else the case base holds.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, NamedTuple

from npu_graph.case_format import Case
from npu_graph.expressions import compile_on_use

Features = Dict[str, float]

# A report may be a long log; its head and tail are what is compared.
MAX_TEXT = 48 * 1024
MAX_FEATURES = 1500

ERROR_LINE, FRAME, OTHER_LINE, FUNCTION, CODE, IDENTIFIER, WORD, CJK = 4.0, 1.0, 0.6, 0.8, 2.0, 0.3, 0.12, 0.25
GENERIC = 0.02


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that any report of this field has; sharing them says nothing.
_GENERIC_WORDS = _words("""
    error errors errno exception exceptions traceback recent call last most file line module runtimeerror valueerror
    typeerror attributeError attributeerror keyerror assertionerror indexerror importerror notimplementederror
    torch torch_npu npu cuda device devices ascend cann pytorch python python3 vllm vllm_ascend vllm-ascend sglang
    model models graph graphs capture captured replay aclgraph npugraph npugraphs failed fail fails failure worker
    workers engine core init self args kwargs return raise import from with none true false info warning debug the
    and for not that this are was has have been when while during handling above another occurred direct cause
    following function which will can cannot could should must info code inner pid rankid rank reason func called
    execute execution run running result value values type object site packages site-packages usr lib home local
    err00100 err01100 err00001 ee9999 ez9999 compiler_depend pta acl api message note please check see more
    """)
# The plumbing through which every stack of these frameworks passes.
_GENERIC_FUNCTIONS = _words("""
    <module> main run inner wrapper _wrapper wrapped forward __call__ __init__ _call_impl _wrapped_call_impl _run_code
    _run_module_as_main decorate_context run_method collective_rpc execute_model determine_available_memory
    worker_busy_loop worker_main run_engine_core run_engine_core_process run_busy_loop _process_engine_step
    step_with_batch_queue step get_result result __get_result _initialize_kv_caches initialize_from_config
    compile_or_warm_up_model initialize_cache
    _dummy_run profile_run capture_model _bootstrap _bootstrap_inner launch serve serve_command cli_main cmd
    run_until_complete _compile_fn compile_wrapper _fn __exit__ __enter__ wait_for_engine_startup
    """)
_GENERIC_LINES = frozenset(
    (
        "traceback (most recent call last):",
        "during handling of the above exception, another exception occurred:",
        "the above exception was the direct cause of the following exception:",
        "[error] # (pid:#, device:#, rankid:#) err# pta call acl api failed",
        "pta call acl api failed",
        "return self._call_impl(*args, **kwargs)",
        "return forward_call(*args, **kwargs)",
        "return func(*args, **kwargs)",
        "sys.exit(main())",
        "solution: close applications not in use.",
        "inner error!",
    )
)
_GENERIC_CODES = _words("EE9999 EZ9999 ERR00100 ERR01100")

_FRAME_LINE = compile_on_use(r'File "([^"]{1,400})", line \d+, in ([\w<>]{1,100})')
_CODE = compile_on_use(
    r"(?<![0-9A-Za-z.])(1(?:0[07]|4[58]|61)\d{3}|2(?:0[07]|45)\d{3}|3(?:00|45|61)\d{3}|5(?:0[07]|45|61|74)\d{3}"
    r"|ERR\d{5}|E[A-Z0-9]\d{4}|0x0?7[0-9a-fA-F]{6})(?![0-9A-Za-z])"
)
# A bare number is a code where the line says so before it, or begins with it; elsewhere it may be an order's number.
_CODE_MARK = compile_on_use(r"err|code|fail|exception|\bret|码|错|报|抛|失败|返回", re.I)
_ERROR_MARK = compile_on_use(
    r"\b\w{0,60}(?:Error|Exception|Warning)\b ?:|error code|\bE[A-Z0-9]\d{4}\b|failed|Assert|ERR\d{5}|not support"
    r"|out of (?:range|memory)|失败|错误|报错",
)
_PATH = compile_on_use(r"(?:\b[A-Za-z]:)?(?:[\w.~+#-]{0,100}[/\\]){1,30}([\w.+-]{0,120})")
_NUMBER = compile_on_use(r"0x[0-9a-fA-F]+|(?<![A-Za-z_0-9])\d+(?:[.:,-]\d+)*")
_NUMBERS = compile_on_use(r"(?<![\w)#])-#|#(?:[ :.,-]*#)+")
_PLACEHOLDER = compile_on_use(r"\[[a-z]+(?:-[a-z]+)*-\d+\]")
# What kubectl, docker and journald put in front of every line.
_LOG_TIME = compile_on_use(
    r"^\s{0,8}(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s(?:std(?:out|err) [FP] )?"
    r"|[A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d \S{1,80} [\w./-]{1,60}(?:\[\d{1,8}\])?: )"
)
_LOG_PREFIX = compile_on_use(
    r"^(?:\s{0,8}>\s?)?(?:\([A-Za-z][\w ]{0,60}(?:pid=|ip=)?[^)\n]{0,60}\)\s{0,4})?"
    r"(?:\[(?:rank|tp|dp|pp|ep|pid: ?)?#?[\w# :,.-]{0,40}\]:?\s{0,4}){0,4}"
    r"(?:(?:error|warning|info|debug|critical|fatal)\s{1,4}#\s{1,4}(?:#\s{1,4})?)?(?:\[[^\]\n]{0,60}\]:?\s{0,4}){0,3}",
)
_WORD = compile_on_use(r"[A-Za-z_][A-Za-z0-9_]{2,60}")
_CJK_RUN = compile_on_use(r"[\u3400-\u4dbf\u4e00-\u9fff]{2,200}")


class CaseFeatures(NamedTuple):
    """A case's features: of its symptom (what a report shows), and of its other text (what a person asks for)."""

    symptom: Features
    other: Features


def text_features(text: str, codes: Iterable[str] = (), functions: Iterable[str] = ()) -> Features:
    """Return the weighted features of a report."""
    features: Features = {}
    if len(text) > MAX_TEXT:
        text = text[: MAX_TEXT // 2] + "\n" + text[-MAX_TEXT // 2 :]
    for line in text.split("\n"):
        if len(features) >= MAX_FEATURES:
            break
        _add_line(features, line[:2000])
    for code in codes:
        if "c:" + str(code).lower() not in features:  # how the text itself states it counts
            _add_code(features, str(code))
    for function in functions:
        _add_function(features, str(function))
    return features


def case_features(case: Case) -> CaseFeatures:
    """Return the features of a case."""
    symptom = text_features("\n".join((case.title, case.symptom, case.first_cause)), functions=_called(case.location))
    other = text_features(
        "\n".join((case.direct_cause, case.trigger, case.scope, case.fix_now, case.fix_for_good, case.environment))
    )
    if case.pattern:
        other["p:" + case.pattern.lower()] = 1.0
    return CaseFeatures(symptom, other)


def merge_features(parts: Iterable[Features]) -> Features:
    """Return the features of several texts together, the larger weight winning."""
    merged: Features = {}
    for part in parts:
        for name, weight in part.items():
            merged[name] = max(weight, merged.get(name, 0.0))
    return merged


def score(query: Features, case: CaseFeatures) -> float:
    """Return how alike a report and a case are, 0 to 1.

    The larger of two shares counts: how much of the case's symptom the report shows (a case's excerpt inside a long
    log), and how much of the query the case holds (a few words inside a long case). Both are damped by how much
    evidence is shared at all, so that two texts which share only generic words stay near 0.
    """
    shared = {name: weight for name, weight in query.items() if name in case.symptom}
    mass = sum(shared.values())
    whole = sum(case.symptom.values())
    from_case = mass / whole * mass / (mass + 1.0) if whole else 0.0
    mass_asked = mass + sum(weight for name, weight in query.items() if name not in shared and name in case.other)
    lines = [name for name in query if name.startswith("m:")]
    asked = sum(query.values())
    if len(lines) == 1 and lines[0] not in shared:
        # A line typed in to search is no line of any case; in a report of several lines each one counts.
        asked -= query[lines[0]]
    from_query = mass_asked / asked * mass_asked / (mass_asked + 0.6) if asked else 0.0
    return min(1.0, max(from_case, from_query))


def fold_line(line: str) -> str:
    """Return a line without what differs between two runs: prefix, numbers, addresses, folders; lower case."""
    # Each expression is tried only where a character stands that it needs: half of a report's cost is here.
    folded = _LOG_TIME.sub("", line, count=1)
    if "[" in folded:
        folded = _PLACEHOLDER.sub("#", folded)
    if "/" in folded or "\\" in folded:
        folded = _PATH.sub(r"\1", folded)
    folded = _NUMBER.sub("#", folded)
    if "#" in folded:
        folded = _NUMBERS.sub("#", folded)
    folded = _LOG_PREFIX.sub("", folded.lower(), count=1)
    return " ".join(folded.split())


def _add_line(features: Features, line: str) -> None:
    if not line.strip():
        return
    frame = _FRAME_LINE.search(line) if 'File "' in line else None
    if frame:
        file = re.split(r"[/\\]", frame.group(1))[-1]
        generic = frame.group(2) in _GENERIC_FUNCTIONS
        _add(features, f"r:{file}:{frame.group(2)}".lower(), GENERIC * 5 if generic else FRAME)
        _add_function(features, frame.group(2))
        return
    for found in _CODE.finditer(line):
        before = line[: found.start()]
        stated = not found.group().isdigit() or not before.strip() or _CODE_MARK.search(before)
        _add_code(features, found.group(), CODE if stated else IDENTIFIER)
    folded = fold_line(line)
    if folded in _GENERIC_LINES:
        return
    words = _WORD.findall(folded)
    if sum(1 for word in words if word not in _GENERIC_WORDS) >= 2 and len(words) >= 3:
        _add(features, "m:" + folded[:300], ERROR_LINE if _ERROR_MARK.search(line) else OTHER_LINE)
    for word in words:
        if word in _GENERIC_WORDS:
            _add(features, "w:" + word, GENERIC)
        else:
            _add(features, "w:" + word, IDENTIFIER if "_" in word or len(word) > 12 else WORD)
    for run in () if line.isascii() else _CJK_RUN.findall(line):
        for start in range(len(run) - 1):
            _add(features, "z:" + run[start : start + 2], CJK)


def _add_code(features: Features, code: str, weight: float = CODE) -> None:
    _add(features, "c:" + code.lower(), GENERIC if code.upper() in _GENERIC_CODES else weight)


def _add_function(features: Features, function: str) -> None:
    name = re.split(r"::|\.", function)[-1]
    _add(features, "f:" + name.lower(), GENERIC if name in _GENERIC_FUNCTIONS else FUNCTION)


def _add(features: Features, name: str, weight: float) -> None:
    if weight > features.get(name, 0.0):
        features[name] = weight


def _called(location: str) -> list[str]:
    return re.findall(r"[A-Za-z_][\w:.]{2,100}(?=\(|`|,|\s|$)", location)[:4]

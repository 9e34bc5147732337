"""Stage, layer and owner of a failure, each from evidence lines that are shown."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from npu_graph.diagnosis.error_lines import speaks_of_device
from npu_graph.diagnosis.first_cause import Failure
from npu_graph.diagnosis.reading import Line
from npu_graph.diagnosis.tracebacks import Frame
from npu_graph.expressions import compile_on_use
from npu_graph.patterns import Evidence, Pattern

PHASES = {
    "capture": "2A",
    "replay": "2B",
    "memory": "2C",
    "update": "2D",
    "compile": "2E",
    "accuracy": "2F",
    "performance": "2G",
    "env": "2H",
    "not_graph": "-",
    "unknown": "-",
}


class Clue(NamedTuple):
    """One kind of evidence: which value it speaks for, how strongly, and the expression (on lower-cased text)."""

    value: str
    weight: int
    expression: re.Pattern[str]


class Finding(NamedTuple):
    """A decided value with its confidence (0..1) and the lines that support it."""

    value: str
    confidence: float
    evidence: list[Evidence]


def _clues(*rows: tuple[str, int, str]) -> tuple[Clue, ...]:
    return tuple(Clue(value, weight, compile_on_use(expression, re.ASCII)) for value, weight, expression in rows)


# Sentences that a library prints with every error of a kind: their words describe no report.
_BOILERPLATE = compile_on_use(
    r"Possible Cause|Solution:|might run on corrupted|check the reason for the rank|too slow\b.{0,40}cluster|cluster is too slow"
)
# A clue in the first cause counts this many times as much as one elsewhere.
_PRIMARY_FACTOR = 3

# Weight 3: the failing call or check itself; 2: a function or message of that stage; 1: a word people use for it.
# ASCII matching throughout, so that a word border stands between Latin and Chinese characters.
_STAGE_CLUES = _clues(
    ("capture", 3, r"\bcapture_(?:begin|end)\b|aclmdlricapture(?:begin|end)|rtstream(?:begin|end)capture"),
    ("capture", 3, r"during npu graph capture|npustreamcapturestatusactive|stream is captur|captured-stream|capture mode|stream capture|not joined"),
    ("capture", 3, r"error code is 1070(?:2[4-9]|3[0-9]|4[0-5])|\b1070(?:2[4-9]|3[0-68]|4[015])\b|\b507903\b"),
    ("capture", 2, r"initialize_aclgraph_capture|capture_model|_capture_(?:acl)?graphs?\b|capture_graphs?\b|capture stream failed|capture (?:cuda|npu) graph failed"),
    ("capture", 2, r"full_graph_\w{2,20}|graph_params\.(?:events|handles|workspaces)|in init_device_graphs|graph[- ]warm-?up|graph_?capture\b"),
    ("capture", 2, r"(?:fail|error|die|refus|abort|crash)\w{0,4} (?:in|at|during|while|when|under) (?:the )?(?:acl|npu|aclgraph|decode |temporary )?\s?graphs? ?captur"),
    ("capture", 1, r"needs? a stream synchroni|npu graph raises"),
    ("capture", 1, r"\bgraph captur|\bcapturing|captures? (?:the )?graph|while graphs are captured|捕获|捕图|图捕获"),
    ("replay", 3, r"aclmdlriexecuteasync|\breplay:|rtmodelexecute|model stream execute failed|model execut\w{2,4} failed"),
    ("replay", 2, r"\breplay(?:ing|ed|s)?\b|重放|回放|图执行"),
    ("replay", 2, r"\b5070(?:11|14|15|18|34|35|46|47)\b|aivec(?:tor)? error|aicore (?:error|exception)|mte instruction"),
    ("replay", 1, r"\bhangs?\b|\bhung\b|\bstalls?\b|\bstuck|deadlock|卡死|挂死|卡住|hang住|(?:一直|长期|长时间)(?:不返回|无响应)"),
    ("replay", 1, r"tiling|actual_?seq|padded (?:up )?to|crash"),
    ("update", 3, r"graph_task_update|task_?update_?(?:begin|end)|update_capture_record|cpu_update_input"),
    ("update", 3, r"update_(?:attn|graph|full_graph|mla_attn|draft_graph)\w{0,20}_?params|\bgraph\.update\b"),
    ("update", 1, r"update event|update stream|event_wait|task group|updated task|参数更新|更新参数"),
    ("memory", 3, r"npu out of memory|el0004|memory_allocation|\b20700[12]\b|\b207018\b"),
    ("memory", 3, r"memory (?:usage|consumption) (?:grows|increas|keeps)|memory leak|never (?:given back|released|freed)|(?:显存|内存).{0,16}(?:增长|泄漏|不释放|未.{0,4}回收)|much (?:more )?(?:npu |device )?memory"),
    ("memory", 2, r"outofmemory|\boom\b|out of (?:npu |device )?memory|memory (?:profiling|estimation|pool)|sleep mode|wake_?up|显存|设备内存"),
    ("compile", 3, r"torch\._dynamo|torch\._inductor|torchdynamo|torch/_dynamo|torch/_inductor|aot_?autograd|graph break"),
    ("compile", 2, r"constraints violated|relaxedunspecconstraint|exportdb|from user code:|vllm/compilation/wrapper\.py|load graph failed"),
    ("compile", 2, r"torch\.compile|torch_compile|fx graph|compile_fx|bisheng|pattern matcher|check_and_update_config|fullgraph=|编译"),
    ("compile", 2, r"fus(?:ed|ion).{0,60}(?:not take effect|not applied|skipped)|融合.{0,12}(?:未生效|不生效)|compilation_config\.mode|in warmup_torch_compile"),
    ("compile", 3, r"attempting to run meta|_subclasses/fake_tensor|torch_npu/op_plugin/meta/"),
    ("compile", 3, r"torch_npu/_inductor/|_acl_concrete_graph/(?:graph_pass|\w{0,20}fx2acl\w{0,20}|\w{0,20}pass(?:es)?)\.py"),
    ("compile", 1, r"graph mode (?:only supports?|(?:is |are )?not supported)|not supported? (?:with|in|by|for) (?:the )?(?:acl ?|npu ?)?graph mode|\band graph mode only support"),
    ("compile", 2, r"acl ?graph does not support|graph is being compiled|graph mode is not supported|torchair/.{0,60}in compile\b"),
    ("env", 3, r"failed to find function|err00008|undefined symbol|cannot open shared object|libascendcl\.so|not in libopapi|cannot find option named 'ascend"),
    ("env", 2, r"only (?:on|fails on) (?:310|910|950)|310b\b.{0,80}(?:2070|not support|raises)|does not start.{0,80}310p|310p.{0,120}does not start"),
    ("env", 1, r"after .{0,40}(?:moved|upgraded?|switch\w*) to cann|\bhdk\b|driver version|升级后"),
    ("accuracy", 3, r"garbled|gibberish|rubbish|胡言乱语|(?:wrong|broken|repeated) (?:\w{1,20} )?(?:output|result|answer|value|text)s?\b|(?<!--)accuracy|!{4,}|acceptance rate|接受率|乱码|精度|stays constant|stops? tracking"),
    ("accuracy", 3, r"differs? from eager|not (?:the )?same as eager|incorrect|corrupted|values? (?:are|is) wrong|结果不(?:对|一致)|答非所问"),
    ("accuracy", 3, r"repeats? until|repeat(?:s|ed|ing) (?:the same )?(?:token|word|character)|random outputs?|different text|precision (?:anomal|issue|problem|error)|scores? (?:of .{0,40})?drops?|同一个 ?(?:token|字|词)|重复输出|allclose.{0,20}false"),
    ("performance", 3, r"slow(?:er|s)?\b|throughput|\btpot\b|\bttft\b|speed drops|latency|host time|busy time|性能|吞吐|变慢|更慢|慢很多|空泡"),
    ("performance", 2, r"jitter|抖动"),
    ("performance", 3, r"no (?:gain|benefit|speed-?up|improvement)|没有收益|无收益|per (?:decode )?step.{0,20}\bms\b|\bms\b.{0,20}per (?:decode )?step"),
)  # fmt: skip

# The reporter ruled graph mode out: a mention of running without it, in a sentence that says it fails there too.
_WITHOUT_GRAPH = compile_on_use(
    r"(?<!with and )without (?:an? )?npu ?graph|not (?:related to|caused by) (?:acl|npu)?graph|\bno graphs?,"
    r"|(?:fails|hangs|wrong|garbled|same error|problems?|also) (?:too )?(?:in|with|on|under) (?:eager|--enforce-eager|--disable-cuda-graph)"
    r"|(?:same|crash\w{0,2}|fails?|error)[^\n.]{0,20} with enforce.eager|both with and without (?:acl|npu)?_?graph"
    r"|disabl\w{2,3} (?:the )?(?:graph mode|(?:acl|npu) ?graph) (?:does not|doesn't|did not|didn't) (?:help|change)"
    r"|(?:关闭|关掉|去掉)(?:了)?(?:图模式| ?acl ?graph| ?npu ?graph)(?:之?后)?(?:依旧|依然|仍|还是|也)"
    r"|(?:关闭|关掉|去掉)(?:了)?(?:图模式| ?acl ?graph| ?npu ?graph)(?:之?后)?.{0,6}(?:依旧|依然|仍然|还是|也)|单算子模式(?:同样|也|仍)"
    r"|eager(?: mode)? (?:fails|hangs|also|too|has the same|as well)|与图模式无关|(?:没有?|未)(?:用|使用|开启?)(?:过)?图|eager.{0,6}(?:也|同样)"
)
# 卡 alone is also a device (8卡, 单卡, 卡间).
STANDS_STILL = r"卡(?:死|住|在|顿|了|主|着|到)|(?:一直|直接|就|会|又|也|总是)卡(?!片|号|间|上)"
_FAILS_THERE = compile_on_use(
    r"fail|hang|wrong|garbled|same|error|crash|problem|also|too\b|\bnot (?:related|caused)|abort|slow|happen|occur|remain|still|persist|也|同样|报错|失败|复现|问题|无关|"
    + STANDS_STILL
)
# "It works without npugraph" is the commonest sentence of a report about graph mode: it must not rule graph mode out.
_RUNS_THERE = compile_on_use(
    r"\bworks?\b|worked|\bfine\b|\bok(?:ay)?\b|normal|\bcorrect|\bpass(?:es|ed)?\b|succe|runs? (?:well|through)|does(?:n't| not)|did(?:n't| not)|disappear"
    r"|not reproduc|\bgone\b|no (?:errors?|problems?)\b|正常|没问题|没有问题|没有?事|对的|(?<!不)正确|可以|通过|不报|不会|不再|不卡|消失|没有?(?:报错|出现|复现)|跑通|稳定|如预期|as expected|\bas slow as\b|[?？]"
)
# Said anywhere, it outweighs a sentence that seems to say that eager fails as well.
_EAGER_IS_RIGHT = compile_on_use(
    r"eager(?: mode| 模式)? ?(?:is |gives |runs? )?(?:right|correct|fine|ok\b|stable)|eager.{0,12}(?<!不)(?:正常|正确|稳定|如预期)"
)
_SENTENCE_END = compile_on_use(r"[.!。！；;\n](?=\s|$|[^\x00-\x7f])|\n")
_SENTENCE_SPAN = 200


def is_ruled_out(text: str) -> bool:
    """Return whether a sentence of the lower-cased text says that the failure is there without graph mode too."""
    return _ruled_out_at(text) is not None


def is_about_graph(failure: str) -> bool:
    """Return whether the lower-cased text of a failure speaks of graph mode other than to rule it out."""
    return GRAPH_WORDS.search(_WITHOUT_GRAPH.sub("", failure)) is not None


def _ruled_out_at(text: str) -> re.Match[str] | None:
    if _EAGER_IS_RIGHT.search(text):
        return None
    for found in _WITHOUT_GRAPH.finditer(text):
        before = text[max(0, found.start() - _SENTENCE_SPAN) : found.start()]
        ends = [end.end() for end in _SENTENCE_END.finditer(before)]
        after = text[found.end() : found.end() + _SENTENCE_SPAN]
        end = _SENTENCE_END.search(after)
        sentence = before[ends[-1] if ends else 0 :] + found.group() + after[: end.start() if end else None]
        # "does not help" is no word for what runs.
        if _FAILS_THERE.search(sentence) and not _RUNS_THERE.search(sentence.replace(found.group(), " ")):
            return found
    return None


# The failing command itself switches graph mode off.
_STARTED_EAGER = compile_on_use(
    r"(?:vllm (?:serve|bench)|api_server|launch_server) [^\n]{0,600}--(?:enforce-eager|disable-cuda-graph)\b|,\s?enforce_eager=true,"
)
# Lines of a log that say that graph mode plays no part, each with what it means.
_NOT_GRAPH_LINES = (
    # A single operator that does not compile; GE calls that "build graph" although no user graph is involved.
    compile_on_use(
        r"compile operator failed|failed to compile op\b|failure_to_compile_op|compiler normal mode op compiler|build graph failed, graph id|\[subgraphopt\]"
    ),
    # The framework announces that it lowered the graph mode: expected behaviour.
    compile_on_use(r"is not supported with \w{3,60} backend.{0,120}setting cudagraph_mode"),
    # A process that used the device before it forked.
    compile_on_use(r"cannot re-initialize npu in forked subprocess"),
)
_SLIP = compile_on_use(r"^(?:unboundlocalerror|nameerror|syntaxerror|indentationerror): ")
# Where a compiler writes code, such a slip is in what it wrote.
_WRITES_CODE = compile_on_use(r"inductor|triton.{0,80}kernel|generated (?:code|kernel)|notritonconfigs")
# The same for the first cause alone: what would be noise elsewhere in a log.
_NOT_GRAPH_FIRST = (
    # A name that Python itself cannot resolve: a slip in the code, whichever mode runs it.
    _SLIP,
    # A library or module that does not load fails before any graph is made.
    compile_on_use(
        r"^(?:importerror|modulenotfounderror): |^oserror: .{0,300}(?:undefined symbol|cannot open shared object)"
    ),
    # The framework asks torch_npu for an operator of another version.
    compile_on_use(r"^attributeerror: module 'torch_npu' has no attribute"),
)
# A compile through torchair is the user's graph, even where a single operator fails in it.
_COMPILED_BY_USER = compile_on_use(r"dynamo/torchair|torchair/core|npugraph_ex")
# Words that only a report about graph mode contains.
GRAPH_WORDS = compile_on_use(
    r"npu_?graph|acl_? ?graph|torch[._]npu\.?\w*\.graph\b|graph mode|full[- ]?graph|(?:full|decode|xlite|cuda|npu)[- ]?(?:full |decode )?[- ]?_?graph"
    r"|\bcaptur(?:e|ing|ed)_?(?:begin|end|stream|mode|sizes?)|cudagraph|capture_sizes|npu/graphs\.py|_graph_tree\.py|graph_runner|\.replay\(\)"
    r"|torchair|aclmdlri|full_?decode_?only|piecewise|graph_task_|graph_params|make_graphed|graph (?:capture|replay)|图模式|入图|开图|关图|reduce-overhead|enforce[-_]eager",
    re.ASCII,
)
# Words that only a report about an Ascend device contains.
NPU_WORDS = compile_on_use(
    r"\bnpus?\b|ascend|torch_npu|\bcann\b|\bacl(?:nn|rt|op)?\b|aclnn|hccl|\berr\d{5}\b|\be[a-z1-9]9999\b|\b(?:107|207|507)0\d\d\b|910b|310p|昇腾",
    re.ASCII,
)
# Words of another vendor's device.
_OTHER_DEVICE = compile_on_use(
    r"\bcuda error|cuda out of memory|\bnccl\b.{0,200}watchdog|nvidia|\brocm\b|mindspore|graph_mode\."
)

_LAYER_CLUES = _clues(
    ("L5", 4, r"hccl function error|\bei\d{4}\b|aicore exception|aivec error|aicpu exec|driver error:|\bel\d{4}\b|\b5070(?:1[0-9]|3[456]|5[3-7])\b"),
    ("L4", 3, r"npu function error: (?:c10_npu::)?acl|runtime result = \d|error code is (?:107|207|507)\d{3}|\bee\d{4}\b|rt[a-z]+ execut"),
    ("L4", 2, r"reason=\[?[a-z]"),
    ("L3", 3, r"ops function error|call aclnn\w+ failed|aclnn\w{3,60} failed|error code is (?:161|361|561)\d{3}|\be[5-9z]\d{4}\b"),
    ("L2", 3, r"must be captured on a non-default stream|npugraph::|during npu graph capture|npu out of memory|already owns a captured"),
    ("L1", 3, r"torch\._dynamo|torch\._inductor|torch/_dynamo/|torch/_inductor/|torchdynamo"),
)  # fmt: skip

_FRAMEWORK_PATH = compile_on_use(
    r"vllm|sglang|sgl_|xllm|/verl/|speculators|mindie|transformers/|lmdeploy|dlinfer|hardware_backend/npu|graph_runner|/srt/|model_executor/"
)
_OWN_SCRIPT = compile_on_use(r"\bimport torch_npu\b|torch[._]npu\.(?:npu\.)?(?:NPUGraph|graph)\(|__main__")
_LIBRARY_PATH = compile_on_use(r"site-packages|dist-packages|/lib/python3|torch_npu/|/torch/|<frozen|<string>")
# Words that only a serving framework's report contains; its author can change options, not that code.
_SERVING_WORDS = compile_on_use(
    r"vllm|sglang|\bxllm\b|\bverl\b|ggml|llama\.cpp|speculators|\bmtp\b|eagle ?3|eplb|npumodelrunner|multiproc_executor|lmdeploy|dlinfer|kv[ -]?cache|prefill|decode|cudagraph|cuda-graph|acl ?graph|full[- ]?graph|xlite|\bdp rank|data.parallel"
    r"|tensor.parallel|speculative|max-model-len|tpot|torchair_graph|npugraph_ex together|block table|deepseek|qwen|llama|\bglm",
    re.ASCII,
)


def decide_stage(lines: Sequence[Line], primary: Failure | None, pattern: Pattern | None, score: float) -> Finding:
    """Decide the stage: an established pattern first, else the clues, weighed; confidence falls when they conflict."""
    scores, evidence = _weigh(_STAGE_CLUES, lines, primary)
    text = "\n".join(line.text for line in lines).lower()
    if pattern is not None:
        total = sum(scores.values()) + scores.get(pattern.stage, 0)
        agreement = scores.get(pattern.stage, 0) * 2 / total if total else 0.5
        confidence = round(min(0.98, score * (0.8 + 0.25 * agreement)), 2)
        return Finding(pattern.stage, confidence, evidence.get(pattern.stage, []))
    outside = _outside_graph_mode(text, lines, primary)
    if outside is not None:
        return outside
    if not scores:
        return Finding("unknown", 0.0, [])
    found = _strongest(scores, evidence)
    if scores[found.value] <= _PRIMARY_FACTOR and not GRAPH_WORDS.search(text):
        # One weak word ("tiling", "crash") about a report that never mentions a graph: eager code fails so, too. Measured
        # on new reports the guess is more often right than not, so it stays, as a guess.
        return found._replace(confidence=round(found.confidence / 2, 2))
    return found


# Parts of a serving framework that run before or after the model, where no graph is at work.
_NO_GRAPH_PARTS = compile_on_use(
    r"/vllm/v1/core/|/vllm(?:_ascend)?/distributed/(?:kv_transfer/|\S+ in (?:__init__|init_\w+)$)"
)
_GRAPH_FRAME = compile_on_use(
    r"graphs?\.py|graph_runner|_dummy_run|capture|aclgraph|acl_graph|dynamo/(?:torchair|npugraph_ex)/|torchair/core"
)
# Eager works, or the fault is said to come with graph mode only.
_ONLY_WITH_GRAPH = compile_on_use(
    r"eager.{0,60}(?:pass|fine|works?\b|\bok\b|正常|通过|没问题|不报错)|(?:pass|fine|works?\b|\bok\b|正常).{0,40}eager"
    r"|(?:only|just|仅|只(?:有|在)).{0,30}(?:graph|图模式)|(?:without|disabl\w{0,3}|关(?:闭|掉)?|不开).{0,20}(?:graph|图)"
    r"|in graph mode|图模式下|during (?:graph )?capture|at capture|捕获时|graph (?:capture|replay)"
    r"|\b(?:capture|replay) (?:hangs?|fails?|crash\w{0,2}|stuck)|(?:捕获|重放|replay).{0,4}(?:失败|报错|挂|"
    + STANDS_STILL
    + ")"
)
# Lines that a service prints on its way through a capture: they say where it was, not what failed.
_PASSED_CAPTURE = compile_on_use(r"[^\n]{0,400}(?:before starting graph capture|capturing \w{2,8} ?graphs? ?\()[^\n]*")
# Started without graph mode it works: a command that switches it off is then no sign that graph mode plays no part.
_EAGER_WORKS = compile_on_use(
    r"(?:enforce.eager|disable-cuda-graph|\beager\b)(?: mode| 模式| path)?[^\n.,;。，；]{0,30}"
    r"(?:\bpass(?:es)?\b|\bfine\b|\bworks?\b|\bwell\b|(?<!不)正常|通过|没问题|不报错)"
    r"|\beager (?:mode )?(?:is )?ok\b|\b(?:passes|fine|works)\b[^\n.,;]{0,30}\beager"
)


def _graph_plays_a_part(text: str, primary: Failure) -> bool:
    """Say whether anything ties a failure outside the model to the graph: the report's words, a frame, a device code."""
    return (
        _ONLY_WITH_GRAPH.search(_PASSED_CAPTURE.sub("", text)) is not None
        or is_about_graph(f"{primary.type}: {primary.text}".lower())
        or speaks_of_device(primary.text)
        or _passes_a_graph(primary)
    )


def _passes_a_graph(primary: Failure | None) -> bool:
    """Say whether a stack leads through capture, replay or the compiler of a graph backend."""
    frames = primary.frames if primary is not None else []
    return any(_GRAPH_FRAME.search(f"{frame.file} {frame.function}") for frame in frames)


def _outside_graph_mode(text: str, lines: Sequence[Line], primary: Failure | None) -> Finding | None:
    """Return the finding `not_graph` with its reason, or None."""
    ruled_out = _ruled_out_at(text)
    own = f"{primary.type}: {primary.text}".lower() if primary is not None else ""
    if ruled_out is not None and not (_COMPILED_BY_USER.search(text) or is_about_graph(own)):
        return Finding("not_graph", 0.6, _lines_with(compile_on_use(re.escape(ruled_out.group())), lines))
    is_tied = _EAGER_WORKS.search(text) is not None or is_about_graph(own) or _passes_a_graph(primary)
    # A Python error without a word of the device does not come from what the device's log tells besides.
    tells_of_device = primary is None or primary.kind != "exception" or speaks_of_device(primary.text)
    for expression in (_STARTED_EAGER, *(_NOT_GRAPH_LINES if tells_of_device else ())):
        if not is_tied and expression.search(text) and not _COMPILED_BY_USER.search(text):
            return Finding("not_graph", 0.6, _lines_with(expression, lines))
    if primary is None:
        return None
    first = f"{primary.type}: {primary.message}".lower()
    shown = [Evidence(primary.line, primary.text[:300])]
    is_generated = _SLIP.search(first) is not None and _WRITES_CODE.search(text) is not None
    if not is_tied and not is_generated and any(expression.search(first) for expression in _NOT_GRAPH_FIRST):
        return Finding("not_graph", 0.6, shown)
    deepest = primary.frames[-1] if primary.frames else None
    place = f"{deepest.file} in {deepest.function}" if deepest is not None else ""
    if deepest is not None and _NO_GRAPH_PARTS.search(place) and not _graph_plays_a_part(text, primary):
        where = f'File "{deepest.file}", line {deepest.line}, in {deepest.function}'
        return Finding("not_graph", 0.6, [Evidence(deepest.at, where)])
    about_device = GRAPH_WORDS.search(text) or NPU_WORDS.search(text)
    # Absence proves little: only a whole stack without one such word, or another vendor's error, is enough.
    if _OTHER_DEVICE.search(text) and not NPU_WORDS.search(text):
        return Finding("not_graph", 0.8, shown)
    if not about_device and (primary.frames or len(lines) > 8):
        return Finding("not_graph", 0.7, shown)
    return None


def decide_layer(lines: Sequence[Line], primary: Failure | None, pattern: Pattern | None, score: float) -> Finding:
    """Decide where the error was raised: an established pattern first, else its text, else its deepest frame."""
    scores, evidence = _weigh(_LAYER_CLUES, [], primary)
    if pattern is not None:
        shown = evidence.get(pattern.layer) or next(iter(evidence.values()), [])
        return Finding(pattern.layer, round(score, 2), shown)
    if scores:
        return _strongest(scores, evidence)
    if primary is not None and primary.frames:
        frame = primary.frames[-1]
        inside_torch = re.search(r"torch_npu/|/torch/", frame.file)
        where = f'File "{frame.file}", line {frame.line}, in {frame.function}'
        return Finding("L1" if inside_torch else "L0", 0.6, [Evidence(frame.at, where)])
    if primary is not None and primary.kind == "exception":
        return Finding("L0", 0.4, [Evidence(primary.line, primary.text[:300])])
    return Finding("unknown", 0.0, [])


def decide_owner(text: str, primary: Failure | None, pattern: Pattern | None, layer: str) -> Finding:
    """Decide where the fix belongs.

    A pattern lists the owners it can have, its usual one first; the report decides among `user_code` and `framework`,
    since the same call is a fault of whoever wrote it.
    """
    by_code = _code_owner(text, primary)
    if pattern is not None:
        owners = pattern.owners
        sure = _UNPROVEN_OWNER if _UNPROVEN.search(pattern.fields.get("Cause", "").lower()) else _PATTERN_OWNER
        if {"user_code", "framework"} <= set(owners) and owners[0] in ("user_code", "framework"):
            # Without a frame or a framework's name the usual owner is a guess.
            return Finding(by_code, sure, []) if by_code in owners else Finding(owners[0], _UNPROVEN_OWNER, [])
        return Finding(pattern.owner, sure, [])
    if primary is not None:
        low = f"{primary.type} {primary.text}".lower()
        for owner, expression in _OWNER_WORDS:
            if expression.search(low):
                return Finding(owner, 0.6, [])
        inside = _internal_owner(primary)
        if inside:
            return Finding(inside, 0.6, [])
        if _OF_TORCH_COMPILE.search(low):
            return Finding("torch_compile", 0.6, [])
    if by_code != "framework" and _is_of_compiler(text, primary):
        return Finding("torch_compile", 0.5, [])
    if by_code:
        return Finding(by_code, 0.6 if layer in ("L0", "L1") else 0.5, [])
    return Finding("unknown", 0.0, [])


# A pattern whose own text says that its cause is open names an owner with less confidence.
_UNPROVEN = compile_on_use(r"not established|not proven|unproven|likely, not")
_PATTERN_OWNER, _UNPROVEN_OWNER = 0.85, 0.5

# For a failure without a pattern: the words of the first cause that name an owner by themselves.
_OWNER_WORDS = (
    ("hccl", compile_on_use(r"hccl function error|\bei\d{4}\b|hcclcomm|hccl_op_expansion_mode")),
    ("op_plugin", compile_on_use(r"compile operator failed|failed to compile op\b|build graph failed|subgraphopt|ops function error")),
    ("environment", compile_on_use(r"module 'torch_npu' has no attribute")),
    ("environment", compile_on_use(r"undefined symbol|cannot open shared object|no module named|failed to find function|enoent|version .{0,30}not match")),
    ("driver", compile_on_use(r"\b50705[3-7]\b|\bhbm\b|\becc\b|\b507899\b")),
)  # fmt: skip


_OF_TORCH_COMPILE = compile_on_use(r"torch\._dynamo|torch\._inductor|internaltorchdynamoerror")

_COMPILER_FILE = compile_on_use(r"/torch/_inductor/|/torch_npu/_inductor/|site-packages/triton/|torchinductor_\w")


def _is_of_compiler(text: str, primary: Failure | None) -> bool:
    """Say whether a failure is in what torch.compile writes or runs: by its deepest frame, without one by the words."""
    if primary is not None and primary.frames:
        return any(_COMPILER_FILE.search(frame.file) for frame in primary.frames[-2:])
    return _WRITES_CODE.search(text.lower()) is not None


# Parts of torch_npu that no user's argument reaches directly: an exception raised there is theirs to mend.
_INTERNALS = (
    ("op_plugin", compile_on_use(r"torch_npu/op_plugin/meta/")),
    (
        "npugraph_ex",
        compile_on_use(
            r"torch_npu/dynamo/(?:npugraph_ex|torchair)/(?:_acl_concrete_graph|_utils|core|_ge_concrete_graph)/"
        ),
    ),
    ("torch_npu", compile_on_use(r"torch_npu/_inductor/")),
)
# A name that is not there is a slip in the file that uses it, whoever called.
_SLIPS = ("NameError", "UnboundLocalError")
# Frames that only pass a call on, or hold a check's helper: the one before them decides.
_PASSES_ON = compile_on_use(r"/torch/(?!_npu)|/lib/python3\.\d{1,2}/(?!site-packages|dist-packages)|<frozen|<string>")
_HELPS = compile_on_use(r"/torch/__init__\.py$|/lib/python3\.\d{1,2}/(?!site-packages|dist-packages)|<frozen|<string>")
# A check of its caller's arguments says nothing about the code around it.
_CHECKS_ARGUMENTS = compile_on_use(r"/torch/__init__\.py$")


def raising_frame(primary: Failure) -> Frame | None:
    """Return the deepest frame that is no check's helper and not of the standard library, None when there is none."""
    return next((frame for frame in reversed(primary.frames) if not _HELPS.search(frame.file)), None)


def _own_frame(primary: Failure) -> Frame | None:
    """Return the deepest frame outside torch and the standard library, None when there is none."""
    return next((frame for frame in reversed(primary.frames) if not passes_on(frame.file)), None)


def passes_on(file: str) -> bool:
    """Say whether a file is torch's or the standard library's: its frames pass calls on."""
    return _PASSES_ON.search(file) is not None


def is_of_framework(file: str) -> bool:
    """Say whether a file is of a serving or training framework."""
    return _FRAMEWORK_PATH.search(file.lower()) is not None


def _internal_owner(primary: Failure) -> str:
    """Return the part of torch_npu whose internals raised the exception, '' when another file did."""
    frame = _own_frame(primary)
    if frame is None or _CHECKS_ARGUMENTS.search(primary.frames[-1].file) or speaks_of_device(primary.text):
        return ""
    if primary.type in _SLIPS and "torch_npu/" in frame.file:
        return "torch_npu"
    return next((owner for owner, expression in _INTERNALS if expression.search(frame.file)), "")


def _code_owner(text: str, primary: Failure | None) -> str:
    """Return 'framework' or 'user_code' by whose frames, or whose words, the report contains; '' when neither."""
    frames = primary.frames if primary is not None else []
    own = [frame for frame in frames if not _LIBRARY_PATH.search(frame.file) or _FRAMEWORK_PATH.search(frame.file)]
    if any(is_of_framework(frame.file) for frame in own):
        return "framework"
    if own:
        return "user_code"
    if _SERVING_WORDS.search(text.lower()):
        return "framework"
    return "user_code" if frames or _OWN_SCRIPT.search(text) else ""


def _weigh(
    clues: Sequence[Clue], lines: Sequence[Line], primary: Failure | None
) -> tuple[dict[str, int], dict[str, list[Evidence]]]:
    scores: dict[str, int] = {}
    evidence: dict[str, list[Evidence]] = {}
    lines = [line for line in lines if not _BOILERPLATE.search(line.text)]
    heads = "\n".join(f"{frame.file} in {frame.function}" for frame in primary.frames[-12:]) if primary else ""
    said = "\n".join(row for row in primary.text.split("\n") if not _BOILERPLATE.search(row)) if primary else ""
    first = f"{primary.type}: {primary.message}\n{said}\n{heads}".lower() if primary else ""
    lowered = [(line, line.text.lower()) for line in lines]
    whole = "\n".join(low for _, low in lowered)
    for clue in clues:
        if primary is not None and clue.expression.search(first):
            scores[clue.value] = scores.get(clue.value, 0) + clue.weight * _PRIMARY_FACTOR
            evidence.setdefault(clue.value, []).append(
                Evidence(primary.line, primary.text.split("\n")[0].strip()[:300])
            )
        elif whole and clue.expression.search(whole):
            scores[clue.value] = scores.get(clue.value, 0) + clue.weight
            evidence.setdefault(clue.value, []).extend(_lines_with(clue.expression, lines)[:1])
    return scores, {value: list(dict.fromkeys(found))[:3] for value, found in evidence.items()}


def _strongest(scores: dict[str, int], evidence: dict[str, list[Evidence]]) -> Finding:
    value = max(scores, key=lambda key: scores[key])
    share = scores[value] / sum(scores.values())
    strength = min(1.0, scores[value] / 6)
    return Finding(value, round(0.9 * share * (0.5 + 0.5 * strength), 2), evidence[value])


def _lines_with(expression: re.Pattern[str], lines: Sequence[Line]) -> list[Evidence]:
    found = [Evidence(line.number, line.text.strip()[:300]) for line in lines if expression.search(line.text.lower())]
    return found[:3]

"""Lines that tell about graphs: for each, a literal to search for at memory speed and what to read from the line."""

from __future__ import annotations

import re
from typing import NamedTuple

from npu_graph.expressions import compile_on_use


class Signature(NamedTuple):
    """One kind of graph event.

    `hub` occurs in every line of this kind and is searched first; `expression` begins with a literal, so that it is
    linear and cheap; its groups are `key` (which graph) and `value` (`unit` times a number).
    """

    kind: str
    hub: bytes
    expression: re.Pattern[bytes]
    unit: float = 1.0  # seconds per unit of `value`


def _signature(kind: str, hub: bytes, expression: bytes, unit: float = 1.0) -> Signature:
    return Signature(kind, hub, compile_on_use(expression), unit)


_RI = rb"model_ri=(?P<key>[^\s,]{1,40})"
_MODEL = rb"[^\n]{0,200}?model_id=(?P<key>\d{1,10})"

# Sources (repository@branch file): torch_npu lines Ascend/pytorch@v2.12.0 torch_npu/csrc/core/npu/NPUGraph.cpp and
# torch_npu/npu/graphs.py; runtime events CANN runtime@9.1.0 context_aclgraph.cc and capture_model.cc; torchair
# Ascend/torchair@master acl_graph.py, core/utils.py, _cache_compiler.py; vLLM vllm/compilation/backends.py and
# monitor.py; vLLM-Ascend worker/model_runner_v1.py; SGLang srt/model_executor/model_runner.py; xLLM-AI/xllm@main
# (3906f5a9) xllm/core/runtime/acl_graph_executor_impl.cpp and core/scheduler/profile/profile_manager.cpp; torch
# torch/_dynamo/guards.py and symbolic_convert.py. Wording changes with versions: add a row, keep the old one.
SIGNATURES: tuple[Signature, ...] = (
    # torch_npu, TORCH_NPU_LOGS=+aclgraph (26.1.0 and later)
    _signature("begin_done", b"NPUGRAPH Cap", rb"NPUGRAPH Capture begin done: " + _RI),
    _signature("begin", b"NPUGRAPH Cap", rb"NPUGRAPH Capture begin$"),
    _signature("begin", b"NPUGRAPH Cap", rb"NPUGRAPH Capture device=\d+, pool=\("),  # 2.11
    _signature("end_done", b"NPUGRAPH Cap", rb"NPUGRAPH Capture end done: " + _RI),
    _signature("end", b"NPUGRAPH Cap", rb"NPUGRAPH Capture end$"),
    _signature("python_begin", b"NPUGRAPH Cap", rb"NPUGRAPH Capture device=[^\n]{1,200}, auto_dispatch="),
    _signature("replay", b"NPUGRAPH Rep", rb"NPUGRAPH Replay " + _RI),
    _signature("replay", b"NPUGRAPH Rep", rb"NPUGRAPH Replay graph_id=(?P<key>[^\s,]{1,40})"),
    _signature("reset", b"NPUGRAPH Res", rb"NPUGRAPH Reset releasing graph: " + _RI),
    _signature("update_begin", b"NPUGRAPH Task", rb"NPUGRAPH TaskGroup update begin, handle=(?P<key>[^\s,]{1,40})"),
    _signature("update_end", b"NPUGRAPH Task", rb"NPUGRAPH TaskGroup update end"),
    _signature("python_end", b"NPUGraph: ", rb"NPUGraph: capture completed"),
    _signature("capture_failed", b"NPUGraph: ", rb"NPUGraph: ERROR \S{1,4} capture failed: (?P<key>[^\n,]{1,80})"),
    _signature("fallback", b"NPUGraph: ", rb"NPUGraph: skipped \S{1,4} (?P<key>[^\n]{1,120})"),
    # torch_npu, TORCH_NPU_LOGS=acl (26.0.0 and later): one line before each call
    _signature("acl_begin", b"aclmdlRICaptureB", rb"\[ACL CALL\] aclmdlRICaptureBegin"),
    _signature("acl_end", b"aclmdlRICaptureE", rb"\[ACL CALL\] aclmdlRICaptureEnd"),
    _signature("replay", b"aclmdlRIExecute", rb"\[ACL CALL\] aclmdlRIExecute(?:Async)?(?P<key>)"),
    _signature("update_begin", b"aclmdlRICaptureTaskU", rb"\[ACL CALL\] aclmdlRICaptureTaskUpdateBegin(?P<key>)"),
    _signature("update_end", b"aclmdlRICaptureTaskU", rb"\[ACL CALL\] aclmdlRICaptureTaskUpdateEnd"),
    # CANN plog: EVENT lines of run/plog (8.5.0 and later, on by default), INFO for the replay
    _signature("plog_begin", b"capture begin success", rb"capture begin success" + _MODEL),
    _signature("plog_end", b"capture end success", rb"capture end success" + _MODEL),
    _signature("replay", b"capture model execute", rb"capture model execute, model_id=(?P<key>\d{1,10})"),
    _signature("update", b"update tasks result", rb"update tasks result: total=(?P<key>\d{1,10})"),
    # torchair / npugraph_ex
    _signature("fx_begin", b"to capture it", rb"fx_graph (?P<key>[^\n]{1,160}?),? and start to capture it"),
    _signature("fx_end", b"capture fx_graph", rb"Success to capture fx_graph (?P<key>[^\n]{1,160}?)\. "),
    _signature("fallback", b"capture_size_limit", rb"static_capture_size_limit reached"),
    _signature("fallback", b"back to eager", rb"[Ff]all(?:ing|s)? ?back to eager"),
    _signature("fallback", b"back to NONE", rb"(?:fall|falling) back to NONE"),
    _signature("fallback", b"skipping cudagraphs", rb"skipping cudagraphs due to (?P<key>[^\n]{1,120})"),
    _signature("compile_begin", b"start compile graph", rb"start compile graph:? ?(?P<key>[^\s,]{0,80})"),
    _signature("compile_end", b"end compile graph", rb"end compile graph:? ?(?P<key>[^\s,]{0,80})"),
    _signature("compile", b" [s]", rb"took (?P<value>\d{1,9}(?:\.\d{1,9})?) \[s\]"),
    _signature("ge_cost", b"GEPERFTRACE", rb"The time cost of (?P<key>[\w:]{1,120}) is \[(?P<value>\d{1,15})\]", 1e-6),
    # vLLM and vLLM-Ascend
    _signature("capture_total", b"apturing finished", rb"apturing finished in (?P<value>\d{1,9}(?:\.\d{1,6})?) secs"),
    _signature("compile", b"torch.compile ",
        rb"torch\.compile (?P<key>)(?:and [^\n]{1,60} )?t(?:akes|ook) (?P<value>[\d.]{1,12}) s"),
    _signature("compile", b"bytecode transform", rb"(?P<key>Dynamo bytecode transform) time: (?P<value>[\d.]{1,12}) s"),
    _signature("compile", b"Compiling a graph",
        rb"Compiling a graph for (?P<key>[^\n]{1,60}) takes (?P<value>[\d.]{1,12}) s"),
    _signature("cache_load", b"load the compiled",
        rb"load the compiled graph[^\n]{1,80} took (?P<value>[\d.]{1,12}) s"),
    _signature("capture_bar", b"Capturing ",
        rb"Capturing (?P<key>[^\n:|]{1,60}): +100%\|[^\n|]{0,200}\| *"
        rb"(?P<count>\d{1,6})/\d{1,6} \[(?P<clock>[\d:]{4,9})<"),
    # SGLang
    _signature("graph_begin", b"raph begin", rb"Capture (?P<key>[\w ]{1,40}?)(?:npu|cuda|CUDA|NPU) graph begin"),
    _signature("capture_total", b"raph end. Time", rb"graph end\. Time elapsed: (?P<value>[\d.]{1,12}) s"),
    # xLLM: an end is always logged, a begin and a replay only with GLOG_v=50
    _signature("xllm_begin", b"ACL graph capture b",
        rb"ACL graph capture begin, bucket_num_tokens=(?P<key>\d{1,9})"),
    _signature("xllm_end", b"Lazy capturing ACL",
        rb"Lazy capturing ACL graph for bucket num_tokens: (?P<key>\d{1,9}) \(actual num_tokens: \d{1,9}\) done"),
    _signature("capture_failed", b"Failed to capture ACL",
        rb"Failed to capture ACL graph for bucket num_tokens: (?P<key>\d{1,9})"),
    _signature("replay", b"run() in replay mode", rb"AclGraphExecutorImpl::run\(\) in replay mode(?P<key>)"),
    _signature("capture_total", b"decode_total_latency",
        rb"decode_total_latency=(?P<value>\d{1,9}(?:\.\d{1,9})?(?:e\+\d\d)?) ms", 1e-3),
    # TORCH_LOGS
    _signature("recompile", b"Recompiling function", rb"Recompiling function (?P<key>[^\s,]{1,120})"),
    _signature("graph_break", b"Graph break", rb"Graph break(?: in user code at (?P<key>[^\s,]{1,200}))?"),
    _signature("recompile_limit", b"_limit (", rb"hit config\.(?:cache_size|recompile)_limit \((?P<key>\d{1,6})\)"),
    _signature("eviction", b"evict", rb"evict[^\n]{0,60}[gG]raph|[gG]raph[^\n]{0,60}evict"),
)  # fmt: skip

# Error words for lines of unknown format, and what only a kernel or a launcher prints.
ERROR_HUBS: tuple[bytes, ...] = (
    *(b"rror", b"xception: ", b"ERROR", b"FATAL", b"CRITICAL"),
    *(b"[PID: ", b"from remote rank"),  # a CANN error line, whose text need not hold the word error
    *(b"ut of memory", b"Segmentation fault", b"core dumped", b"Killed", b"SIGQUIT", b"error log can be ignored"),
)
HUBS: tuple[bytes, ...] = tuple(dict.fromkeys([*(item.hub for item in SIGNATURES), *ERROR_HUBS]))

# Plog modules whose INFO, DEBUG, EVENT, TRACE and WARNING lines carry signals, and the literals that decide.
# All other such lines are noise: they are counted per level and process, and not read.
PLOG_SIGNALS: dict[bytes, tuple[bytes, ...]] = {
    b"GE": (b"GEPERFTRACE",),
    b"TORCHAIR": (*(b" capture ", b"capture_size_limit", b"to eager", b" [s]", b" compile graph"),),
    b"RUNTIME": (b"capture model execute", b"update tasks result"),
    b"HCCL": (b"status[LOST]", b"error log can be ignored"),
}
# The runtime writes the capture itself at EVENT level, which few lines have.
EVENT_SIGNALS: tuple[bytes, ...] = (b"capture begin success", b"capture end success")

# torch_npu source files whose lines carry graph events; lines of other files in the same format are noise, apart
# from errors, until a line without a known file is met.
GLOG_SIGNAL_FILES: tuple[bytes, ...] = (b"NPUGraph.cpp", b"npu/Graph.cpp", b"graphs.py", b"_graph_tree.py")
# Files that write per operator or per allocation, and never about graphs.
GLOG_NOISE_FILES: tuple[bytes, ...] = (b"NPUCachingAll", b"OpCommand", b"NPUQueue", b"NPUEvent")
# Files whose lines matter only with one of these words.
GLOG_CHECKED_FILES: tuple[bytes, ...] = (b"/guards.py", b"/symbolic_convert.py", b"/output_graph.py")
GLOG_CHECKS: tuple[bytes, ...] = (b"Recompiling function", b"Graph break", b"_limit (", b"rror")

# Service sources that print steady-state statistics.
SERVICE_NOISE_FILES = frozenset([b"loggers.py", b"metrics.py", b"launcher.py", b"async_llm.py"])
SGLANG_NOISE = (b"Decode batch", b"Prefill batch")


def find_event(text: bytes) -> tuple[Signature, re.Match[bytes]] | None:
    """Return the first signature that the text matches, and the match."""
    for signature in SIGNATURES:
        if signature.hub in text:
            found = signature.expression.search(text)
            if found is not None:
                return signature, found
    return None

"""What a report lacks, why it is needed, and the command that gets it."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from npu_graph.diagnosis.classification import GRAPH_WORDS, STANDS_STILL
from npu_graph.diagnosis.error_lines import speaks_of_device
from npu_graph.diagnosis.first_cause import Failure
from npu_graph.expressions import compile_on_use


class Item(NamedTuple):
    """One thing to ask for; each text is a pair (English, Chinese)."""

    name: str
    label: tuple[str, str]
    why: tuple[str, str]
    how: str


ITEMS = {
    item.name: item
    for item in (
        Item(
            "full_stack",
            ("the full Python stack of the first failing process", "第一个失败进程的完整 Python 堆栈"),
            ("the first exception names the operation; later ones are echoes", "首个异常才指明出错操作，后面的多是连带报错"),
            "TASK_QUEUE_ENABLE=0 python3 YOUR_SCRIPT 2>&1 | tee run.log   # 0 makes the stack point at the failing call",
        ),
        Item(
            "python_stack",
            ("the full Python stack of the first failing process", "第一个失败进程的完整 Python 堆栈"),
            ("the deepest frames name the function that refused its input", "最深的几帧指出是哪个函数拒绝了输入"),
            "run the same command again with its output kept: YOUR_COMMAND 2>&1 | tee run.log",
        ),
        Item(
            "exception_line",
            ("the end of the stack: the line of the exception itself is cut off", "堆栈的结尾：异常那一行被截掉了"),
            ("it says what was refused; the frames alone only say where", "它说明拒绝了什么；只有栈帧只能知道在哪里"),
            "copy from `Traceback` down to the first line that is not indented",
        ),
        Item(
            "versions",
            ("version of {absent}", "{absent} 的版本"),
            ("checks, texts and source lines differ by release", "不同版本的检查、报错文本和源码行号不同"),
            "pip list | grep -iE 'torch|vllm|sglang'; cat /usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info; npu-smi info",
        ),
        Item(
            "graph_mode",
            ("how graph mode is switched on (API, backend or service option)", "图模式的开启方式（接口、后端或服务参数）"),
            ("the same text has another owner in torch.npu.graph, npugraph_ex or a framework", "同样的报错在 torch.npu.graph、npugraph_ex 与框架中归属不同"),
            "grep -rnE 'npu.graph|capture_begin|make_graphed_callables|npugraph|cudagraph|torch.compile' YOUR_SCRIPT   # and the full start command",
        ),
        Item(
            "minimal_script",
            ("a minimal script, or the full start command", "最小复现脚本，或完整启动命令"),
            ("whether eager mode also fails decides between graph and operator", "Eager 是否同样失败，决定问题在图还是在算子"),
            "run the same command in eager mode (vLLM: --enforce-eager; torch.compile: backend=\"eager\") and say whether it fails",
        ),
        Item(
            "plog",
            ("the CANN log of the failing process", "失败进程的 CANN 日志（plog）"),
            ("device faults and hangs name the kernel only there", "设备侧故障和卡死只有在 plog 中才有算子名"),
            "grep -rnE '\\[ERROR\\]' ~/ascend/log/debug/plog/ | head -50",
        ),
        Item(
            "comparison",
            ("the outputs of eager and graph mode for the same input, over several steps", "同一输入下 Eager 与图模式多步输出的对比"),
            ("the step at which they part tells stale input, padding, address or kernel apart", "从第几步开始不一致，可区分输入未更新、padding、地址变化与算子问题"),
            "run 3 steps with changing inputs in both modes and print the first differing step and output",
        ),
        Item(
            "profile",
            ("a profile of a few steps in graph mode and in eager mode", "图模式与 Eager 各若干步的 profiling 数据"),
            ("whether kernels run inside a replay, and where the gaps are, is a measurement", "算子是否在图内执行、空泡在哪里，需要测量"),
            "torch_npu.profiler with ProfilerLevel.Level1 over 10 decode steps, export_type Text",
        ),
        Item(
            "rank_stacks",
            ("the Python stack of every rank while it hangs", "卡住时每个 rank 的 Python 堆栈"),
            ("the rank that stands elsewhere than the others is the one to look at", "与其他 rank 位置不同的那个 rank 就是排查对象"),
            "for p in $(pgrep -f YOUR_SERVICE); do py-spy dump --pid $p; done",
        ),
    )
}  # fmt: skip

# Whole words: "install", "changed" and "exchange" hold the letters too.
_HANGS = compile_on_use(
    r"\bhang(?:s|ing)?\b|\bhung\b|\bstuck\b|deadlock|" + STANDS_STILL + r"|hang住|(?:不|未)返回|无响应"
)
# Also called after an exception in the body of the capture: pasted alone it may hide the cause above it.
_CLOSES_CAPTURE = compile_on_use(r"\bcapture_end\b|AclmdlRICaptureEnd")
# Nothing fails there, so there is no stack to send.
_WITHOUT_STACK = frozenset(("accuracy", "performance"))
_BY_STAGE = {
    "accuracy": ("comparison", "versions", "graph_mode"),
    "performance": ("profile", "versions", "graph_mode"),
    "replay": ("plog",),
}


def find_missing(
    text: str, primary: Failure | None, environment: dict[str, Any], stage: str, decisive: bool
) -> list[Item]:
    """Return what to ask for, most useful first.

    Args:
        text: the cleaned report.
        primary: the first cause, or None.
        environment: what `find_environment` returned.
        stage: the stage as far as decided; it decides which measurement is worth asking for.
        decisive: whether an explicit error text already locates the layer; then only versions are still of use.
    """
    low = text.lower()
    wanted: list[str] = list(_BY_STAGE.get(stage, ())) if not decisive else []
    hangs = _HANGS.search(low) is not None
    of_python = primary is not None and primary.kind == "exception" and not speaks_of_device(primary.text)
    if of_python and not hangs and "plog" in wanted:
        wanted.remove("plog")
    if not decisive and hangs:
        wanted.append("rank_stacks")
    alone = primary is not None and not primary.frames and _CLOSES_CAPTURE.search(primary.text)
    is_cut = "Traceback (most recent call last)" in text and (primary is None or primary.kind == "log")
    if is_cut:
        wanted.insert(0, "exception_line")
    elif alone or (not decisive and (stage not in _WITHOUT_STACK if primary is None else not primary.frames)):
        wanted.append("python_stack" if of_python and not alone else "full_stack")
    absent = _absent_versions(environment)
    if absent:
        wanted.append("versions")
    is_told = GRAPH_WORDS.search(low) or stage == "compile" and "torch.compile" in low
    if not decisive and not is_told:
        wanted.append("graph_mode")
    if not decisive and not _has_reproduction(low):
        wanted.append("minimal_script")
    items = [ITEMS[name] for name in dict.fromkeys(wanted)]
    return [_named(item, ", ".join(absent)) if item.name == "versions" else item for item in items]


def _absent_versions(environment: dict[str, Any]) -> list[str]:
    """Return the versions that the report does not state; torch_npu's says which torch it needs."""
    named = (("torch_npu", "torch_npu"), ("CANN", "cann"))
    absent = [name for name, key in named if not environment[key]]
    return ["torch", *absent] if "torch_npu" in absent and not environment["torch"] else absent


def _named(item: Item, absent: str) -> Item:
    english, chinese = item.label
    return item._replace(label=(english.format(absent=absent), chinese.format(absent=absent)))


def as_records(items: Sequence[Item], language: str) -> list[dict[str, str]]:
    """Return the record's `missing` in the language asked for."""
    at = 1 if language == "zh" else 0
    return [{"item": item.label[at], "why": item.why[at], "how": item.how} for item in items]


def _has_reproduction(low: str) -> bool:
    return any(word in low for word in ("import torch", "vllm serve", "python -m", "python3 -m", "torchrun", "pytest "))

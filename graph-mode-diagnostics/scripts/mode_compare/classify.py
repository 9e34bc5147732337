# ruff: noqa: E501 (texts)
"""From where and when results differ to the class: stale, padding, address, order, kernel."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .running import Trace
from .tensors import Difference, compare


class Cell(NamedTuple):
    """The comparison of one output in one step (1-based)."""

    step: int
    name: str
    difference: Difference


class Verdict(NamedTuple):
    """The class with its confidence (0..1) and evidence: (key of SENTENCES, values)."""

    value: str
    confidence: float
    evidence: list[tuple[str, dict[str, Any]]]

    def sentences(self, language: str) -> list[str]:
        """Return the evidence as sentences in 'en' or 'zh'."""
        return [SENTENCES[key][1 if language == "zh" else 0].format(**values) for key, values in self.evidence]


SENTENCES = {
    "eager_varies": (
        "two eager runs with the same inputs differ beyond the tolerance",
        "同样输入的两次 Eager 结果之差超过容差",
    ),
    "at_reload": (
        "steps 1 to {before} agree; it starts at step {step}, where the reload is",
        "第 1 到 {before} 步一致；从重载所在的第 {step} 步开始不同",
    ),
    "old_memory": (
        "from there on, graph runs differ from each other too: the old memory was given to others",
        "从那以后各次图运行之间也不同：旧内存已分给别人",
    ),
    "runs_differ": (
        "graph runs 1 and {number} differ at step {step}, {name}, with the same inputs; two eager runs agree",
        "图的第 1 次与第 {number} 次运行输入相同，却在第 {step} 步 {name} 不同；两次 Eager 一致",
    ),
    "rows": (
        "all differing rows are {rows} or above; the rows below agree in every step",
        "不同的行都在第 {rows} 行及以后；之前的行每一步都一致",
    ),
    "from_first": (
        "step 1 differs: the inputs are those of the capture, so nothing can be stale yet",
        "第 1 步就不同：输入与捕获时相同，不可能是陈旧",
    ),
    "small": ("the deviation is small: precision rather than a wrong operand", "偏差很小：更像精度，而不是操作数错"),
    "from_second": ("step 1 agrees and step 2 differs", "第 1 步一致，第 2 步不同"),
    "frozen": (
        "{name} of the graph never changes: it still computes from the inputs of the capture",
        "图的 {name} 从不变化：仍在用捕获时的输入计算",
    ),
    "first_again": (
        "{name} of the graph at step 2 is that of step 1: it still computes from the inputs of the capture",
        "图的 {name} 在第 2 步等于第 1 步：仍在用捕获时的输入计算",
    ),
    "from_later": (
        "steps 1 to {before} agree, step {step} differs, and no reload was named there",
        "第 1 到 {before} 步一致，第 {step} 步不同，而那里没有给出重载",
    ),
}


class Texts(NamedTuple):
    """What a class means, what confirms it, what to do."""

    title: str
    meaning: str
    confirm: str
    fix: str
    chinese: tuple[str, str, str, str]

    def in_language(self, language: str) -> tuple[str, str, str, str]:
        """Return (title, meaning, confirm, fix) in 'en' or 'zh'."""
        return self.chinese if language == "zh" else (self.title, self.meaning, self.confirm, self.fix)


CLASSES = {
    "stale": Texts(
        "stale input or rebound tensor",
        "The graph goes on reading what it saw at capture: an input that is not copied into the static buffer, a host number, or state rebound with =.",
        "probe_capture.py on the callable names the rebound tensor or the baked number.",
        "copy_ every input into the tensor of the capture; write state in place.",
        (
            "输入陈旧或张量被重新绑定",
            "图一直读捕获时看到的东西：没有拷入静态缓冲的输入、主机数值，或用 = 重新绑定的状态。",
            "对该函数运行 probe_capture.py，会指出被重绑定的张量或被固化的数值。",
            "每个输入都 copy_ 到捕获时的张量；状态原地写。",
        ),
    ),
    "padding": Texts(
        "padded rows only",
        "Rows beyond the real batch differ; real rows agree. They matter only where something later reads or reduces over them.",
        "Results of the real rows stay equal with another fill value in the padding.",
        "Mask or slice padded rows before reductions, caches and sampling.",
        (
            "只有补齐的行不同",
            "真实 batch 之外的行不同，真实行一致。只有后面有人读它们或跨行归约时才有影响。",
            "补齐换一个填充值，真实行的结果不变。",
            "在归约、写缓存、采样之前屏蔽或切掉补齐行。",
        ),
    ),
    "address": Texts(
        "changed address",
        "Right until a tensor that the graph reads was replaced by one at another address (weight reload, new buffer, memory of the pool reused).",
        "data_ptr() of the weights and buffers before and after the step at which it starts.",
        "Reload in place (param.copy_), or capture again after a reload.",
        (
            "地址变了",
            "在图所读的张量被换到另一个地址之前都对（权重重载、新缓冲区、内存池被复用）。",
            "开始出错那一步前后权重与缓冲区的 data_ptr()。",
            "原地重载（param.copy_），或重载后重新捕获。",
        ),
    ),
    "order": Texts(
        "missing ordering",
        "The same inputs give other results from run to run: two streams, or host and device, touch one tensor without an event between them.",
        "With torch.npu.synchronize() around copy_ and replay (or ASCEND_LAUNCH_BLOCKING=1) the results become stable and right.",
        "Order the streams with events or wait_stream; do not refill an input while the last replay still runs.",
        (
            "缺少先后约束",
            "同样输入每次结果不同：两条流，或主机与设备，在没有 event 的情况下访问同一张量。",
            "在 copy_ 与 replay 前后加 torch.npu.synchronize()（或 ASCEND_LAUNCH_BLOCKING=1）后结果稳定且正确。",
            "用 event 或 wait_stream 排序；上一次重放未完成时不要改写输入。",
        ),
    ),
    "kernel": Texts(
        "kernel or numerics",
        "Different from the first step on: the graph runs another kernel, format, precision, fusion or random numbers than eager.",
        "The first module or operator that differs, run alone in both modes with the same input.",
        "Align precision switches and fusion passes; report the operator with its shapes.",
        (
            "算子或数值",
            "从第一步就不同：图里用了别的核函数、格式、精度、融合或随机数。",
            "第一个不同的模块或算子，用同样输入在两种模式下单独运行。",
            "统一精度开关与融合 pass；带上形状报告该算子。",
        ),
    ),
    "late": Texts(
        "starts later, cause not established",
        "Right for some steps, then wrong, without a reload at that step: memory of a graph's pool reused, or a state that changed address.",
        "Give --reload and --reload-step when weights change; otherwise compare data_ptr() of all inputs around the first wrong step.",
        "Keep outputs of one graph alive (clone) until they were read.",
        (
            "后来才开始，原因未确立",
            "前几步对，之后错，而那一步没有重载：图的内存池被复用，或某个状态换了地址。",
            "若权重会变，给 --reload 与 --reload-step；否则比较出错那一步前后所有输入的 data_ptr()。",
            "图的输出在被读之前先 clone 保留。",
        ),
    ),
    "unstable": Texts(
        "eager itself varies",
        "Two eager runs with the same inputs differ, so a difference to the graph says nothing yet: kept state, random numbers or non-deterministic kernels.",
        "Two eager runs agree with --reset and a fixed seed.",
        "Give --reset (restoring state in place), seed inside the callable, or torch.use_deterministic_algorithms(True).",
        (
            "Eager 本身就不稳定",
            "同样输入的两次 Eager 结果不同，因此与图的差别还说明不了什么：保留的状态、随机数或非确定算子。",
            "给 --reset 并固定种子后两次 Eager 一致。",
            "给 --reset（原地恢复状态），在函数里设种子，或 torch.use_deterministic_algorithms(True)。",
        ),
    ),
}


def grid(expected: Trace, actual: Trace, rtol: float | None, atol: float | None) -> list[Cell]:
    """Compare all outputs of all steps that both traces have."""
    cells: list[Cell] = []
    for step, (left, right) in enumerate(zip(expected.outputs, actual.outputs), 1):
        cells += [Cell(step, name, compare(left[name], right[name], rtol, atol)) for name in left if name in right]
    return cells


def classify(
    eager: Sequence[Trace],
    graph: Sequence[Trace],
    cells: Sequence[Cell],
    valid_rows: int,
    reload_at: int,
    rtol: float | None,
    atol: float | None,
) -> Verdict | None:
    """Return the class of the differences, None when there are none.

    Args:
        eager: one or two eager runs with the same inputs.
        graph: one or more graph runs with the same inputs.
        cells: the first graph run against the first eager run.
        valid_rows: rows of the first dimension that are not padding; 0 when unknown.
        reload_at: the step before which weights were reloaded; 0 when none was.
        rtol, atol: tolerances, None for those of the dtype.
    """
    if len(eager) > 1 and any(cell.difference.differs for cell in grid(eager[0], eager[1], rtol, atol)):
        return Verdict("unstable", 0.9, [("eager_varies", {})])
    wrong = [cell for cell in cells if cell.difference.differs]
    varying = [
        (number, cell)
        for number, other in enumerate(graph[1:], 2)
        for cell in grid(graph[0], other, rtol, atol)
        if cell.difference.differs
    ]
    first = min((cell.step for cell in wrong), default=0)
    since = {"before": first - 1, "step": first}
    if reload_at > 1 and first == reload_at and all(cell.step >= reload_at for _, cell in varying):
        # What stands at the old address now is anybody's, so runs may differ from each other as well.
        more: list[tuple[str, dict[str, Any]]] = [("old_memory", {})] if varying else []
        return Verdict("address", 0.9, [("at_reload", since), *more])
    if varying:
        number, cell = varying[0]
        found = {"number": number, "step": cell.step, "name": cell.name}
        return Verdict("order", 0.9 if len(eager) > 1 else 0.7, [("runs_differ", found)])
    if not wrong:
        return None
    if valid_rows and all(cell.difference.rows and min(cell.difference.rows) >= valid_rows for cell in wrong):
        return Verdict("padding", 0.9, [("rows", {"rows": valid_rows})])
    if first == 1:
        evidence: list[tuple[str, dict[str, Any]]] = [("from_first", {})]
        if all(cell.difference.mismatched == 0 or cell.difference.max_rel < 0.1 for cell in wrong):
            evidence.append(("small", {}))
        return Verdict("kernel", 0.85, evidence)
    if first == 2:
        return _stale(eager[0], graph[0], wrong)
    return Verdict("late", 0.6, [("from_later", since)])


def _stale(eager: Trace, graph: Trace, wrong: Sequence[Cell]) -> Verdict:
    for name in sorted({cell.name for cell in wrong}):
        frozen = len(graph.outputs) > 2 and all(
            _equal(step.get(name), graph.outputs[0].get(name)) for step in graph.outputs
        )
        if frozen or _equal(graph.outputs[1].get(name), eager.outputs[0].get(name)):
            key = "frozen" if frozen else "first_again"
            return Verdict("stale", 0.95, [("from_second", {}), (key, {"name": name})])
    return Verdict("stale", 0.75, [("from_second", {})])


def _equal(left: Any, right: Any) -> bool:
    return left is not None and right is not None and compare(left, right, 0.0, 0.0).bitwise

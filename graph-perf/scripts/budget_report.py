"""A capture budget as text or Markdown, in English or Chinese; sources, options and codes stay as they are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# key -> (English, Chinese), values as {names}
LINES = {
    "head": ("{verdict}: {reason}", "{verdict}（{word}）：{reason}"),
    "mode": ("- mode {mode}, {n} sizes ({origin}): {sizes}", "- 模式 {mode}，{n} 个尺寸（{origin}）：{sizes}"),
    "graphs": (
        "- graphs: {total} ({per_size} per size); public limit {limit}",
        "- 图：{total} 张（每个尺寸 {per_size} 张）；公开上限 {limit}",
    ),
    "streams": (
        "- old stream budget (applies: {applies}): {needed} of {available} streams needed, at most {max_sizes} sizes",
        "- 旧的流预算（适用：{applies}）：需要 {needed} 条流，可用 {available} 条，最多 {max_sizes} 个尺寸",
    ),
    "formula_source": ("  source: {source}; removed by {removed}", "  来源：{source}；由 {removed} 移除"),
    "shrinks": ("- this vLLM-Ascend shrinks the list itself to {sizes}", "- 该版本 vLLM-Ascend 会自行缩减为 {sizes}"),
    "check": ("- {level}: {text} [{source}]", "- {level}：{text} [{source}]"),
    "memory": ("- memory: {text}", "- 内存：{text}"),
    "seen": ("  seen elsewhere: {text}", "  他处所见：{text}"),
    "this_log": ("  this log: {gib} GiB, {seconds} s", "  本日志：{gib} GiB，{seconds} 秒"),
    "fails": ("- if capture fails with {codes}: {advice}", "- 若捕获报 {codes}：{advice}"),
    "source": ("  source: {text}", "  来源：{text}"),
    "caveat": ("- caveat: {text}", "- 注意：{text}"),
    "padding": (
        "Padding (n={n} steps, {distinct} distinct batch sizes, largest {largest}{evidence})",
        "补齐（n={n} 步，{distinct} 种 batch，最大 {largest}{evidence}）",
    ),
    "row": (
        "{name:<12} padded {padded:>7}  without graph {eager:>7}  {sizes}",
        "{name:<12} 补齐 {padded:>7}  不用图 {eager:>7}  {sizes}",
    ),
    "table": ("| choice | padded rows | steps without graph | sizes |", "| 选择 | 补齐的行 | 不用图的步 | 尺寸 |"),
}
# Sentences of npu_graph/capture_budget.py and capture_plan.py; `#` stands for what varies (a number, a mode, a list).
CHINESE = {
    "fits": "放得下",
    "does_not_fit": "放不下",
    "rejected": "被拒绝",
    "changed": "被改动",
    "note": "说明",
    "depends_on_driver": "取决于驱动",
    "no_public_limit": "没有公开上限",
    "none": "无",
    "no": "否",
    "yes": "是",
    "given": "给定",
    "configured": "当前配置",
    "per step": "逐步计数",
    "periodic samples": "定期采样",
    "unknown: give --hdk and --cann": "未知：请给出 --hdk 与 --cann",
    "best #": "最优 #",
    "framework default up to #": "框架默认，直到 #",
    "the framework refuses these settings": "框架拒绝这些设置",
    "nothing is captured": "什么都不捕获",
    "# graphs are more than the about # of the release notes": "# 张图超过发布说明中的约 # 张",
    "fits even the old, smaller stream budget": "连旧的、更小的流预算也放得下",
    "# graphs of about # that the release notes give for this device": "# 张图，发布说明给该设备的约为 # 张",
    "beyond the old budget, which does not bind here; no public number for this device": (
        "超出旧预算，但旧预算在此不适用；该设备没有公开数字"
    ),
    "# sizes; # fit the old stream budget": "# 个尺寸；旧的流预算放得下 # 个",
    "# sizes, but # fit the stream budget of this stack": "# 个尺寸，但该软硬件的流预算只放得下 # 个",
    "# sizes; # fit before HDK 25.5.1 / CANN 8.5.0, more after": (
        "# 个尺寸；HDK 25.5.1 / CANN 8.5.0 之前放得下 # 个，之后更多"
    ),
    "--enforce-eager switches graph mode off": "--enforce-eager 会关闭图模式",
    "xlite_graph_config turns # into #": "xlite_graph_config 把 # 变为 #",
    "this vLLM-Ascend turns FULL_AND_PIECEWISE into PIECEWISE": (
        "该版本 vLLM-Ascend 把 FULL_AND_PIECEWISE 变为 PIECEWISE"
    ),
    "encoder-decoder models turn # into PIECEWISE": "encoder-decoder 模型把 # 变为 PIECEWISE",
    "no capture size is a multiple of tensor_parallel_size #": "没有捕获尺寸是 tensor_parallel_size # 的倍数",
    "sizes that are no multiple of # are dropped: # -> #": "不是 # 的倍数的尺寸被去掉：# -> #",
    "on Ascend 950 only # sizes are kept: #": "Ascend 950 上只保留 # 个尺寸：#",
    "ASCEND_LAUNCH_BLOCKING=1 is refused together with graph mode; unset it": (
        "ASCEND_LAUNCH_BLOCKING=1 不能与图模式同用；请取消设置"
    ),
    "TASK_QUEUE_ENABLE=2 makes capture_begin fail (ERR00007); use 1": (
        "TASK_QUEUE_ENABLE=2 会使 capture_begin 失败（ERR00007）；请用 1"
    ),
    "# needs compilation mode VLLM_COMPILE (3), not #": "# 需要编译模式 VLLM_COMPILE（3），而不是 #",
    "max_cudagraph_capture_size # must equal the largest capture size #": (
        "max_cudagraph_capture_size # 必须等于最大的捕获尺寸 #"
    ),
    "prefill context parallelism is refused by current vLLM-Ascend; set --prefill-context-parallel-size 1": (
        "当前 vLLM-Ascend 拒绝 prefill 上下文并行；请设 --prefill-context-parallel-size 1"
    ),
    "FULL is not sufficiently supported with context parallelism": "上下文并行下 FULL 的支持不充分",
    "FULL_AND_PIECEWISE asks for HDK 25.5.1+ and CANN 8.5.0+": "FULL_AND_PIECEWISE 要求 HDK 25.5.1+ 与 CANN 8.5.0+",
    "the framework applied its formula to PIECEWISE only; no public number for the streams of one FULL graph": (
        "框架只对 PIECEWISE 使用该公式；一张 FULL 图占多少流没有公开数字"
    ),
    "sizes above # (max_num_seqs x # tokens) are never reached in decode": (
        "大于 # 的尺寸（max_num_seqs x # token）在 decode 中用不到"
    ),
    "a decode request takes # tokens; sizes that are no multiple of # are never filled": (
        "每个 decode 请求占 # 个 token；不是 # 的倍数的尺寸永远填不满"
    ),
    "the formula counts all layers although a pipeline stage holds a part: an upper bound": (
        "流水线的一级只含部分层，公式却计入全部层：这是上界"
    ),
    "Atlas 300I DUO has fewer hardware streams; no public number, its guides capture 2 to 5 sizes": (
        "Atlas 300I DUO 的硬件流更少；没有公开数字，其指南捕获 2 到 5 个尺寸"
    ),
    "HCCL_OP_EXPANSION_MODE=AIV needs fewer streams per communication group": (
        "HCCL_OP_EXPANSION_MODE=AIV 时每个通信组需要的流更少"
    ),
    "no public formula; the service log says it: 'Graph capturing finished in N secs, took X GiB'": (
        "没有公开公式；服务日志会写：'Graph capturing finished in N secs, took X GiB'"
    ),
    "upgrade to HDK 25.5.1+ and CANN 8.5.0+": "升级到 HDK 25.5.1+ 与 CANN 8.5.0+",
    "keep at most # capture sizes on the old stack": "在旧软硬件上最多保留 # 个捕获尺寸",
    "use FULL_DECODE_ONLY when the load is mostly decode: one graph per size instead of one per layer": (
        "负载以 decode 为主时用 FULL_DECODE_ONLY：每个尺寸一张图，而不是每层一张"
    ),
    "set HCCL_OP_EXPANSION_MODE=AIV": "设 HCCL_OP_EXPANSION_MODE=AIV",
    "fewer capture sizes, or a smaller max_cudagraph_capture_size": "减少捕获尺寸，或减小 max_cudagraph_capture_size",
    "the formula is empirical: a start with one capture size and several communication groups has failed all the same "
    "(vllm-project/vllm-ascend issue 3869)": (
        "公式来自经验：只有一个捕获尺寸、多个通信组时也曾启动失败（vllm-project/vllm-ascend issue 3869）"
    ),
    "a soft-partitioned NPU gives a container a part of the 2048 streams (vllm-project/vllm-ascend issue 8585)": (
        "软切分的 NPU 只给容器 2048 条流中的一部分（vllm-project/vllm-ascend issue 8585）"
    ),
}


def _pattern(sentence: str) -> re.Pattern[str]:
    """Return a pattern of a sentence; what varies in it is short, because the sentences are our own."""
    return re.compile("(.{1,200}?)".join(re.escape(part) for part in sentence.split("#")))


_WITH_HOLES = [(_pattern(english), chinese) for english, chinese in CHINESE.items() if "#" in english]


def say(text: str, lang: str) -> str:
    """Return a sentence of a record in the language asked for; an unknown one stays English."""
    if lang != "zh":
        return text
    if text in CHINESE:
        return CHINESE[text]
    for pattern, chinese in _WITH_HOLES:
        found = pattern.fullmatch(text)
        if found:
            pieces = chinese.split("#")
            return "".join(piece + value for piece, value in zip(pieces, [*found.groups(), ""]))
    return text


def write_budget(record: dict[str, Any], markdown: bool, lang: str) -> str:
    """Return the report of a record (schema npu-graph/capture-budget/1)."""
    old, graphs, memory = record["old_stream_budget"], record["graphs"], record["memory"]

    def line(key: str, **values: object) -> str:
        return LINES[key][lang == "zh"].format(**values)

    lines = [
        ("## " if markdown else "")
        + line(
            "head", verdict=record["verdict"], word=say(record["verdict"], lang), reason=say(record["reason"], lang)
        ),
        "",
        line(
            "mode",
            mode=record["mode"],
            n=len(record["sizes"]),
            origin=say(record["sizes_from"], lang),
            sizes=_short(record["sizes"], lang),
        ),
        line(
            "graphs",
            total=graphs["total"],
            per_size=graphs["per_size"],
            limit=graphs["public_limit"] or say("none", lang),
        ),
        line(
            "streams",
            applies=say(old["applies"], lang),
            needed=old["needed"],
            available=old["available"],
            max_sizes=old["max_sizes"],
        ),
        f"  {old['formula']}",
        line("formula_source", source=old["source"], removed=old["removed_by"]),
    ]
    if record["sizes_kept_by_framework"] is not None:
        lines.append(line("shrinks", sizes=_short(record["sizes_kept_by_framework"], lang)))
    lines += [
        line("check", level=say(check["level"], lang), text=say(check["text"], lang), source=check["source"])
        for check in record["checks"]
    ]
    lines.append(line("memory", text=say(memory["known"], lang)))
    seen = "; ".join(f"{row['gib']} GiB ({row['setup']}, {row['source']})" for row in memory["seen"])
    lines.append(line("seen", text=seen))
    log = memory["from_log"]
    if log and log["capture_gib"] is not None:
        lines.append(line("this_log", gib=log["capture_gib"], seconds=log["capture_seconds"]))
    fails = record["if_it_fails"]
    advice = ("；" if lang == "zh" else "; ").join(say(text, lang) for text in fails["do"])
    lines.append(line("fails", codes=", ".join(fails["codes"]), advice=advice))
    lines.append(line("source", text=fails["source"]))
    lines += [line("caveat", text=say(text, lang)) for text in record["caveats"]]
    if record["padding"]:
        lines += ["", *_padding_lines(record, markdown, lang)]
    return "\n".join(lines) + "\n"


def _padding_lines(record: dict[str, Any], markdown: bool, lang: str) -> list[str]:
    padding, log = record["padding"], record["memory"]["from_log"]
    comma = "，" if lang == "zh" else ", "
    head = LINES["padding"][lang == "zh"].format(
        n=padding["steps"],
        distinct=padding["distinct_batches"],
        largest=padding["largest_batch"],
        evidence=comma + say(log["evidence"], lang) if log else "",
    )
    lines = [("## " if markdown else "") + head, ""]
    if markdown:
        lines += [LINES["table"][lang == "zh"], "| --- | --- | --- | --- |"]
    for row in padding["choices"]:
        cells = {
            "name": say(row["name"], lang),
            "padded": f"{100 * row['padded_share']:.1f} %",
            "eager": f"{100 * row['eager_share']:.1f} %",
            "sizes": _short(row["sizes"], lang),
        }
        if markdown:
            lines.append("| " + " | ".join(cells.values()) + " |")
        else:
            lines.append(LINES["row"][lang == "zh"].format(**cells))
    return lines


def _short(sizes: list[int], lang: str, shown: int = 24) -> str:
    if len(sizes) <= shown:
        return ",".join(str(size) for size in sizes) or say("none", lang)
    return ",".join(str(size) for size in sizes[: shown - 2]) + f",... ,{sizes[-1]} ({len(sizes)})"

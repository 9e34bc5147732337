"""The words of a profile report in English and Chinese. Records stay English; only reports are translated."""

from __future__ import annotations

# key -> (English, Chinese)
HEADINGS = {
    "verdict": ("Verdict", "结论"),
    "fact": ("fact", "事实"),
    "attribution": ("attribution", "归因"),
    "next": ("next", "下一步"),
    "source": ("device tasks from", "设备任务来源"),
    "steps": ("Steps", "步"),
    "replays": ("Replays and coverage", "重放与入图覆盖率"),
    "gaps": ("Device idle time by place", "设备空闲按位置拆分"),
    "outside": ("Kernels outside graphs", "图外算子"),
    "kernels": ("Kernels by time", "算子耗时"),
    "missing": ("Missing", "缺失的数据"),
    "comparison": ("Graph against eager", "图模式与单算子对比"),
}
VERDICT_TEXTS = {
    "insufficient": ("the profile cannot answer this", "数据不足，无法判断"),
    "graph_not_used": ("no graph was replayed", "没有重放任何图"),
    "too_few_replays": ("too few replays", "重放次数太少"),
    "communication_bound": ("communication limits the step", "通信受限"),
    "host_bound": ("the host limits the step", "host 下发受限"),
    "padding_waste": ("padding to the capture size wastes work", "补齐到捕获尺寸造成浪费"),
    "graph_partly_used": ("part of the step is outside the graph", "部分算子未入图"),
    "device_bound": ("the device limits the step", "设备受限"),
}
FACTS = {
    "kernels": ("device kernels", "设备算子数"),
    "replay_calls": ("replay calls by the host", "host 重放调用次数"),
    "kernels_in_graph": ("kernels inside graphs", "图内算子数"),
    "idle_share": ("device idle", "设备空闲"),
    "busy_share": ("device busy", "设备忙碌"),
    "exposed_share": ("exposed communication", "未被掩盖的通信"),
    "communication_wait_share": ("collectives: waiting", "集合通信中的等待"),
    "host_late_share": ("host late", "host 迟到"),
    "synchronisations": ("synchronisations", "同步次数"),
    "gap_entry": ("idle before replays (entry)", "重放入口空闲"),
    "gap_in_graph": ("idle inside replays", "图内空闲"),
    "gap_seam": ("idle after replays (seam)", "图与单算子接缝空闲"),
    "gap_eager": ("idle between eager kernels", "单算子之间空闲"),
    "gap_tail": ("idle between steps (tail)", "步间空闲"),
    "replays": ("replays", "重放次数"),
    "captures": ("captures", "捕获次数"),
    "steps_with_replay": ("steps with replay", "有重放的步"),
    "coverage_by_stream": ("coverage by stream", "按流统计的入图覆盖率"),
    "edge_share": ("idle at the edges of graphs", "图边缘处的空闲"),
    "padded_share": ("padding", "补齐占比"),
    "captured_size": ("captured size", "捕获尺寸"),
    "real_size": ("real size", "实际尺寸"),
}
PLACES = {
    "entry": ("before a replay", "重放之前"),
    "in_graph": ("inside a replay", "图内"),
    "seam": ("after a replay", "重放之后"),
    "eager": ("between eager kernels", "单算子之间"),
    "tail": ("between steps", "步间"),
}
# Causes of the eager/graph difference (npu_graph/profiles/difference.py).
CAUSES = {
    "launch_gaps": ("idle between eager kernels (host launches)", "单算子之间空闲（host 下发）"),
    "entry_gaps": ("idle before replays (entry)", "重放入口空闲"),
    "seam_gaps": ("idle after replays (seam)", "图与单算子接缝空闲"),
    "in_graph_gaps": ("idle inside replays", "图内空闲"),
    "padding": ("same kernels with more rows (padding)", "同一算子行数更多（补齐）"),
    "other_formats": ("same kernels, other formats", "同一算子，格式不同"),
    "other_kernels": ("other kernels chosen", "选用了不同的算子"),
    "kernel_count": ("more or fewer of the same kernels", "同一算子数量增减"),
    "kernel_time": ("same kernels, longer or shorter", "同一算子变长或变短"),
    "overlap": ("kernels that overlap", "算子并行重叠"),
    "exposed_communication": ("exposed communication", "未被掩盖的通信"),
}
# Fixed lines of a report, their numbers as {names}.
LINES = {
    "steps": (
        "{scope}: n={n}, {p50} us (P50), {p90} us (P90); borders from {source}; {replaying} of {count} steps replay",
        "{scope}：n={n}，{p50} us（P50），{p90} us（P90）；分步依据 {source}；{count} 步中 {replaying} 步有重放",
    ),
    "replays": (
        "host calls {calls} (mean {mean} us); on the device {seen} of {graphs} graphs, {cut} cut by the window; "
        "per step {per_step}; captures in window {captures}",
        "host 调用 {calls} 次（平均 {mean} us）；设备上见到 {graphs} 张图的 {seen} 次重放，其中 {cut} 次被窗口截断；"
        "每步 {per_step} 次；窗口内捕获 {captures} 次",
    ),
    "phase": (
        "{phase}: n={n}, {p50} us (P50), device busy {busy}",
        "{phase}：n={n}，{p50} us（P50），设备忙碌 {busy}",
    ),
    "between": (
        "from one replay to the next: n={n}, {p50} us (P50), {p90} us (P90), {largest} us (max)",
        "相邻两次重放之间：n={n}，{p50} us（P50），{p90} us（P90），最大 {largest} us",
    ),
    "coverage": (
        "coverage: {model} by Model ID, {stream} by stream (n={n} kernels); "
        "by device time {model_time} / {stream_time}",
        "入图覆盖率：按 Model ID {model}，按流 {stream}（n={n} 个算子）；按设备时间 {model_time} / {stream_time}",
    ),
    "block": (
        "repeating block: {kernels} kernels x {n}, {time} us each; coverage {model} by Model ID, {stream} by stream",
        "重复块：{kernels} 个算子 x {n} 次，每次 {time} us；覆盖率按 Model ID {model}，按流 {stream}",
    ),
    "window": (
        "whole window (n=1): graph {graph} us, eager {eager} us, speed-up {speedup}",
        "整个窗口（n=1）：图 {graph} us，单算子 {eager} us，加速比 {speedup}",
    ),
    "work": (
        "kernels: graph {graph}, eager {eager}; launches: graph {launches_graph}, eager {launches_eager}; "
        "replays {replays}",
        "算子数：图 {graph}，单算子 {eager}；下发次数：图 {launches_graph}，单算子 {launches_eager}；重放 {replays} 次",
    ),
    "host": (
        "host launches saved {saved} ({saved_time} us); replay calls added {calls} ({call_time} us)",
        "节省 host 下发 {saved} 次（{saved_time} us）；增加重放调用 {calls} 次（{call_time} us）",
    ),
    "pair": (
        "block of {kernels} kernels (match: {level}, largest {largest}): graph {graph} us (n={n_graph}), "
        "eager {eager} us (n={n_eager}), speed-up {speedup} [{low}, {high}]",
        "{kernels} 个算子的块（匹配：{level}，最大算子 {largest}）：图 {graph} us（n={n_graph}），"
        "单算子 {eager} us（n={n_eager}），加速比 {speedup} [{low}, {high}]",
    ),
    "pair_left_out": (
        "means leave out {graph} graph and {eager} eager blocks longer than 3 medians: they hold a pause between steps",
        "平均值不含超过中位数 3 倍的块（图 {graph} 个，单算子 {eager} 个）：其中有步间停顿",
    ),
    "pair_launches": (
        "host launches per block: eager {eager}, graph {graph}; host time saved {time} us (beside the device's time, "
        "no part of the sum above)",
        "每块 host 下发：单算子 {eager} 次，图 {graph} 次；节省 host 时间 {time} us（与设备时间并行，不计入上表合计）",
    ),
    "pair_coverage": (
        "coverage of the block: {model} by Model ID, {stream} by stream",
        "块内覆盖率：按 Model ID {model}，按流 {stream}",
    ),
}
# Table heads and row names.
WORDS = {
    "computing": "计算",
    "exposed communication": "未掩盖通信",
    "free": "空闲",
    "window": "窗口",
    "total": "合计",
    "share": "占比",
    "place": "位置",
    "share of idle": "占空闲",
    "median us": "中位 us",
    "max us": "最大 us",
    "host late us": "host 迟到 us",
    "dependency us": "等依赖 us",
    "no evidence us": "无证据 us",
    "kernel": "算子",
    "core": "核",
    "time us": "耗时 us",
    "gap before us": "之前空隙 us",
    "total us": "合计 us",
    "mean us": "平均 us",
    "mean us per block": "每块平均 us",
    "where the change comes from": "变化来自",
    "change us per block": "每块变化 us",
    "step": "步",
    "us per step": "每步 us",
    "busy": "忙碌",
    "hidden communication": "被掩盖通信",
    "host launch": "host 下发",
    "host launch (thin line)": "host 下发（细线）",
    "replays": "重放",
    "kernels": "算子数",
    "kernels in graph": "图内算子数",
    "fact": "事实",
    "attribution": "归因",
    "before the first": "首步之前",
    "eager": "单算子",
    "graph": "图",
    "change": "变化",
    "n eager": "n 单算子",
    "n graph": "n 图",
    "mean eager us": "单算子平均 us",
    "mean graph us": "图平均 us",
    "change us": "变化 us",
    "notes": "备注",
    "other format": "格式不同",
    "other name": "算子实现不同",
    "collective inside": "含集合通信",
}
# Whole sentences of findings.py; a text joined with "; " is translated part by part.
CHINESE = {
    "whole window": "整个采集窗口",
    "steps with replay": "有重放的步",
    "steps": "各步",
    "steps without replay": "没有重放的步",
    "high": "高",
    "medium": "中",
    "low": "低",
    "of step": "（占步长）",
    "of window": "（占窗口）",
    "of idle": "（占空闲）",
    "of kernels": "（占算子数）",
    "of idle with evidence": "（占有证据的空闲）",
    "of collective time": "（占集合通信时间）",
    "of graph work": "（占图内工作量）",
    "in scope": "（范围内）",
    "in window": "（窗口内）",
    "tokens": "token",
    "too few device kernels to judge anything": "设备算子太少，无法判断",
    "every kernel has a duration of 0: this table holds no times": "所有算子的时长都是 0：表里没有时间",
    "profile more steps": "多采集几步",
    "no kernel rows: these are the profiler's own sums (step_trace_time, us)": (
        "没有算子行：以下是 profiler 自己的统计（step_trace_time，单位 us）"
    ),
    "unobservable: the kernels of the replays were not recorded, so idle time here is not idle": (
        "不可观测：重放内的算子没有被记录，这里的“空闲”并不是空闲"
    ),
    "record again as listed under missing": "按“缺失的数据”一节重新采集",
    "the device works most of the time": "设备大部分时间在工作",
    "launches are not what limits it": "瓶颈不是下发",
    "shorten or replace the longest kernels": "缩短或替换耗时最长的算子",
    "graph mode cannot make a busy device faster": "设备已满时图模式无法再加速",
    "collectives that nothing hides, mostly waiting for other ranks": "未被掩盖的集合通信，主要在等待其他卡",
    "collectives that nothing hides, mostly transfer": "未被掩盖的集合通信，主要是传输",
    "compare the same collective on every rank: the rank with the shortest one is the one others wait for": (
        "在各卡上比较同一个集合通信：耗时最短的那张卡就是别人在等的卡"
    ),
    "collectives that nothing hides": "未被掩盖的集合通信",
    "one rank cannot tell transfer from waiting for a slower rank": "单卡数据分不清传输与等待慢卡",
    "profile all ranks (communication.json) and compare the same collective": (
        "采集所有卡（communication.json），比较同一集合通信"
    ),
    "the next work was handed over after the device had gone idle": "设备已空闲之后 host 才下发下一个任务",
    "work was already queued while the device idled: it waited for a dependency (event, stream, other rank)": (
        "设备空闲时任务已在队列中：在等待依赖（事件、流、其他卡）"
    ),
    "look at the wait tasks (EVENT_WAIT, NOTIFY_WAIT, CAPTURE_WAIT) before the largest gaps in trace_view.json": (
        "在 trace_view.json 中查看最大空隙之前的等待任务（EVENT_WAIT、NOTIFY_WAIT、CAPTURE_WAIT）"
    ),
    "idle time lies inside replays, where no host launch takes part: streams of the graph wait for each other": (
        "空闲位于重放内部，与 host 下发无关：图内的流在互相等待"
    ),
    "look at CAPTURE_WAIT and MEM_WAIT_VALUE tasks of the graph's streams in trace_view.json": (
        "在 trace_view.json 中查看图内各流的 CAPTURE_WAIT 与 MEM_WAIT_VALUE"
    ),
    "gaps stand where the host must submit and vanish inside replays": (
        "空隙出现在需要 host 下发的位置，重放内部没有空隙"
    ),
    "gaps stand where the host must submit": "空隙出现在需要 host 下发的位置",
    "submission times were not recorded": "没有记录下发时刻",
    "record trace_view.json with CPU activity at Level1 and run this again": (
        "以 Level1 并开启 CPU 活动采集 trace_view.json 后再运行"
    ),
    "shorten the host work before each replay, or capture larger pieces": (
        "缩短每次重放前的 host 工作，或捕获更大的片段"
    ),
    "bring the eager kernels between replays into the graph (FULL instead of PIECEWISE)": (
        "把重放之间的单算子纳入图中（用 FULL 代替 PIECEWISE）"
    ),
    "capture these kernels: they are launched one by one": "把这些逐个下发的算子捕获进图",
    "host work between steps (scheduler, sampling, detokenising)": "步间的 host 工作（调度、采样、解码文本）",
    "overlap it": "将其与设备执行重叠",
    "waits inside the graph": "图内等待",
    "look at its streams": "检查图内各流",
    "remove the synchronisations inside the step first": "先去掉步内的同步",
    "nothing in these files tells a graph kernel from an eager one": "这些文件无法区分图内与图外算子",
    "no replay in this window (some frameworks fall back to eager while a profiler runs)": (
        "该窗口内没有重放（有的框架在采集时会回退到单算子）"
    ),
    "check the service log for the graph mode and capture lines": "在服务日志中确认图模式与捕获记录",
    "profile decode steps after warm-up": "预热之后采集 decode 步",
    "too little of the run is replay for graph mode to pay, or for this profile to show it": (
        "重放占比太低，图模式无法回本，或该数据看不出来"
    ),
    "compare batch sizes with the capture sizes": "对照实际 batch 与捕获尺寸",
    "profile at least 5 steady steps": "至少采集 5 个稳定步",
    "kernels outside the graph are launched one by one and cut the step at every seam": (
        "图外算子逐个下发，在每个接缝处打断"
    ),
    "see the table of kernels outside": "见图外算子表",
    "move the costliest into the graph": "把代价最高的算子移入图中",
    "the graph computes rows that no request filled": "图在计算没有请求填充的行",
    "the graph computes more rows than eager did in the same block; padding, if both ran the same requests": (
        "同一算子块中图计算的行数多于单算子；若两次请求相同，多出的就是补齐"
    ),
    "the graph computes more rows than eager did in the same block": "同一算子块中图计算的行数多于单算子",
    "padding, if both ran the same requests": "若两次请求相同，多出的就是补齐",
    "add capture sizes near the real batch sizes (capture_budget.py --from-log proposes them)": (
        "在实际 batch 附近增加捕获尺寸（capture_budget.py --from-log 会给出建议）"
    ),
    "kernel rows of replays": "重放的算子行",
    "replays ran, but no kernel row lies inside a graph: such time looks idle and is not": (
        "有重放，但没有图内算子行：这段时间看似空闲，其实不是"
    ),
    "Model ID": "Model ID",
    "graph and eager kernels look the same without it (Level0 tables have no such column)": (
        "没有它就分不清图内与图外算子（Level0 的表没有此列）"
    ),
    "host calls": "host 调用",
    "the number of replays (aclmdlRIExecuteAsync) is not recorded": "没有记录重放次数（aclmdlRIExecuteAsync）",
    "trace_view.json with host events": "含 host 事件的 trace_view.json",
    "without submission times nobody can say whether the host was late or the device waited": (
        "没有下发时刻，就无法判断是 host 迟到还是设备在等待"
    ),
    "input shapes": "输入 shape",
    "padding and equal work are judged by shapes": "补齐与工作量是否相同要靠 shape 判断",
    "one window mixes start-up, prefill and decode": "单个窗口混合了启动、prefill 与 decode",
    "no block of kernels repeats in both profiles, so their times cannot be compared": (
        "两份数据没有共同重复的算子块，时间不可比"
    ),
    "window and blocks disagree: the window holds other work": "窗口与算子块结论相反：窗口里还有别的工作",
    "trust the blocks": "以算子块为准",
    "(indicative only: the interval includes 1, fewer than 5 blocks, or shapes were not recorded)": (
        "（仅供参考：区间包含 1、不足 5 块，或没有记录 shape）"
    ),
}


def translate(text: str, lang: str) -> str:
    """Return a sentence in the language asked for; an unknown one stays English."""
    if lang != "zh":
        return text
    if text in CHINESE:
        return CHINESE[text]
    parts = text.split("; ")
    if len(parts) > 1:
        return "；".join(CHINESE.get(part, part) for part in parts)
    return text

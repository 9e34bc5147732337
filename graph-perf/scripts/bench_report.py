"""The words of a measurement and of a comparison of two, in English and Chinese: one line per fact, with unit and n."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph.profiles.sheet import as_cell

# key -> (English, Chinese), numbers as {names}
LINES = {
    "head": (
        "{conclusion}: eager / graph = {speedup} (95 % interval {low} to {high}, n={n} pairs)",
        "{conclusion}（{words}）：单算子 / 图 = {speedup}（95 % 区间 {low} 到 {high}，n={n} 对）",
    ),
    "refused": ("refused: {text}", "不下结论：{text}"),
    "note": ("note: {text}", "注意：{text}"),
    "times": (
        "{kind}: P50 {p50} us, P90 {p90} us, P99 {p99} us (n={n})",
        "{kind}：P50 {p50} us，P90 {p90} us，P99 {p99} us（n={n}）",
    ),
    "drift": (
        "drift first to last third: eager {eager}, graph {graph}",
        "漂移（前三分之一到后三分之一）：单算子 {eager}，图 {graph}",
    ),
    "capture": (
        "capture cost {cost} us; break-even after {replays} replays",
        "捕获代价 {cost} us；重放 {replays} 次后回本",
    ),
    "memory": (
        "device memory, {kind}: allocated {allocated}, reserved {reserved}, peak {peak} MiB",
        "设备内存，{kind}：已分配 {allocated}，已预留 {reserved}，峰值 {peak} MiB",
    ),
    "adds": (
        "the graph adds {reserved} MiB reserved ({allocated} MiB allocated) to what eager holds",
        "图在单算子之外多占预留 {reserved} MiB（已分配 {allocated} MiB）",
    ),
    "settings": (
        "settings: backend {backend}, warm-up {warmup}, {repeats} samples of {calls_per_sample} calls, {order}",
        "设置：backend {backend}，预热 {warmup} 次，{repeats} 个样本，每样本 {calls_per_sample} 次调用，{order}",
    ),
    "ran_on": ("ran on: {text}", "运行环境：{text}"),
    "unknown": ("not recorded: {text}", "未能记录：{text}"),
    "regression": ("regression: the graph became slower", "回退：图变慢了"),
    "no_regression": ("no regression of the graph", "图没有回退"),
    "no_comparison": ("no comparison: {text}", "不作比较：{text}"),
    "change": (
        "{kind}: {old_us} -> {new_us} us, ratio {ratio} (95 % interval {low} to {high}, n={n_old}/{n_new}): {change}",
        "{kind}：{old_us} -> {new_us} us，比值 {ratio}（95 % 区间 {low} 到 {high}，n={n_old}/{n_new}）：{change}",
    ),
    "environment_differs": ("environment differs: {text}", "环境不同：{text}"),
    "settings_differ": ("settings differ: {text}", "设置不同：{text}"),
}
WORDS = {
    "graph_faster": "图更快",
    "graph_slower": "图更慢",
    "no_conclusion": "无结论",
    "eager": "单算子",
    "graph": "图",
    "before": "运行前",
    "same": "相同",
    "slower": "变慢",
    "faster": "变快",
    # Reasons and notes of bench_record.py.
    "fewer than 5 samples": "样本少于 5 个",
    "the interval of the speed-up includes 1": "加速比的区间包含 1",
    "times drifted by more than 10 % during the run: the device was shared or changed its clock": (
        "运行期间时间漂移超过 10 %：设备被共享或改变了频率"
    ),
    "measured on npu_sim: its times prove nothing about the speed of an NPU": (
        "在 npu_sim 模拟器上测得：其时间不能说明 NPU 的任何性能"
    ),
    "measured on the CPU: nothing follows for an NPU": "在 CPU 上测得：不能推出 NPU 上的结果",
    "eager changed as well: the machine or its software changed, not the graph alone": (
        "单算子也变了：变的是机器或软件，不只是图"
    ),
    "no slowdown was found, but the interval allows one of more than 5 %: measure more samples": (
        "没有发现变慢，但区间仍容许超过 5 % 的变慢：请增加样本"
    ),
    "the two records measured different targets": "两份记录测的不是同一个目标",
}


def word(text: str, lang: str) -> str:
    """Return a word or sentence of a record in the language asked for."""
    return WORDS.get(text, text) if lang == "zh" else text


def _line(key: str, lang: str, **values: object) -> str:
    return LINES[key][lang == "zh"].format(**{name: as_cell(value) for name, value in values.items()})


def bench_lines(record: dict[str, Any], lang: str) -> list[str]:
    """Return the lines of a measurement, the conclusion first."""
    result = record["result"]
    low, high = result["speedup_interval"]
    lines = [
        _line(
            "head",
            lang,
            conclusion=result["conclusion"],
            words=word(result["conclusion"], lang),
            speedup=result["speedup"],
            low=low,
            high=high,
            n=result["eager_us"]["n"],
        )
    ]
    lines += [_line("refused", lang, text=word(text, lang)) for text in result["reasons"]]
    lines += [_line("note", lang, text=word(text, lang)) for text in record["notes"]]
    for kind in ("eager", "graph"):
        times = result[f"{kind}_us"]
        values = {name: times[name] for name in ("p50", "p90", "p99", "n")}
        lines.append(_line("times", lang, kind=word(kind, lang), **values))
    drifts = {kind: f"{share:+.1%}" for kind, share in result["drift"].items()}
    lines.append(_line("drift", lang, **drifts))
    lines.append(_line("capture", lang, cost=result["capture_us"], replays=result["break_even_replays"]))
    lines += memory_lines(record, lang)
    lines.append(_line("settings", lang, **record["settings"]))
    return lines + environment_lines(record["environment"], lang)


def memory_lines(record: dict[str, Any], lang: str) -> list[str]:
    """Return the device memory of both modes; nothing on a CPU."""
    memory = record["memory_bytes"]
    if not memory:
        return []
    lines = [
        _line("memory", lang, kind=word(kind, lang), **{name: _mib(value) for name, value in memory[kind].items()})
        for kind in ("before", "eager", "graph")
        if memory.get(kind)
    ]
    adds = memory.get("graph_adds")
    if adds:
        lines.append(_line("adds", lang, reserved=_mib(adds["reserved"]), allocated=_mib(adds["allocated"])))
    return lines


def _mib(size: int) -> float:
    return round(size / (1 << 20), 1)


def environment_lines(environment: dict[str, Any], lang: str) -> list[str]:
    """Return what the measurement ran on, and what of it could not be told."""
    told = {key: value for key, value in environment.items() if value not in (None, {})}
    unknown = [key for key in ("soc", "cann", "driver", "torch_npu") if not environment.get(key)]
    lines = [_line("ran_on", lang, text=", ".join(f"{key} {value}" for key, value in told.items()))]
    return lines + ([_line("unknown", lang, text=", ".join(unknown))] if unknown else [])


def compare_lines(record: dict[str, Any], lang: str) -> list[str]:
    """Return the lines of a comparison of two saved measurements."""
    lines = [_line("no_comparison", lang, text=word(text, lang)) for text in record["reasons"]]
    if not lines:
        lines.append(_line("regression" if record["regression"] else "no_regression", lang))
    lines += [_line("note", lang, text=word(text, lang)) for text in record["notes"]]
    for kind in ("eager", "graph"):
        change = record[kind]
        low, high = change["interval"]
        lines.append(
            _line(
                "change",
                lang,
                kind=word(kind, lang),
                old_us=change["old_us"],
                new_us=change["new_us"],
                ratio=change["ratio"],
                low=low,
                high=high,
                n_old=change["n"][0],
                n_new=change["n"][1],
                change=word(change["change"], lang),
            )
        )
    lines += [_line("environment_differs", lang, text=text) for text in record["environment_differs"]]
    return lines + [_line("settings_differ", lang, text=text) for text in record["settings_differ"]]

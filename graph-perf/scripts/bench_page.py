"""The picture of a measurement: the interval of the ratio, how samples are distributed, how they ran over time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench_report import bench_lines, compare_lines, word

from npu_graph.pages.charts import WIDTH, histogram, line
from npu_graph.pages.page import render_page
from npu_graph.profiles.ratios import median
from npu_graph.profiles.sheet import as_cell, fold

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
_BINS = 40
# One hiccup of 100 ms would squeeze every other sample into one column: beyond this many medians they share the last.
_LONGEST = 3
_LINE_HEIGHT = 100
# A line of more points than a screen has columns is drawn from every n-th sample.
_MAX_POINTS = 1000


def render_measurement(record: dict[str, Any], lang: str) -> str:
    """Return the page of a measurement with its samples (schema npu-graph/bench/1)."""
    result, zh = record["result"], lang == "zh"
    low, high = result["speedup_interval"]
    samples = record["samples"]
    series = [
        (f"{word(kind, lang)} (n={len(samples[kind])})", f"mode-{kind}", samples[kind]) for kind in ("eager", "graph")
    ]
    tiles = [
        (f"{as_cell(result['speedup'])}x", "单算子 / 图" if zh else "eager / graph"),
        (f"{as_cell(low)} – {as_cell(high)}", "95 % 区间" if zh else "95 % interval"),
        *[(f"{as_cell(result[f'{kind}_us']['p50'])} us", f"P50 {word(kind, lang)}") for kind in ("eager", "graph")],
        (f"{as_cell(result['capture_us'])} us", "捕获代价" if zh else "capture cost"),
        (as_cell(result["break_even_replays"]), "回本所需重放" if zh else "replays to break even"),
    ]
    lines = bench_lines(record, lang)
    doubts = len(result["reasons"]) + len(record["notes"])
    return _render(
        lang, lines, doubts, tiles, [_interval(result["speedup"], low, high, "")], [_group("", series, lang)]
    )


def render_comparison(record: dict[str, Any], saved: Sequence[dict[str, Any]], lang: str) -> str:
    """Return the page of two saved measurements and their comparison (schema npu-graph/bench-compare/1)."""
    zh = lang == "zh"
    intervals, groups, tiles = [], [], []
    for kind in ("eager", "graph"):
        change, name = record[kind], word(kind, lang)
        intervals.append(_interval(change["ratio"], *change["interval"], f"{name}: {'新 / 旧' if zh else 'new / old'}"))
        tiles.append((f"{as_cell(change['ratio'])}x", f"{name}, {'新 / 旧' if zh else 'new / old'}"))
        words = ("旧", "新") if zh else ("old", "new")
        series = [
            (f"{words[at]} (n={len(item['samples'][kind])})", ("mode-eager", "mode-graph")[at], item["samples"][kind])
            for at, item in enumerate(saved)
        ]
        groups.append(_group(name, series, lang))
    lines = compare_lines(record, lang)
    doubts = max(0, len(record["reasons"]) - 1) + len(record["notes"])
    return _render(lang, lines, doubts, tiles, intervals, groups)


def _render(
    lang: str,
    lines: list[str],
    doubts: int,
    tiles: list[tuple[str, str]],
    intervals: list[dict[str, Any]],
    groups: list[dict[str, Any]],
) -> str:
    """Return the page. The first of `lines` is the conclusion, the next `doubts` say why it is none, or less of one."""
    folded = [fold(text) for text in lines]
    values = {
        "head": folded[0],
        "doubts": folded[1 : 1 + doubts],
        "lines": folded[1 + doubts :],
        "tiles": [{"value": value, "name": name} for value, name in tiles],
        "intervals": intervals,
        "groups": groups,
    }
    return render_page(TEMPLATES, "bench.html.j2", lang, values, script="--html")


def _interval(value: float, low: float, high: float, name: str) -> dict[str, Any]:
    """Return the drawing of an interval on a scale that holds 1."""
    first, last = min(low, 1.0), max(high, 1.0)
    margin = (last - first) * 0.1 or 0.1
    first, last = max(0.0, first - margin), last + margin

    def place(ratio: float) -> float:
        return round((ratio - first) / (last - first) * WIDTH, 1)

    return {
        "name": name,
        "low": place(low),
        "width": max(round(place(high) - place(low), 1), 3.0),
        "value": place(value),
        "one": place(1.0),
        "label": f"{as_cell(value)} [{as_cell(low)}, {as_cell(high)}]",
        "ends": [f"{first:.3g}", f"{last:.3g}"],
        "kind": "total" if low <= 1 <= high else "computing",
    }


def _group(name: str, series: list[tuple[str, str, list[float]]], lang: str) -> dict[str, Any]:
    """Return histograms on one scale, and the samples in the order in which they ran."""
    everything = [value for _, _, values in series for value in values]
    low = min(everything)
    high = min(max(everything), _LONGEST * max(median(values) for _, _, values in series))
    high = high if high > low else low + 1.0
    beyond = sum(value > high for value in everything)
    drawn = []
    for title, kind, values in series:
        columns = histogram(values, low, high, _BINS)
        drawn.append(
            {
                "title": title,
                "kind": kind,
                "columns": [
                    {**column._asdict(), "label": f"{as_cell(column.low)} .. {as_cell(column.high)} us: {column.n}"}
                    for column in columns
                ],
                "points": line(
                    [min(value, high) for value in values[:: -(-len(values) // _MAX_POINTS)]], low, high, _LINE_HEIGHT
                ),
            }
        )
    note = ""
    if beyond:
        note = (
            f"{beyond} 个样本超出 {as_cell(round(high, 3))} us，画在边缘。"
            if lang == "zh"
            else f"{beyond} samples beyond {as_cell(round(high, 3))} us are drawn at the edge."
        )
    ends = [f"{as_cell(round(low, 3))} us", f"{as_cell(round(high, 3))} us"]
    return {"name": name, "series": drawn, "ends": ends, "height": _LINE_HEIGHT, "note": note}

"""The picture of a profile: steps as bars, gaps as a histogram, eager against graph as a waterfall, in one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph.pages.charts import Segment, stack, waterfall
from npu_graph.pages.page import render_page
from npu_graph.profiles.gaps import PLACES
from npu_graph.profiles.ratios import median
from npu_graph.profiles.report import fact_text, make_sheet, percent
from npu_graph.profiles.scope import WHOLE_WINDOW
from npu_graph.profiles.sheet import as_cell, fold
from npu_graph.profiles.wording import CAUSES, HEADINGS, VERDICT_TEXTS, WORDS, translate
from npu_graph.profiles.wording import PLACES as PLACE_WORDS

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
# One step of prefill would flatten fifty of decode: a bar beyond this many medians is cut and says so.
_LONGEST = 3
_WATERFALLS = 3


def render_profile(record: dict[str, Any], lang: str) -> str:
    """Return the page of a profile record (schema npu-graph/profile/1).

    Raises:
        CommandError: exit code 4 without Jinja2.
    """
    bars, cut = step_bars(record, lang)
    gaps = gap_histogram(record, lang)
    values = {
        "folder": fold(str(record["profile"]["folder"])),
        "tiles": tiles(record, lang),
        "warnings": [fold(text) for text in record["profile"]["warnings"]],
        "verdicts": [_verdict(verdict, lang) for verdict in record["verdicts"]],
        "sections": make_sheet(record, lang).sections,
        "bars": bars,
        "bars_note": _cut_note(cut, lang),
        "bar_legend": _legend_of(bars, _bar_legend(lang)),
        "histogram": gaps,
        "gap_legend": _legend_of(gaps, [(f"gap-{place}", _place(place, lang)) for place in PLACES]),
        "waterfalls": waterfalls(record, lang),
    }
    return render_page(TEMPLATES, "profile.html.j2", lang, values, script="--html")


def _word(text: str, lang: str) -> str:
    return WORDS.get(text, text) if lang == "zh" else text


def _place(place: str, lang: str) -> str:
    return PLACE_WORDS[place][lang == "zh"]


def _verdict(verdict: dict[str, Any], lang: str) -> dict[str, Any]:
    zh = lang == "zh"
    cause = verdict["attribution"]
    name = verdict["value"]
    return {
        "title": f"{name}: {VERDICT_TEXTS[name][zh]} [{translate(verdict['scope'], lang)}]",
        "facts": [fact_text(fact, lang) for fact in verdict["facts"]],
        "attribution": f"{HEADINGS['attribution'][zh]} ({translate(cause['confidence'], lang)}): "
        f"{translate(cause['text'], lang)}",
        "next": f"{HEADINGS['next'][zh]}: {translate(verdict['confirm'], lang)}" if verdict["confirm"] else "",
    }


def tiles(record: dict[str, Any], lang: str) -> list[dict[str, str]]:
    """Return the numbers that are read first. What a profile does not say has no tile."""
    scope, coverage, replays = record["scope"], record["coverage"], record["replays"]
    zh = lang == "zh"
    found: list[tuple[str, str]] = []
    blocks = (record["comparison"] or {}).get("blocks") or []
    if blocks and blocks[0]["speedup"]:
        doubt = "" if blocks[0]["conclusive"] else ("（仅供参考）" if zh else " (indicative only)")
        found.append((f"{blocks[0]['speedup']}x", ("块的加速比" if zh else "speed-up of the block") + doubt))
    if scope["window_us"] and not replays["unobservable"]:
        found.append((percent(scope["busy_share"]), "设备忙碌" if zh else "device busy"))
        found.append((percent(scope["free_us"] / scope["window_us"]), "设备空闲" if zh else "device idle"))
        exposed = scope["exposed_communication_us"] / scope["window_us"]
        found.append((percent(exposed), _word("exposed communication", lang)))
    if coverage["by_stream"] is not None:
        found.append((percent(coverage["by_stream"]), "入图覆盖率（按流）" if zh else "kernels in graphs (by stream)"))
        found.append(
            (percent(coverage["by_model"]), "入图覆盖率（按 Model ID）" if zh else "kernels in graphs (Model ID)")
        )
    if scope["step_median_us"] is not None:
        steps = f"每步中位时间（n={scope['steps']}）" if zh else f"median step (n={scope['steps']})"
        found.append((f"{as_cell(scope['step_median_us'])} us", steps))
    return [{"value": value, "name": name} for value, name in found]


def step_bars(record: dict[str, Any], lang: str) -> tuple[list[dict[str, Any]], int]:
    """Return a bar per step (busy, exposed communication, idle by place, host launch time), and how many were cut."""
    steps = [step for step in record["steps"]["items"] if step["duration_us"] > 0]
    if not steps or record["replays"]["unobservable"]:
        return [], 0
    lengths = [step["duration_us"] for step in steps]
    longest = min(max(lengths), _LONGEST * median(lengths))
    rows = []
    for step in steps:
        name = _step_name(step, record["steps"]["source"], lang)
        length = f"{as_cell(step['duration_us'])} us" + (" …" if step["duration_us"] > longest else "")
        rows.append(
            {
                "name": f"{name} · {_word('replays', lang)} {step['replays']}",
                "value": length,
                "segments": stack(_step_parts(step, lang), longest),
                "host": _host_bar(step, longest, lang),
            }
        )
    return rows, sum(length > longest for length in lengths)


def _step_name(step: dict[str, Any], source: str, lang: str) -> str:
    if source == "none":
        return translate(WHOLE_WINDOW, lang)
    return _word("before the first", lang) if step["step"] is None else f"{_word('step', lang)} {step['step']}"


def _step_parts(step: dict[str, Any], lang: str) -> list[tuple[str, float, str]]:
    exposed = step["exposed_communication_us"]
    hidden = step["communication_us"] - exposed
    label = f"{_word('computing', lang)} {as_cell(step['computing_us'])} us"
    if hidden > 0:
        label += f" ({_word('hidden communication', lang)} {as_cell(round(hidden, 3))} us)"
    parts = [
        ("computing", step["computing_us"], label),
        ("exposed", exposed, f"{_word('exposed communication', lang)} {as_cell(exposed)} us"),
    ]
    for place in PLACES:
        length = step["gaps_us"].get(place, 0)
        parts.append((f"gap-{place}", length, f"{_word('free', lang)}, {_place(place, lang)} {as_cell(length)} us"))
    rest = round(step["free_us"] - sum(step["gaps_us"].values()), 3)
    parts.append(("gap-rest", rest, f"{_word('free', lang)} {as_cell(rest)} us"))
    return parts


def _host_bar(step: dict[str, Any], longest: float, lang: str) -> list[Segment]:
    time = step["host_launch_us"] or 0
    return stack([("host", time, f"{_word('host launch', lang)} {as_cell(time)} us")], longest)


def _bar_legend(lang: str) -> list[tuple[str, str]]:
    free = _word("free", lang)
    return [
        ("computing", _word("computing", lang)),
        ("exposed", _word("exposed communication", lang)),
        *[(f"gap-{place}", f"{free}: {_place(place, lang)}") for place in PLACES],
        ("gap-rest", free),
        ("host", _word("host launch (thin line)", lang)),
    ]


def _legend_of(rows: list[dict[str, Any]], entries: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the entries whose colour is drawn."""
    drawn = {part.kind for row in rows for part in row["segments"]}
    drawn |= {"host" for row in rows if row.get("host")}
    return [entry for entry in entries if entry[0] in drawn]


def _cut_note(cut: int, lang: str) -> str:
    if not cut:
        return ""
    if lang == "zh":
        return f"… 表示 {cut} 步超过中位数的 {_LONGEST} 倍，条形已截断。"
    return f"… {cut} steps are longer than {_LONGEST} medians; their bars are cut."


def gap_histogram(record: dict[str, Any], lang: str) -> list[dict[str, Any]]:
    """Return a bar per length of gap, split by place."""
    if record["replays"]["unobservable"]:
        return []
    bins = record["gap_histogram"]
    largest = max((sum(row["counts"].values()) for row in bins), default=0)
    rows = []
    for row in bins:
        counts = row["counts"]
        parts = [(f"gap-{place}", counts[place], f"{_place(place, lang)}: {counts[place]}") for place in PLACES]
        rows.append(
            {
                "name": f"≥ {row['from_us']:g} us"
                if row["to_us"] is None
                else f"{row['from_us']:g} – {row['to_us']:g} us",
                "value": f"n={sum(counts.values())}",
                "segments": stack(parts, largest),
            }
        )
    return rows


def waterfalls(record: dict[str, Any], lang: str) -> list[dict[str, Any]]:
    """Return, per matched block, the way from eager's time to the graph's, one bar per cause."""
    return [_waterfall(block, lang) for block in ((record["comparison"] or {}).get("blocks") or [])[:_WATERFALLS]]


def _waterfall(block: dict[str, Any], lang: str) -> dict[str, Any]:
    zh = lang == "zh"
    causes = block["causes"]
    falls = waterfall(block["eager"]["mean_us"], [row["change_us"] for row in causes])
    names = [_word("eager", lang)]
    names += [f"{CAUSES[row['cause']][zh]} ({_word(row['kind'], lang)})" for row in causes]
    names.append(_word("graph", lang))
    values = [as_cell(block["eager"]["mean_us"])]
    values += [("+" if row["change_us"] > 0 else "") + as_cell(row["change_us"]) for row in causes]
    values.append(as_cell(block["graph"]["mean_us"]))
    n = f"n={block['eager']['n']}/{block['graph']['n']}"
    title = f"{block['kernels']} 个算子的块（{n}）" if zh else f"Block of {block['kernels']} kernels ({n})"
    return {
        "title": title,
        "rows": [
            {"name": name, "value": f"{value} us", "segments": [Segment(fall.x, fall.w, fall.kind, f"{value} us")]}
            for name, value, fall in zip(names, values, falls)
        ],
    }

"""A profile record as text or Markdown, in English or Chinese: verdict first, numbers with unit and sample size."""

from __future__ import annotations

from typing import Any, Sequence

from npu_graph.cli import one_line
from npu_graph.profiles.sheet import Sheet, as_cell
from npu_graph.profiles.wording import (
    CAUSES,
    FACTS,
    HEADINGS,
    LINES,
    PLACES,
    VERDICT_TEXTS,
    WORDS,
    translate,
)

# Steps in a text; the record holds more.
_SHOWN_STEPS = 6


def write_report(record: dict[str, Any], style: str, lang: str) -> str:
    """Return the report.

    Args:
        style: "text" or "md".
        lang: "en" or "zh".
    """
    return make_sheet(record, lang).text(style == "md")


def make_sheet(record: dict[str, Any], lang: str) -> Sheet:
    """Return the report's headings, lines and tables, not yet in a format."""
    page = _Page(lang)
    _verdicts(page, record)
    if record["comparison"]:
        _comparison(page, record["comparison"])
    _scope(page, record)
    _replays(page, record)
    _gaps(page, record)
    _kernels(page, record)
    _missing(page, record)
    return page


class _Page(Sheet):
    """A sheet that knows the words of profile reports in its language."""

    def __init__(self, lang: str) -> None:
        super().__init__()
        self.lang = lang

    def heading(self, key: str) -> None:
        self.begin(key, HEADINGS[key][self.lang == "zh"])

    def say(self, text: str) -> str:
        return translate(text, self.lang)

    def word(self, text: str) -> str:
        return WORDS.get(text, text) if self.lang == "zh" else text

    def sentence(self, key: str, **values: object) -> None:
        """Add one of the fixed lines, its numbers filled in."""
        self.line(LINES[key][self.lang == "zh"].format(**{name: as_cell(value) for name, value in values.items()}))

    def grid(self, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Add a table whose head is translated."""
        self.table([self.word(cell) for cell in head], rows)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _verdicts(page: _Page, record: dict[str, Any]) -> None:
    profile = record["profile"]
    page.heading("verdict")
    source = f"{profile['task_source'] or '-'}: {profile['device_tasks']}"
    page.line(f"{HEADINGS['source'][page.lang == 'zh']} {source} ({profile['folder']})")
    for warning in profile["warnings"]:
        page.item("! " + warning)
    for verdict in record["verdicts"]:
        name = verdict["value"]
        page.line(f"{name}: {VERDICT_TEXTS[name][page.lang == 'zh']} [{page.say(verdict['scope'])}]", strong=True)
        for fact in verdict["facts"]:
            page.item(f"{HEADINGS['fact'][page.lang == 'zh']}: {fact_text(fact, page.lang)}")
        cause = verdict["attribution"]
        page.item(
            f"{HEADINGS['attribution'][page.lang == 'zh']} ({page.say(cause['confidence'])}): {page.say(cause['text'])}"
        )
        if verdict["confirm"]:
            page.item(f"{HEADINGS['next'][page.lang == 'zh']}: {page.say(verdict['confirm'])}")


def fact_text(fact: dict[str, Any], lang: str) -> str:
    """Return a fact with its number, unit and sample size."""
    label = FACTS[fact["what"]][lang == "zh"]
    value = percent(fact["value"]) if fact["unit"].startswith("of ") else as_cell(fact["value"])
    size = f" (n={fact['n']})" if fact["n"] is not None else ""
    unit = translate(fact["unit"], lang)
    return f"{label} = {value} {unit}".rstrip() + size


def _scope(page: _Page, record: dict[str, Any]) -> None:
    scope, steps = record["scope"], record["steps"]
    page.heading("steps")
    page.sentence(
        "steps",
        scope=page.say(scope["name"]),
        n=scope["steps"],
        p50=scope["step_median_us"],
        p90=scope["step_p90_us"],
        source=steps["source"],
        replaying=steps["with_replay"],
        count=steps["count"],
    )
    if scope["window_us"]:
        page.grid(
            ("us", "total", "share"),
            [
                (page.word(name), scope[key], _part(scope, key))
                for name, key in (
                    ("computing", "computing_us"),
                    ("exposed communication", "exposed_communication_us"),
                    ("free", "free_us"),
                    ("window", "window_us"),
                )
            ],
        )
    else:
        _profiler_sums(page, record["profiler_sums"])
    if len(record["phases"]) > 1:
        for phase in record["phases"]:
            page.sentence(
                "phase",
                phase=page.say(phase["name"]),
                n=phase["n"],
                p50=phase["median_us"],
                busy=percent(phase["busy_share"]),
            )
    if steps["count"] > 1:
        _steps_table(page, steps["items"][:_SHOWN_STEPS])


def _profiler_sums(page: _Page, rows: list[dict[str, str]]) -> None:
    """Without kernel rows nothing can be summed here: zeros would read as an idle device."""
    if not rows:
        return
    page.line(page.say("no kernel rows: these are the profiler's own sums (step_trace_time, us)"))
    columns = [name for name in _PROFILER_SUMS if name in rows[0]]
    page.table(columns, [[_as_written(row[name]) for name in columns] for row in rows[:_SHOWN_STEPS]])


def _as_written(cell: str) -> str:
    """A number with as many digits as the others here have; other text bounded, since it is the file's."""
    try:
        return f"{float(cell):.3f}".rstrip("0").rstrip(".")
    except ValueError:
        return one_line(cell, 40) or "-"


def _steps_table(page: _Page, items: list[dict[str, Any]]) -> None:
    rows = [
        (
            page.word("before the first") if step["step"] is None else step["step"],
            step["duration_us"],
            step["computing_us"],
            step["exposed_communication_us"],
            round(step["communication_us"] - step["exposed_communication_us"], 3),
            step["free_us"],
            step["host_launch_us"],
            step["replays"],
            f"{step['kernels_in_graph']}/{step['kernels']}",
        )
        for step in items
    ]
    head = ("computing", "exposed communication", "hidden communication", "free", "host launch", "replays")
    page.grid(("step", "us", *head, "kernels in graph"), rows)


# The profiler's columns as it names them, so that they are found again in its file.
_PROFILER_SUMS = ("Step", "Computing", "Communication(Not Overlapped)", "Free", "Stage")


def _part(scope: dict[str, Any], key: str) -> str:
    return percent(scope[key] / scope["window_us"]) if scope["window_us"] else "-"


def _replays(page: _Page, record: dict[str, Any]) -> None:
    replays, coverage, block = record["replays"], record["coverage"], record["block"]
    page.heading("replays")
    page.sentence(
        "replays",
        calls=replays["host_calls"],
        mean=replays["host_call_mean_us"],
        seen=replays["on_device"],
        graphs=replays["graphs"],
        cut=replays["cut_by_window"],
        per_step=replays["per_step"],
        captures=replays["captures_in_window"],
    )
    between = replays["between_us"]
    if between:
        page.sentence(
            "between", n=between["n"], p50=between["median_us"], p90=between["p90_us"], largest=between["max_us"]
        )
    if replays["unobservable"]:
        page.line(page.say("unobservable: the kernels of the replays were not recorded, so idle time here is not idle"))
    page.sentence(
        "coverage",
        model=percent(coverage["by_model"]),
        stream=percent(coverage["by_stream"]),
        n=coverage["kernels"],
        model_time=percent(coverage["time_by_model"]),
        stream_time=percent(coverage["time_by_stream"]),
    )
    if block:
        page.sentence(
            "block",
            kernels=block["kernels"],
            n=block["n"],
            time=block["median_us"],
            model=percent(block["coverage_by_model"]),
            stream=percent(block["coverage_by_stream"]),
        )


def _gaps(page: _Page, record: dict[str, Any]) -> None:
    if not record["gaps"]:
        return
    page.heading("gaps")
    page.grid(
        ("place", "n", "share of idle", "median us", "max us", "host late us", "dependency us", "no evidence us"),
        [
            (
                f"{place} ({PLACES[place][page.lang == 'zh']})",
                gap["count"],
                percent(gap["share_of_idle"]),
                gap["median_us"],
                gap["max_us"],
                gap["host_late_us"],
                gap["device_or_dependency_us"],
                gap["no_evidence_us"],
            )
            for place, gap in record["gaps"].items()
        ],
    )


def _kernels(page: _Page, record: dict[str, Any]) -> None:
    if record["outside"] and record["replays"]["on_device"]:
        page.heading("outside")
        page.grid(
            ("kernel", "n", "time us", "gap before us"),
            [(row["type"], row["count"], row["time_us"], row["gap_before_us"]) for row in record["outside"][:8]],
        )
    if record["kernels"]:
        page.heading("kernels")
        page.grid(
            ("kernel", "core", "n", "total us", "mean us", "max us", ""),
            [
                (
                    row["type"],
                    row["core"],
                    row["count"],
                    row["total_us"],
                    row["mean_us"],
                    row["max_us"],
                    page.word("AI CPU" if row["ai_cpu"] else "collective inside" if row["holds_collective"] else ""),
                )
                for row in record["kernels"][:10]
            ],
        )
    for kind, label in (("ai_cpu", "AI CPU"), ("aclop", "aclop")):
        if record["operators"][kind]:
            rows = ", ".join(
                f"{row['type']} x{row['count']} {as_cell(row['total_us'])} us" for row in record["operators"][kind][:5]
            )
            page.line(f"{label}: {rows}")


def _missing(page: _Page, record: dict[str, Any]) -> None:
    if not record["missing"]:
        return
    page.heading("missing")
    for item in record["missing"]:
        page.item(f"{page.say(item['item'])}: {page.say(item['why'])}. -> {item['how']}")


def _comparison(page: _Page, record: dict[str, Any]) -> None:
    page.heading("comparison")
    window = record["window"]
    if window:
        page.sentence(
            "window",
            graph=window["graph_us"]["stage"],
            eager=window["eager_us"]["stage"],
            speedup=window["speedup"],
        )
    if not record["blocks"]:
        page.line(page.say("no block of kernels repeats in both profiles, so their times cannot be compared"))
    for block in record["blocks"][:3]:
        _block(page, block, record["match_level"])
    if window and record["blocks"] and record["blocks"][0]["speedup"]:
        inside = record["blocks"][0]["speedup"]
        if (inside > 1) != (window["speedup"] > 1):
            page.line(page.say("window and blocks disagree: the window holds other work; trust the blocks"))
    work, host = record["same_work"], record["host"]
    page.sentence(
        "work",
        graph=work["kernels_graph"],
        eager=work["kernels_eager"],
        launches_graph=work["launches_graph"],
        launches_eager=work["launches_eager"],
        replays=work["replays_graph"],
    )
    if host:
        page.sentence(
            "host",
            saved=host["launches_saved"],
            saved_time=host["launch_time_saved_us"],
            calls=host["replay_calls"],
            call_time=host["replay_call_time_us"],
        )
    for warning in record["warnings"]:
        page.item("! " + warning)


def _block(page: _Page, block: dict[str, Any], level: str) -> None:
    graph, eager, change = block["graph"], block["eager"], block["difference_us"]
    low, high = block["speedup_interval"] or (None, None)
    coverage = block["coverage"]
    page.sentence(
        "pair",
        kernels=block["kernels"],
        level=level,
        largest=block["largest_kernel"],
        graph=graph["median_us"],
        n_graph=graph["n"],
        eager=eager["median_us"],
        n_eager=eager["n"],
        speedup=block["speedup"],
        low=low,
        high=high,
    )
    if not block["conclusive"]:
        page.line(
            page.say("(indicative only: the interval includes 1, fewer than 5 blocks, or shapes were not recorded)")
        )
    page.sentence("pair_coverage", model=percent(coverage["by_model"]), stream=percent(coverage["by_stream"]))
    rows = [
        (page.word(name), eager[side_key], graph[side_key], change[change_key])
        for name, side_key, change_key in (
            ("computing", "computing_us", "computing"),
            ("exposed communication", "exposed_communication_us", "exposed"),
            ("free", "free_us", "free"),
            ("total", "mean_us", "total"),
        )
    ]
    page.grid(("mean us per block", "eager", "graph", "change"), rows)
    if graph["left_out_of_means"] or eager["left_out_of_means"]:
        page.sentence("pair_left_out", graph=graph["left_out_of_means"], eager=eager["left_out_of_means"])
    if block["causes"]:
        zh = page.lang == "zh"
        page.grid(
            ("where the change comes from", "change us per block", ""),
            [(CAUSES[row["cause"]][zh], row["change_us"], page.word(row["kind"])) for row in block["causes"]],
        )
    launches = block["launches"]
    page.sentence(
        "pair_launches", eager=launches["eager"], graph=launches["graph"], time=launches["host_time_saved_us"]
    )
    if block["kernel_changes"]:
        page.grid(
            ("kernel", "n eager", "n graph", "mean eager us", "mean graph us", "change us", "notes"),
            [
                (
                    row["kernel"],
                    row["count_eager"],
                    row["count_graph"],
                    row["mean_eager_us"],
                    row["mean_graph_us"],
                    row["change_us"],
                    page.word("other format" if row["formats_differ"] else "other name" if row["other_names"] else ""),
                )
                for row in block["kernel_changes"][:6]
            ],
        )

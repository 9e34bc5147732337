"""A profile record as text or Markdown, in English or Chinese: verdict first, numbers with unit and sample size."""

from __future__ import annotations

import unicodedata
from typing import Any, Sequence

from npu_graph.profiles.wording import FACTS, HEADINGS, LINES, PLACES, VERDICT_TEXTS, WORDS, translate

Row = Sequence[object]
# Longest cell of a text table; kernel names with shapes are longer.
_CELL = 60


def write_report(record: dict[str, Any], style: str, lang: str) -> str:
    """Return the report.

    Args:
        style: "text" or "md".
        lang: "en" or "zh".
    """
    page = _Page(style, lang)
    _verdicts(page, record)
    if record["comparison"]:
        _comparison(page, record["comparison"])
    _scope(page, record)
    _replays(page, record)
    _gaps(page, record)
    _kernels(page, record)
    _missing(page, record)
    return page.text()


class _Page:
    def __init__(self, style: str, lang: str) -> None:
        self._lines: list[str] = []
        self._md = style == "md"
        self.lang = lang

    def heading(self, key: str) -> None:
        title = HEADINGS[key][self.lang == "zh"]
        self._lines += ["", f"## {title}"] if self._md else ["", title, "-" * _width(title)]

    def line(self, text: str, strong: bool = False) -> None:
        folded = _plain(text, self._md)
        # Lines that follow each other are one paragraph in Markdown unless an empty one parts them.
        self._lines += ["", f"**{folded}**" if strong else folded] if self._md else [folded]

    def item(self, text: str) -> None:
        if self._md and not self._lines[-1].startswith("- "):
            self._lines.append("")
        self._lines.append("- " + _plain(text, self._md))

    def table(self, head: Row, rows: Sequence[Row]) -> None:
        named = [self.word(str(cell)) for cell in head]
        cells = [[_plain(_cell(value), self._md) for value in row] for row in [named, *rows]]
        if self._md:
            cells = [[value.replace("|", "\\|") for value in row] for row in cells]
            self._lines += ["", "| " + " | ".join(cells[0]) + " |", "|" + " --- |" * len(cells[0])]
            self._lines += ["| " + " | ".join(row) + " |" for row in cells[1:]]
            return
        cells = [[value[:_CELL] for value in row] for row in cells]
        widths = [max(_width(row[column]) for row in cells) for column in range(len(head))]
        for row in cells:
            padded = (value + " " * (width - _width(value)) for value, width in zip(row, widths))
            self._lines.append("  ".join(padded).rstrip())

    def say(self, text: str) -> str:
        return translate(text, self.lang)

    def word(self, text: str) -> str:
        return WORDS.get(text, text) if self.lang == "zh" else text

    def sentence(self, key: str, **values: object) -> None:
        """Add one of the fixed lines, its numbers filled in."""
        self.line(LINES[key][self.lang == "zh"].format(**{name: _cell(value) for name, value in values.items()}))

    def text(self) -> str:
        return "\n".join(self._lines).strip() + "\n"


def _width(text: str) -> int:
    """Return the columns a text takes in a terminal; Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _plain(text: str, markdown: bool) -> str:
    """Fold to one printable line; in Markdown nothing from a profile may become markup."""
    folded = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not markdown:
        return folded
    for char, safe in (("<", "&lt;"), ("`", "'"), ("*", "\\*"), ("[", "\\["), ("]", "\\]")):
        folded = folded.replace(char, safe)
    return folded


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:.1f}"
    return str(value)


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
            page.item(f"{HEADINGS['fact'][page.lang == 'zh']}: {_fact(fact, page.lang)}")
        cause = verdict["attribution"]
        page.item(
            f"{HEADINGS['attribution'][page.lang == 'zh']} ({page.say(cause['confidence'])}): {page.say(cause['text'])}"
        )
        if verdict["confirm"]:
            page.item(f"{HEADINGS['next'][page.lang == 'zh']}: {page.say(verdict['confirm'])}")


def _fact(fact: dict[str, Any], lang: str) -> str:
    label = FACTS[fact["what"]][lang == "zh"]
    value = percent(fact["value"]) if fact["unit"].startswith("of ") else _cell(fact["value"])
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
    page.table(
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
    page.table(
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
        page.table(
            ("kernel", "n", "time us", "gap before us"),
            [(row["type"], row["count"], row["time_us"], row["gap_before_us"]) for row in record["outside"][:8]],
        )
    if record["kernels"]:
        page.heading("kernels")
        page.table(
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
                f"{row['type']} x{row['count']} {_cell(row['total_us'])} us" for row in record["operators"][kind][:5]
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
    page.table(("mean us per block", "eager", "graph", "change"), rows)
    if block["kernel_changes"]:
        page.table(
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

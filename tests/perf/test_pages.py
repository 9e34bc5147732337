"""The pages of profiles and measurements: what the drawings show, and in a real browser that they hold and stay safe."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_maker import Profile, eager_steps, graph_steps
from support import ROOT

from npu_graph.pages.charts import WIDTH, histogram, stack, waterfall
from npu_graph.profiles.record import analyze

jinja2 = pytest.importorskip("jinja2", reason="Jinja2 is not installed (pip install jinja2)")
SCRIPTS = ROOT / "graph-perf" / "scripts"
sys.path.insert(0, str(SCRIPTS))
profile_page = importlib.import_module("profile_page")
bench_page = importlib.import_module("bench_page")
bench_record = importlib.import_module("bench_record")
CHROMIUM = next(
    (found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None
)
HOSTILE = "</svg></title><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">{{7*7}}"


@given(st.floats(0.1, 1e6), st.lists(st.floats(-1e5, 1e5), max_size=12))
def test_a_waterfall_is_closed_and_stays_in_its_drawing(start: float, changes: list[float]) -> None:
    bars = waterfall(start, changes)
    assert len(bars) == len(changes) + 2
    assert (bars[0].kind, bars[-1].kind) == ("total", "total")
    assert all(bar.x >= -0.01 and bar.x + bar.w <= WIDTH + 2 for bar in bars)
    assert bars[-1].level == bars[-2].level, "the last total stands where the last change ended"


def test_a_waterfall_leads_from_the_first_total_to_the_last() -> None:
    eager, gaps, entry, graph = waterfall(1000, [-800, 200])
    assert (eager.x, eager.w) == (0, WIDTH)
    assert (gaps.x, gaps.w, gaps.kind) == (200, 800, "less")
    assert (entry.x, entry.w, entry.kind) == (200, 200, "more")
    assert (graph.x, graph.w) == (0, 400)


def test_a_stack_is_to_scale_and_leaves_nothings_out() -> None:
    parts = stack([("a", 25, "A"), ("b", 0, "B"), ("c", -1, "C"), ("d", 75, "D")], 200)
    assert [(part.kind, part.x, part.w) for part in parts] == [("a", 0, 125), ("d", 125, 375)]
    assert stack([("a", 1, "")], 0) == []


def test_a_histogram_counts_every_value() -> None:
    columns = histogram([1, 1, 2, 9, 10, 50], 0, 10, 5)
    assert sum(column.n for column in columns) == 6
    assert columns[-1].n == 3, "values at and beyond the end share the last column"


def decode(size: int = 16) -> Profile:
    profile = Profile()
    time = 0
    for step in range(8):
        start = time
        body = [("MatMulV2", 0, 30_000), (HOSTILE, 500, 9_000), ("SwiGlu", 20, 8_000)] * 3
        end = profile.replay(time + 60_000, body, step=step, shapes=f"{size},896;896,896")
        profile.eager(end + 20_000, 15_000, "FusedInferAttentionScore", step=step, shapes="8,896;896,896")
        profile.eager(end + 25_000, 25_000, "hcom_allGather_", core="HCCL", step=step, shapes="")
        profile.launches += [(start + 70_000 + number * 1_000, 700) for number in range(9)]
        time = end + 120_000 + (900_000 if step == 4 else 0)
    return profile


def eager_decode() -> Profile:
    profile = Profile()
    time = 0
    for step in range(8):
        for name, duration in [("MatMulV2", 28_000), (HOSTILE, 9_000), ("SwiGlu", 8_000)] * 3:
            profile.eager(time, duration, name, step=step, shapes="8,896;896,896")
            time += duration + 45_000
        profile.eager(time, 15_000, "FusedInferAttentionScore", step=step, shapes="8,896;896,896")
        profile.eager(time + 5_000, 40_000, "hcom_allGather_", core="HCCL", step=step, shapes="")
        time += 80_000
    return profile


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    home = tmp_path_factory.mktemp("pages")
    return str(decode().write(home / "graph", trace=True)), str(eager_decode().write(home / "eager"))


@pytest.fixture(scope="module")
def record(folders: tuple[str, str]) -> dict[str, Any]:
    return analyze(*folders)


def test_step_bars_hold_the_whole_step(record: dict[str, Any]) -> None:
    bars, cut = profile_page.step_bars(record, "en")
    assert len(bars) == 8
    assert cut == 1, "a step of many medians is cut and said to be"
    kinds = {part.kind for row in bars for part in row["segments"]}
    assert {"computing", "exposed", "gap-in_graph", "gap-seam", "gap-tail"} <= kinds
    whole = next(row for row in bars if "…" in row["value"])
    usual = bars[0]
    assert sum(part.w for part in usual["segments"]) == pytest.approx(WIDTH / 3, rel=0.05)
    assert sum(part.w for part in whole["segments"]) > WIDTH
    assert all(row["host"] for row in bars), "host launch time is drawn"


def test_the_gap_histogram_holds_every_gap(record: dict[str, Any]) -> None:
    rows = profile_page.gap_histogram(record, "en")
    drawn = sum(int(row["value"][2:]) for row in rows)
    assert drawn == sum(gap["count"] for gap in record["gaps"].values()) > 0


def test_the_waterfall_ends_at_the_graphs_time(record: dict[str, Any]) -> None:
    fall = profile_page.waterfalls(record, "en")[0]
    block = record["comparison"]["blocks"][0]
    first, *changes, last = fall["rows"]
    assert first["value"] == f"{block['eager']['mean_us']:g} us"
    end = block["eager"]["mean_us"] + sum(float(row["value"][:-3]) for row in changes)
    assert end == pytest.approx(block["graph"]["mean_us"], abs=0.01)
    assert last["segments"][0].w < first["segments"][0].w
    assert any("(attribution)" in row["name"] for row in changes), "padding is a guess and called one"


def test_replays_that_cannot_be_observed_are_not_drawn_as_idle(tmp_path: Path) -> None:
    profile = eager_steps(steps=8)
    profile.replay_calls += [number * 1_000_000 for number in range(8)]
    unseen = analyze(str(profile.write(tmp_path)))
    assert unseen["replays"]["unobservable"]
    page = profile_page.render_profile(unseen, "en")
    assert "step-bars" not in page.partition("</style>")[2]
    assert "gap-histogram" not in page
    assert "device idle" not in page.partition("</style>")[2].partition("<h2>")[0]


def test_both_languages_have_every_heading(record: dict[str, Any]) -> None:
    english, chinese = (profile_page.render_profile(record, lang) for lang in ("en", "zh"))
    assert english.count("<h2>") == chinese.count("<h2>") >= 6
    for words in ("Graph against eager", "idle before replays", "device busy", "How long gaps are"):
        assert words in english
        assert words not in chinese
    for words in ("图模式与单算子对比", "重放入口空闲", "设备忙碌", "空隙长度分布"):
        assert words in chinese


def test_the_page_is_one_file_that_loads_nothing(record: dict[str, Any]) -> None:
    page = profile_page.render_profile(record, "en")
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page, "the hostile operator is in the table, as text"
    assert "{{7*7}}" in page


def samples(scale: float) -> dict[str, Any]:
    times = {"eager": [scale * (200 + n % 7) for n in range(30)], "graph": [scale * (100 + n % 5) for n in range(29)]}
    times["graph"].append(5_000.0)
    return times


def measurement() -> dict[str, Any]:
    times = samples(1.0)
    return {
        "schema": bench_record.SCHEMA,
        "target": "t",
        "result": bench_record.conclude(times["eager"], times["graph"], 50_000),
        "notes": [bench_record.ON_CPU],
        "memory_bytes": None,
        "settings": {"backend": HOSTILE, "warmup": 1, "repeats": 30, "calls_per_sample": 7, "order": "A B A B"},
        "environment": {"torch": HOSTILE, "variables": {}},
        "samples": times,
    }


def comparison_page(lang: str) -> str:
    old, new = measurement(), {**measurement(), "samples": samples(1.2)}
    return str(bench_page.render_comparison(bench_record.compare(old, new), [old, new], lang))


def test_a_measurement_shows_its_doubts_and_every_sample() -> None:
    page = bench_page.render_measurement(measurement(), "en")
    assert page.count('class="card warning"') == 1 + len(measurement()["result"]["reasons"])
    assert "1 samples beyond" in page
    assert page.count("<polyline") == 2
    assert "95 %" in page
    assert "样本" in bench_page.render_measurement(measurement(), "zh")
    assert "new / old" in comparison_page("en")
    assert "新 / 旧" in comparison_page("zh")


def test_a_constant_measurement_can_be_drawn() -> None:
    times = {"eager": [100.0] * 30, "graph": [100.0] * 30}
    record = {**measurement(), "samples": times, "result": bench_record.conclude(*times.values(), None)}
    assert "<polyline" in bench_page.render_measurement(record, "en")


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        capture_output=True, encoding="utf-8", timeout=60, env={"PATH": "", **environment},
    )  # fmt: skip


def test_html_writes_a_page_beside_the_usual_answer(folders: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "made" / "report.html"
    done = run("analyze_profile.py", folders[0], "--against", folders[1], "--html", str(out), "--output", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "npu-graph/profile/1"
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    refused = run("analyze_profile.py", folders[0], "--html", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "host_bound" in refused.stdout, "the answer is there all the same"
    saved = [tmp_path / "old.json", tmp_path / "new.json"]
    for path in saved:
        path.write_text(json.dumps(measurement()), encoding="utf-8")
    done = run("bench_graph.py", "--compare", *map(str, saved), "--html", str(tmp_path / "b.html"), "--lang", "zh")
    assert done.returncode == 0, done.stderr
    assert "图没有回退" in done.stdout
    assert "<polyline" in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_without_jinja2_the_install_line_is_given_before_the_work(folders: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "jinja2.py").write_text("raise ImportError('no jinja2')\n", encoding="utf-8")
    for script, arguments in (
        ("analyze_profile.py", (folders[0],)),
        ("bench_graph.py", ("--compare", "no.json", "no.json")),
        ("bench_graph.py", ("no_module:target",)),
    ):
        done = run(script, *arguments, "--html", str(tmp_path / "p.html"), PYTHONPATH=str(tmp_path))
        assert done.returncode == 4, done.stderr
        assert done.stderr == f"{script}: error: --html needs Jinja2: pip install jinja2\n"
    assert not (tmp_path / "p.html").exists()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed (pip install playwright)"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def pages(record: dict[str, Any], lang: str) -> dict[str, str]:
    return {
        "profile": profile_page.render_profile(record, lang),
        "measurement": bench_page.render_measurement(measurement(), lang),
        "comparison": comparison_page(lang),
    }


TITLES = {
    "profile": "NPU profile report",
    "measurement": "NPU graph measurement",
    "comparison": "NPU graph measurement",
}


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", sorted(TITLES))
def test_a_browser_shows_the_drawings_without_an_error(
    browser: Any, record: dict[str, Any], tmp_path: Path, kind: str, scheme: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(pages(record, "en")[kind], encoding="utf-8")
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: problems.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
    )
    page.goto(path.as_uri())
    assert problems == []
    assert page.title() == TITLES[kind], "a hostile name ran"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    # Every mark has a colour that tells it from the page and from black, which an unknown class would be.
    fills = page.evaluate("[...document.querySelectorAll('svg rect')].map(r => getComputedStyle(r).fill)")
    assert fills
    assert "rgb(0, 0, 0)" not in fills
    assert background not in fills
    widths = page.evaluate("[...document.querySelectorAll('svg rect')].map(r => r.getBoundingClientRect().width)")
    assert min(widths) > 0
    if kind == "profile":
        assert page.locator(".step-bars .bar-row").count() == 8
        assert page.locator(".waterfall .bar-row").count() >= 5
        assert page.locator(".gap-histogram .bar-row").count() >= 3
        assert page.locator("section#kernels td", has_text="<script>").count() == 1
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(TITLES))
def test_a_phone_reads_the_page_without_scrolling_sideways(
    browser: Any, record: dict[str, Any], tmp_path: Path, kind: str, lang: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(pages(record, lang)[kind], encoding="utf-8")
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    bars = page.evaluate("[...document.querySelectorAll('.bar-row svg')].map(s => s.getBoundingClientRect().width)")
    assert all(width > 300 for width in bars), "bars have the width of the screen"
    small = page.evaluate(
        "[...document.querySelectorAll('p, td, th, li, span, b')].filter(e => e.textContent.trim())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(small) >= 12
    context.close()


def test_the_page_of_many_steps_stays_small(tmp_path: Path) -> None:
    long = analyze(str(graph_steps(steps=400, kernels=30).write(tmp_path)))
    page = profile_page.render_profile(long, "en")
    assert page.count('class="bar-row"') >= 50
    assert len(page.encode()) < 200_000

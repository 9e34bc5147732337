"""The HTML report: opens in a real browser, shows what was found, and never runs what a log says."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from npu_graph import bundle
from tests.logs.log_lines import capture, plog, record_of, replay, vllm

jinja2 = pytest.importorskip("jinja2", reason="Jinja2 is not installed (pip install jinja2)")
SCRIPT = bundle.ROOT / "graph-log-analyzer" / "scripts" / "render_report.py"
CHROMIUM = next(
    (found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None
)
HOSTILE = (
    "RuntimeError: </pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> {{7*7}}"
)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_report", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report = load_script()


def lines_of_a_day() -> list[str]:
    lines = []
    for rank in range(4):
        for number in range(12):
            lines += capture(number * 3 + rank * 0.01, 1 + number * 0.1, f"0xaa{number:02}", 100 + rank, rank)
        lines += [replay(60 + n * 0.01, "0xaa01", 100 + rank, rank) for n in range(100)]
    lines.append(vllm(61, "torch.compile takes 34.76 s in total", pid=100))
    lines.append(vllm(61, "torch.compile takes 3.76 s in total", pid=101))
    lines += [plog(70, "[a.cc:7]7 f: aicore exception", "ERROR", pid=102), HOSTILE]
    return lines


def test_the_page_is_one_file_that_loads_nothing():
    page = report.render(record_of(lines_of_a_day()))
    assert "<script" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page
    assert "default-src 'none'" in page
    assert page.count('class="row"') == 5  # four ranks, and the file for the line without a process


def test_text_of_a_log_is_escaped_everywhere():
    page = report.render(record_of([HOSTILE, plog(1, f"[a.cc:1]7 {HOSTILE}", "ERROR", name="<b>x</b>")]))
    assert "&lt;script&gt;" in page
    assert "<img src=x" not in page
    assert "<b>x</b>" not in page
    assert "{{7*7}}" in page


def test_both_languages_have_every_heading():
    record = record_of(lines_of_a_day())
    english, chinese = report.render(record), report.render(record, "zh")
    assert english.count("<h2>") == chinese.count("<h2>") >= 8
    for word in ("First failure", "Anomalies", "Timeline", "Errors"):
        assert word in english
    for word in ("最早的失败", "异常", "时间线", "错误"):
        assert word in chinese


def test_ten_thousand_events_are_few_marks():
    lines = [line for n in range(10_000) for line in (capture(n, 0.5, f"0x{n:x}")[0], capture(n, 0.5, f"0x{n:x}")[3])]
    record = record_of(lines)
    assert record["captures"]["count"] == 10_000
    rows = report.timeline_rows(record)
    assert sum(mark["n"] for mark in rows[0]["marks"]) == 10_000
    assert len(rows[0]["marks"]) < 600


def test_a_record_of_another_kind_is_refused_in_one_line(tmp_path):
    for content in ("{}", "not json", '{"schema": "npu-graph/diagnosis/1"}'):
        path = tmp_path / "r.json"
        path.write_text(content)
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(path)], capture_output=True, encoding="utf-8", timeout=60
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


def test_without_jinja2_the_install_line_is_given(tmp_path):
    (tmp_path / "jinja2.py").write_text("raise ImportError('no jinja2')\n")
    (tmp_path / "r.json").write_text(json.dumps(record_of(capture(0, 1))))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "r.json")],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert done.returncode == 4
    assert "pip install jinja2" in done.stderr


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


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page_without_an_error(browser, tmp_path, scheme):
    path = tmp_path / "report.html"
    path.write_text(report.render(record_of(lines_of_a_day())), encoding="utf-8")
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
    assert page.title() == "NPU log report"
    assert page.locator("#timeline svg rect.capture").count() >= 40
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    summaries = page.locator("summary")
    for at in range(summaries.count()):
        if summaries.nth(at).is_visible():
            summaries.nth(at).click()
    assert page.title() == "NPU log report", "a hostile log line ran"
    context.close()


@pytest.mark.browser
def test_a_phone_reads_the_page_without_scrolling_sideways(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report.render(record_of(lines_of_a_day()), "zh"), encoding="utf-8")
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


@pytest.mark.browser
def test_a_page_of_ten_thousand_events_opens_quickly(browser, tmp_path):
    lines = [vllm(n, f"Compiling a graph for shape {n} takes 1.00 s", pid=100 + n % 8) for n in range(10_000)]
    record = record_of(lines)
    assert len(record["timeline"]["events"]) == 10_000
    path = tmp_path / "report.html"
    path.write_text(report.render(record), encoding="utf-8")
    page = browser.new_page()
    begun = time.monotonic()
    page.goto(path.as_uri())
    page.locator("details.events summary").click()
    assert page.locator("details.events tbody tr").count() == 10_000
    assert time.monotonic() - begun < 20
    page.close()


def test_the_page_says_when_nothing_failed(tmp_path):
    page = report.render(record_of(capture(0, 1)))
    assert "No error line was found." in page
    assert Path(SCRIPT).exists()

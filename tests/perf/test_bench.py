"""The measurement: statistics on known distributions, interleaving, refusal to conclude, break-even, comparison."""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from cost import cpu_seconds
from hypothesis import given
from hypothesis import strategies as st

from npu_graph import bundle
from npu_graph.profiles.ratios import break_even, describe, drift, median, percentile, ratio_interval

SCRIPTS = bundle.ROOT / "graph-perf" / "scripts"
SCRIPT = SCRIPTS / "bench_graph.py"
sys.path.insert(0, str(SCRIPTS))
bench_graph = importlib.import_module("bench_graph")
bench_record = importlib.import_module("bench_record")
bench_report = importlib.import_module("bench_report")
bench_device = importlib.import_module("bench_device")


def normal(mean: float, spread: float, count: int, seed: int) -> list[float]:
    source = random.Random(seed)
    return [max(0.001, source.gauss(mean, spread)) for _ in range(count)]


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 3), (0.9, 4.6), (0.99, 4.96), (1.0, 5)])
def test_percentiles_are_interpolated(share: float, value: float) -> None:
    assert percentile([5, 1, 4, 2, 3], share) == pytest.approx(value)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=50))
def test_percentiles_are_ordered_and_within_the_values(values: list) -> None:
    facts = describe(values)
    assert facts["min"] <= facts["p50"] <= facts["p90"] <= facts["p99"] <= facts["max"]
    assert facts["median"] == median(values)


def test_percentiles_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="needs values"):
        percentile([], 0.5)


def test_the_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    """95 % nominal on 120 normal samples of true ratio 2: at least 85 % must cover, and a wrong ratio must not."""
    covered = wrong = 0
    for seed in range(120):
        interval = ratio_interval(normal(200, 20, 30, seed), normal(100, 10, 30, 1000 + seed), resamples=300)
        covered += interval.low <= 2.0 <= interval.high
        wrong += interval.low <= 1.5 <= interval.high
    assert covered >= 0.85 * 120
    assert wrong == 0


def test_the_interval_narrows_with_samples() -> None:
    widths = []
    for count in (10, 40, 160):
        interval = ratio_interval(normal(200, 20, count, 1), normal(100, 10, count, 2))
        widths.append(interval.high - interval.low)
    assert widths[0] > widths[1] > widths[2]


def test_pairing_removes_what_disturbs_both() -> None:
    source = random.Random(5)
    load = [source.choice([1.0, 3.0]) for _ in range(60)]
    eager = [120 * factor * source.gauss(1, 0.01) for factor in load]
    graph = [100 * factor * source.gauss(1, 0.01) for factor in load]
    paired = ratio_interval(eager, graph, paired=True)
    apart = ratio_interval(eager, graph)
    assert paired.high - paired.low < apart.high - apart.low


def test_the_same_data_gives_the_same_interval() -> None:
    assert ratio_interval([1, 2, 3, 4, 5], [2, 3, 4, 5, 6]) == ratio_interval([1, 2, 3, 4, 5], [2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    ("cost", "eager", "graph", "replays"),
    [(1000, 10, 5, 200), (1001, 10, 5, 201), (0, 10, 5, 1), (1000, 5, 10, None), (1000, 5, 5, None)],
)
def test_break_even(cost: float, eager: float, graph: float, replays: Any) -> None:
    assert break_even(cost, eager, graph) == replays


def test_drift_is_first_third_against_last() -> None:
    assert drift([100] * 10 + [105] * 10 + [120] * 10) == pytest.approx(0.2)
    assert drift([100, 100]) == 0.0


def test_a_clear_difference_is_concluded() -> None:
    result = bench_record.conclude(normal(200, 5, 30, 1), normal(100, 5, 30, 2), 50_000)
    assert result["conclusion"] == "graph_faster"
    assert result["speedup"] == pytest.approx(2.0, abs=0.05)
    assert result["break_even_replays"] == pytest.approx(500, abs=40)
    assert bench_record.conclude(normal(100, 5, 30, 1), normal(200, 5, 30, 2), 1)["conclusion"] == "graph_slower"


def test_nothing_is_concluded_when_the_interval_includes_one() -> None:
    result = bench_record.conclude(normal(100, 20, 30, 1), normal(100, 20, 30, 2), 1000)
    assert result["conclusion"] == "no_conclusion"
    assert any("includes 1" in reason for reason in result["reasons"])
    assert result["break_even_replays"] is None


def test_nothing_is_concluded_from_a_drifting_run() -> None:
    rising = [200 + 3 * number for number in range(30)]
    result = bench_record.conclude(rising, normal(100, 2, 30, 2), None)
    assert result["conclusion"] == "no_conclusion"
    assert any("drifted" in reason for reason in result["reasons"])


def test_nothing_is_concluded_from_a_handful() -> None:
    assert bench_record.conclude([200.0] * 3, [100.0] * 3, None)["conclusion"] == "no_conclusion"


class FakeDevice:
    """A clock that knows how long each call takes and notes the order."""

    def __init__(self, times: dict[Callable, float]) -> None:
        self.times = times
        self.order: list[float] = []

    def time_us(self, run: Callable, calls: int) -> float:
        self.order.append(self.times[run])
        return self.times[run]

    def synchronize(self) -> None: ...


def test_eager_and_graph_are_measured_in_turn() -> None:
    def eager() -> None: ...

    def graph() -> None: ...

    device = FakeDevice({eager: 20.0, graph: 10.0})
    assert bench_graph.interleave(device, eager, graph, 3, 5) == ([20.0] * 3, [10.0] * 3)
    assert device.order == [20.0, 10.0] * 3
    assert bench_graph.choose_calls(device, eager, graph) == 201
    device.times[graph] = 1e9
    device.times[eager] = 1e9
    assert bench_graph.choose_calls(device, eager, graph) == 1


def saved(eager: list[float], graph: list[float], **environment: str) -> dict[str, Any]:
    return {
        "schema": "npu-graph/bench/1",
        "target": "t",
        "samples": {"eager": eager, "graph": graph},
        "environment": environment,
    }


def test_a_regression_is_told_from_noise() -> None:
    old = saved(normal(200, 5, 30, 1), normal(100, 2, 30, 2), cann="8.3.RC1")
    slower = saved(normal(200, 5, 30, 3), normal(110, 2, 30, 4), cann="8.5.0")
    same = saved(normal(200, 5, 30, 5), normal(100, 2, 30, 6), cann="8.3.RC1")
    record = bench_record.compare(old, slower)
    assert record["regression"] is True
    assert record["graph"]["change"] == "slower"
    assert record["eager"]["change"] == "same"
    assert record["environment_differs"] == ["cann: 8.3.RC1 -> 8.5.0"]
    assert bench_record.compare(old, same)["regression"] is False
    assert bench_record.compare(slower, old)["graph"]["change"] == "faster"


def test_other_targets_and_simulated_times_are_no_regression() -> None:
    old = saved(normal(200, 5, 30, 1), normal(100, 2, 30, 2))
    slower = saved(normal(200, 5, 30, 3), normal(130, 2, 30, 4))
    record = bench_record.compare(old, {**slower, "target": "another"})
    assert record["regression"] is False
    assert record["reasons"] == ["the two records measured different targets"]
    record = bench_record.compare(old, {**slower, "environment": {"simulator": "npu_sim"}})
    assert record["regression"] is False
    assert "prove nothing" in record["reasons"][0]


def test_a_machine_that_changed_is_told_from_a_graph_that_did() -> None:
    old = saved(normal(200, 5, 30, 1), normal(100, 2, 30, 2))
    record = bench_record.compare(old, saved(normal(240, 5, 30, 3), normal(120, 2, 30, 4)))
    assert record["regression"] is True
    assert "not the graph alone" in record["notes"][0]


def test_too_few_or_too_wide_samples_do_not_pass_for_no_regression() -> None:
    record = bench_record.compare(saved([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), saved([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))
    assert record["reasons"] == ["fewer than 5 samples"]
    old, new = (saved(normal(200, 5, 30, seed), normal(100, 40, 30, seed + 1)) for seed in (1, 3))
    record = bench_record.compare(old, new)
    assert record["graph"]["change"] == "same"
    assert any("more than 5 %" in text for text in record["notes"])


def test_a_million_samples_are_compared_in_seconds() -> None:
    def compare() -> None:
        interval = ratio_interval([2.0, 2.2] * 100_000, [1.0, 1.1] * 100_000)
        assert interval.low <= 2.0 <= interval.high

    assert cpu_seconds(compare, 30) < 30


def test_simulated_times_are_shown_and_nothing_is_concluded() -> None:
    result = bench_record.conclude(normal(200, 5, 30, 1), normal(100, 5, 30, 2), 50_000, simulated=True)
    assert result["conclusion"] == "no_conclusion"
    assert "prove nothing about the speed of an NPU" in result["reasons"][0]
    assert result["speedup"] == pytest.approx(2.0, abs=0.05)
    assert result["break_even_replays"] is None


def measured(**changes: Any) -> dict[str, Any]:
    eager, graph = normal(200, 5, 30, 1), normal(100, 5, 30, 2)
    memory = {"allocated": 3 << 20, "reserved": 8 << 20, "peak": 5 << 20}
    settings = {"backend": "npugraph", "warmup": 10, "repeats": 30, "calls_per_sample": 7, "order": "A B A B"}
    known = {"torch": "2.13.0", "torch_npu": "2.13.0", "soc": "Ascend910B2", "cann": "9.1.0", "driver": "25.5.1"}
    record = {
        "target": "t",
        "result": bench_record.conclude(eager, graph, 50_000),
        "notes": [],
        "memory_bytes": {"before": memory, "eager": memory, "graph": memory, "graph_adds": memory},
        "settings": settings,
        "environment": {**known, "variables": {"TASK_QUEUE_ENABLE": "1"}},
        "samples": {"eager": eager, "graph": graph},
    }
    return {**record, **changes}


def test_the_report_names_everything_that_a_later_reader_needs() -> None:
    text = "\n".join(bench_report.bench_lines(measured(), "en"))
    for words in (
        "graph_faster", "95 % interval", "n=30 pairs", "P50", "P90", "P99", "drift", "capture cost 50000 us",
        "break-even after", "device memory, eager: allocated 3, reserved 8, peak 5 MiB", "the graph adds 8 MiB reserved",
        "warm-up 10, 30 samples of 7 calls, A B A B", "cann 9.1.0", "driver 25.5.1", "soc Ascend910B2", "TASK_QUEUE_ENABLE",
    ):  # fmt: skip
        assert words in text, words
    assert "not recorded" not in text
    known = measured()["environment"]
    assert "not recorded: driver" in "\n".join(
        bench_report.bench_lines(measured(environment={**known, "driver": None}), "en")
    )


def test_a_chinese_report_translates_conclusions_reasons_and_notes() -> None:
    noisy = bench_record.conclude([100.0, 130.0, 160.0], [90.0, 120.0, 150.0], None, simulated=True)
    lines = bench_report.bench_lines(measured(result=noisy, notes=[bench_record.ON_CPU], memory_bytes=None), "zh")
    told = [*noisy["reasons"], bench_record.ON_CPU]
    assert len(told) >= 4
    for text in told:
        assert bench_report.word(text, "zh") != text, text
        assert not any(text in line for line in lines)
    old = saved(normal(200, 5, 30, 1), normal(100, 2, 30, 2))
    record = bench_record.compare(old, {**saved(normal(240, 5, 30, 3), normal(120, 2, 30, 4)), "target": "u"})
    text = "\n".join(bench_report.compare_lines(record, "zh"))
    assert "不作比较" in text
    assert "eager changed" not in text


@pytest.mark.parametrize(
    "broken",
    [
        {},
        [],
        {"schema": "npu-graph/bench/1"},
        {"schema": "npu-graph/bench/1", "samples": {"eager": [1], "graph": []}},
        {"schema": "npu-graph/bench/1", "samples": {"eager": [1], "graph": ["1"]}},
        {"schema": "npu-graph/bench/1", "samples": {"eager": [1], "graph": [0]}},
        {"schema": "other", "samples": {"eager": [1], "graph": [1]}},
    ],
)
def test_what_is_no_saved_measurement_is_refused(broken: Any) -> None:
    with pytest.raises(ValueError, match="not a saved measurement"):
        bench_record.compare(saved([1.0], [1.0]), broken)


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=110, cwd=cwd
    )


def test_comparing_files_needs_no_torch(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(saved(normal(200, 5, 30, 1), normal(100, 2, 30, 2))), encoding="utf-8")
    new.write_text(json.dumps(saved(normal(200, 5, 30, 3), normal(120, 2, 30, 4))), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), "--compare", str(old), str(new), "--output", "json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["schema"] == "npu-graph/bench-compare/1"
    assert run("--compare", str(old), str(old)).returncode == 0
    assert run("--compare", str(old), str(tmp_path / "no.json")).returncode == 3
    new.write_text("[" * 100_000, encoding="utf-8")
    assert run("--compare", str(old), str(new)).returncode == 3


def test_without_torch_it_says_so() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['bench_graph.py', 'a:b']; "
        "import bench_graph; bench_graph.cli.run(bench_graph.main)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=SCRIPTS)
    assert done.returncode == 4
    assert done.stderr.strip() == "bench_graph.py: error: torch is not installed here; run this where the model runs"


@pytest.mark.parametrize("arguments", [[], ["no_colon"], ["a:b", "--repeats", "0"], ["a:b", "--repeats", "9" * 30]])
def test_wrong_usage(arguments: list) -> None:
    assert run(*arguments).returncode == 2


class FakeNpu:
    """Stands for torch.npu and writes down what is asked of it."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def is_available(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def Stream(self) -> FakeStream:  # noqa: N802
        return FakeStream("side", self.log)

    def current_stream(self) -> FakeStream:
        return FakeStream("current", self.log)

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        self.log.append(f"enter {stream.name}")
        yield
        self.log.append(f"leave {stream.name}")

    @contextlib.contextmanager
    def graph(self, graph: object) -> Iterator[None]:
        self.log.append("capture")
        yield
        self.log.append("captured")

    def NPUGraph(self) -> FakeGraph:  # noqa: N802
        return FakeGraph(self.log)

    def Event(self, enable_timing: bool) -> FakeEvent:  # noqa: N802
        assert enable_timing
        return FakeEvent(self.log)


class FakeStream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def wait_stream(self, other: FakeStream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


class FakeGraph:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def replay(self) -> None:
        self.log.append("replay")


class FakeEvent:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def record(self) -> None:
        self.log.append("record")

    def elapsed_time(self, other: FakeEvent) -> float:
        return 1.5  # milliseconds


def fake_device() -> Any:
    device = bench_device.Device.__new__(bench_device.Device)
    device.npu = FakeNpu()
    device.name = "npu"
    return device


def test_a_capture_warms_up_on_a_side_stream_joins_and_captures_once() -> None:
    device = fake_device()
    replay = bench_device._capture_npugraph(lambda: device.npu.log.append("run"), device)
    assert device.npu.log == [
        "side waits for current",
        "enter side",
        "run",
        "run",
        "run",
        "leave side",
        "current waits for side",
        "synchronize",
        "capture",
        "run",
        "captured",
    ]
    replay()
    assert device.npu.log[-1] == "replay"


def test_time_on_the_device_lies_between_two_events_and_a_synchronisation() -> None:
    device = fake_device()
    assert device.time_us(lambda: device.npu.log.append("run"), 3) == 500.0
    assert device.npu.log == ["synchronize", "record", "run", "run", "run", "record", "synchronize"]


def test_a_record_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(bench_graph.cli.CommandError, match="cannot be written"):
        bench_graph._save({"schema": "x"}, tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]

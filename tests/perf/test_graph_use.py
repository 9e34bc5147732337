"""Which kernels count as inside a graph, where replays begin, how idle time is split, and how steps are cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from profile_maker import EAGER, Profile, eager_steps, graph_steps

from npu_graph.profiles import gaps as gaps_module
from npu_graph.profiles.gaps import find_gaps, group_gaps
from npu_graph.profiles.intervals import length, overlap, union
from npu_graph.profiles.loading import load_profile
from npu_graph.profiles.record import analyze
from npu_graph.profiles.replays import find_graph_use
from npu_graph.profiles.steps import find_steps

# A PIECEWISE decode layer: eight kernels with the graph's Model ID, one Triton kernel that carries the eager ID on the
# graph's stream, two eager attention kernels on the launching stream.
GRAPH_KERNELS = ["MatMulV2", "AddRmsNormBias", "MatMulV2", "SwiGlu", "MatMulV2", "AddRmsNormBias", "Cast", "MatMulV2"]


def layer(profile: Profile, start: int, model: int, stream: str) -> int:
    end = profile.replay(
        start, [(name, 20 if place else 0, 5_000) for place, name in enumerate(GRAPH_KERNELS)], model, stream
    )
    profile.kernels.append(
        profile.kernels[-1]._replace(
            start=end + 20, duration=3_000, type="_triton_rope_1", model=EAGER, task=8, shapes=""
        )
    )
    end += 3_020
    profile.eager(end + 400_000, 2_000, "ReshapeAndCacheNdKernel")
    profile.eager(end + 800_000, 20_000, "FusedInferAttentionScore")
    return end + 820_000


def decode(steps: int = 3, layers: int = 4, between: int = 50_000_000) -> Profile:
    profile = Profile()
    time = 0
    for _ in range(steps):
        for number in range(layers):
            time = layer(profile, time + 650_000, 31 + number, str(90 + number))
        time += between
    return profile


def test_model_id_alone_misses_captured_triton_kernels(tmp_path: Path) -> None:
    record = analyze(str(decode().write(tmp_path)))
    assert record["coverage"]["by_model"] == pytest.approx(8 / 11, abs=1e-4)
    assert record["coverage"]["by_stream"] == pytest.approx(9 / 11, abs=1e-4)
    assert record["block"]["coverage_by_model"] == pytest.approx(0.7273)
    assert record["block"]["coverage_by_stream"] == pytest.approx(0.8182)


def test_an_eager_kernel_on_a_reused_stream_is_not_taken_for_captured(tmp_path: Path) -> None:
    profile = graph_steps(steps=4)
    last = max(kernel.start + kernel.duration for kernel in profile.kernels)
    # Stream numbers are reused; an eager task's number continues the stream's own count, far from the graph's.
    for number in range(5):
        profile.eager(last + 10_000 * (number + 1), 5_000, stream="98", step=4)
    use = find_graph_use(load_profile(str(profile.write(tmp_path))).table)
    assert use.coverage.by_stream == 40
    assert use.coverage.by_model == 40


def test_graphs_of_custom_kernels_only_are_known_by_recurring_task_numbers(tmp_path: Path) -> None:
    """Every row carries the eager Model ID; recurring Task IDs alone tell of replay (a recorded CANN 9.0 profile)."""
    profile = Profile()
    for number in range(3):
        start = number * 60_000_000
        for place in range(12):
            profile.eager(start + place * 40_000, 2_500, "DivMods", stream="44")
        profile.replay_calls.append(start + 500_000)
        for stream, task, core in (("9", 4, "AI_CPU"), ("8", 1, "MIX_AIC")):
            profile.eager(start + 1_200_000, 54_000_000, "custom", stream=stream, core=core)
            profile.kernels[-1] = profile.kernels[-1]._replace(task=task)
    record = analyze(str(profile.write(tmp_path)))
    assert record["coverage"]["by_model"] == 0
    assert record["coverage"]["by_stream"] == pytest.approx(6 / 42, abs=1e-4)
    assert record["replays"]["on_device"] == 3
    assert record["replays"]["unobservable"] is False
    profile.replay_calls = []
    without_calls = analyze(str(profile.write(tmp_path / "eager")))
    assert without_calls["coverage"]["by_stream"] == 0, "without a replay call, recurring numbers prove nothing"


def test_a_long_eager_stream_whose_task_numbers_wrapped_is_no_graph(tmp_path: Path) -> None:
    profile = Profile()
    profile.replay_calls = [1]
    for number in range(60):
        profile.eager(number * 10_000, 5_000)
        profile.kernels[-1] = profile.kernels[-1]._replace(task=65_506 + number % 30)
    assert analyze(str(profile.write(tmp_path)))["coverage"]["by_stream"] == 0


def test_replays_are_cut_where_task_numbers_start_again(tmp_path: Path) -> None:
    profile = Profile()
    time = 0
    for _ in range(5):
        time = profile.replay(time, [("MatMulV2", 0, 1_000)] * 4, model=31, stream="90") + 500
        time = profile.replay(time, [("Add", 0, 1_000)], model=32, stream="91") + 500
    replays = find_graph_use(load_profile(str(profile.write(tmp_path))).table).replays
    assert [(replay.model, replay.kernels, replay.complete) for replay in replays] == [(31, 4, True), (32, 1, True)] * 5


def test_a_replay_on_several_streams_is_one_replay(tmp_path: Path) -> None:
    profile = Profile()
    for number in range(4):
        start = number * 100_000
        for stream in ("8", "9", "10"):
            profile.replay(start, [("MatMulV2", 50, 1_000)] * 6, model=49, stream=stream)
    replays = find_graph_use(load_profile(str(profile.write(tmp_path))).table).replays
    assert [replay.kernels for replay in replays] == [18] * 4


def test_a_replay_cut_by_the_window_is_marked(tmp_path: Path) -> None:
    profile = graph_steps(steps=4)
    profile.kernels = sorted(profile.kernels)[3:-2]
    record = analyze(str(profile.write(tmp_path)))
    assert record["replays"]["on_device"] == 4
    assert record["replays"]["cut_by_window"] == 2


def test_idle_time_is_split_by_place_to_the_nanosecond(tmp_path: Path) -> None:
    profile = load_profile(str(decode(steps=2, layers=2, between=7_000_000).write(tmp_path)))
    use = find_graph_use(profile.table)
    steps = find_steps(profile, use)
    groups = group_gaps(find_gaps(profile, use, steps))
    assert {place: (group.number, group.total) for place, group in groups.items()} == {
        # The first kernel of the profile opens no gap; the replay that begins the second step is a tail.
        "entry": (2, 2 * 650_000),
        "in_graph": (4 * 8, 4 * 8 * 20),
        "seam": (4, 4 * 400_000),
        "eager": (4, 4 * 398_000),
        "tail": (1, 7_650_000),
    }
    assert set(groups) == set(gaps_module.PLACES)


def test_steps_without_numbers_begin_where_a_graph_repeats(tmp_path: Path) -> None:
    record = analyze(str(decode(steps=4, layers=5).write(tmp_path)))
    assert record["steps"]["source"] == "replay_cycle"
    assert [step["replays"] for step in record["steps"]["items"]] == [5, 5, 5, 5]
    assert record["replays"]["per_step"] == 5


def test_steps_of_two_capture_sizes_are_parted_by_their_pause(tmp_path: Path) -> None:
    profile = Profile()
    time = 0
    for size in (0, 1, 0, 1):
        for number in range(3):
            time = layer(profile, time + 10_000, 31 + 10 * size + number, str(90 + 10 * size + number))
        time += 60_000_000
    record = analyze(str(profile.write(tmp_path)))
    assert [step["replays"] for step in record["steps"]["items"]] == [3, 3, 3, 3]


def test_step_numbers_of_the_profiler_come_first(tmp_path: Path) -> None:
    record = analyze(str(graph_steps(steps=9).write(tmp_path)))
    assert record["steps"]["source"] == "step_id"
    assert record["steps"]["count"] == 9
    assert record["scope"]["steps"] == 7, "without the first and the last"


def test_marks_of_the_host_give_steps_when_tables_have_none(tmp_path: Path) -> None:
    profile = eager_steps(
        steps=6,
        kernels=10,
        duration=5_000,
        gap=5_000,
    )
    profile.kernels = [kernel._replace(step=None) for kernel in profile.kernels]
    profile.marks = [(100_000 * number, 100_000 * (number + 1), number + 3) for number in range(6)]
    record = analyze(str(profile.write(tmp_path, trace=True)))
    assert record["steps"]["source"] == "profiler_step"
    assert [step["step"] for step in record["steps"]["items"]] == [3, 4, 5, 6, 7, 8]
    assert {step["kernels"] for step in record["steps"]["items"]} == {10}


def test_prefill_steps_do_not_enter_the_judgement_of_decode(tmp_path: Path) -> None:
    profile = graph_steps(steps=10)
    last = max(kernel.start + kernel.duration for kernel in profile.kernels)
    for number in range(30):
        profile.eager(last + 2_000 + 2_000_000 * number, 5_000, "Prefill", step=10 + number // 5)
    record = analyze(str(profile.write(tmp_path)))
    assert record["scope"]["name"] == "steps with replay"
    assert record["scope"]["busy_share"] > 0.9
    assert "host_bound" not in [verdict["value"] for verdict in record["verdicts"]]


def test_busy_is_a_union_and_never_exceeds_the_step(tmp_path: Path) -> None:
    profile = Profile()
    for step in range(4):
        for stream in ("1", "2", "3"):
            profile.eager(step * 100_000, 90_000, stream=stream, step=step)
        profile.eager(step * 100_000 + 95_000, 20_000, step=step)
    record = analyze(str(profile.write(tmp_path)))
    for step in record["steps"]["items"][:-1]:
        assert step["busy_us"] == 95.0
        assert step["free_us"] == 5.0


def test_recaptures_and_unusual_operators_are_listed(tmp_path: Path) -> None:
    profile = eager_steps()
    profile.apis = {"aclmdlRICaptureBegin": 3, "aclopCompileAndExecuteV2": 12, "aclmdlRICaptureGetInfo": 192}
    profile.eager(90_000_000, 50_000, "MaskedFill", core="AI_CPU", step=7)
    profile.eager(91_000_000, 3_000_000, "MoeDistributeDispatchV2", core="MIX_AIC", step=7)
    record = analyze(str(profile.write(tmp_path)))
    assert record["replays"]["captures_in_window"] == 3, "CaptureGetInfo is a query, seen in eager runs too"
    assert [row["type"] for row in record["operators"]["ai_cpu"]] == ["MaskedFill"]
    assert [(row["type"], row["count"]) for row in record["operators"]["aclop"]] == [("aclopCompileAndExecuteV2", 12)]
    assert [row["type"] for row in record["operators"]["holds_collective"]] == ["MoeDistributeDispatchV2"]


def test_one_device_at_a_time(tmp_path: Path) -> None:
    folder = eager_steps().write(tmp_path)
    path = next(folder.rglob("kernel_details.csv"))
    lines = path.read_text(encoding="utf-8").splitlines()
    extra = [line.replace(",0,", ",1,", 1) for line in lines[1:6]]
    path.write_text("\n".join(lines + extra) + "\n", encoding="utf-8")
    record = analyze(str(folder))
    assert record["profile"]["device_tasks"] == 80
    assert any("device 0" in warning for warning in record["profile"]["warnings"])


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [([(0, 10)], [(5, 15)], 5), ([(0, 10), (20, 30)], [(5, 25)], 10), ([(0, 1)], [(1, 2)], 0), ([], [(0, 5)], 0)],
)
def test_overlap(left: list, right: list, shared: int) -> None:
    assert overlap(left, right) == overlap(right, left) == shared


def test_union_of_nested_and_touching_intervals() -> None:
    merged = union([(0, 10), (2, 3), (10, 12), (12, 12), (20, 21)])
    assert merged == [(0, 12), (20, 21)]
    assert length(merged) == 13


def test_host_launch_time_is_counted_per_step(tmp_path: Path) -> None:
    profile = eager_steps(steps=4, kernels=2, duration=5_000, gap=45_000)
    profile.launches = [(number * 50_000 + 10, 3_000 + number) for number in range(8)]
    steps = analyze(str(profile.write(tmp_path, trace=True)))["steps"]["items"]
    assert [step["host_launch_us"] for step in steps[:3]] == [6.001, 6.005, 6.009]
    without = analyze(str(eager_steps().write(tmp_path / "none", trace=True)))["steps"]["items"]
    assert without[0]["host_launch_us"] is None


def test_the_histogram_counts_every_gap_once(tmp_path: Path) -> None:
    record = analyze(str(decode().write(tmp_path)))
    counted = sum(sum(row["counts"].values()) for row in record["gap_histogram"])
    assert counted == sum(group["count"] for group in record["gaps"].values()) > 50
    small = next(row for row in record["gap_histogram"] if row["counts"]["in_graph"])
    assert (small["from_us"], small["to_us"]) == (0, 0.1)

"""Every verdict, on a profile built so that only this verdict is right; and what must not be claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from profile_maker import Profile, eager_steps, graph_steps

from npu_graph.profiles.record import analyze


def values(record: dict[str, Any]) -> list[str]:
    return [verdict["value"] for verdict in record["verdicts"]]


def verdict(record: dict[str, Any], value: str) -> dict[str, Any]:
    return next(item for item in record["verdicts"] if item["value"] == value)


def facts(record: dict[str, Any], value: str) -> dict[str, Any]:
    return {fact["what"]: fact["value"] for fact in verdict(record, value)["facts"]}


def test_host_bound_is_certain_when_work_came_after_the_device_went_idle(tmp_path: Path) -> None:
    profile = graph_steps(kernels=4, entry=200_000)
    record = analyze(str(profile.write(tmp_path, trace=True)))
    assert values(record) == ["host_bound"]
    assert verdict(record, "host_bound")["attribution"]["confidence"] == "high"
    assert facts(record, "host_bound")["host_late_share"] > 0.99


def test_host_bound_without_submission_times_is_only_likely(tmp_path: Path) -> None:
    profile = graph_steps(kernels=4, entry=200_000)
    record = analyze(str(profile.write(tmp_path)))
    assert values(record) == ["host_bound"]
    assert verdict(record, "host_bound")["attribution"]["confidence"] == "medium"
    assert "trace_view.json with host events" in [item["item"] for item in record["missing"]]


def test_idle_with_queued_work_is_a_dependency_and_not_the_host(tmp_path: Path) -> None:
    profile = Profile()
    for number in range(40):
        start = number * 100_000
        profile.eager(start, 10_000, step=number // 5, submitted=start - 500_000)
    record = analyze(str(profile.write(tmp_path, level=0, trace=True)))
    assert "device_bound" in values(record)
    assert "host_bound" not in values(record)


def test_device_bound_when_replays_follow_each_other(tmp_path: Path) -> None:
    record = analyze(str(graph_steps().write(tmp_path)))
    assert values(record) == ["device_bound"]
    assert facts(record, "device_bound")["busy_share"] == pytest.approx(50_000 / (50_000 + 9 * 20 + 2_000), abs=1e-4)


def test_gaps_inside_a_replay_are_not_blamed_on_the_host(tmp_path: Path) -> None:
    record = analyze(str(graph_steps(inside=20_000).write(tmp_path)))
    assert values(record) == ["device_bound"]
    assert facts(record, "device_bound")["gap_in_graph"] > 0.9


def test_communication_bound_counts_only_what_nothing_hides(tmp_path: Path) -> None:
    profile = Profile()
    for step in range(8):
        start = step * 100_000
        profile.replay(start, [("MatMulV2", 0, 30_000), ("Add", 0, 20_000)], step=step)
        # 50 us of collective, of which 10 us run under the kernels.
        profile.eager(start + 40_000, 50_000, "hcom_allReduce_", core="HCCL", step=step)
    record = analyze(str(profile.write(tmp_path)))
    assert record["verdict"] == "communication_bound"
    assert facts(record, "communication_bound")["exposed_share"] == pytest.approx(0.4)
    assert record["scope"]["exposed_communication_us"] == pytest.approx(40.0 * record["scope"]["steps"])


@pytest.mark.parametrize(("wait", "words"), [(90.0, "waiting for other ranks"), (5.0, "transfer")])
def test_communication_json_tells_waiting_from_transfer(tmp_path: Path, wait: float, words: str) -> None:
    profile = Profile()
    for step in range(8):
        profile.eager(step * 100_000, 30_000, "MatMulV2", step=step)
        profile.eager(step * 100_000 + 30_000, 60_000, "hcom_allReduce_", core="HCCL", step=step)
    folder = profile.write(tmp_path)
    info = {"Elapse Time(ms)": 100.0, "Transit Time(ms)": 100.0 - wait, "Wait Time(ms)": wait}
    entries = {
        "hcom_allReduce__1": {"Communication Time Info": info},
        "Total Op Info": {"Communication Time Info": info},
    }
    text = __import__("json").dumps({"step0": {"collective": entries, "p2p": {}}})
    (folder / "worker_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "communication.json").write_text(text, encoding="utf-8")
    record = analyze(str(folder))
    assert words in verdict(record, "communication_bound")["attribution"]["text"]
    assert record["communication"]["elapse_ms"] == 100.0, "the profiler's own total must not be counted twice"


def test_graph_not_used(tmp_path: Path) -> None:
    record = analyze(str(eager_steps().write(tmp_path)))
    assert record["verdict"] == "graph_not_used"
    assert "host_bound" in values(record)
    assert facts(record, "graph_not_used") == {"replay_calls": 0, "kernels_in_graph": 0}


def test_graph_partly_used_names_the_kernels_outside_by_what_they_cost(tmp_path: Path) -> None:
    profile = Profile()
    for step in range(8):
        start = step * 200_000
        end = profile.replay(start, [("MatMulV2", 0, 20_000)] * 8, step=step)
        profile.eager(end + 1_000, 2_000, "Cheap", step=step)
        profile.eager(end + 13_000, 1_000, "Attention", step=step)
    record = analyze(str(profile.write(tmp_path)))
    assert "graph_partly_used" in values(record)
    assert facts(record, "graph_partly_used")["coverage_by_stream"] == 0.8
    assert [row["type"] for row in record["outside"]] == ["Attention", "Cheap"]
    assert record["outside"][0]["gap_before_us"] == pytest.approx(10.0 * record["scope"]["steps"])


def test_a_busy_device_comes_before_the_kernels_left_outside(tmp_path: Path) -> None:
    profile = Profile()
    for step in range(8):
        end = profile.replay(step * 100_000, [("MatMulV2", 0, 10_000)] * 9, step=step)
        profile.eager(end, 9_000, "Sampling", step=step)
    record = analyze(str(profile.write(tmp_path)))
    assert values(record) == ["device_bound", "graph_partly_used"]
    assert facts(record, "graph_partly_used")["edge_share"] == 0


def test_too_few_replays_when_most_steps_run_eager(tmp_path: Path) -> None:
    profile = eager_steps(steps=10, gap=0)
    last = max(kernel.start + kernel.duration for kernel in profile.kernels)
    for number in range(6):
        profile.replay(last + number * 10_000, [("MatMulV2", 0, 9_900)], step=10 + number // 3)
    record = analyze(str(profile.write(tmp_path)))
    assert record["verdict"] == "too_few_replays"
    assert facts(record, "too_few_replays")["steps_with_replay"] == 2


def test_too_few_replays_when_every_replay_is_captured_anew(tmp_path: Path) -> None:
    profile = graph_steps()
    profile.apis["aclmdlRICaptureBegin"] = 8
    record = analyze(str(profile.write(tmp_path)))
    assert record["verdict"] == "too_few_replays"
    assert facts(record, "too_few_replays")["captures"] == 8


def test_padding_waste_from_the_real_size(tmp_path: Path) -> None:
    folder = str(graph_steps(size=16).write(tmp_path))
    assert "padding_waste" not in values(analyze(folder, real_size=15))
    record = analyze(folder, real_size=5)
    assert facts(record, "padding_waste") == {"padded_share": 0.6875, "captured_size": 16, "real_size": 5}


def test_padding_waste_from_an_eager_profile_of_the_same_work(tmp_path: Path) -> None:
    graph = graph_steps(size=16).write(tmp_path / "graph")
    eager = eager_steps(shapes="4,896;896,896").write(tmp_path / "eager")
    record = analyze(str(graph), str(eager))
    assert record["comparison"]["match_level"] == "padded"
    assert facts(record, "padding_waste")["padded_share"] == 0.75
    attribution = verdict(record, "padding_waste")["attribution"]
    assert attribution["confidence"] == "medium"
    assert "if both ran the same requests" in attribution["text"]


def test_unobservable_replays_are_never_called_idle(tmp_path: Path) -> None:
    profile = eager_steps(gap=500_000)
    profile.replay_calls = [1000 * number for number in range(75)]
    record = analyze(str(profile.write(tmp_path)))
    assert values(record) == ["insufficient"]
    assert record["replays"]["unobservable"] is True
    assert "unobservable" in record["verdicts"][0]["attribution"]["text"]
    assert record["missing"][0]["item"] == "kernel rows of replays"


def test_model_execute_tasks_alone_prove_that_replays_ran(tmp_path: Path) -> None:
    profile = eager_steps(gap=500_000)
    profile.replay_calls = [1000 * number for number in range(9)]
    record = analyze(str(profile.write(tmp_path, apis=False, trace=True)))
    assert record["replays"]["executes_on_device"] == 9
    assert values(record) == ["insufficient"]


def test_level0_tables_alone_cannot_tell_graph_from_eager(tmp_path: Path) -> None:
    record = analyze(str(graph_steps().write(tmp_path, level=0, apis=False)))
    assert record["verdict"] == "insufficient"
    assert "Model ID" in [item["item"] for item in record["missing"]]
    assert all("Level1" in item["how"] for item in record["missing"] if item["item"] == "Model ID")


def test_level0_tables_with_a_trace_take_coverage_from_the_trace(tmp_path: Path) -> None:
    record = analyze(str(graph_steps().write(tmp_path, level=0, apis=False, trace=True)))
    assert record["profile"]["task_source"] == "trace_view"
    assert record["coverage"]["by_model"] == 1.0
    assert any("trace_view.json only" in warning for warning in record["profile"]["warnings"])


def test_a_handful_of_kernels_is_no_profile(tmp_path: Path) -> None:
    profile = Profile()
    profile.eager(0, 1_000)
    assert analyze(str(profile.write(tmp_path)))["verdict"] == "insufficient"


def test_kernel_rows_that_cover_part_of_the_replays_are_said_so(tmp_path: Path) -> None:
    profile = graph_steps()
    profile.replay_calls += [10_000_000] * 67
    record = analyze(str(profile.write(tmp_path)))
    assert any(warning.startswith("75 replays ran, kernel rows show 8") for warning in record["profile"]["warnings"])


def test_every_conclusion_carries_facts_and_keeps_the_guess_apart(tmp_path: Path) -> None:
    record = analyze(str(eager_steps().write(tmp_path)))
    assert record["verdicts"]
    for item in record["verdicts"]:
        assert item["facts"]
        assert item["attribution"]["text"]
        assert item["attribution"]["confidence"] in ("high", "medium", "low")
        assert item["confirm"]

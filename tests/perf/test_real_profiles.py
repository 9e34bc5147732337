"""Recorded profiles from public repositories: what a reader of them found by hand must come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npu_graph import bundle
from npu_graph.profiles.record import analyze

pytestmark = pytest.mark.shared
SAMPLES = bundle.ROOT.parent / "shared" / "samples"


def sample(name: str) -> str:
    folder: Path = SAMPLES / name
    if not folder.is_dir():
        pytest.skip("the field data folder is not beside the project")
    return str(folder)


@pytest.fixture(scope="module")
def pair() -> dict[str, Any]:
    return analyze(sample("pair_eager_vs_piecewise_graph/graph"), sample("pair_eager_vs_piecewise_graph/eager"))


def test_the_graph_really_replayed(pair: dict[str, Any]) -> None:
    assert pair["replays"]["host_calls"] == 75
    assert pair["replays"]["host_call_mean_us"] == pytest.approx(10.13, abs=0.01)
    assert pair["comparison"]["same_work"]["kernels_graph"] == pair["comparison"]["same_work"]["kernels_eager"] == 1279


def test_coverage_by_model_and_by_stream_differ(pair: dict[str, Any]) -> None:
    assert pair["block"]["coverage_by_model"] == pytest.approx(0.727, abs=5e-4)
    assert pair["block"]["coverage_by_stream"] == pytest.approx(0.818, abs=5e-4)


def test_the_window_says_slower_and_decode_is_twice_as_fast(pair: dict[str, Any]) -> None:
    assert pair["comparison"]["window"]["speedup"] == pytest.approx(348914.25 / 409825.0, abs=1e-3)
    block = pair["comparison"]["blocks"][0]
    assert block["kernels"] == 11
    assert block["speedup"] == pytest.approx(1.96, abs=0.05)
    assert block["conclusive"] is False, "four and three layers are too few to conclude from"


def test_gaps_vanish_inside_and_stay_at_entry_and_seam(pair: dict[str, Any]) -> None:
    gaps = pair["gaps"]
    assert gaps["in_graph"]["max_us"] < 0.2
    assert 640 < gaps["entry"]["median_us"] < 690
    assert 420 < gaps["seam"]["median_us"] < 510
    assert [row["type"] for row in pair["outside"][:2]] == ["FusedInferAttentionScore", "ReshapeAndCacheNdKernel"]


def test_small_matmuls_are_longer_back_to_back_and_large_ones_are_not(pair: dict[str, Any]) -> None:
    rows = {row["kernel"]: row for row in pair["comparison"]["blocks"][0]["kernel_changes"]}
    small = rows["MatMulV2 1,896;896,896"]
    assert small["mean_graph_us"] == pytest.approx(10.1, abs=0.3)
    assert small["mean_eager_us"] == pytest.approx(5.4, abs=0.3)
    assert small["count_graph"] == small["count_eager"] == 1
    large = rows["MatMulV2 1,896;9728,896"]
    assert large["mean_graph_us"] == pytest.approx(large["mean_eager_us"], rel=0.05)


def test_the_verdict_is_host_bound_with_attention_outside(pair: dict[str, Any]) -> None:
    assert [verdict["value"] for verdict in pair["verdicts"]] == ["host_bound", "graph_partly_used"]
    assert pair["verdicts"][0]["attribution"]["confidence"] == "medium", "no submission times in these files"


def test_the_eager_side_of_the_pair() -> None:
    record = analyze(sample("pair_eager_vs_piecewise_graph/eager"))
    assert record["verdict"] == "graph_not_used"
    assert record["coverage"]["by_stream"] == 0
    assert record["scope"]["busy_share"] < 0.03


def test_a_level0_table_takes_its_coverage_from_the_trace() -> None:
    record = analyze(sample("graph_level0_full_decode"))
    assert record["profile"]["task_source"] == "trace_view"
    assert record["replays"]["on_device"] == record["replays"]["executes_on_device"] == 1
    assert any("trace_view.json only" in warning for warning in record["profile"]["warnings"])


def test_training_profiles_of_2023_are_read() -> None:
    record = analyze(sample("msprof_analyze"))
    assert record["steps"]["source"] == "step_id"
    assert record["scope"]["exposed_communication_us"] > record["scope"]["computing_us"]


def test_a_msprof_op_summary_is_read() -> None:
    record = analyze(sample("op_summary_real"))
    assert record["profile"]["task_source"] == "op_summary"
    assert record["scope"]["window_us"] == pytest.approx(84458.48, abs=0.01)
    assert record["verdict"] == "insufficient"

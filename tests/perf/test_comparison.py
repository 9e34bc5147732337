"""Graph against eager: equal blocks, an exact split of the difference, and no trust in whole windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from profile_maker import Profile, eager_steps, graph_steps
from test_graph_use import GRAPH_KERNELS, decode

from npu_graph import bundle
from npu_graph.profiles.blocks import kernel_key
from npu_graph.profiles.record import analyze


def eager_decode(steps: int = 3, layers: int = 4, gap: int = 280_000, prefill: int = 0) -> Profile:
    profile = Profile()
    time = 0
    for number in range(prefill):
        profile.eager(time, 5_000, f"Prefill{number}")
        time += 10_000
    for _ in range(steps):
        for _ in range(layers):
            for name in GRAPH_KERNELS:
                profile.eager(time + gap, 5_000, name)
                time += gap + 5_000
            profile.eager(time + gap, 3_000, "_triton_rope")
            profile.eager(time + 2 * gap, 2_000, "ReshapeAndCacheNdKernel")
            profile.eager(time + 3 * gap, 20_000, "FusedInferAttentionScore")
            time += 3 * gap + 20_000
        time += 50_000_000
    return profile


def compare(tmp_path: Path, graph: Profile, eager: Profile) -> dict[str, Any]:
    record = analyze(str(graph.write(tmp_path / "graph")), str(eager.write(tmp_path / "eager")))
    comparison = record["comparison"]
    assert comparison is not None
    return dict(comparison)


def test_the_same_layer_is_found_in_both_and_its_speedup_is_exact(tmp_path: Path) -> None:
    comparison = compare(tmp_path, decode(), eager_decode())
    block = comparison["blocks"][0]
    assert block["kernels"] == 11
    graph_layer = 650_000 + 8 * 5_000 + 7 * 20 + 3_020 + 820_000
    eager_layer = 8 * 285_000 + 3 * 280_000 + 20_000
    assert block["speedup"] == pytest.approx(eager_layer / graph_layer, abs=1e-3)
    assert block["conclusive"] is True
    assert block["coverage"] == {"by_model": 0.7273, "by_stream": 0.8182}


def test_the_parts_of_the_difference_add_up(tmp_path: Path) -> None:
    change = compare(tmp_path, decode(), eager_decode())["blocks"][0]["difference_us"]
    assert change["total"] == pytest.approx(change["computing"] + change["exposed"] + change["free"], abs=0.002)
    assert change["total"] < 0
    assert change["free"] == pytest.approx(change["total"], abs=1.0)


def test_longer_kernels_are_told_from_more_kernels(tmp_path: Path) -> None:
    graph = graph_steps(steps=12, duration=6_000)
    eager = eager_steps(steps=12, duration=5_000, shapes="16,896;896,896")
    rows = {
        row["kernel"].partition(" ")[0]: row for row in compare(tmp_path, graph, eager)["blocks"][0]["kernel_changes"]
    }
    assert rows["MatMulV2"]["count_graph"] == rows["MatMulV2"]["count_eager"]
    assert rows["MatMulV2"]["by_count_us"] == 0
    assert rows["MatMulV2"]["by_duration_us"] == pytest.approx(rows["MatMulV2"]["count_graph"] * 1.0)


def test_a_slower_window_does_not_hide_a_faster_decode(tmp_path: Path) -> None:
    graph, eager = decode(), eager_decode()
    folders = {"graph": graph.write(tmp_path / "graph"), "eager": eager.write(tmp_path / "eager")}
    for name, stage in (("graph", "409825.0"), ("eager", "348914.25")):
        path = next(folders[name].rglob("kernel_details.csv")).with_name("step_trace_time.csv")
        head = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage"
        path.write_text(f"{head}\n0,,100,0,0,0,{float(stage) - 100},{stage}\n", encoding="utf-8")
    record = analyze(str(folders["graph"]), str(folders["eager"]))["comparison"]
    assert record["window"]["speedup"] == 0.851
    assert record["blocks"][0]["speedup"] > 1.5
    script = bundle.ROOT / "graph-perf" / "scripts" / "analyze_profile.py"
    import subprocess
    import sys

    text = subprocess.run(
        [sys.executable, str(script), str(folders["graph"]), "--against", str(folders["eager"])],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert "trust the blocks" in text


def test_few_blocks_are_indicative_only(tmp_path: Path) -> None:
    comparison = compare(tmp_path, decode(steps=1, layers=5), eager_decode(steps=1, layers=5))
    assert comparison["blocks"]
    assert all(not block["conclusive"] for block in comparison["blocks"])


def test_blocks_without_shapes_are_indicative_only(tmp_path: Path) -> None:
    graph, eager = graph_steps(steps=12), eager_steps(steps=12)
    for profile in (graph, eager):
        profile.kernels = [kernel._replace(shapes="") for kernel in profile.kernels]
    blocks = compare(tmp_path, graph, eager)["blocks"]
    assert blocks
    assert not any(block["conclusive"] for block in blocks)


def test_profiles_of_other_work_are_not_compared(tmp_path: Path) -> None:
    other = Profile()
    for number in range(50):
        other.eager(number * 10_000, 5_000, f"Other{number % 5}")
    comparison = compare(tmp_path, decode(), other)
    assert comparison["blocks"] == []
    assert any("did not run the same kernels" in warning for warning in comparison["warnings"])


def test_a_graph_profile_given_as_eager_is_noticed(tmp_path: Path) -> None:
    comparison = compare(tmp_path, decode(), decode())
    assert "the profile given as eager replays graphs too" in comparison["warnings"]


def test_other_formats_are_marked(tmp_path: Path) -> None:
    graph = eager_steps(steps=12, formats="ND;FRACTAL_NZ")
    rows = compare(tmp_path, graph, eager_steps(steps=12))["blocks"][0]["kernel_changes"]
    assert any(row["formats_differ"] for row in rows)


def test_host_launches_saved_and_replay_calls_added(tmp_path: Path) -> None:
    graph, eager = decode(), eager_decode()
    graph.apis["launch"], eager.apis["launch"] = 24, 132
    host = compare(tmp_path, graph, eager)["host"]
    assert host["launches_saved"] == 108
    assert host["launch_time_saved_us"] == 1080
    assert (host["replay_calls"], host["replay_call_time_us"]) == (12, 120)


@pytest.mark.parametrize(
    ("level", "key"),
    [
        ("exact", "MatMul 8,896;11801,896"),
        ("tokens", "MatMul 8,896;*,896"),
        ("padded", "MatMul *,896;*,896"),
        ("type", "MatMul"),
    ],
)
def test_levels_of_likeness(level: str, key: str) -> None:
    assert kernel_key("MatMul_1", "8,896;11801,896", level) == key

"""Where the eager/graph difference comes from: each cause on profiles built with that difference, and an exact sum."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from profile_maker import Profile, eager_steps, graph_steps
from test_comparison import eager_decode
from test_graph_use import decode

from npu_graph.profiles.record import analyze
from npu_graph.profiles.report import write_report


def first_block(tmp_path: Path, graph: Profile, eager: Profile) -> dict[str, Any]:
    record = analyze(str(graph.write(tmp_path / "graph")), str(eager.write(tmp_path / "eager")))
    return dict(record["comparison"]["blocks"][0])


def causes(block: dict[str, Any]) -> dict[str, float]:
    return {row["cause"]: row["change_us"] for row in block["causes"]}


def with_collectives(profile: Profile, length: int) -> Profile:
    """Add a collective to every step, half hidden behind the step's kernels."""
    for kernel in [kernel for kernel in profile.kernels if kernel.type == "MatMulV2"]:
        start = kernel.start + kernel.duration - length // 2
        profile.eager(start, length, "hcom_allReduce_", core="HCCL", shapes="", step=kernel.step)
    return profile


CASES = [
    (
        lambda: with_collectives(graph_steps(steps=12, inside=9_000), 8_000),
        lambda: with_collectives(eager_steps(steps=12, shapes="16,896;896,896"), 6_000),
    ),
    (decode, eager_decode),
    (lambda: graph_steps(steps=12, duration=6_000), lambda: eager_steps(steps=12, shapes="16,896;896,896")),
    (lambda: graph_steps(steps=12, size=64), lambda: eager_steps(steps=12, shapes="16,896;896,896")),
    (lambda: eager_steps(steps=12, formats="ND;FRACTAL_NZ"), lambda: eager_steps(steps=12)),
]


@pytest.mark.parametrize(("graph", "eager"), CASES)
def test_the_causes_add_up_to_the_difference(tmp_path: Path, graph: Any, eager: Any) -> None:
    block = first_block(tmp_path, graph(), eager())
    assert sum(causes(block).values()) == pytest.approx(block["difference_us"]["total"], abs=0.01)


def test_launch_gaps_go_and_new_gaps_come_at_the_edges(tmp_path: Path) -> None:
    block = first_block(tmp_path, decode(), eager_decode())
    found = causes(block)
    # Eager: nine gaps of 280 us, one of 277 and one of 278. Graph: 650 us before a replay, 400 us after it and 398 us
    # between the two eager kernels.
    assert found["launch_gaps"] == pytest.approx(398 - (9 * 280 + 277 + 278))
    assert found["seam_gaps"] == pytest.approx(400)
    assert found["entry_gaps"] == pytest.approx(650)
    assert found["in_graph_gaps"] == pytest.approx(8 * 0.02)
    assert (block["launches"]["eager"], block["launches"]["graph"]) == (11, 2)


def test_a_pause_between_steps_enters_no_mean(tmp_path: Path) -> None:
    graph = first_block(tmp_path, decode(), eager_decode())["graph"]
    assert graph["left_out_of_means"] == 2
    assert graph["mean_us"] == pytest.approx(graph["median_us"])


def test_longer_kernels_are_one_cause(tmp_path: Path) -> None:
    graph, eager = graph_steps(steps=12, duration=6_000), eager_steps(steps=12, shapes="16,896;896,896")
    block = first_block(tmp_path, graph, eager)
    assert causes(block)["kernel_time"] == pytest.approx(block["kernels"] * 1.0)
    assert "padding" not in causes(block)


def test_padding_is_a_cause_with_its_own_time(tmp_path: Path) -> None:
    graph = graph_steps(steps=12, size=64, duration=9_000)
    block = first_block(tmp_path, graph, eager_steps(steps=12, shapes="16,896;896,896"))
    rows = {row["cause"]: row for row in block["causes"]}
    assert (block["padding"]["graph_size"], block["padding"]["eager_size"]) == (64, 16)
    assert block["padding"]["padded_share"] == 0.75
    assert rows["padding"]["change_us"] == pytest.approx(block["kernels"] * 4.0)
    assert rows["padding"]["kind"] == "attribution"
    assert "kernel_time" not in rows


def test_other_formats_and_other_kernels_are_causes(tmp_path: Path) -> None:
    graph = eager_steps(steps=12, duration=7_000, formats="ND;FRACTAL_NZ")
    found = causes(first_block(tmp_path / "formats", graph, eager_steps(steps=12)))
    assert found["other_formats"] > 0
    graph = eager_steps(steps=12, duration=7_000)
    folder = graph.write(tmp_path / "names" / "graph")
    table = next(folder.rglob("kernel_details.csv"))
    table.write_text(table.read_text(encoding="utf-8").replace("aclnnMatMulV2", "aclnnMatMulV3"), encoding="utf-8")
    record = analyze(str(folder), str(eager_steps(steps=12).write(tmp_path / "names" / "eager")))
    found = causes(record["comparison"]["blocks"][0])
    assert found["other_kernels"] > 0
    assert found["kernel_time"] > 0, "kernels of the same name are no others"


def test_host_time_saved_is_told_and_not_added_to_device_time(tmp_path: Path) -> None:
    graph, eager = decode(), eager_decode()
    eager.apis["launch"] = 132
    block = first_block(tmp_path, graph, eager)
    assert block["launches"]["saved"] == 9
    assert block["launches"]["host_time_saved_us"] == pytest.approx(9 * 10.0)
    assert sum(causes(block).values()) == pytest.approx(block["difference_us"]["total"], abs=0.01)


def test_a_number_that_rests_on_a_guess_is_called_one(tmp_path: Path) -> None:
    graph = graph_steps(steps=12, size=64, duration=9_000).write(tmp_path / "g")
    eager = eager_steps(steps=12, shapes="16,896;896,896").write(tmp_path / "e")
    record = analyze(str(graph), str(eager))
    line = next(row for row in write_report(record, "text", "en").splitlines() if "(padding)" in row)
    assert line.endswith("attribution")
    assert "归因" in next(row for row in write_report(record, "text", "zh").splitlines() if "行数更多" in row)


def test_idle_time_of_each_step_is_split_by_place(tmp_path: Path) -> None:
    record = analyze(str(decode(steps=6).write(tmp_path)))
    steps = [step for step in record["steps"]["items"] if step["complete"]]
    assert len(steps) >= 4
    for step in steps:
        assert sum(step["gaps_us"].values()) == pytest.approx(step["free_us"], abs=0.01)
        assert step["gaps_us"]["entry"] > step["gaps_us"]["in_graph"] > 0


def shuffled(seed: int, graph: bool) -> Profile:
    """Blocks of the same kernels with random gaps, durations and overlaps on two streams, some of them in graphs."""
    source = random.Random(seed)
    profile = Profile()
    time = 0
    for step in range(source.randrange(5, 15)):
        if graph:
            body = [(name, source.choice([0, 20, 3_000]), source.randrange(1, 40_000)) for name in ("A", "B", "C")]
            time = profile.replay(time + source.randrange(0, 300_000), body, step=step)
        for name in ("D", "E", "hcom_allReduce_") if graph else ("A", "B", "C", "D", "E", "hcom_allReduce_"):
            core = "HCCL" if name.startswith("hcom") else "AI_CORE"
            length = source.randrange(1, 40_000)
            profile.eager(time, length, name, core=core, stream=source.choice(["46", "47"]), step=step)
            time += source.choice([length // 2, length, length + source.randrange(1, 90_000)])
        time += 50_000
    return profile


@pytest.mark.parametrize("seed", range(12))
def test_the_causes_of_random_profiles_add_up_too(tmp_path: Path, seed: int) -> None:
    graph, eager = shuffled(seed, graph=True), shuffled(1000 + seed, graph=False)
    record = analyze(str(graph.write(tmp_path / "graph")), str(eager.write(tmp_path / "eager")))
    assert record["comparison"]["blocks"]
    for block in record["comparison"]["blocks"]:
        assert sum(causes(block).values()) == pytest.approx(block["difference_us"]["total"], abs=0.02)
        for side in ("graph", "eager"):
            part = block[side]
            assert part["mean_us"] == pytest.approx(
                part["computing_us"] + part["exposed_communication_us"] + part["free_us"], abs=0.01
            )
    for step in record["steps"]["items"]:
        assert sum(step["gaps_us"].values()) <= step["free_us"] + 0.01

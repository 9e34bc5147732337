"""Our sums against MindStudio's msprof-analyze (PyPI), where both compute the same thing from the same files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from profile_maker import EPOCH, Profile, us

from npu_graph import bundle
from npu_graph.profiles import intervals
from npu_graph.profiles.loading import load_profile
from npu_graph.profiles.record import analyze

pytestmark = [pytest.mark.crosscheck, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
pytest.importorskip("msprof_analyze", reason="msprof-analyze is not installed: pip install msprof-analyze")

SAMPLES = bundle.ROOT.parent / "shared" / "samples"


def random_profile(seed: int) -> Profile:
    """Kernels on two streams and collectives beside them, overlapping at random."""
    source = random.Random(seed)
    profile = Profile()
    time = 0
    for number in range(60):
        time += source.randrange(0, 40_000)
        profile.eager(time, source.randrange(1_000, 50_000), ("MatMulV2", "Add")[number % 2], stream=str(number % 2))
        if number % 3 == 0:
            start = time + source.randrange(0, 30_000)
            profile.eager(start, source.randrange(5_000, 90_000), "hcom_allReduce_", core="HCCL")
    return profile


def spans(profile: Profile, communication: bool) -> list[tuple[int, int]]:
    return sorted((k.start, k.start + k.duration) for k in profile.kernels if (k.core == "HCCL") == communication)


@pytest.mark.parametrize("seed", range(5))
def test_unions_and_uncovered_communication_agree(seed: int) -> None:
    import pandas
    from msprof_analyze.cluster_analyse.common_func.time_range_calculator import RangeCaculator, TimeRange

    profile = random_profile(seed)
    work, talk = spans(profile, False), spans(profile, True)
    ours_work, ours_talk = intervals.union(work), intervals.union(talk)
    exposed = intervals.length(ours_talk) - intervals.overlap(ours_work, ours_talk)
    theirs = RangeCaculator.compute_uncovered_durations([TimeRange(*s) for s in talk], [TimeRange(*s) for s in work])
    assert sum(theirs) == exposed
    start, end = min(work + talk)[0], max(stop for _, stop in work + talk)
    frame = pandas.DataFrame(work + talk, columns=["start", "end"])
    idle = sum(b - a for a, b in RangeCaculator.generate_free_intervals(start, end, frame))
    assert idle == end - start - intervals.length(intervals.union(sorted(work + talk)))


def overlap_lane(profile: Profile) -> list[dict[str, Any]]:
    """The profiler's own lane, made independently: every moment is computing, uncovered communication, or free."""
    edges = sorted({edge for k in profile.kernels for edge in (k.start, k.start + k.duration)})
    events: list[dict[str, Any]] = [
        {"name": "process_name", "pid": 20, "tid": 0, "ph": "M", "args": {"name": "Overlap Analysis"}}
    ]
    for left, right in zip(edges, edges[1:]):
        running = [k for k in profile.kernels if k.start <= left and k.start + k.duration >= right]
        computing = any(k.core != "HCCL" for k in running)
        name = "Computing" if computing else "Communication(Not Overlapped)" if running else "Free"
        event = {"name": name, "pid": 20, "tid": 1, "ph": "X", "ts": us(EPOCH + left), "dur": (right - left) / 1000}
        events.append({**event, "args": {}})
    return events


@pytest.mark.parametrize("seed", range(3))
def test_computing_communication_and_free_agree_on_a_whole_profile(tmp_path: Path, seed: int) -> None:
    from msprof_analyze.compare_tools.compare_backend.disaggregate.overall_perf_interface import OverallPerfInterface

    profile = random_profile(seed)
    folder = profile.write(tmp_path)
    output = next(folder.rglob("kernel_details.csv")).parent
    events = overlap_lane(profile)
    (output / "trace_view.json").write_text(json.dumps(events), encoding="utf-8")
    (output.parent / "profiler_info.json").write_text("{}", encoding="utf-8")
    theirs = OverallPerfInterface(str(output.parent)).run()["overall"]
    scope = analyze(str(folder))["scope"]
    assert theirs["computing_time_ms"] == pytest.approx(scope["computing_us"] / 1000, abs=1e-3)
    assert theirs["uncovered_communication_time_ms"] == pytest.approx(
        scope["exposed_communication_us"] / 1000, abs=1e-3
    )
    assert theirs["free_time_ms"] == pytest.approx(scope["free_us"] / 1000, abs=1e-3)
    assert theirs["e2e_time_ms"] == pytest.approx(scope["window_us"] / 1000, abs=1e-3)


def their_totals(path: Path) -> dict[str, tuple[int, float]]:
    from msprof_analyze.compare_tools.compare_backend.compare_bean.origin_data_bean.kernel_details_bean import (
        KernelDetailsBean,
    )
    from msprof_analyze.prof_common.file_manager import FileManager

    totals: dict[str, tuple[int, float]] = {}
    for row in FileManager.read_csv_file(str(path), KernelDetailsBean):
        count, total = totals.get(row.op_type, (0, 0.0))
        totals[row.op_type] = (count + 1, total + row.duration)
    return totals


def our_totals(folder: Path) -> dict[str, tuple[int, float]]:
    table = load_profile(str(folder)).table
    totals: dict[str, tuple[int, float]] = {}
    for index in range(len(table)):
        type_ = table.text("type", index)
        count, total = totals.get(type_, (0, 0.0))
        totals[type_] = (count + 1, total + table.duration[index] / 1000)
    return totals


def assert_same(ours: dict[str, tuple[int, float]], theirs: dict[str, tuple[int, float]]) -> None:
    assert ours
    assert ours.keys() == theirs.keys()
    for type_, (count, total) in ours.items():
        assert theirs[type_][0] == count
        assert theirs[type_][1] == pytest.approx(total, abs=1e-3)


def test_top_operators_agree(tmp_path: Path) -> None:
    folder = random_profile(1).write(tmp_path)
    assert_same(our_totals(folder), their_totals(next(folder.rglob("kernel_details.csv"))))


@pytest.mark.shared
@pytest.mark.parametrize("kind", ["eager", "graph"])
def test_top_operators_agree_on_a_real_profile(kind: str) -> None:
    folder = SAMPLES / "pair_eager_vs_piecewise_graph" / kind
    if not folder.is_dir():
        pytest.skip("the field data folder is not beside the project")
    assert_same(our_totals(folder), their_totals(folder / "kernel_details.excerpt.csv"))

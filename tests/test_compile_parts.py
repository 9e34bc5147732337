"""The parts of torch_npu that torch.compile passes through: places by wheel, and the wheels that a stack's lines fit."""

from __future__ import annotations

import json
from typing import Any, Callable

import pytest
from support import ROOT, run_script

from npu_graph.bundle import SEED_KNOWLEDGE
from npu_graph.diagnosis.report import render_text
from npu_graph.framework_map import COMPILE_PARTS, FrameworkMap

Diagnose = Callable[..., "dict[str, Any]"]
LOCATE = "graph-mode-expert/scripts/locate_source.py"


def stack(*frames: tuple[str, int, str], error: str = "ImportError: cannot import name 'CachingAutotuner'") -> str:
    rows = [f'  File "/srv/site-packages/torch_npu/{file}", line {line}, in {name}' for file, line, name in frames]
    return "\n".join(["Traceback (most recent call last):", *rows, error, ""])


# As wheel 2.6.0 has them.
REGISTER = (
    ("utils/_dynamo.py", 152, "register_inductor_npu"),
    ("_inductor/__init__.py", 89, "_replace_benchmark_all_configs"),
)
PATCHED = (*REGISTER, ("_inductor/codegen/triton.py", 9, "get_axis_dtype"))


@pytest.fixture(scope="module")
def parts() -> FrameworkMap:
    return FrameworkMap.load(COMPILE_PARTS, [SEED_KNOWLEDGE])


# Read in the wheels: (function, wheel, line).
READ = [
    ("NPUIndexTritonKernel.get_axis_dtype", "2.6.0", 514),
    ("NPUIndexTritonKernel.get_axis_dtype", "2.12.0", 561),
    ("_InductorNpuRegistry.register_inductor_npu", "2.9.0.post2", 117),
    ("_load_triton_backend._replace_benchmark_all_configs", "2.12.0", 122),
]


@pytest.mark.parametrize(("function", "wheel", "line"), READ)
def test_a_function_stands_where_the_wheel_has_it(parts: FrameworkMap, function: str, wheel: str, line: int) -> None:
    (site,) = [site for site in parts.named(function) if site.function == function]
    assert parts.lines_in(site, wheel) == (line,)


def test_the_releases_are_wheels_of_every_pytorch(parts: FrameworkMap) -> None:
    assert {"2.1.0.post13", "2.7.1.post2", "2.10.0", "2.14.0"} <= set(parts.releases)
    assert parts.repository == "Ascend/pytorch" and all("torch_npu-" in origin for origin in parts.origins.values())


# --- the diagnosis -----------------------------------------------------------------------------------------------


def wheels_of(record: dict[str, Any]) -> dict[str, Any]:
    (found,) = [item for item in record["environment"]["framework_releases"] if item["name"] == COMPILE_PARTS]
    return found


def places_of(record: dict[str, Any]) -> dict[str, tuple[Any, Any, bool]]:
    return {item["function"]: (item["line"], item["version"], item["exact"]) for item in record["anchors"]}


def test_a_stack_without_a_version_tells_the_wheel(diagnose_text: Diagnose) -> None:
    record = diagnose_text(stack(*REGISTER))
    assert wheels_of(record)["releases"] == ["2.6.0"]
    assert "torch_npu wheels that the stack's lines fit: 2.6.0" in render_text(record)
    assert places_of(record)["_replace_benchmark_all_configs"] == (89, "2.6.0", True)


def test_a_stated_version_that_the_lines_contradict_is_said(diagnose_text: Diagnose) -> None:
    record = diagnose_text("torch_npu==2.9.0\n" + stack(*REGISTER))
    assert wheels_of(record)["contradicts"]
    assert "this contradicts the version that the report states" in render_text(record)
    assert places_of(record)["register_inductor_npu"] == (152, "2.6.0", True)


def test_a_release_is_its_wheels(diagnose_text: Diagnose) -> None:
    record = diagnose_text("torch_npu==7.0.0, torch 2.6.0\n" + stack(*REGISTER))
    assert not wheels_of(record)["contradicts"]


def test_a_line_that_no_wheel_has_is_of_a_build_of_the_users_own(diagnose_text: Diagnose) -> None:
    record = diagnose_text(stack(*PATCHED))
    assert wheels_of(record)["not_explained"] == ["get_axis_dtype at torch_npu/_inductor/codegen/triton.py:9"]
    assert not places_of(record)["get_axis_dtype"][2]
    assert "none of the known ones" in render_text(record)


def test_the_wheels_of_the_stated_torch_are_meant(diagnose_text: Diagnose) -> None:
    frame = ("utils/_dynamo.py", 161, "new_call")
    several = wheels_of(diagnose_text(stack(frame)))["releases"]
    of_torch = wheels_of(diagnose_text("torch 2.8.0\n" + stack(frame)))["releases"]
    assert len(several) > len(of_torch) >= 1 and all(wheel.startswith("2.8.0") for wheel in of_torch)


def test_later_changes_are_those_that_the_wheel_lacks(diagnose_text: Diagnose) -> None:
    found = diagnose_text(stack(*REGISTER, error="ImportError: triton_heuristics CachingAutotuner inductor import"))
    assert found["later_fixes"] and all(item["after"] for item in found["later_fixes"])


def test_a_report_of_the_graph_core_does_not_read_this_map(diagnose_text: Diagnose) -> None:
    example = (ROOT / "graph-mode-diagnostics/examples/default_stream.txt").read_text(encoding="utf-8")
    names = [item["name"] for item in diagnose_text(example)["environment"]["framework_releases"]]
    assert COMPILE_PARTS not in names


# --- locate_source.py --------------------------------------------------------------------------------------------


def locate(*arguments: str) -> list[dict[str, Any]]:
    done = run_script(LOCATE, *arguments, "--output", "json")
    return [match for result in json.loads(done.stdout)["results"] for match in result["matches"]]


def test_a_name_is_located_in_the_wheel_asked_for() -> None:
    (match,) = locate("get_axis_dtype", "--torch-npu", "2.8.0")
    assert (match["function"], match["line"], match["release"], match["exact"]) == (
        "NPUIndexTritonKernel.get_axis_dtype",
        547,
        "2.8.0",
        True,
    )
    shown = run_script(LOCATE, "get_axis_dtype", "--torch-npu", "2.8.0").stdout.decode()
    assert "torch_npu release: 7.2.0" in shown and "triton.py:547" in shown


def test_a_release_whose_wheels_agree_has_one_line() -> None:
    by_file = {match["file"]: match for match in locate("fx_run_eagerly", "--torch-npu", "26.0.0")}
    assert by_file["torch_npu/dynamo/npugraph_ex/_acl_concrete_graph/acl_graph.py"]["line"] == 892
    assert by_file["torch_npu/dynamo/npugraph_ex/_acl_concrete_graph/acl_graph.py"]["repo"] == "torch_npu wheel"
    assert by_file["torch_npu/dynamo/torchair/_acl_concrete_graph/acl_graph.py"]["repo"] == "Ascend/torchair"


def test_a_release_whose_wheels_differ_has_a_line_for_each() -> None:
    (match,) = locate("_replace_benchmark_all_configs", "--torch-npu", "26.0.0")
    assert match["line"] is None
    assert match["lines_by_release"] == {
        "2.7.1.post4": "155",
        "2.8.0.post4": "113",
        "2.9.0.post2": "109",
        "2.10.0": "98",
    }


def test_the_record_has_every_place_of_a_name_and_the_text_says_how_many_more() -> None:
    found = locate("__init__", "--framework", "vllm-ascend==0.18.0")
    shown = run_script(LOCATE, "__init__", "--framework", "vllm-ascend==0.18.0").stdout.decode()
    assert len(found) > 20 and f"{len(found) - 6} more; --all prints them" in shown


def test_only_serving_frameworks_are_looked_in_where_one_is_asked_for() -> None:
    assert locate("get_axis_dtype", "--framework", "vllm-ascend") == []


def test_a_change_of_torch_npu_tells_its_lines_in_the_wheel_of_the_release(parts: FrameworkMap) -> None:
    arguments = ("get_axis_dtype", "tiling_expr", "--project", "torch_npu==2.8.0", "--function", "get_axis_dtype")
    answer = json.loads(run_script("graph-mode-expert/scripts/find_fix.py", *arguments, "--output", "json").stdout)
    (site,) = parts.named("get_axis_dtype")
    places = [place for item in answer["results"] for place in item["places"] if place["file"] == site.file]
    told = [place["lines"].get("get_axis_dtype") for place in places]
    assert told and all(lines in (None, list(parts.lines_in(site, "2.8.0"))) for lines in told) and any(told)

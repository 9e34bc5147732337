"""Functions, messages and frames of vLLM-Ascend, vLLM and SGLang: file and line by release, and the release by the stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from cost import cpu_seconds
from support import ROOT

from npu_graph.bundle import SEED_KNOWLEDGE
from npu_graph.diagnosis.report import render_text
from npu_graph.framework_map import (
    DEFINITION,
    DEPRECATED,
    MAP_FOLDER,
    VARIABLE,
    FrameworkMap,
    fit_releases,
    mentioned,
    own_path,
    span,
    stated_versions,
    version_key,
)
from npu_graph.source_map import Place, find_places

Diagnose = Callable[..., "dict[str, Any]"]
LOCATE = ROOT / "graph-mode-expert/scripts/locate_source.py"
MEASURE = ROOT / "tools/measure_framework_maps.py"
NAMES = ("sglang", "torch_npu", "vllm", "vllm-ascend", "xllm")
RUNNER = "vllm_ascend/worker/model_runner_v1.py"


@pytest.fixture(scope="module")
def maps() -> dict[str, FrameworkMap]:
    return {name: FrameworkMap.load(name, [SEED_KNOWLEDGE]) for name in NAMES}


@pytest.fixture(scope="module")
def ascend(maps: dict[str, FrameworkMap]) -> FrameworkMap:
    return maps["vllm-ascend"]


def locate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(LOCATE), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


# --- the data ----------------------------------------------------------------------------------------------------


def test_there_is_a_map_for_each_framework_and_nothing_else() -> None:
    """A map's file is named after its framework."""
    assert sorted(path.stem for path in (SEED_KNOWLEDGE / MAP_FOLDER).iterdir()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_map_is_well_formed(maps: dict[str, FrameworkMap], name: str) -> None:
    framework_map = maps[name]
    assert framework_map.name == name
    assert framework_map.releases == sorted(framework_map.releases, key=version_key)
    assert len(framework_map.releases) >= 10
    assert all(framework_map.origins[release] for release in framework_map.releases)
    sites = [site for file in framework_map.files for site in framework_map.sites_in(file)]
    raw = (SEED_KNOWLEDGE / MAP_FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    assert len(sites) == sum(line.count("\t") == 3 and not line.startswith("framework") for line in raw) >= 2000
    for site in sites:
        assert site.file.startswith(framework_map.package)
        assert [index for index, _ in site.changes] == sorted({index for index, _ in site.changes})
        assert site.changes[-1][0] < len(framework_map.releases)
        assert any(framework_map.lines_in(site, release) for release in framework_map.releases)
        assert site.message in ("", DEPRECATED) if site.kind in (DEFINITION, VARIABLE) else site.message


# Read in the tagged sources.
@pytest.mark.parametrize(
    ("name", "release", "function", "file", "line"),
    [
        ("vllm-ascend", "0.18.0", "NPUModelRunner._dummy_run", RUNNER, 2265),
        ("vllm-ascend", "0.18.0", "ACLGraphWrapper.__call__", "vllm_ascend/compilation/acl_graph.py", 109),
        ("vllm-ascend", "0.11.0rc0", "NPUModelRunner.initialize_aclgraph_capture", RUNNER, 3416),
        ("xllm", "0.9.1", "AclGraphExecutorImpl.run", "xllm/core/runtime/acl_graph_executor_impl.cpp", 1074),
        ("sglang", "0.5.14", "NPUGraphRunner", "sglang/srt/hardware_backend/npu/graph_runner/npu_graph_runner.py", 87),
    ],
)
def test_a_function_stands_where_the_sources_have_it(
    maps: dict[str, FrameworkMap], name: str, release: str, function: str, file: str, line: int
) -> None:
    found = [site for site in maps[name].named(function) if site.file == file and site.function == function]
    assert [maps[name].lines_in(site, release) for site in found] == [(line,)]


def test_a_function_is_not_in_a_release_that_lacks_it(ascend: FrameworkMap) -> None:
    (site,) = ascend.named("NPUModelRunner.initialize_aclgraph_capture")
    assert ascend.lines_in(site, "0.13.0") == ()
    assert ascend.lines_in(site, "no such release") == ()


# --- versions ----------------------------------------------------------------------------------------------------


def test_a_pre_release_stands_before_its_release() -> None:
    ordered = [
        *("0.9.1", "0.10.0rc1", "0.18.0.dev2", "0.18.0a1", "0.18.0-beta.1", "0.18.0-beta.2", "0.18.0rc1", "0.18.0"),
        *("0.18.0.post1", "0.18.1-alpha.1", "0.18.1b1", "0.18.1rc1"),
    ]
    as_text = sorted(ordered)
    assert as_text != ordered == sorted(as_text, key=version_key)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.18.0", ("0.18.0", True)),
        ("v0.18.0rc1", ("0.18.0rc1", True)),
        ("0.18.0-rc1", ("0.18.0rc1", True)),
        ("0.18.0+empty", ("0.18.0", True)),
        ("0.18.0.post3", ("0.18.0", False)),
        ("0.18.0rc2.dev3+g12ab", ("0.18.0rc1", False)),
        ("0.17.9", ("", False)),
        ("main", ("", False)),
        ("", ("", False)),
    ],
)
def test_a_version_is_one_of_the_map_or_the_nearest_below_it(
    ascend: FrameworkMap, version: str, expected: tuple[str, bool]
) -> None:
    assert ascend.find_release(version) == expected


@pytest.mark.parametrize(
    ("text", "name", "versions"),
    [
        ("vllm-ascend==0.18.0rc1", "vllm-ascend", ["0.18.0rc1"]),
        ("vLLM-Ascend version: v0.13.0", "vllm-ascend", ["0.13.0"]),
        ("vllm_ascend 0.11.0rc2 and vllm 0.11.0", "vllm", ["0.11.0"]),
        ("vllm-ascend 0.11.0", "vllm", []),
        ("sglang | 0.5.6.post2", "sglang", ["0.5.6.post2"]),
        ("vllm serve /models/x --port 8000", "vllm", []),
        # the columns of pip list, a table of Markdown, Chinese, names of images and folders
        ("vllm-ascend                         0.18.0", "vllm-ascend", ["0.18.0"]),
        ("| vllm-ascend | 0.18.0 |", "vllm-ascend", ["0.18.0"]),
        ("**vllm-ascend**: 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend版本：0.18.0", "vllm-ascend", ["0.18.0"]),
        ("quay.io/ascend/vllm-ascend:v0.18.0-a3", "vllm-ascend", ["0.18.0"]),
        ("quay.io/ascend/vllm-ascend:v0.18.0rc1-310p-openeuler", "vllm-ascend", ["0.18.0rc1"]),
        ("vllm_ascend-0.18.0rc1.dist-info", "vllm-ascend", ["0.18.0rc1"]),
        # two that differ, one that is to be installed or asked for, one on the next line, an address
        ("worked with vllm-ascend 0.9.1, fails with vllm-ascend 0.18.0", "vllm-ascend", ["0.9.1", "0.18.0"]),
        ("pip install vllm-ascend==0.18.0rc1\nvllm_ascend  0.13.0", "vllm-ascend", ["0.13.0"]),
        ("vllm-ascend 0.13.0 requires vllm==0.12.0, but", "vllm", []),
        ("I use vllm\n0.9.1 was the earlier one", "vllm", []),
        ("works with vllm-ascend 0.9.1, fails with vllm-ascend 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("fixed by vllm-ascend 0.18.0, we run vllm-ascend 0.13.0", "vllm-ascend", ["0.13.0"]),
        ("upgraded from vllm-ascend 0.9.1 to vllm-ascend 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("after upgrading to vllm-ascend 0.18.0 it fails", "vllm-ascend", ["0.18.0"]),
        ("please upgrade to vllm-ascend 0.18.0", "vllm-ascend", []),
        ("建议升级到 vllm-ascend 0.18.0", "vllm-ascend", []),
        ("升级到 vllm-ascend 0.18.0 后报错", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend 0.13.0+ is needed", "vllm-ascend", []),
        # a local version, a list, and what works no longer ran all the same
        ("vllm-ascend 0.18.0+empty", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend 0.18.0 + torch_npu 2.9.0", "vllm-ascend", ["0.18.0"]),
        ("This no longer works on vllm-ascend 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("Does not work with vllm-ascend 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("It works with vllm-ascend 0.18.0 in eager, capture fails", "vllm-ascend", ["0.18.0"]),
        ("I tried to upgrade to vllm-ascend 0.18.0 and capture failed", "vllm-ascend", ["0.18.0"]),
        ("FROM quay.io/ascend/vllm-ascend:v0.18.0-openeuler", "vllm-ascend", ["0.18.0"]),
        ("Name: vllm-ascend\nVersion: 0.13.0", "vllm-ascend", ["0.13.0"]),
        # the second version is the one that fails, with or without the name
        ("Works with vllm-ascend 0.17.0rc1, fails after upgrade to 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend 0.17.0rc1 works, 0.18.0 fails", "vllm-ascend", ["0.18.0"]),
        ("upgraded vllm-ascend from 0.17.0rc1 to 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend 0.17.0rc1 正常，升级到0.18.0后报错", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend 版本为 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend使用的是v0.11.0", "vllm-ascend", ["0.11.0"]),
        ("vllm-ascend镜像版本 v0.17.0rc1", "vllm-ascend", ["0.17.0rc1"]),
        ("vllm-ascend（0.13.0）", "vllm-ascend", ["0.13.0"]),
        ("vllm-ascend 分支 releases/v0.13.0", "vllm-ascend", ["0.13.0"]),
        ("vllm-ascend branch: releases/v0.13.0", "vllm-ascend", ["0.13.0"]),
        ("vllm-ascend image tag v0.13.0rc2-a3", "vllm-ascend", ["0.13.0rc2"]),
        ("vllm-ascend and torch_npu 2.9.0", "vllm-ascend", []),
        ("vllm-ascend 使用的 CANN 8.5.0", "vllm-ascend", []),
        ("vllm-ascend 代码在 torch 2.9.0 上", "vllm-ascend", []),
        ("vllm-ascend 由 0.17.0rc1 升级至 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("从 vllm-ascend 0.17.0rc1 升级到 vllm-ascend 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("在 vllm-ascend 0.17.0rc1 上正常，vllm-ascend 0.18.0 上失败", "vllm-ascend", ["0.18.0"]),
        ("回退到 vllm-ascend 0.13.0 就正常，现在用的是 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("升级前 vllm-ascend 0.13.0 没有问题，升级后（0.18.0）报错", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend 0.13.0 was fine before; now on 0.18.0", "vllm-ascend", ["0.18.0"]),
        ("vllm-ascend main; previously on vllm-ascend 0.13.0 it worked", "vllm-ascend", []),
        ("Requires vllm-ascend 0.18.0 per docs, I run vllm-ascend 0.13.0", "vllm-ascend", ["0.13.0"]),
        ("vllm ascend 10.0.0.1:8000", "vllm-ascend", []),
    ],
)
def test_the_stated_versions_are_those_of_the_framework_itself(text: str, name: str, versions: list[str]) -> None:
    assert stated_versions(text, name) == versions


def test_a_span_joins_neighbours_only() -> None:
    known = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]
    assert span(["1.0", "1.1", "1.2", "1.4"], known) == "1.0 to 1.2, 1.4"
    assert span(["1.0", "1.1"], known) == "1.0, 1.1"
    assert span([], known) == ""


def test_a_map_is_read_only_for_a_framework_that_the_text_speaks_of() -> None:
    assert mentioned("RuntimeError: capture_begin failed") == []
    assert mentioned("(EngineCore_DP0 pid=1) ERROR") == ["vllm"]
    assert mentioned("/vllm-workspace/vllm-ascend/vllm_ascend/x.py") == ["vllm-ascend", "vllm"]


# --- stacks ------------------------------------------------------------------------------------------------------


def frame(file: str, line: int, function: str) -> str:
    return f'  File "/vllm-workspace/vllm-ascend/{file}", line {line}, in {function}'


def test_a_frame_fits_the_releases_whose_function_holds_the_line(ascend: FrameworkMap) -> None:
    (place,) = find_places(frame(RUNNER, 3418, "initialize_aclgraph_capture"))
    fits = ascend.releases_at(place)
    assert fits == ["0.11.0rc0", "0.11.0rc1", "0.11.0rc2"]


def test_the_frames_of_a_stack_fit_together(ascend: FrameworkMap) -> None:
    text = "\n".join(
        [
            frame(RUNNER, 3418, "initialize_aclgraph_capture"),
            frame("vllm_ascend/utils.py", 307, "update_aclgraph_sizes"),
        ]
    )
    fit = fit_releases(find_places(text), ascend)
    assert fit is not None
    assert fit.releases == ["0.11.0rc0"]
    assert len(fit.evidence) == 2 and not fit.against


def test_a_frame_that_no_release_explains_is_kept_apart(ascend: FrameworkMap) -> None:
    text = "\n".join([frame(RUNNER, 3418, "initialize_aclgraph_capture"), frame(RUNNER, 9, "_dummy_run")])
    fit = fit_releases(find_places(text), ascend)
    assert fit is not None
    assert fit.releases == ["0.11.0rc0", "0.11.0rc1", "0.11.0rc2"]
    assert [(place.function, place.file, place.line) for place in fit.unknown] == [("_dummy_run", RUNNER, 9)]
    assert fit.elsewhere == []


def test_a_frame_of_other_releases_is_not_said_to_be_of_none(ascend: FrameworkMap, diagnose_text: Diagnose) -> None:
    (site,) = ascend.named("NPUModelRunner._dummy_run")
    line = ascend.lines_in(site, "0.18.0")[0] + 1
    text = "\n".join([frame(RUNNER, 3418, "initialize_aclgraph_capture"), frame(RUNNER, line, "_dummy_run")])
    fit = fit_releases(find_places(text), ascend)
    assert fit is not None and fit.releases == ["0.11.0rc0", "0.11.0rc1", "0.11.0rc2"]
    assert (fit.unknown, [place.function for place in fit.elsewhere]) == ([], ["_dummy_run"])
    record = diagnose_text(f"Traceback (most recent call last):\n{text}\nValueError: no such size\n")
    shown = render_text(record)
    assert "of other releases: _dummy_run at" in shown and "none of the known ones" not in shown


@pytest.mark.parametrize(
    "text",
    [
        '  File "/x/torch_npu/npu/graphs.py", line 359, in capture_begin',
        '  File "/x/vllm_ascend/no_such_file.py", line 3, in _dummy_run',
        frame(RUNNER, 3418, "<module>"),
        "no stack at all",
    ],
)
def test_a_stack_of_other_files_says_nothing(ascend: FrameworkMap, text: str) -> None:
    assert fit_releases(find_places(text), ascend) is None


def test_a_function_that_no_release_has_is_not_explained(ascend: FrameworkMap, diagnose_text: Diagnose) -> None:
    text = frame(RUNNER, 40, "_my_patched_function")
    fit = fit_releases(find_places(text), ascend)
    assert fit is not None and fit.releases == [] and len(fit.against) == 1
    record = diagnose_text(f"Traceback (most recent call last):\n{text}\nValueError: no such size\n")
    (anchor,) = [item for item in record["anchors"] if item["function"] == "_my_patched_function"]
    assert not anchor["exact"]
    assert "none of the known ones" in render_text(record)


def test_own_path_starts_at_the_package() -> None:
    assert own_path("/vllm-workspace/vllm-ascend/vllm_ascend/utils.py") == "vllm_ascend/utils.py"
    assert own_path(r"C:\x\site-packages\sglang\srt\server.py") == "sglang/srt/server.py"
    assert own_path("/usr/lib/python3/subprocess.py") == ""
    assert own_path("/vllm-workspace/vllm/vllm/v1/engine/core.py") == "vllm/v1/engine/core.py"
    assert own_path("/envs/sglang/lib/python3.11/site-packages/torch_npu/npu/graphs.py") == "torch_npu/npu/graphs.py"


# --- the diagnosis -----------------------------------------------------------------------------------------------

STACK = f"""\
(Worker_TP0 pid=12) Traceback (most recent call last):
{frame(RUNNER, 3418, "initialize_aclgraph_capture")}
    self._dummy_run(num_tokens)
ValueError: 7 is not a size that was captured
"""


def places_of(record: dict[str, Any]) -> list[tuple[str, Any, Any, bool]]:
    return [(item["function"], item["line"], item["version"], item["exact"]) for item in record["anchors"]]


def test_the_report_says_which_releases_the_stack_fits(diagnose_text: Diagnose) -> None:
    text = render_text(diagnose_text(STACK))
    assert "vllm-ascend releases that the stack's lines fit: 0.11.0rc0 to 0.11.0rc2" in text
    assert (
        "model_runner_v1.py:3418 initialize_aclgraph_capture (vllm-project/vllm-ascend @ 0.11.0rc0 to 0.11.0rc2" in text
    )


def test_a_stated_version_that_the_lines_contradict_is_said(diagnose_text: Diagnose) -> None:
    record = diagnose_text(f"vllm-ascend==0.18.0\n{STACK}")
    (release,) = [item for item in record["environment"]["framework_releases"] if item["name"] == "vllm-ascend"]
    assert release["contradicts"] and release["stated"] == "0.18.0"
    assert "this contradicts the version that the report states" in render_text(record)
    assert "与报告给出的版本矛盾" in render_text(diagnose_text(f"vllm-ascend==0.18.0\n{STACK}", language="zh"))


def test_the_torch_npu_version_is_never_given_to_a_frame_of_a_framework(diagnose_text: Diagnose) -> None:
    record = diagnose_text(f"torch_npu==2.7.1\n{STACK}")
    assert all(item["version"] != "2.7.1" for item in record["anchors"] if "vllm" in item["repo"])


def test_a_function_that_the_report_names_is_given_with_its_line(diagnose_text: Diagnose) -> None:
    text = "vllm-ascend 0.18.0: `KeyError: 6` inside `full_graph_fia` during graph capture"
    assert ("AscendAttentionBackendImpl.full_graph_fia", 534, "0.18.0", True) in places_of(diagnose_text(text))


def test_without_a_version_the_newest_release_is_named_and_not_called_exact(diagnose_text: Diagnose) -> None:
    record = diagnose_text("vllm-ascend: `KeyError: 6` inside `full_graph_fia` during graph capture")
    (place,) = [item for item in record["anchors"] if item["function"].endswith("full_graph_fia")]
    newest = FrameworkMap.load("vllm-ascend", [SEED_KNOWLEDGE]).releases[-1]
    assert place["version"] == f"newest known, {newest}" and place["line"] and not place["exact"]


def test_a_stated_version_that_the_map_lacks_gives_no_line(diagnose_text: Diagnose) -> None:
    record = diagnose_text("vllm-ascend 0.99.0: `KeyError: 6` inside `full_graph_fia` during graph capture")
    (place,) = [item for item in record["anchors"] if item["function"].endswith("full_graph_fia")]
    assert place["line"] is None and not place["exact"]


def test_two_versions_in_one_report_are_never_exact(diagnose_text: Diagnose) -> None:
    text = "worked with vllm-ascend 0.14.0rc1, fails with vllm-ascend 0.18.0: error in `full_graph_fia`, graph capture"
    (place,) = [item for item in diagnose_text(text)["anchors"] if item["function"].endswith("full_graph_fia")]
    assert place["line"] is None and not place["exact"] and place["version"] == "0.14.0rc1, 0.18.0"


@pytest.mark.parametrize(
    ("named", "repository"),
    [
        ("NPUModelRunner._dummy_run", "vllm-project/vllm-ascend"),
        ("GPUModelRunner._dummy_run", "vllm-project/vllm"),
        ("MyRunner._dummy_run", ""),
    ],
)
def test_a_method_named_with_its_class_is_that_classs_only(
    diagnose_text: Diagnose, named: str, repository: str
) -> None:
    record = diagnose_text(f"vllm-ascend 0.18.0: graph capture on the NPU fails in `{named}`\nAssertionError: size\n")
    found = {(item["repo"], item["function"]) for item in record["anchors"] if "_dummy_run" in item["function"]}
    assert found == ({(repository, named)} if repository else set())


@pytest.mark.parametrize(
    "text",
    [
        "vllm-ascend 0.18.0: graph capture fails, num_tokens is 6 and graph_params.events[num_tokens] is empty",
        "vllm-ascend 0.18.0: AttributeError: 'NoneType' object has no attribute 'size' in graph mode",
        "vllm-ascend 0.18.0: torch.distributed.all_reduce(x) hangs in graph replay",
        "vllm-ascend 0.18.0: torch.npu.current_stream() differs in graph replay, `graph_pool` is None",
        "full_graph_fia is called in my own project, captured with torch.npu.graph",
    ],
)
def test_variables_and_other_names_are_no_places(diagnose_text: Diagnose, text: str) -> None:
    exact = [item for item in diagnose_text(text)["anchors"] if item["repo"].startswith("vllm") and item["exact"]]
    assert [item for item in exact if item["function"].rpartition(".")[2] in text] == []


def test_a_message_of_the_framework_gives_its_raise(ascend: FrameworkMap, diagnose_text: Diagnose) -> None:
    sites = [site for file in ascend.files for site in ascend.sites_in(file)]
    site = next(
        site
        for site in sites
        if site.kind == "raise ValueError"
        and "{}" not in site.message
        and len(site.message) > 60
        and len(ascend.lines_in(site, "0.18.0")) == 1
        and sum(other.message == site.message for other in sites) == 1
    )
    record = diagnose_text(f"vllm-ascend==0.18.0, graph mode\nValueError: {site.message}\n")
    assert (site.function, ascend.lines_in(site, "0.18.0")[0], "0.18.0", True) in places_of(record)


def test_a_long_report_costs_little(diagnose_text: Diagnose) -> None:
    text = "vllm-ascend sglang graph\n" + "\n".join(f"call_number_{i}(x) in `some_name_{i}`" for i in range(20_000))
    assert cpu_seconds(lambda: diagnose_text(text), 10) < 10


# --- locate_source.py --------------------------------------------------------------------------------------------


def test_a_name_is_located_in_the_release_that_is_asked_for() -> None:
    done = locate("_dummy_run", "--framework", "vllm-ascend==0.18.0")
    assert done.returncode == 0, done.stderr
    first = next(line for line in done.stdout.splitlines() if ":" in line)
    assert first.split() == [
        *("vllm-project/vllm-ascend", f"{RUNNER}:2265", "NPUModelRunner._dummy_run", "@", "0.18.0"),
    ]


def test_a_name_of_no_torch_npu_api_is_looked_for_in_the_frameworks() -> None:
    done = locate("full_graph_fia", "--output", "json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["matches"][0]["repo"] == "vllm-project/vllm-ascend"
    assert result["matches"][0]["lines_by_release"]["0.18.0"] == "534"
    assert not result["matches"][0]["exact"]


def test_a_frame_is_answered_with_the_releases_that_have_it() -> None:
    done = locate(frame(RUNNER, 3418, "initialize_aclgraph_capture"))
    assert "the line lies in this function in: 0.11.0rc0, 0.11.0rc1, 0.11.0rc2" in done.stdout


def test_a_version_that_is_not_in_the_map_is_said() -> None:
    done = locate("ACLGraphWrapper.__call__", "--framework", "vllm_ascend==0.18.0rc2.dev1")
    assert "the version asked for is not in the map; lines of 0.18.0rc1, the nearest" in done.stdout


def test_a_version_far_from_the_map_is_an_error_that_says_what_there_is() -> None:
    done = locate("_dummy_run", "--framework", "vllm-ascend==99.0.0")
    assert done.returncode == 2
    assert "--framework vllm-ascend==99.0.0 is not in the map; expected 0.9.1 to" in done.stderr


@pytest.mark.parametrize(
    ("text", "release", "status"),
    [
        (frame(RUNNER, 2270, "_dummy_run"), "0.18.0", "exact"),
        (frame(RUNNER, 2270, "_dummy_run"), "0.11.0", "other_release"),
        (frame(RUNNER, 99999, "_dummy_run"), "0.18.0", "other_release"),
        ("ACLGraphWrapper.__call__", "0.9.1", "other_release"),
    ],
)
def test_a_place_that_is_not_in_the_release_asked_for_is_not_exact(text: str, release: str, status: str) -> None:
    done = locate(text, "--framework", f"vllm-ascend=={release}", "--output", "json")
    (result,) = json.loads(done.stdout)["results"]
    assert result["status"] == status
    assert done.returncode == (1 if text.startswith("ACL") else 0)


def test_an_unknown_framework_is_an_error_that_lists_the_known() -> None:
    done = locate("x", "--framework", "llama.cpp==1")
    assert done.returncode == 2
    assert "expected one of vllm-ascend, vllm, sglang, xllm" in done.stderr


def test_a_framework_given_twice_is_an_error() -> None:
    done = locate("x", "--framework", "vllm-ascend==0.18.0", "--framework", "vllm_ascend==0.13.0")
    assert done.returncode == 2
    assert "given twice" in done.stderr


def test_a_name_that_one_framework_lacks_is_said_of_that_one_only() -> None:
    done = locate("CUDAGraphWrapper", "--framework", "vllm-ascend==0.18.0")
    assert done.returncode == 1
    assert "not in the mapped parts of vllm-ascend:" in done.stdout and "sglang" not in done.stdout


def test_a_patterns_source_is_given_in_the_release_of_the_report(diagnose_text: Diagnose) -> None:
    text = (
        "vllm-ascend 0.14.0rc1, cudagraph_mode FULL_DECODE_ONLY, eagle3\n"
        "AttributeError: 'ForwardContext' object has no attribute 'draft_attn_metadatas'\n"
    )
    record = diagnose_text(text)
    assert record["patterns"][0]["id"] == "P-UPD-005"
    assert ("update_full_graph_params", 213, "0.14.0rc1", True) in places_of(record)


def test_an_unknown_name_is_not_found_anywhere() -> None:
    assert locate("no_such_function_anywhere", "--framework", "vllm-ascend==0.18.0").returncode == 1
    assert locate("no_such_function_anywhere").returncode == 1


def test_the_lines_of_sources_at_hand_are_shown(tmp_path: Path) -> None:
    package = tmp_path / "vllm_ascend"
    (package / "worker").mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "_version.py").write_text('__version__ = "0.18.0"\n', encoding="utf-8")
    (tmp_path / RUNNER).write_text(
        "\n" * 40 + "class NPUModelRunner:\n    def _dummy_run(self):\n        pass\n", "utf-8"
    )
    done = locate("_dummy_run", "--source", str(tmp_path))
    assert "@ 0.18.0" in done.stdout
    assert "def _dummy_run(self):" in done.stdout
    assert "the file has it at line 42, the map says 2265" in done.stdout


# --- measuring ---------------------------------------------------------------------------------------------------


def test_measuring_reads_tags_and_archives_and_check_tells_a_change(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "knowledge").mkdir(parents=True)
    for part in ("npu_graph", "tools"):
        (bundle / part).symlink_to(ROOT / part, target_is_directory=True)
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    (clone / "vllm_ascend").mkdir(parents=True)
    subprocess.run([*git, "init", "-q"], check=True)
    for tag, text in (
        ("v0.9.0", "def too_old_to_be_mapped(): pass\n"),
        ("v0.18.0rc1", "def first_function():\n    raise ValueError('sizes must be captured before')\n"),
        (
            "v0.18.0",
            "\nasync def first_function():\n    assert x, f'{x} is not a captured size'\nclass Second:\n    pass\n",
        ),
    ):
        (clone / "vllm_ascend/utils.py").write_text(text, encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", tag], check=True)
        subprocess.run([*git, "tag", tag], check=True)
    script = (
        "import sys, pathlib, measure_framework_maps as m; m.FOLDER = pathlib.Path(sys.argv.pop(1)); m.cli.run(m.main)"
    )
    command = [sys.executable, "-c", script, str(bundle / "knowledge" / MAP_FOLDER)]
    run = {"cwd": ROOT / "tools", "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run([*command, "--git", f"vllm-ascend={clone}"], check=False, **run)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    measured = FrameworkMap.load("vllm-ascend", [bundle / "knowledge"])
    assert measured.releases == ["0.18.0rc1", "0.18.0"]
    rows = {
        (site.kind, site.function, site.message): [measured.lines_in(site, release) for release in measured.releases]
        for site in measured.sites_in("vllm_ascend/utils.py")
    }
    assert rows == {
        ("def", "first_function", ""): [(1,), (2,)],
        ("raise ValueError", "first_function", "sizes must be captured before"): [(2,), ()],
        ("assert", "first_function", "{} is not a captured size"): [(), (3,)],
        ("def", "Second", ""): [(), (4,)],
    }
    path = bundle / "knowledge" / MAP_FOLDER / "vllm-ascend.tsv"
    check = [*command, "--git", f"vllm-ascend={clone}", "--check"]
    assert subprocess.run(check, check=False, **run).returncode == 0  # type: ignore[call-overload]
    path.write_text(path.read_text(encoding="utf-8").replace("\t1:1\n", "\t1:2\n"), encoding="utf-8")
    assert subprocess.run(check, check=False, **run).returncode == 1  # type: ignore[call-overload]
    assert subprocess.run(command, check=False, **run).returncode == 3  # type: ignore[call-overload]
    path.write_text(
        path.read_text(encoding="utf-8").replace("release\t0.18.0\t", "release\t0.17.0\t-\nrelease\t0.18.0\t")
    )
    lost = subprocess.run(check[:-1], check=False, **run)  # type: ignore[call-overload]
    assert lost.returncode == 2 and "none of the given sources has (0.17.0)" in lost.stderr


def test_a_map_that_is_not_there_or_broken_finds_nothing(tmp_path: Path) -> None:
    empty = FrameworkMap.load("vllm-ascend", [tmp_path])
    assert empty.releases == [] and empty.named("_dummy_run") == [] and empty.match_text("x" * 99) == []
    broken = FrameworkMap("release\t1.0\nfile\tvllm/a.py\ndef\tf\t\tx:y\ndef\tg\nraise E\tf\n\t\t\t\n")
    assert broken.sites_in("vllm/a.py") == []
    assert broken.releases_at(Place("f", "vllm/a.py", 3, "", "")) is None


# --- variables and classes ---------------------------------------------------------------------------------------


def test_a_variable_of_a_framework_is_known_with_its_releases() -> None:
    script = ROOT / "graph-mode-expert/scripts/lookup_variable.py"
    command = [sys.executable, str(script), "VLLM_ASCEND_ENABLE_FLASHCOMM1", "VLLM_USE_V1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "a variable of vllm-ascend" in done.stdout
    assert "0.9.1 to 0.11.0 (not in 0.11.2 and newer)" in done.stdout


def test_a_variable_that_is_read_only_to_name_its_successor_is_deprecated() -> None:
    script = ROOT / "graph-mode-expert/scripts/lookup_variable.py"
    command = [sys.executable, str(script), "export SGLANG_ENABLE_CP_V2=1", "`![x](y)`", "--output", "md"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (
        "## `SGLANG_ENABLE_CP_V2`: a variable of sglang (its effect is not in this bundle), deprecated" in done.stdout
    )
    assert "## `![x](y)`: not in the table" in done.stdout


def test_a_class_is_shown_with_its_methods_and_since_when_they_are_there() -> None:
    done = locate("AscendExtractHiddenStatesProposer")
    assert "_determine_batch_execution_and_padding 43 (since 0.23.0rc1)" in done.stdout
    assert "__init__ 38," in done.stdout


def test_vllms_version_gives_the_release_of_vllm_ascend_that_is_named_after_it(diagnose_text: Diagnose) -> None:
    record = diagnose_text("vllm-ascend main with vLLM v0.18.0: hang in `full_graph_fia` of the ACL graph")
    (place,) = [item for item in record["anchors"] if item["function"].endswith("full_graph_fia")]
    assert (place["line"], place["version"], place["exact"]) == (534, "0.18.0", False)


# --- C++ ---------------------------------------------------------------------------------------------------------


def test_a_function_of_cpp_is_found_as_cpp_writes_it() -> None:
    done = locate("AclGraphExecutorImpl::run", "--framework", "xllm==0.9.1")
    assert "xllm/core/runtime/acl_graph_executor_impl.cpp:1074  AclGraphExecutorImpl::run  @ 0.9.1" in done.stdout


def test_the_line_of_a_cpp_log_tells_the_release(maps: dict[str, FrameworkMap], diagnose_text: Diagnose) -> None:
    log = "F20260126 13:08:26.118782 2242295 acl_graph_executor_impl.cpp:870] Not suitable for graph operations."
    (place,) = find_places(log)
    assert maps["xllm"].releases_at(place) == ["0.8.0"]
    record = diagnose_text(f"xllm, ACL graph\n{log}\n")
    assert [item["releases"] for item in record["environment"]["framework_releases"]] == [["0.8.0"]]


def test_a_part_of_a_message_is_enough() -> None:
    done = locate("ACL graph persistent param only supports decode")
    assert "acl_graph_persistent_param.cpp" in done.stdout and "0.10.1 581" in done.stdout

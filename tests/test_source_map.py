"""The source map answers by release: text and frames to file, function and line, and lines back to the release."""

from __future__ import annotations

import time
from typing import Any, Callable

import pytest
from support import ROOT

from npu_graph.bundle import SEED_KNOWLEDGE
from npu_graph.diagnosis.classification import PHASES
from npu_graph.source_map import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    Place,
    Row,
    SourceMap,
    find_places,
    format_lines,
    infer_release,
    parse_lines,
)

NPU_GRAPH = "torch_npu/csrc/core/npu/NPUGraph.cpp"
GRAPHS = "torch_npu/npu/graphs.py"


@pytest.fixture(scope="module")
def source_map() -> SourceMap:
    return SourceMap.load([SEED_KNOWLEDGE])


def only_row(source_map: SourceMap, file: str, function: str, message: str) -> Row:
    found = [
        row
        for row in source_map.rows
        if row.file == file and row.function == function and row.message.startswith(message)
    ]
    assert len(found) == 1, found
    return found[0]


# --- the data ----------------------------------------------------------------------------------------------------


def test_the_map_is_there_and_well_formed(source_map: SourceMap) -> None:
    raw = (SEED_KNOWLEDGE / "source-map.tsv").read_text(encoding="utf-8").splitlines()
    assert len(source_map.rows) == sum(line.startswith("site\t") for line in raw) >= 1000
    assert len(source_map.releases) == sum(line.startswith("release\t") for line in raw) >= 60
    assert len(source_map.wheels) == sum(line.startswith("wheel\t") for line in raw) >= 50
    assert len(source_map.meanings) == sum(line.startswith("meaning\t") for line in raw) >= 100


def test_every_row_has_lines_of_known_releases_and_a_known_meaning(source_map: SourceMap) -> None:
    names = {release.release for release in source_map.releases.values()} | set(source_map.releases)
    for row in source_map.rows:
        lines = parse_lines(row.where)
        assert set(lines) <= names, row
        assert any(lines.values()), row
        assert row.meaning in source_map.meanings or (row.meaning == "-" and row.kind == "frame"), row


def test_meanings_name_a_stage_of_the_record_and_exist_in_both_languages(source_map: SourceMap) -> None:
    used = {row.meaning for row in source_map.rows}
    for key, meaning in source_map.meanings.items():
        assert meaning.stage in PHASES, key
        assert meaning.en and any("\u4e00" <= character <= "\u9fff" for character in meaning.zh), key
        assert key in used, f"no site uses {key}"


def test_releases_have_what_a_clone_needs_and_their_base_exists(source_map: SourceMap) -> None:
    for release in source_map.releases.values():
        assert release.status in ("final", "pre", "head", "wheel"), release
        assert release.base == "" or release.base in source_map.releases, release
        if release.status == "final":
            assert release.ref and release.commit and release.cann and release.torchair and release.op_plugin, release
    for wheel in source_map.wheels.values():
        assert wheel.id in source_map.releases, wheel


def test_the_page_is_generated_from_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import render_source_map

    assert render_source_map.main(["--check"]) == 0


# Read with `git show TAG:FILE | grep -n` from Ascend/pytorch's tags, not from the map.
@pytest.mark.parametrize(
    ("function", "message", "release", "line"),
    [
        ("NPUGraph::capture_begin", "NPU graphs must be captured", "26.0.0/2.10.0", 175),
        ("NPUGraph::capture_begin", "NPU graphs must be captured", "26.0.1/2.9.0", 175),
        ("NPUGraph::capture_begin", "NPU graphs must be captured", "26.1.0/2.12.0", 200),
        ("NPUGraph::capture_begin", "NPU graphs must be captured", "7.2.0/2.7.1", 141),
        ("NPUGraph::capture_begin", "NPU graphs must be captured", "7.2.0/2.8.0", 125),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "7.0.0/2.5.1", 173),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "7.1.0/2.6.0", 171),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "7.2.0/2.7.1", 209),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "7.2.0/2.8.0", 193),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "7.3.0/2.9.0", 231),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "26.0.0/2.10.0", 247),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "26.1.0/2.9.0", 240),
        ("NPUGraph::capture_end", "c10_npu::acl::AclmdlRICaptureEnd(", "26.1.0/2.12.0", 283),
        ("NPUGraph::replay", "Called NPUGraph::replay without", "26.0.0/2.10.0", 273),
        ("NPUGraph::capture_begin", "Waiting for pending NCCL work", "26.0.0/2.10.0", 223),
    ],
)
def test_lines_are_those_of_the_release(
    source_map: SourceMap, function: str, message: str, release: str, line: int
) -> None:
    assert source_map.lines_in(only_row(source_map, NPU_GRAPH, function, message), release) == (line,)


def test_a_site_that_a_release_lost_has_no_line_there(source_map: SourceMap) -> None:
    row = only_row(source_map, NPU_GRAPH, "NPUGraph::capture_begin", "Waiting for pending NCCL work")
    assert source_map.lines_in(row, "26.1.0/2.9.0") == ()


def test_packing_lines_keeps_every_release(source_map: SourceMap) -> None:
    for row in source_map.rows[::17]:
        lines = {release: source_map.lines_in(row, release) for release in source_map.releases}
        packed = parse_lines(format_lines(lines, source_map.releases))
        again = Row(*row[:6], format_lines(lines, source_map.releases))
        assert {release: source_map.lines_in(again, release) for release in source_map.releases} == lines
        assert packed


# --- versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "release", "exact"),
    [
        ("2.10.0", "26.0.0/2.10.0", True),
        ("2.9.0", "7.3.0/2.9.0", True),
        ("2.9.0.post2", "26.0.0/2.9.0", True),
        ("2.7.1", "7.2.0/2.7.1", True),
        ("2.7.1.post8", "26.1.0/2.7.1", True),
        ("2.8.0.post5", "26.0.1/2.8.0", True),
        ("2.5.1", "7.0.0/2.5.1", True),
        ("2.10.0+gitabcdef1", "26.0.0/2.10.0", True),
        ("v2.10.0-26.0.0", "26.0.0/2.10.0", True),
        ("26.0.0/2.9.0", "26.0.0/2.9.0", True),
        ("2.9.1", "26.0.0/2.9.0", False),
        ("2.7.1.dev20250724", "7.2.RC1.alpha001/2.7.1", False),
        ("2.12.0.post3", "wheel-2.12.0.post3/2.12.0", True),
    ],
)
def test_a_version_names_its_release(source_map: SourceMap, version: str, release: str, exact: bool) -> None:
    found, is_exact = source_map.find_release(version)
    assert [item.id for item in found] == [release]
    assert is_exact is exact


def test_a_release_alone_means_all_its_pytorch_lines_and_pytorch_chooses(source_map: SourceMap) -> None:
    assert len(source_map.find_release("26.0.0")[0]) == 4
    assert [item.id for item in source_map.find_release("26.0.0", "2.9.0+cpu")[0]] == ["26.0.0/2.9.0"]


@pytest.mark.parametrize("version", ["", "1.2.3", "latest", "2.99", "../../x"])
def test_an_unknown_version_names_nothing(source_map: SourceMap, version: str) -> None:
    assert source_map.find_release(version) == ([], False)


# --- from lines to the release -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "value", "sure"),
    [
        ([("AclmdlRICaptureEnd", 209)], "7.2.0", LIKELY),
        ([("AclmdlRICaptureEnd", 193)], "7.2.0", LIKELY),
        ([("AclmdlRICaptureEnd", 247)], "26.0.0", LIKELY),
        ([("AclmdlRICaptureEnd", 231)], "7.3.0", LIKELY),
        ([("operator()", 223)], "26.0.0", LIKELY),
        ([("capture_begin", 359)], "26.0.0", LIKELY),
        ([("__enter__", 187), ("capture_begin", 96)], "7.0.0", CERTAIN),
        ([("capture_end", 240)], "26.1.0", LIKELY),
        ([("AclmdlRICaptureEnd", 171)], "", POSSIBLE),
    ],
)
def test_a_stack_shows_its_release(source_map: SourceMap, pairs: list[tuple[str, int]], value: str, sure: str) -> None:
    found = infer_release(pairs, source_map)
    assert found is not None
    assert (found.value, found.sure) == (value, sure)


def test_one_line_is_told_apart_by_its_function(source_map: SourceMap) -> None:
    end = source_map.infer_release([Place("capture_end", "NPUGraph.cpp", 240, "", "")])
    begin = source_map.infer_release([Place("capture_begin", "NPUGraph.cpp", 240, "", "")])
    assert end is not None and begin is not None
    assert {release.partition("/")[2] for release in begin.ids if release.startswith("26.1.0/")} == {"2.11.0"}
    assert "26.1.0/2.11.0" not in end.ids


def test_several_releases_that_fit_are_all_listed(source_map: SourceMap) -> None:
    found = infer_release([("AclmdlRICaptureEnd", 171)], source_map)
    assert found is not None
    assert {"7.1.0/2.6.0", "7.2.0/2.1.0"} <= set(found.ids)


def test_the_pytorch_version_settles_what_lines_leave_open(source_map: SourceMap) -> None:
    found = infer_release([("AclmdlRICaptureEnd", 171)], source_map, pytorch="2.5.1")
    assert found is not None
    assert found.value == "7.1.0"


def test_a_line_of_no_release_is_reported_not_rounded(source_map: SourceMap) -> None:
    found = infer_release([("AclmdlRICaptureEnd", 248)], source_map)
    assert found is not None
    assert (found.value, found.ids) == ("", [])
    assert found.against == ["capture_end at compiler_depend.ts:248"]


def test_places_that_contradict_each_other_are_never_sure(source_map: SourceMap) -> None:
    found = infer_release([("AclmdlRICaptureEnd", 209), ("AclmdlRICaptureBegin", 230)], source_map)
    assert found is not None
    assert found.sure == POSSIBLE


def test_frames_of_other_packages_say_nothing(source_map: SourceMap) -> None:
    text = 'File "/x/sglang/srt/model_executor/graphs.py", line 359, in capture_begin\nfoo:/y/other.cpp:247 failed'
    assert source_map.infer_release(find_places(text)) is None


# --- reading places ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "function", "file", "line"),
    [
        (
            "capture_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:209 NPU function error: x, error code is 107025",
            "capture_end",
            "",
            209,
        ),
        ("replay:../torch_npu/csrc/core/npu/NPUGraph.cpp:283 NPU function error: ", "replay", f"../{NPU_GRAPH}", 283),
        (f'  File "/a/site-packages/{GRAPHS}", line 359, in capture_begin', "capture_begin", GRAPHS, 359),
        ("graphs.py line 359 in capture_begin", "capture_begin", "graphs.py", 359),
        ("compiler_depend.ts:193 capture_end", "capture_end", "", 193),
        ("NPUGraph.cpp:175", "", "NPUGraph.cpp", 175),
        (
            "[W1210 03:09:10.966659833 compiler_depend.ts:187] Warning: Waiting for pending NCCL work (function operator())",
            "operator()",
            "",
            187,
        ),
        ('status INTERNAL ASSERT FAILED at "../a/NPUGraph.cpp":234, please report a bug', "", "../a/NPUGraph.cpp", 234),
        (
            "Exception raised from capture_begin at /b/NPUGraph.cpp:175 (most recent call first):",
            "capture_begin",
            "",
            175,
        ),
    ],
)
def test_a_place_is_read_in_every_form_that_is_printed(text: str, function: str, file: str, line: int) -> None:
    places = find_places(text)
    assert [(place.function, place.line) for place in places] == [(function, line)]
    assert places[0].file.endswith(file)


@pytest.mark.parametrize("text", ["", "no place here", "10:20:30", "a.cpp", "x.py:", "http://host:8080/a.html"])
def test_text_without_a_place_gives_none(text: str) -> None:
    assert find_places(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        "a.cpp:1 " * 50_000,
        "x:" * 100_000,
        "./" * 100_000 + "a.cpp:1",
        "(function " * 30_000,
        "\x00" * 9000,
    ],
)
def test_hostile_text_is_read_in_linear_time(source_map: SourceMap, text: str) -> None:
    start = time.process_time()
    source_map.infer_release(find_places(text))
    source_map.match_text(text)
    assert time.process_time() - start < 2.0


# --- text to site ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "function", "line"),
    [
        ("RuntimeError: NPU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
         "them on the default stream.)", "NPUGraph::capture_begin", 175),
        ("NPU graphs must be captured on a non-default stream", "NPUGraph::capture_begin", 175),
        ("capture_begin:x:1 NPU function error: c10_npu::acl::AclmdlRICaptureBegin(capture_stream_, capture_mode)",
         "NPUGraph::capture_begin", 230),
        ("Invalid end capture model id: 0x55d0", "NPUGraph::capture_end", 251),
        ("Currently, there are 3 operators that need to be updated by capture, and there are only 2 elements in the "
         "incoming cpu_update_input list", "_GraphDispatchMode.update_capture_record", 282),
    ],
)  # fmt: skip
def test_a_message_finds_its_site(source_map: SourceMap, text: str, function: str, line: int) -> None:
    best = source_map.match_text(text, "26.0.0/2.10.0")[0]
    assert (best.row.function, best.line) == (function, line)


@pytest.mark.parametrize(
    "text", ["", "stream", "RuntimeError", "capture failed for an unknown reason", "{}", "error: {}"]
)
def test_a_text_that_nothing_prints_finds_nothing(source_map: SourceMap, text: str) -> None:
    assert source_map.match_text(text) == []


def test_without_a_map_nothing_is_found_and_nothing_breaks(tmp_path: Any) -> None:
    empty = SourceMap.load([tmp_path])
    assert empty.match_text("NPU graphs must be captured on a non-default stream") == []
    assert empty.infer_release(find_places("replay:compiler_depend.ts:201 x")) is None


def test_a_broken_line_of_the_map_is_left_out() -> None:
    broken = SourceMap(
        "site\ta\tb\nrelease\tx\nmeaning\nwheel\t1\nsite\tf.cpp\tf\tf\tTORCH_CHECK\tsome long message\t-\t@@\n"
    )
    assert [row.file for row in broken.rows] == ["f.cpp"]
    assert broken.match_text("some long message")[0].line is None


# --- in the diagnosis --------------------------------------------------------------------------------------------

Diagnose = Callable[..., dict[str, Any]]
DEFAULT_STREAM = """Traceback (most recent call last):
  File "/srv/app/run.py", line 8, in <module>
    g.capture_begin()
  File "/opt/py/site-packages/torch_npu/npu/graphs.py", line {line}, in capture_begin
    super().capture_begin(
RuntimeError: NPU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default stream.)
"""


def anchor_in_cpp(record: dict[str, Any]) -> dict[str, Any]:
    return next(item for item in record["anchors"] if item["file"] == NPU_GRAPH)


def test_the_default_stream_case_points_at_line_175_of_release_26_0_0(diagnose_text: Diagnose) -> None:
    record = diagnose_text(DEFAULT_STREAM.format(line=359) + "torch 2.10.0, torch_npu 2.10.0\n")
    assert anchor_in_cpp(record) == {
        "repo": "Ascend/pytorch",
        "file": NPU_GRAPH,
        "function": "NPUGraph::capture_begin",
        "line": 175,
        "version": "26.0.0",
        "exact": True,
    }
    assert record["environment"]["torch_npu"] == "2.10.0"
    assert record["environment"]["torch_npu_inferred"] is None


def test_without_a_version_the_stack_says_the_release(diagnose_text: Diagnose) -> None:
    record = diagnose_text(DEFAULT_STREAM.format(line=359))
    inferred = record["environment"]["torch_npu_inferred"]
    assert record["environment"]["torch_npu"] is None
    assert (inferred["value"], inferred["sure"], inferred["contradicts"]) == ("26.0.0", LIKELY, False)
    assert inferred["from"] == ["capture_begin at graphs.py:359"]
    assert anchor_in_cpp(record)["line"] == 175
    assert anchor_in_cpp(record)["exact"] is True


def test_a_stack_that_contradicts_the_stated_version_says_so(diagnose_text: Diagnose) -> None:
    record = diagnose_text(DEFAULT_STREAM.format(line=359) + "torch_npu 2.7.1\n")
    inferred = record["environment"]["torch_npu_inferred"]
    assert record["environment"]["torch_npu"] == "2.7.1"
    assert (inferred["value"], inferred["contradicts"]) == ("26.0.0", True)


def test_a_patched_build_gives_no_exact_line(diagnose_text: Diagnose) -> None:
    record = diagnose_text(DEFAULT_STREAM.format(line=361))
    inferred = record["environment"]["torch_npu_inferred"]
    assert (inferred["value"], inferred["not_explained"]) == (None, ["capture_begin at graphs.py:361"])
    assert anchor_in_cpp(record)["exact"] is False
    assert anchor_in_cpp(record)["line"] is None


def test_a_lost_file_name_is_found_again(diagnose_text: Diagnose) -> None:
    record = diagnose_text(
        "RuntimeError: capture_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:209 NPU function error: "
        "c10_npu::acl::AclmdlRICaptureEnd(capture_stream_, &model_ri), error code is 107025\n"
    )
    assert (anchor_in_cpp(record)["line"], anchor_in_cpp(record)["exact"]) == (209, True)
    assert record["environment"]["torch_npu_inferred"]["value"] == "7.2.0"


def test_a_report_without_lines_of_torch_npu_infers_nothing(diagnose_text: Diagnose) -> None:
    assert diagnose_text("ACL graph capture hangs, torch_npu 2.9.0")["environment"]["torch_npu_inferred"] is None


@pytest.mark.parametrize("version", ["2.10", "2.10.0", "v26.0.0-pytorch2.10.0", "v2.10.0-26.0.0", "26.0.0/2.10.0"])
def test_a_release_is_found_by_every_name_in_use(version: str) -> None:
    releases, exact = SourceMap.load([SEED_KNOWLEDGE]).find_release(version)
    assert exact and [release.id for release in releases] == ["26.0.0/2.10.0"]

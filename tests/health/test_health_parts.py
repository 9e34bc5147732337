"""The parts of the health check: tables of npu-smi, versions, isolated processes, tables of facts, API reader."""

from __future__ import annotations

import os
import re
import sys
import time
import zipfile
from pathlib import Path

import npu_smi_tables
import pytest
from cost import cpu_seconds
from fake_machine import ROOT, World, healthy_machine  # noqa: F401 -- a fixture
from health import (
    api_reader,
    devices,
    import_errors,
    npu_smi,
    process,
    tables,
    torch_npu_package,
    variables,
    versions,
)
from health.host import Answer, read_answer
from health.process import Outcome

# --- npu-smi


def test_an_a2_table_gives_chips_memory_and_processes() -> None:
    report = npu_smi.parse(npu_smi_tables.A2)
    assert report.version == "25.2.1"
    assert [(chip.npu, chip.chip, chip.name, chip.health, chip.used, chip.total) for chip in report.chips] == [
        (0, 0, "910B3", "OK", 3391, 65536),
        (1, 0, "910B3", "OK", 60412, 65536),
    ]
    assert [(item.npu, item.pid, item.name, item.memory) for item in report.processes] == [(1, 41277, "python3", 57021)]


def test_an_a3_table_gives_two_chips_for_each_npu_with_physical_numbers() -> None:
    report = npu_smi.parse(npu_smi_tables.A3)
    assert report.version == "26.0.rc1"
    assert [(chip.npu, chip.chip, chip.physical, chip.health) for chip in report.chips] == [
        (0, 0, 0, "OK"),
        (0, 1, 1, "OK"),
        (1, 0, 2, "OK"),
        (1, 1, 3, "Warning"),
    ]
    assert report.chips[3].used == 15511
    assert [(item.npu, item.chip, item.pid) for item in report.processes] == [(1, 1, 88211)]


def test_a_310p_table_has_its_memory_in_the_other_column() -> None:
    report = npu_smi.parse(npu_smi_tables.A310P)
    assert [(chip.npu, chip.chip, chip.name, chip.used, chip.total) for chip in report.chips] == [
        (1, 0, "310P3", 1401, 44280),
        (1, 1, "310P3", 1519, 43693),
    ]
    assert report.processes == []


def test_the_hbm_column_wins_where_both_are_filled() -> None:
    chip = npu_smi.parse(npu_smi_tables.A910A).chips[0]
    assert (chip.name, chip.used, chip.total) == ("910ProB", 0, 32768)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (npu_smi_tables.HELD, "in_use"),
        (npu_smi_tables.NO_DRIVER, "driver"),
        (npu_smi_tables.NO_LIBRARY, "libraries"),
        (npu_smi_tables.NO_PERMISSION, "permission"),
        ("", "empty"),
        ("| 0 | OK |\n", "unreadable"),
    ],
)
def test_an_error_of_npu_smi_is_told_from_a_table(text: str, error: str) -> None:
    assert npu_smi.parse(text).error == error


def test_a_hostile_table_is_read_in_linear_time() -> None:
    lines = "| NPU   Name | Health | x |\n| Chip | Bus-Id | HBM-Usage(MB) |\n" + "| 0 a | OK | b |\n" * 20000
    text = lines + "|" * 200000 + "\n" + "1 / " * 50000
    assert cpu_seconds(lambda: npu_smi.parse(text), 2) < 2


@pytest.mark.parametrize(
    ("name", "table", "product"),
    [
        ("910B3", "", "A2"),
        ("Ascend910B2", "", "A2"),
        ("910B4-1", "", "A2"),
        ("Ascend910_9391", "", "A3"),
        ("Ascend910", npu_smi_tables.A3, "A3"),
        ("Ascend910", npu_smi_tables.A2, ""),
        ("310P3", "", "310P"),
        ("Ascend310P3", "", "310P"),
        ("Ascend310B4", "", "310B"),
        ("910ProB", "", "910A"),
        ("Ascend910A", "", "910A"),
        ("Ascend950PR_9589", "", "950"),
        ("H100", "", ""),
    ],
)
def test_a_chip_name_tells_the_product_or_nothing(name: str, table: str, product: str) -> None:
    assert npu_smi.family(name, npu_smi.parse(table).chips).product == product


@pytest.mark.parametrize(
    ("variable", "device", "physical"),
    [("", 3, 3), ("2,3", 0, 2), ("2,3", 1, 3), ("1-3", 2, 3), ("2", 1, None), ("junk", 1, 1)],
)
def test_the_device_asked_for_is_the_nth_visible_one(
    world: World, variable: str, device: int, physical: int | None
) -> None:
    world.device = device
    if variable:
        world.env["ASCEND_RT_VISIBLE_DEVICES"] = variable
    chip = devices.visible_chip(world.host(), npu_smi.parse(npu_smi_tables.A3))
    assert (chip.physical if chip else None) == physical


# --- versions


@pytest.mark.parametrize(
    "ordered",
    [
        ("8.0.RC3", "8.0.0", "8.1.RC1", "8.1.RC1.2", "8.3.RC1", "8.5.0", "8.5.1", "9.0.0-beta.2", "9.0.0", "9.1.0"),
        ("24.1.rc3.7", "25.0.rc1", "25.0.rc1.1", "25.0.0", "25.2.0", "25.5.1", "26.0.RC1", "26.1.0"),
        ("2.1.0.dev1", "2.1.0.rc1", "2.1.0", "2.1.0.post2", "2.1.0.post10", "2.5.1", "2.10.0"),
    ],
)
def test_versions_are_ordered_as_they_were_released(ordered: tuple[str, ...]) -> None:
    keys = [versions.key(version) for version in ordered]
    assert keys == sorted(keys)
    assert len({*keys[:2]}) == 2


def test_text_without_a_version_is_older_than_any() -> None:
    assert versions.key("unknown") < versions.key("0.1.dev0")
    assert versions.line("unknown") == ""
    assert versions.public("2.13.0+cpu") == "2.13.0"


@pytest.mark.parametrize(
    ("version", "wheel"),
    [
        ("2.7.1.post4", "2.7.1.post4"),
        ("2.7.1.post5", "2.7.1.post4"),
        ("2.7.1.dev20250724", "2.7.1"),
        ("2.13.0+git1234", "2.13.0"),
        ("9.9.9", ""),
    ],
)
def test_a_version_is_compared_with_the_nearest_wheel_of_its_line(version: str, wheel: str) -> None:
    assert tables.nearest_wheel(version) == wheel


# --- processes


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("code", "kind", "detail"),
    [
        ("print('x')", process.OK, "0"),
        ("raise SystemExit(3)", process.EXIT, "3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", process.SIGNAL, "SIGABRT"),
    ],
)
def test_the_end_of_a_process_is_told(code: str, kind: str, detail: str) -> None:
    outcome = process.run_bounded(python(code), 20.0)
    assert (outcome.kind, outcome.detail) == (kind, detail)


def test_a_program_that_is_not_there_is_told() -> None:
    assert process.run_bounded(["/no/such/program"], 5.0).kind == process.ABSENT


def test_a_hanging_process_is_killed_with_its_children(tmp_path: object) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    started = time.monotonic()
    outcome = process.run_bounded(python(code), 1.0)
    assert outcome.kind == process.TIMEOUT
    assert time.monotonic() - started < 4.0
    time.sleep(0.2)
    assert not _runs(int(outcome.stdout))


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as source:  # noqa: PTH123
            return source.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_leaves_a_child_behind_is_not_waited_for() -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])"
    outcome = process.run_bounded(python(code), 15.0)
    assert outcome.kind == process.OK
    assert outcome.seconds < 5.0


def test_output_without_end_is_stopped_and_head_and_tail_are_kept() -> None:
    outcome = process.run_bounded(python("print('first')\nwhile True: print('y' * 4096)"), 30.0)
    assert outcome.kind == process.FLOOD
    assert outcome.stdout.startswith("first")
    assert len(outcome.stdout) <= process.MAX_KEPT + 100


def test_a_mark_in_the_middle_of_other_output_is_found() -> None:
    text = '[WARN] driver\n@@STAGE import torch\nnoise\n@@RESULT {"a": 1}\n@@STAGE open\n@@RESULT {"a": 2}\n@@RESULT junk\n'
    answer = read_answer(Outcome(process.OK, "0", text, "", 1.0))
    assert (answer.stage, answer.result) == ("open", {"a": 2})


def test_an_import_error_on_hostile_text_takes_linear_time() -> None:
    text = "undefined symbol: " * 3000 + "/" * 200000 + ": cannot open"
    answer = Answer(Outcome(process.EXIT, "1", "", text, 1.0), "import torch", None)
    assert cpu_seconds(lambda: (import_errors.outcome(answer), import_errors.values(answer)), 1) < 1


# --- tables of facts


@pytest.mark.parametrize(
    "name", ["torch_npu_releases", "cann_driver", "feature_minimums", "triton_ascend", "variables"]
)
def test_every_fact_has_a_source(name: str) -> None:
    rows = tables.read_table(name)
    assert rows
    assert all(len(row["source"]) > 8 for row in rows)


def test_every_torch_npu_wheel_of_the_published_matrix_is_known() -> None:
    pairs = {(row.wheel, row.release, row.cann) for row in tables.releases()}
    for expected in (
        ("2.12.0", "26.1.0", "9.1.0"),
        ("2.7.1.post4", "26.0.0", "9.0.0"),
        ("2.6.0.post5", "7.3.0", "8.5.0"),
        ("2.1.0.post17", "7.2.0", "8.3.RC1"),
        ("2.5.1", "7.0.0", "8.1.RC1"),
        ("2.1.0.post10", "6.0.0", "8.0.0"),
    ):
        assert expected in pairs


@pytest.mark.parametrize(
    ("wheel", "name", "signature"),
    [
        ("2.5.1", "torch.npu.graph", "(npu_graph, pool=None, stream=None, capture_error_mode='global')"),
        (
            "2.5.1.post1",
            "torch.npu.graph",
            "(npu_graph, pool=None, stream=None, auto_dispatch_capture=False, capture_error_mode='global')",
        ),
        ("2.5.1.post1", "torch.npu.NPUGraph.update", "(cpu_update_input)"),
        ("2.5.1", "torch.npu.NPUGraph.update", None),
        ("2.6.0", "torch.compile(backend='npugraphs')", ""),
        ("2.5.1.post1", "torch.compile(backend='npugraphs')", None),
        ("2.7.1.post2", "torch.compile(backend='npugraph_ex')", ""),
        ("2.7.1", "torch.compile(backend='npugraph_ex')", None),
        ("2.7.1.post4", "torch.npu.super_kernel_scope_begin", "(scope_name=None)"),
        ("2.12.0", "torch_npu.npu._npugraph_conditional_nodes", ""),
        ("2.11.0", "torch_npu.npu._npugraph_conditional_nodes", None),
        ("2.1.0.post10", "torch.npu.NPUGraph", None),
    ],
)
def test_the_api_table_says_from_which_wheel_a_name_exists(wheel: str, name: str, signature: str | None) -> None:
    assert tables.api_of(wheel).get(name) == signature


def test_every_variable_has_its_effect_in_both_languages() -> None:
    for row in tables.read_table("variables"):
        assert row["effect"], row["name"]
        assert any("\u4e00" <= letter <= "\u9fff" for letter in row["effect_zh"]), row["name"]


def test_allocator_options_are_read_with_lists_and_spaces() -> None:
    text = "expandable_segments: True, roundup_power2_divisions:[256:1,512:2],max_split_size_mb:64"
    assert variables.allocator_options(text) == {
        "expandable_segments": "True",
        "roundup_power2_divisions": "[256:1,512:2]",
        "max_split_size_mb": "64",
    }


def test_variables_of_other_software_are_left_alone() -> None:
    env = {
        "ASCEND_CUSTOM_OPP_PATH": "/x",
        "HCCL_BUFFSIZE": "200",
        "HCCL_IF_IP": "1",
        "PATH": "/bin",
        "NPU_VISIBLE": "1",
    }
    assert variables.check_names(env) == []


# --- API reader

SOURCE = """
class NPUGraph(Base):
    def capture_begin(self, pool=None, capture_error_mode="global"): ...
    def _hidden(self): ...
    @classmethod
    def make(cls, *parts, deep: bool = True, **options): ...
class graph:
    def __init__(self, npu_graph, /, pool=None, *, stream=(1, 2)): ...
try:
    def graph_pool_handle(): ...
except ImportError:
    pass
"""


def test_signatures_are_read_without_importing() -> None:
    api = api_reader.read_api({"npu/graphs.py": SOURCE}.get)
    assert api["torch.npu.NPUGraph.capture_begin"] == "(pool=None, capture_error_mode='global')"
    assert api["torch.npu.NPUGraph.make"] == "(*parts, deep=True, **options)"
    assert "torch.npu.NPUGraph._hidden" not in api
    assert api["torch.npu.graph"].startswith("(npu_graph, pool=None, *, stream=")
    assert api["torch.npu.graph_pool_handle"] == "()"
    assert "torch.npu.make_graphed_callables" not in api


def test_a_relative_pythonpath_is_still_found_by_a_probe(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    package = world.folder / "site-here" / "torchair-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: torchair\nVersion: 1.0\n")
    monkeypatch.chdir(world.folder)
    world.env["PYTHONPATH"] += os.pathsep + "site-here"
    assert world.host().packages()["torchair"] == "1.0"


# --- generated pages and tables


def test_the_page_of_variables_is_what_the_table_says() -> None:
    done = process.run_bounded([sys.executable, str(ROOT / "tools" / "write_variable_page.py"), "--check"], 30.0)
    assert done.kind == process.OK, done.stderr


def make_wheel(folder: Path, version: str, source: str) -> None:
    with zipfile.ZipFile(folder / f"torch_npu-{version}-cp311-cp311-manylinux_2_28_x86_64.whl", "w") as archive:
        archive.writestr("torch_npu/npu/graphs.py", source)


def check_table(folder: Path, version: str) -> process.Outcome:
    tool = str(ROOT / "tools" / "build_api_table.py")
    return process.run_bounded([sys.executable, tool, "--check", "--wheels", str(folder), version], 60.0)


def test_a_wheel_that_differs_from_the_api_table_is_told(tmp_path: Path) -> None:
    make_wheel(tmp_path, "2.5.1", "def graph_pool_handle(size=1): ...")
    done = check_table(tmp_path, "2.5.1")
    assert (done.kind, done.detail) == (process.EXIT, "1")
    assert "torch.npu.graph_pool_handle: table '()', wheel '(size=1)'" in done.stdout


@pytest.mark.parametrize("content", ["def (", None], ids=["no Python", "no zip"])
def test_a_wheel_that_cannot_be_read_is_one_line(tmp_path: Path, content: str | None) -> None:
    if content is None:
        (tmp_path / "torch_npu-2.5.1-cp311-cp311-manylinux_2_28_x86_64.whl").write_bytes(b"junk")
    else:
        make_wheel(tmp_path, "2.5.1", content)
    done = check_table(tmp_path, "2.5.1")
    assert done.detail == "3"
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be read" in done.stderr


def test_chinese_texts_have_chinese_punctuation() -> None:
    mixed = re.compile("[,;:?(](?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])[,;:?(]")
    for name in ("health_texts", "health_checks", "variables"):
        for row in tables.read_table(name):
            for column in (column for column in row if column.endswith("_zh")):
                assert not mixed.search(row[column]), row[column]


@pytest.mark.parametrize(
    ("torch", "cann", "install"),
    [
        ("2.7.1+cpu", "8.5.0", "pip install torch_npu==2.7.1.post2"),
        ("2.7.1+cpu", "9.0.0", "pip install torch_npu==2.7.1.post4"),
        ("2.12.0+cpu", "7.0.0", "pip install torch_npu==2.12.0"),
        ("2.13.0+cpu", "9.1.0", "pip install torch_npu==2.13.0"),
        ("9.9.9", "8.3.RC1", "pip install torch==2.8.0 torch_npu==2.8.0"),
        ("", "", "pip install torch==2.12.0 torch_npu==2.12.0"),
    ],
)
def test_what_to_install_fits_torch_first_and_then_cann(torch: str, cann: str, install: str) -> None:
    assert torch_npu_package.advice({"torch": torch} if torch else {}, cann)["install"] == install

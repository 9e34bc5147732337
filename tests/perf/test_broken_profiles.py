"""Profiles that are cut, mislabelled or hostile: an answer with its doubt, or one line; never a made-up verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import pytest
from profile_maker import graph_steps

from npu_graph import cli
from npu_graph.profiles.record import analyze
from npu_graph.profiles.report import write_report

Edit = Callable[[str], str]


def broken(folder: Path, edit: Edit, name: str = "kernel_details.csv", trace: bool = False) -> Path:
    made = graph_steps().write(folder, trace=trace)
    path = next(made.rglob(name))
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("negative durations", lambda text: text.replace(",5.000,", ",-5.000,")),
        ("huge integers", lambda text: text.replace(",5.000,", "," + "9" * 30 + ",")),
        ("a duration of years", lambda text: text.replace(",5.000,", ",2000000000000000.0,")),
        ("infinity", lambda text: text.replace(",5.000,", ",inf,")),
    ],
)
def test_rows_without_a_believable_time_are_left_out_and_counted(tmp_path: Path, name: str, edit: Edit) -> None:
    broken(tmp_path, edit)
    record = analyze(str(tmp_path))
    assert record["verdict"] == "insufficient"
    assert "80 of 80 rows of kernel_details have no usable time" in record["profile"]["warnings"][0]


def test_durations_of_zero_are_no_measurement(tmp_path: Path) -> None:
    broken(tmp_path, lambda text: text.replace(",5.000,", ",0.000,"))
    record = analyze(str(tmp_path))
    assert record["verdict"] == "insufficient"
    assert "duration of 0" in record["verdicts"][0]["attribution"]["text"]
    assert "时长都是 0" in write_report(record, "text", "zh")


def test_a_table_cut_in_the_middle_is_judged_with_its_doubt(tmp_path: Path) -> None:
    broken(tmp_path, lambda text: text[: len(text) // 2 - 13])
    record = analyze(str(tmp_path))
    assert any("8 replays ran, kernel rows show" in text for text in record["profile"]["warnings"])


def test_a_row_that_no_table_holds_ends_the_reading_and_is_said(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        lines = text.splitlines()
        return "\n".join([*lines[:60], '0,"' + "x" * 3_000_000, *lines[60:]])

    broken(tmp_path, edit)
    record = analyze(str(tmp_path))
    assert record["profile"]["device_tasks"] == 59
    assert any("only the first 59 rows" in text for text in record["profile"]["warnings"])


@pytest.mark.parametrize("text", ["hello", "[" * 200_000, ""])
def test_a_broken_trace_does_not_take_the_tables_with_it(tmp_path: Path, text: str) -> None:
    broken(tmp_path, lambda _: text, "trace_view.json", trace=True)
    record = analyze(str(tmp_path))
    assert record["verdict"] == "device_bound"
    assert any("a file was left out: trace_view.json" in warning for warning in record["profile"]["warnings"])


def test_a_broken_table_leaves_the_other_one(tmp_path: Path) -> None:
    path = broken(tmp_path, lambda text: text)
    text = path.read_text(encoding="utf-8").replace("Start Time(us)", "Task Start Time(us)")
    path.with_name("op_summary_001.csv").write_text(text, encoding="utf-8")
    path.write_text("a,b,c\n1,2,3\n", encoding="utf-8")
    record = analyze(str(tmp_path))
    assert record["profile"]["task_source"] == "op_summary"
    assert any("kernel_details.csv: no column for" in warning for warning in record["profile"]["warnings"])


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", "Name;Start Time(us);Duration(us)\nx;1;2\n"])
def test_a_folder_without_any_usable_file_is_one_line(tmp_path: Path, text: str) -> None:
    made = graph_steps().write(tmp_path, apis=False)
    next(made.rglob("kernel_details.csv")).write_text(text, encoding="utf-8")
    with pytest.raises(cli.CommandError, match="no column for") as refused:
        analyze(str(tmp_path))
    assert refused.value.exit_code == cli.NO_INPUT


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gbk"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    path = broken(tmp_path, lambda text: text.replace("aclnnAdd", "算子"))
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    record = analyze(str(tmp_path))
    assert record["profile"]["device_tasks"] == 80
    assert record["verdict"] == "device_bound"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("op_statistic.csv", "OP Type,Core Type,Count,Total Time(us)\nMatMulV2,AI_CORE,24,564.5\n"),
        ("step_trace_time.csv", "Step,Computing,Free,Stage\n1,100,900,1000\n"),
        ("api_statistic.csv", "Level,API Name,Time(us),Count\nacl,aclmdlRIExecuteAsync,750,75\n"),
    ],
)
def test_sums_alone_are_insufficient_and_name_the_switch(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    record = analyze(str(tmp_path))
    assert record["verdict"] == "insufficient"
    assert record["missing"]


def test_a_device_file_is_not_read_for_ever(tmp_path: Path) -> None:
    path = broken(tmp_path, lambda text: text)
    path.unlink()
    try:
        os.symlink("/dev/zero", path)  # noqa: PTH211
    except OSError:
        pytest.skip("symbolic links cannot be made here")
    record = analyze(str(tmp_path))
    assert record["verdict"] == "insufficient"


HEAD = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("0,,12000.325999999985,0,0,0,388000.6,400000.9,0", ("12000.326", "388000.6", "400000.9")),
        ("0,7,\x1b[31mred,0,0,0,nan,-,0", ("red", "nan")),
    ],
)
def test_without_kernel_rows_the_profilers_own_sums_stand_instead_of_zeros(
    tmp_path: Path, row: str, shown: tuple[str, ...]
) -> None:
    (tmp_path / "step_trace_time.csv").write_text(f"{HEAD}\n{row}\n", encoding="utf-8")
    (tmp_path / "api_statistic.csv").write_text(
        "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\n"
        "host,acl,aclmdlRIExecuteAsync,760.0,75,10.1,9.0,14.1,1.0\n",
        encoding="utf-8",
    )
    text = write_report(analyze(str(tmp_path)), "text", "en")
    steps = text.split("Steps\n")[1].split("Replays")[0]
    assert all(value in steps for value in shown)
    assert "\x1b" not in steps and "exposed communication" not in steps

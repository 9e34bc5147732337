"""What is read from profiler files: columns by name, exact times, traces of any size, and hostile input."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_maker import Kernel, eager_steps, graph_steps, us

from npu_graph import bundle, cli
from npu_graph.profiles import trace_file
from npu_graph.profiles.csv_files import read_tasks
from npu_graph.profiles.loading import load_profile
from npu_graph.profiles.record import analyze
from npu_graph.profiles.report import write_report
from npu_graph.profiles.sources import file_kind
from npu_graph.profiles.tasks import COMMUNICATION, COMPUTE, CONTROL, COPY, TaskTable, plain_type, task_kind
from npu_graph.profiles.timestamps import to_ns
from npu_graph.profiles.trace_file import TruncatedTraceError, read_events, read_trace

SCRIPT = bundle.ROOT / "graph-perf" / "scripts" / "analyze_profile.py"


@given(st.integers(min_value=0, max_value=2 * 10**18))
def test_times_survive_to_the_nanosecond(nanoseconds: int) -> None:
    assert to_ns(us(nanoseconds)) == nanoseconds
    assert to_ns(f'"{us(nanoseconds)}\t"') == nanoseconds


@given(st.decimals(min_value=0, max_value=10**12, places=6))
def test_longer_fractions_round_to_the_nearest_nanosecond(value: Decimal) -> None:
    result = to_ns(str(value))
    assert result is not None
    assert abs(Decimal(result) - value * 1000) <= Decimal("0.5")


@pytest.mark.parametrize("text", ["", "N/A", "nan", "inf", "1e999999999", "9" * 60, "9" * 30, "12:30", None, "١٢"])
def test_what_is_no_time_is_left_out(text: object) -> None:
    assert to_ns(text) is None


ONE_KERNEL = {
    "2023, block dim, no device": (
        "Step Id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)"
        ",Block Dim\n"
        "1,4294967295,7,16,ZerosLike46,ZerosLike,AI_VECTOR_CORE,1699529622790614.8,607.98,0,48\n"
    ),
    "quoted start with a tab": (
        "Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
        '4294967295,7,16,ZerosLike46,ZerosLike,AI_VECTOR_CORE,"1699529622790614.800\t",607.98\n'
    ),
    "byte order mark, other order": (
        "﻿Duration(us),Start Time(us),Stream ID,Task ID,Model ID,Type,Accelerator Core,Name\n"
        "607.98,1699529622790614.8,16,7,4294967295,ZerosLike,AI_VECTOR_CORE,ZerosLike46\n"
    ),
    "op_summary": (
        "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,"
        "Task Start Time(us),Task Duration(us)\n"
        "0,4294967295,7,16,ZerosLike46,ZerosLike,dynamic,AI_VECTOR_CORE,1699529622790614.800,607.980\n"
    ),
}


@pytest.mark.parametrize("text", ONE_KERNEL.values(), ids=ONE_KERNEL.keys())
def test_columns_are_found_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_text(text, encoding="utf-8")
    table = TaskTable()
    assert read_tasks(path, table).rows == 1
    row = table.row(0)
    assert (row.start, row.duration) == (1699529622790614800, 607980)
    assert (row.type, row.stream, row.task, row.model) == ("ZerosLike", "16", 7, 4294967295)


def test_task_time_gives_tasks_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "task_time_1.csv"
    path.write_text(
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
        "0,N/A,PROFILING_ENABLE,1714,4,0.020,900000.000,900000.020\n"
        "0,my_kernel,MIX_AIC,1716,0,42401.720,1000000.000,1042401.720\n",
        encoding="utf-8",
    )
    profile = load_profile(str(tmp_path))
    assert profile.task_source == "task_time"
    assert list(profile.table.kind) == [CONTROL, COMPUTE]
    assert not profile.has_models


def test_a_table_without_times_says_which_columns_it_found(tmp_path: Path) -> None:
    (tmp_path / "kernel_details.csv").write_text("Name,Colour\na,red\n", encoding="utf-8")
    with pytest.raises(cli.CommandError, match=r"no column for start, duration \(found: Name, Colour\)"):
        load_profile(str(tmp_path))


def test_rows_without_a_time_are_counted_and_not_guessed(tmp_path: Path) -> None:
    folder = eager_steps().write(tmp_path)
    path = next(folder.rglob("kernel_details.csv"))
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, "broken", lines[1].replace("5.000", "later")]) + "\n", encoding="utf-8")
    assert any(warning.startswith("2 of 82 rows") for warning in load_profile(str(folder)).warnings)


@pytest.mark.parametrize(
    ("name", "type_", "core", "kind"),
    [
        ("MatMul", "MatMulV2", "AI_CORE", COMPUTE),
        ("hcom_allReduce__445_0", "hcom_allReduce_", "HCCL", COMMUNICATION),
        ("hcom_broadcast__1", "hcom_broadcast_", "COMMUNICATION", COMMUNICATION),
        ("CAPTURE_WAIT", "CAPTURE_WAIT", "CAPTURE_WAIT", CONTROL),
        ("MEM_WAIT_VALUE", "MEM_WAIT_VALUE", "MEM_WAIT_VALUE", CONTROL),
        ("NOTIFY_RECORD", "NOTIFY_RECORD", "NOTIFY_RECORD", CONTROL),
        ("EVENT_WAIT", "EVENT_WAIT", "EVENT_WAIT_SQE", CONTROL),
        ("MODEL_EXECUTE", "MODEL_EXECUTE", "MODEL_EXECUTE", CONTROL),
        ("MEMCPY_ASYNC", "MEMCPY_ASYNC", "MEMCPY_ASYNC", COPY),
        ("MaskedFill", "MaskedFill", "AI_CPU", COMPUTE),
        # A user's kernel may be called anything.
        ("my_wait", "my_wait", "AI_VECTOR_CORE", COMPUTE),
    ],
)
def test_waits_and_signals_are_not_work(name: str, type_: str, core: str, kind: int) -> None:
    assert task_kind(name, type_, core) == kind


def test_waits_in_a_trace_do_not_count_as_busy(tmp_path: Path) -> None:
    profile = graph_steps(entry=100_000)
    without = analyze(str(profile.write(tmp_path / "a", level=0, apis=False, trace=True)))
    profile.control = [Kernel(n * 1000, 900_000, "CAPTURE_WAIT", "CAPTURE_WAIT", 35, "98", n) for n in range(50)]
    with_waits = analyze(str(profile.write(tmp_path / "b", level=0, apis=False, trace=True)))
    assert with_waits["scope"] == without["scope"]
    assert with_waits["coverage"] == without["coverage"]


def test_a_second_compilation_of_a_triton_kernel_is_the_same_kernel() -> None:
    assert plain_type("_triton_rope_1") == "_triton_rope"
    assert plain_type("MatMulV2") == "MatMulV2"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("kernel_details.csv", "kernel_details"),
        ("op_summary_20260823165358.csv", "op_summary"),
        ("msprof_20260823.json", "trace_view"),
        ("communication.json", "communication"),
        ("communication_matrix.json", None),
        ("op_summary.txt", None),
        ("kernel_details_old", None),
        ("trace_viewer.json", None),
    ],
)
def test_files_are_recognised_by_tool_and_version(name: str, kind: object) -> None:
    assert file_kind(name) == kind


def write_trace(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("separator", [", ", ",", ",\n", "\n,\n"])
@pytest.mark.parametrize("frame", ["[%s]", '{"schema": 1, "traceEvents": [%s], "x": 2}', "  [\n%s\n]\n"])
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_events_are_found_wherever_a_block_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str, frame: str, block: int
) -> None:
    events = [{"name": "算子 }, {", "args": {"a": [{"b": "]"}]}, "n": n} for n in range(20)]
    text = frame % separator.join(json.dumps(event, ensure_ascii=False) for event in events)
    # A header longer than one block is no trace; the reader looks for the array in the first block only.
    monkeypatch.setattr(trace_file, "_BLOCK", max(block, 40))
    assert list(read_events(write_trace(tmp_path / "t.json", text))) == events


def test_a_cut_trace_gives_what_it_holds_and_says_that_it_is_cut(tmp_path: Path) -> None:
    folder = graph_steps().write(tmp_path, level=0, apis=False, trace=True)
    path = next(folder.rglob("trace_view.json"))
    path.write_text(path.read_text(encoding="utf-8")[:-5000], encoding="utf-8")
    with pytest.raises(TruncatedTraceError):
        list(read_events(path))
    profile = load_profile(str(folder))
    assert len(profile.table) > 20
    assert any("ends early" in warning for warning in profile.warnings)


@pytest.mark.parametrize("text", ["", "no json", '{"a": 1}'])
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(cli.CommandError, match="no JSON array"):
        list(read_events(write_trace(tmp_path / "t.json", text)))


def test_events_of_a_wrong_shape_are_passed_over(tmp_path: Path) -> None:
    odd: list[object] = [
        1,
        None,
        "x",
        [],
        {"ph": "X"},
        {"ph": "X", "name": 5},
        {"ph": "X", "name": "k", "ts": "later", "args": {"Task Type": "KERNEL_AIVEC"}},
        {"ph": "X", "name": "k", "ts": 1, "dur": -5, "args": {"Task Type": "KERNEL_AIVEC"}},
        {"ph": "f", "cat": "HostToDevice", "id": "x" * 99},
        {"ph": "M", "name": "process_name", "pid": [], "args": "none"},
        {"ph": "X", "name": "Computing", "pid": {}, "dur": 1},
        {"ph": "X", "name": "AscendCL@aclmdlRIExecuteAsync", "ts": 1, "dur": 1, "args": None},
    ]
    facts = read_trace(write_trace(tmp_path / "t.json", json.dumps(odd)), TaskTable())
    assert facts.events == 8
    assert len(facts.replay_calls) == 1


def test_a_bomb_of_nesting_is_refused(tmp_path: Path) -> None:
    text = '[{"a": ' + "[" * 100_000 + "]" * 100_000 + "}]"
    with pytest.raises((cli.CommandError, TruncatedTraceError)):
        list(read_events(write_trace(tmp_path / "t.json", text)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc (Linux)")
def test_a_large_trace_stays_within_the_memory_budget(tmp_path: Path) -> None:
    """30 MB of dense events; the gigabyte measurement is in graph-perf/references/profile_record.md."""
    path = tmp_path / "trace_view.json"
    graph_steps(steps=3000, kernels=40).write_trace(path)
    assert path.stat().st_size > 25 << 20
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from npu_graph.profiles.record import analyze; "
        "print(analyze(sys.argv[2])['profile']['device_tasks']); print(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(bundle.ROOT), str(tmp_path)], capture_output=True, text=True, timeout=110
    )
    tasks, *status = done.stdout.splitlines()
    peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    assert int(tasks) == 3000 * 41
    assert peak_kb < 100 * 1024


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-I", str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60)


def test_the_script_keeps_the_contract(tmp_path: Path) -> None:
    folder = str(graph_steps().write(tmp_path / "p"))
    assert json.loads(run(folder, "--output", "json").stdout)["schema"] == "npu-graph/profile/1"
    assert run(folder).returncode == 0
    assert run(str(tmp_path / "absent")).returncode == 3
    assert run(str(tmp_path / "absent")).stderr.count("\n") == 1
    assert run(folder, "--real-size", "nan").returncode == 2
    assert run(str(eager_steps().write(tmp_path / "q", level=0, apis=False))).returncode == 1
    help_text = run("--help").stdout
    assert "exit codes" in help_text
    assert help_text.count("analyze_profile.py") >= 3


def test_reports_are_in_the_language_asked_for(tmp_path: Path) -> None:
    """Every sentence of a verdict has a translation: none stays English in a Chinese report."""
    from npu_graph.profiles import wording

    cases = [
        eager_steps().write(tmp_path / "1"),
        graph_steps(entry=200_000, kernels=3).write(tmp_path / "2", trace=True),
        graph_steps(inside=50_000).write(tmp_path / "3"),
        graph_steps(steps=2).write(tmp_path / "4", level=0, apis=False),
    ]
    seen = 0
    for folder in cases:
        record = analyze(str(folder))
        for item in record["verdicts"]:
            for text in (item["attribution"]["text"], item["confirm"], item["scope"]):
                seen += 1
                assert not set(wording.translate(text, "zh").split("；")) & set(text.split("; ")), text
        assert "结论" in run(str(folder), "--lang", "zh").stdout
    assert seen > 10


def test_a_chinese_report_has_no_english_lines_of_its_own(tmp_path: Path) -> None:
    graph, eager = str(graph_steps().write(tmp_path / "g")), str(eager_steps().write(tmp_path / "e"))
    text = run(graph, "--against", eager, "--lang", "zh").stdout
    for phrase in ("host calls", "coverage", "block of", "launches saved", "exposed communication", "speed-up"):
        assert phrase not in text, phrase
    assert run(graph, "--against", eager).stdout.count("coverage") > 1


def test_kernel_rows_that_disagree_with_the_profilers_own_lane_are_doubted(tmp_path: Path) -> None:
    folder = graph_steps().write(tmp_path)
    lane = [
        {"name": "process_name", "pid": 3, "ph": "M", "args": {"name": "Overlap Analysis"}},
        {"name": "Computing", "pid": 3, "ph": "X", "ts": "1.000", "dur": 900.0},
        {"name": "Computing", "pid": 4, "ph": "X", "ts": "1.000", "dur": 5.0},
    ]
    write_trace(next(folder.rglob("kernel_details.csv")).with_name("trace_view.json"), json.dumps(lane))
    record = analyze(str(folder))
    assert record["overlap_lane_us"] == {"Computing": 900.0}, "a user's range of the same name is not the lane"
    assert any("by the profiler's own lane" in warning for warning in record["profile"]["warnings"])


def test_text_from_a_profile_is_folded_and_escaped(tmp_path: Path) -> None:
    profile = eager_steps()
    profile.eager(90_000_000, 9_000_000, "<script>|x\x1b[31m[a](http://b)*c*", step=7)
    output = run(str(profile.write(tmp_path)), "--output", "md").stdout
    assert "<script>" not in output
    assert "\x1b" not in output
    assert "\\|x" in output
    assert "\\[a\\](http://b)\\*c\\*" in output


def test_several_profiles_below_one_folder_are_not_mixed(tmp_path: Path) -> None:
    for rank in ("rank0", "rank1"):
        eager_steps().write(tmp_path / rank)
    record = analyze(str(tmp_path))
    assert record["profile"]["device_tasks"] == 80
    assert any("1 more profiles" in warning for warning in record["profile"]["warnings"])


def test_damaged_files_end_in_an_answer_or_one_clear_error(tmp_path: Path) -> None:
    """Sixty profiles with bytes changed, cut and repeated at random: no crash, and no negative time."""
    source = random.Random(11)
    answered = 0
    for number in range(60):
        folder = tmp_path / str(number)
        (graph_steps if number % 2 else eager_steps)(steps=3).write(folder, level=number % 3, trace=number % 4 != 0)
        for path in folder.rglob("*.*"):
            if path.is_file():
                path.write_bytes(damage(path.read_bytes(), source))
        try:
            record = analyze(str(folder), str(folder) if number % 3 == 0 else None)
        except cli.CommandError:
            continue
        answered += 1
        assert json.dumps(record, allow_nan=False)
        assert write_report(record, "md", "zh")
        assert all(step["free_us"] >= 0 and step["busy_us"] >= 0 for step in record["steps"]["items"])
    assert answered > 30


def damage(data: bytes, source: random.Random) -> bytes:
    junk = [b"\0", b'"', b",", b"\n", b"9" * 30, b"-1", b"NaN", b"}", b"[", b"1e400"]
    changed = bytearray(data)
    for _ in range(source.randrange(10)):
        place = source.randrange(len(changed)) if changed else 0
        action = source.randrange(3)
        if action == 0:
            changed[place : place + 1] = bytes([source.randrange(256)])
        elif action == 1:
            changed[place : place + source.randrange(60)] = b""
        else:
            changed[place:place] = source.choice(junk)
    return bytes(changed)

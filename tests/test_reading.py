"""What people paste is cleaned line by line, and each line keeps its number and its process."""

from __future__ import annotations

import pytest

from npu_graph.cli import InputText
from npu_graph.diagnosis.bounds import MAX_CHARACTERS, MAX_FULL_INPUTS, MAX_LINES, MAX_TRACE_LINES
from npu_graph.diagnosis.reading import clean_line, read_report

PREFIXED = [
    ("(Worker_TP0 pid=2390) ERROR 06-10 16:39:42 [multiproc_executor.py:962] RuntimeError: x", "Worker_TP0 pid=2390"),
    ("(EngineCore_DP0 pid=41) (Worker_TP1_EP1 pid=77) INFO 12-10 03:09:31 [m.py:3] RuntimeError: x", "Worker_TP1_EP1 pid=77"),
    ("(VllmWorker TP2 pid=102) ERROR 08-27 01:44:46 [f.py:602] RuntimeError: x", "VllmWorker TP2 pid=102"),
    ("ERROR 06-29 06:20:03 [core.py:515] RuntimeError: x", ""),
    ("[rank3]: RuntimeError: x", "rank3"),
    ("[rank3]:[W1210 03:09:10.966659833 compiler_depend.ts:187] RuntimeError: x", "rank3"),
    ("[2026-07-07 07:20:43 TP0] RuntimeError: x", "TP0"),
    ("[default1]:RuntimeError: x", "default1"),
    ("my-service-1  | (EngineCore_DP0 pid=414) RuntimeError: x", "EngineCore_DP0 pid=414"),
    ("2026-01-02T03:04:05.123456789Z stderr F RuntimeError: x", ""),
    ("V1130 15:56:59.744590 27271 ../torch_npu/csrc/core/npu/NPUGraph.cpp:241] RuntimeError: x", ""),
    ("E1130 15:48:38.722000 20708 torch_npu/npu/graphs.py:918] [__cudagraphs] RuntimeError: x", ""),
    ("E20260821 17:32:26.321024 84730 executor.cpp:464] RuntimeError: x", ""),
    ("2025-08-05 11:23:25,691 - ERROR - RuntimeError: x", ""),
    ("> RuntimeError: x", ""),
    (">> > RuntimeError: x", ""),
    ("\x1b[31mRuntimeError: x\x1b[0m\r", ""),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "stream"), PREFIXED)
def test_a_log_prefix_is_taken_off_and_names_the_process(raw: str, stream: str) -> None:
    (line,) = clean_line(7, raw)
    assert line.text == "RuntimeError: x"
    assert line.stream == stream
    assert line.number == 7


def test_the_indentation_of_a_traceback_survives_its_prefix() -> None:
    (line,) = clean_line(1, '(Worker_TP6 pid=1) ERROR 10-29 08:54:50 [m.py:671]   File "/a.py", line 3, in f')
    assert line.text == '  File "/a.py", line 3, in f'


def test_ordinary_text_is_left_alone() -> None:
    for text in ("x = (pid=3)", "    if a | b:", "torch 2.10.0, torch_npu 2.10.0", "显存不足，捕获失败"):
        assert clean_line(1, text)[0].text == text


def test_a_progress_bar_shows_its_last_state() -> None:
    (line,) = clean_line(1, "Capturing:  0%\rCapturing: 50%\rCapturing: 100%\r")
    assert line.text == "Capturing: 100%"


def test_a_trace_in_one_json_string_becomes_lines() -> None:
    raw = (
        '{"log": "Traceback (most recent call last):\\n  File \\"a.py\\", line 3, in f\\n    g()\\nRuntimeError: x'
        + " " * 200
        + '"}'
    )
    texts = [line.text for line in clean_line(4, raw)]
    assert any(text.startswith('  File "a.py", line 3') for text in texts)
    assert {line.number for line in clean_line(4, raw)} == {4}


def test_hidden_characters_are_removed() -> None:
    (line,) = clean_line(1, "Runtime\u200bError: \u202eabc\u0007")
    assert line.text == "RuntimeError: abc"


def test_a_block_line_without_prefix_belongs_to_the_process_before_it() -> None:
    text = "(Worker_TP1 pid=9) ERROR 08-07 16:23:01 [m.py:1] RuntimeError: x, error code is 107025\n[ERROR] 2026-08-07-16:23:00 (PID:9, Device:1, RankID:-1) ERR00100 PTA call acl api failed.\nEE9999: Inner Error!"
    assert {line.stream for line in read_report([InputText("-", text, 0)]).lines} == {"Worker_TP1 pid=9"}


def test_a_huge_log_is_cut_to_the_neighbourhood_of_its_errors() -> None:
    lines = [f"step {index} ok" for index in range(4 * MAX_LINES)]
    lines[2 * MAX_LINES] = "RuntimeError: Called NPUGraph::replay without a preceding successful capture."
    report = read_report([InputText("big.log", "\n".join(lines), 0)])
    assert len(report.lines) < 200
    assert any(line.number == 2 * MAX_LINES + 1 and "NPUGraph::replay" in line.text for line in report.lines)
    assert "not diagnosed" in report.left_out[0]


FAILURE = "RuntimeError: Called NPUGraph::replay without a preceding successful capture."


def noisy(name: str, count: int, last: str = "all errors told") -> InputText:
    """An input in which every line looks like one near an error."""
    return InputText(name, "\n".join([f"ERROR step {index}" for index in range(count)] + [last]), 0)


def test_a_large_input_leaves_the_others_their_place() -> None:
    inputs = [noisy("a.log", 2 * MAX_LINES), noisy("b.log", 2 * MAX_LINES), InputText("c.log", FAILURE, 0)]
    report = read_report(inputs)
    assert report.lines[-1].text == FAILURE
    assert {line.source for line in report.lines} == {"a.log", "b.log", "c.log"}
    assert len(report.lines) <= MAX_FULL_INPUTS * MAX_LINES


def test_what_is_near_an_error_and_not_read_is_not_said_to_be_far_from_one() -> None:
    report = read_report([noisy("a.log", 3 * MAX_LINES, FAILURE)])
    assert len(report.lines) == MAX_LINES
    (told,) = report.left_out
    assert told.startswith(f"a.log: {2 * MAX_LINES + 1} lines in the middle were too many")


def test_how_a_log_began_and_how_it_ended_are_both_read() -> None:
    numbers = [line.number for line in read_report([noisy("a.log", 3 * MAX_LINES, FAILURE)]).lines]
    assert (numbers[0], numbers[-1]) == (1, 3 * MAX_LINES + 1) and numbers == sorted(numbers)


def test_a_trace_in_one_string_keeps_its_exception_however_long_it_is() -> None:
    frames = "".join(f'  File "a.py", line {number}, in f\\n    g()\\n' for number in range(MAX_TRACE_LINES))
    lines = clean_line(1, f"Traceback (most recent call last):\\n{frames}{FAILURE}")
    assert lines[0].text.startswith("Traceback") and lines[-1].text == FAILURE
    assert len(lines) <= MAX_TRACE_LINES


def test_a_line_of_a_megabyte_keeps_its_head_and_its_tail_and_that_is_said() -> None:
    report = read_report([InputText("a.log", "RuntimeError: " + "x" * 1_000_000 + FAILURE, 0)])
    assert report.lines[0].text.startswith("RuntimeError: x") and report.lines[-1].text.endswith(FAILURE)
    assert report.left_out == ["a.log: the middle of line 1 (1000091 characters) was not read"]


@pytest.mark.parametrize("trace", [False, True])
def test_what_is_read_is_bounded_whatever_the_lines_are(trace: bool) -> None:
    line = "Error " + ("\\n" * 5000 if trace else "x" * 70_000)
    inputs = [InputText(f"{number}.log", "\n".join([line] * 300), 0) for number in range(6)]
    report = read_report(inputs)
    assert 0 < len(report.lines) <= MAX_FULL_INPUTS * MAX_LINES
    assert sum(len(item.text) for item in report.lines) <= MAX_FULL_INPUTS * MAX_CHARACTERS
    assert {item.source for item in report.lines} == {item.name for item in inputs}

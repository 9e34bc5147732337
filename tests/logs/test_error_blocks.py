"""An exception and what torch_npu and CANN print under it are one error; the rank that others waited for goes first."""

from __future__ import annotations

import re
from typing import Any

import pytest

from npu_graph.logs.echoes import echo_of, named_rank
from npu_graph.logs.partial import merge
from npu_graph.logs.record import analyse
from npu_graph.logs.render import render
from tests.logs.log_lines import at, glog, pta, replay, scan_bytes, vllm

WITH_TIMEOUT = "c10_npu::acl::AclrtSynchronizeStreamWithTimeout(stream)"


def exception(function: str, code: int) -> str:
    return f"RuntimeError: f:build/x.ts:71 NPU function error: {function}, error code is {code}"


def cann(seconds: float, code: str, text: str, pid: int) -> str:
    moment = at(seconds)
    micro = moment.microsecond
    return f"{code}: [PID: {pid}] {moment:%Y-%m-%d-%H:%M:%S}.{micro // 1000:03d}.{micro % 1000:03d} {text}"


def ranked(rank: int, lines: list[str]) -> list[str]:
    """The lines as a launcher writes them, which knows the rank only."""
    return [f"[rank{rank}]: {line}" for line in ["Traceback (most recent call last):", *lines]]


def own_failure(rank: int, seconds: float, compact: bool, function: str = WITH_TIMEOUT) -> list[str]:
    pid = 500 + rank
    under = [
        pta(seconds, pid, rank),
        "[Error]: The stream is in the capture state.",
        "EE9999: Inner Error!",
        cann(seconds, "EE9999", f"Not allow to synchronize captured-stream, stream_id={rank}.[FUNC:Sync]", pid),
    ]
    return [
        replay(seconds - 0.3, pid=pid, rank=rank),
        *ranked(rank, [exception(function, 107027), *([] if compact else under)]),
    ]


def wait(
    rank: int, seconds: float, header: str | None = "ERR02200 DIST call hccl api failed", named: int = 3
) -> list[str]:
    """A rank that waited for another one; its last stamped line before is from long ago."""
    pid = 500 + rank
    text = f"The wait execution of the Notify register times out. Reason: no record from remote rank [{named}]."
    return [
        replay(21, pid=pid, rank=rank),
        *ranked(
            rank,
            [
                exception("AclrtSynchronizeDeviceWithTimeout", 507048),
                *([pta(seconds, pid, rank, header)] if header else []),
                cann(seconds, "EI0002", text, pid),
            ],
        ),
    ]


def without_ranks(lines: list[str]) -> list[str]:
    """The lines of a process that writes to a file of its own."""
    return [re.sub(r"^\[rank\d+\]: ", "", line) for line in lines]


def of_files(files: dict[str, list[str]], cuts: list[int] | None = None) -> dict[str, Any]:
    parts = [scan_bytes("".join(line + "\n" for line in files[name]).encode(), cuts, name) for name in sorted(files)]
    return analyse(merge(parts), folders=[])


def of_ranks(waits: dict[int, list[str]], failed: list[str], cuts: list[int] | None = None) -> dict[str, Any]:
    return of_files({**{f"rank_{rank}.log": lines for rank, lines in waits.items()}, "rank_3.log": failed}, cuts)


@pytest.mark.parametrize("cuts", [None, [1, 90, 200, 400]])
@pytest.mark.parametrize("header", ["ERR02200 DIST call hccl api failed", "ERR00100 PTA call acl api failed", None])
@pytest.mark.parametrize("function", [WITH_TIMEOUT, "c10_npu::acl::AclrtSynchronizeStream(stream)"])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("prefixed", [True, False])
def test_the_rank_that_failed_by_itself_is_named_and_not_those_that_waited(prefixed, compact, function, header, cuts):
    dressed = (lambda lines: lines) if prefixed else without_ranks
    waits = {rank: dressed(wait(rank, 81.25 + rank, header)) for rank in (0, 1, 2)}
    first = of_ranks(waits, dressed(own_failure(3, 21.7, compact, function)), cuts)["first_failure"]
    assert (first["rank"], first["source"], first["line"]) == ("3", "rank_3.log", 3)
    assert "107027" in first["text"]
    assert first["others"] == []
    assert {item["rank"] for item in first["echoes"]} == {"0", "1", "2"}
    assert all("waited" in item["why"] for item in first["echoes"])
    assert first["waited_for"] == [{"rank": "3", "processes": 3}]


def test_an_own_failure_that_is_proved_to_be_earlier_wins_over_the_rank_that_is_named():
    waits = {0: [*own_failure(0, 5, False), *wait(0, 81)], 1: wait(1, 82)}
    first = of_ranks(waits, own_failure(3, 21.7, False))["first_failure"]
    assert (first["rank"], first["source"]) == ("0", "rank_0.log")


def test_an_own_failure_after_the_waits_were_over_is_not_what_was_waited_for():
    lines = [replay(100, pid=503, rank=3), *own_failure(3, 200, False)]
    unstamped = [replay(21, pid=501, rank=1), "[rank1]: ValueError: own", replay(70, pid=501, rank=1)]
    first = of_files({"a.log": unstamped, "b.log": wait(2, 81), "rank_3.log": lines})["first_failure"]
    assert first["rank"] == "1"


def test_where_only_waits_are_logged_the_rank_that_they_name_is_the_suspect():
    record = of_files({f"rank_{rank}.log": wait(rank, 81 + rank) for rank in (0, 1, 2)})
    assert record["first_failure"]["confidence"] == "low"
    assert "suspect: rank 3, named by 3 process(es) that waited for it" in render(record, summary=True)


def test_the_exception_line_is_quoted_and_its_block_is_neither_candidate_nor_consequence():
    record = of_files({"rank_3.log": own_failure(3, 21.7, compact=False)})
    first = record["first_failure"]
    assert first["text"].startswith("RuntimeError: ")
    assert first["time"] == "2026-03-05 08:00:21.700000"  # of the block; the exception line has no stamp
    assert first["time_of_an_earlier_line"] is False
    assert first["others"] == first["echoes"] == []


def test_a_wait_takes_the_time_of_its_block_and_not_that_of_the_last_replay_before():
    record = of_files({"rank_0.log": wait(0, 81.25)})
    shown = [item for item in record["errors"]["clusters"] if item["key"].startswith("RuntimeError")]
    assert [item["first_us"] for item in shown] == [item["last_us"] for item in shown] != []
    assert (shown[0]["first_us"] - record["span"]["first_us"]) / 1e6 == pytest.approx(60.25)


@pytest.mark.parametrize("before", [20.0, 21.2])
def test_the_exception_comes_before_the_one_raised_while_it_was_handled(before):
    lines = [replay(before, pid=503, rank=3), *ranked(3, [exception(WITH_TIMEOUT, 107027), pta(21, 503, 3)])]
    lines += ranked(3, [exception("c10_npu::acl::AclmdlRICaptureEnd(stream)", 107027), pta(21, 503, 3)])
    assert of_files({"rank_3.log": lines})["first_failure"]["line"] == 3


def test_an_error_that_cann_kept_from_before_does_not_date_the_exception():
    lines = [
        replay(50, pid=503, rank=3),
        *ranked(3, [exception(WITH_TIMEOUT, 107027), cann(5, "EE9999", "an old message, id=1", 503)]),
    ]
    assert of_files({"rank_3.log": lines})["first_failure"]["time"] == "2026-03-05 08:00:50.000000"


def test_the_full_stamp_of_a_block_corrects_a_year_that_was_only_guessed():
    lines = [
        vllm(46, exception(WITH_TIMEOUT, 107027), "ERROR", 102),
        *(vllm(46, line.replace("2026-", "2025-"), "ERROR", 102) for line in (pta(46, 102), "EE9999: Inner Error!")),
    ]
    lines += ["x" * 20, pta(50, 900).replace("2026-", "2025-")]
    first = of_files({"service.log": lines, "z.log": [replay(1, pid=7)]})["first_failure"]
    assert (first["line"], first["time"]) == (1, "2025-03-05 08:00:46")


def test_a_line_of_torch_npu_far_from_an_exception_is_an_error_of_its_own():
    lines = [*wait(0, 81, None), *(replay(82 + k * 0.01, pid=500, rank=0) for k in range(60)), pta(83, 500, 0)]
    assert of_files({"rank_0.log": lines})["first_failure"]["key"] == "ERR00100 PTA call acl api failed"


def test_a_nameless_exception_belongs_to_the_process_of_the_block_right_below_it():
    lines = [replay(1, pid=500, rank=0), replay(1, pid=501, rank=1), *without_ranks(own_failure(1, 2, False))]
    lines += without_ranks(wait(0, 81, named=1))
    first = of_files({"all.log": lines})["first_failure"]
    assert (first["process"], first["rank"], first["line"]) == ("501", "1", 5)
    assert {item["process"] for item in first["echoes"]} == {"500"}


def test_a_real_fault_below_a_wait_remains_a_candidate():
    lines = [
        replay(1, pid=500, rank=0),
        *ranked(
            0, [exception("f", 507048), pta(2, 500, 0), cann(2, "EZ9999", "The aicore execution is abnormal", 500)]
        ),
    ]
    assert of_files({"rank_0.log": lines})["first_failure"]["key"].startswith("EZ9999")


@pytest.mark.parametrize(
    "text",
    [
        exception(WITH_TIMEOUT, 107027),
        "EE9999: rtStreamSynchronizeWithTimeout execute failed, reason=[stream is captured]",
        "RUNTIME set_timeout.cc:88 [set_timeout.cc:88]7 SetTimeoutValue: bad value",
        "RuntimeError: aicore timeout, error code is 507014",
    ],
)
def test_a_function_or_file_named_after_a_timeout_waited_for_nothing(text):
    assert echo_of(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "TimeoutError: no answer",
        "RuntimeError: wait for the response: timeout",
        "EI0002: The wait execution of the Notify register times out.",
        "RuntimeError: socket timed out",
        "HCCL_E_TIMEOUT",
        "Watchdog caught collective operation timeout: WorkHCCL(SeqNum=3, Timeout(ms)=1800000)",
        exception("AclrtSynchronizeDeviceWithTimeout", 507048),
    ],
)
def test_a_message_about_a_timeout_is_a_wait(text):
    assert echo_of(text) == "a process waited for one that failed or never came"


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("has not received the Notify record from remote rank [3].", "3"),
        ("remoteRank[12], timeout", "12"),
        ("remote rank:[7]", "7"),
        ("the remote ranking is 4", ""),
        ("rank [3] is remote", ""),
    ],
)
def test_a_remote_rank_is_read_from_the_words_of_a_wait(text, rank):
    assert named_rank(text) == rank


def test_a_process_that_a_launcher_names_by_its_rank_is_counted_once():
    record = of_files({"rank_3.log": own_failure(3, 21.7, compact=True)})
    assert [(item["process"], item["rank"]) for item in record["processes"]] == [("503", "3")]


def test_two_processes_of_one_rank_keep_a_nameless_line_apart():
    lines = [replay(1, pid=503, rank=3), *own_failure(3, 2, compact=True)[1:], replay(9, pid=777, rank=3)]
    assert {item["process"] for item in of_files({"x.log": lines})["processes"]} == {"503", "777", "rank 3"}


def test_kinds_that_a_summary_leaves_out_are_counted():
    lines = [glog(1, "start", rank=0), *(f"{name}Error: x" for name in ("A", "B", "C", "D", "E", "F", "G"))]
    record = of_files({"x.log": lines})
    assert record["errors"]["kinds"] == 7
    assert "2 more kind(s)" in render(record, summary=True)
    assert "more kind(s)" not in render(record)


def test_a_stamp_of_whole_seconds_is_not_shown_as_exact():
    record = of_files({"x.log": [pta(9, 500, 0)]})
    assert record["first_failure"]["time"] == "2026-03-05 08:00:09"
    assert "2026-03-05 08:00:09 .. 2026-03-05 08:00:09  x.log:1" in render(record)

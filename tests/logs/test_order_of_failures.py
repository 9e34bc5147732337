"""Which failure came first: a line without a stamp lies between the stamped lines around it, and nowhere more exactly."""

from __future__ import annotations

import os
from typing import Any

import pytest

from npu_graph.logs import stamps
from npu_graph.logs.partial import Partial, merge
from npu_graph.logs.record import analyse
from tests.logs.log_lines import START, plog, record_of, record_of_paths, scan_bytes

NAMELESS = "RuntimeError: the trace says no time"


def of_two_files(service: list[str], device: list[str], cuts: list[int] | None = None) -> dict[str, Any]:
    parts: list[Partial] = []
    for name, lines in (("service.log", service), ("plog-7.log", device)):
        parts.append(scan_bytes("".join(line + "\n" for line in lines).encode(), cuts, name))
    return analyse(merge(parts), folders=[])


def first(record: dict[str, Any]) -> str:
    return str(record["first_failure"]["key"])


def a_plog_error(seconds: float) -> str:
    return plog(seconds, "[stream.cc:88]7 f: lost", "ERROR", pid=7)


@pytest.mark.parametrize("cuts", [None, [1, 60, 130]])
def test_an_earlier_lines_stamp_does_not_win_over_a_stamped_failure(cuts):
    service = [plog(0, "[a.cc:1]9 start", pid=9), NAMELESS, plog(60, "[a.cc:1]9 end", pid=9)]
    record = of_two_files(service, [a_plog_error(5)], cuts)
    assert first(record) == "RUNTIME stream.cc:88"
    assert record["first_failure"]["confidence"] == "low"  # it may lie before or after the other


@pytest.mark.parametrize("cuts", [None, [1, 60, 130]])
def test_the_next_stamp_proves_that_an_unstamped_failure_came_first(cuts):
    service = [plog(0, "[a.cc:1]9 start", pid=9), NAMELESS, plog(2, "[a.cc:1]9 end", pid=9)]
    record = of_two_files(service, [a_plog_error(5)], cuts)
    assert first(record) == NAMELESS
    assert record["first_failure"]["confidence"] == "medium"


def test_a_log_that_ends_with_an_unstamped_failure_is_bounded_by_the_time_of_the_file(tmp_path):
    service = tmp_path / "service.log"
    service.write_text(plog(0, "[a.cc:1]9 start", pid=9) + "\n" + NAMELESS + "\n")
    device = tmp_path / "plog-7.log"
    device.write_text(a_plog_error(5) + "\n")
    offset = stamps.local_time(0) // stamps.SECOND
    start = (START - START.__class__(1970, 1, 1)).total_seconds() - offset
    for ended, expected in ((3, NAMELESS), (600, "RUNTIME stream.cc:88")):
        os.utime(service, (start + ended, start + ended))
        assert first(record_of_paths([str(service), str(device)])) == expected


def test_without_any_bound_a_stamped_failure_of_another_file_is_named():
    service = [plog(0, "[a.cc:1]9 start", pid=9), NAMELESS]
    record = of_two_files(service, [a_plog_error(5)])
    assert first(record) == "RUNTIME stream.cc:88"
    assert record["first_failure"]["confidence"] == "low"


def test_in_one_file_the_order_of_lines_is_certain():
    record = record_of([plog(0, "[a.cc:1]7 start", pid=7), NAMELESS, a_plog_error(1)])
    assert first(record) == NAMELESS
    assert record["first_failure"]["line"] == 2


def test_a_failure_before_the_first_stamp_lies_before_it():
    service = [NAMELESS, plog(2, "[a.cc:1]9 end", pid=9)]
    assert first(of_two_files(service, [a_plog_error(5)])) == NAMELESS


def test_an_unstamped_failure_keeps_its_bounds_in_a_partial_result():
    service = [plog(0, "[a.cc:1]9 start", pid=9), NAMELESS, plog(2, "[a.cc:1]9 end", pid=9)]
    data = "".join(line + "\n" for line in service).encode()
    whole = scan_bytes(data, path="service.log")
    again = Partial.from_record(whole.to_record())
    assert again.to_record() == whole.to_record()
    other = scan_bytes((a_plog_error(5) + "\n").encode(), path="plog-7.log")
    assert first(analyse(merge([again, other]), folders=[])) == NAMELESS

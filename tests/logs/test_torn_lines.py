"""Records that are torn: blocks of two ranks written into each other, and messages that were cut at 1,024 bytes."""

from __future__ import annotations

import pytest

from tests.logs.log_lines import glog, plog, pta, record_of, vllm

FRAMES = ['  File "/w/run.py", line 10, in <module>', "    graph.replay()"]
FAILURE = "RuntimeError: replay failed, error code is 507015"
CUT = 1024


def clusters(record: dict) -> dict[str, dict[str, int]]:
    return {item["key"]: item["processes"] for item in record["errors"]["clusters"]}


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "(Worker_TP{0} pid=700{0}) "])
def test_tracebacks_of_two_ranks_line_by_line_in_each_other_count_for_their_ranks(prefix):
    block = ["Traceback (most recent call last):", *FRAMES, FAILURE]
    lines = [prefix.format(rank) + line for line in block for rank in (0, 1)]
    record = record_of(lines)
    (counts,) = clusters(record).values()
    assert sorted(counts.values()) == [1, 1]
    assert record["errors"]["total"] == 2  # headings and frames are no errors of their own
    assert record["first_failure"]["key"] == "RuntimeError: replay failed, error code is #"


def test_an_exception_torn_by_another_ranks_exception_counts_for_both():
    torn = "[rank0]: RuntimeError: the graph was [rank1]: RuntimeError: the graph was reset"
    record = record_of(["[rank0]: Traceback (most recent call last):", torn, " reset"])
    processes = {name for counts in clusters(record).values() for name in counts}
    assert processes == {"rank 0", "rank 1"}
    assert record["input"]["glued_records"] == 1


def test_torch_npu_error_blocks_of_two_ranks_on_one_line_count_for_both():
    whole = pta(1, pid=71, rank=0)
    other = pta(1, pid=72, rank=1)
    for _ in range(3):
        record = record_of([whole[:90] + other, whole[90:]])
        assert sorted(name for counts in clusters(record).values() for name in counts) == ["71", "72"]
    repeated = record_of([whole[:90] + other, whole[90:]] * 5)
    assert repeated["errors"]["total"] == 10


def test_a_torn_block_inside_a_services_prefix_is_read_with_its_own_ids():
    line = vllm(1, pta(1, pid=71, rank=3), "ERROR", pid=4242)
    record = record_of([line])
    assert [item["process"] for item in record["processes"] if item["rank"] == "3"] == ["71"]


def test_a_message_cut_at_1024_bytes_counts_with_its_whole_kind():
    text = "[stream.cc:88]7 f: lost streams " + " ".join(f"0x{n:08x}" for n in range(200))
    cut = plog(1, text, "ERROR")[:CUT]
    record = record_of([plog(0, "[stream.cc:88]7 f: lost streams 0x1", "ERROR"), cut, cut[: CUT - 3]])
    assert clusters(record) == {"RUNTIME stream.cc:88": {"4242": 3}}


def test_a_record_cut_with_its_line_end_does_not_hide_the_next_one():
    cut = plog(1, "[a.cc:1]7 f: " + "x" * 2000)[:CUT]
    record = record_of([cut + plog(2, "[stream.cc:88]7 f: lost", "ERROR"), plog(3, "[a.cc:1]7 f: on")])
    assert clusters(record) == {"RUNTIME stream.cc:88": {"4242": 1}}
    assert record["input"]["glued_records"] == 1
    assert record["first_failure"]["line"] == 1


@pytest.mark.parametrize(
    "torn",
    [
        glog(2, "NPUGRAPH Replay model_ri=0xaa01, device=1")[:20] + glog(2, "NPUGRAPH Capture begin", pid=72),
        glog(2, "NPUGRAPH Replay model_") + "[W] 72",
        glog(2, "NPUGRAPH Replay model_ri=") + glog(2, "NPUGRAPH Replay model_ri=0xaa01, device=1", pid=72),
    ],
)
@pytest.mark.parametrize("times", [1, 40])
def test_a_torn_replay_line_is_survived_and_the_others_are_counted(torn: str, times: int) -> None:
    whole = [glog(number, "NPUGRAPH Replay model_ri=0xaa01, device=1", pid=71) for number in range(10)]
    record = record_of([*whole[:5], *[torn] * times, *whole[5:]])
    counts = {(item["process"], item["graph"]): item["count"] for item in record["replays"]["graphs"]}
    assert counts[("71", "0xaa01")] == 10


def test_an_event_glued_behind_another_process_is_that_processs_own() -> None:
    torn = glog(1, "started", pid=71) + glog(1, "NPUGRAPH Capture begin", pid=72)
    events = record_of([torn])["timeline"]["events"]
    assert [(item["process"], item["kind"]) for item in events] == [("72", "capture_open")]


def test_a_known_plog_error_torn_by_a_rank_counts_for_both() -> None:
    error = plog(1, "[stream.cc:88]7 f: lost", "ERROR")
    record = record_of([error] * 3 + [error + "[rank1]: RuntimeError: the graph was reset"])
    assert clusters(record)["RUNTIME stream.cc:88"] == {"4242": 4}
    assert {"rank 1": 1} in list(clusters(record).values())


def test_two_errors_on_one_line_after_a_cut_are_both_counted():
    cut = plog(1, "[stream.cc:88]7 f: " + "x" * 2000, "ERROR")[:CUT]
    record = record_of([cut + plog(2, "[event.cc:9]7 g: lost", "ERROR")] * 3)
    assert clusters(record) == {"RUNTIME stream.cc:88": {"4242": 3}, "RUNTIME event.cc:9": {"4242": 3}}


def test_a_message_cut_inside_a_character_is_still_read():
    text = "[stream.cc:88]7 f: " + "流" * 400
    raw = plog(1, text, "ERROR").encode()
    at = next(size for size in (CUT, CUT - 1) if raw[:size].decode("utf-8", "ignore").encode() != raw[:size])
    record = record_of([raw[:at].decode("utf-8", "surrogateescape")])
    assert clusters(record) == {"RUNTIME stream.cc:88": {"4242": 1}}

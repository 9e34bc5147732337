"""What a log says about graphs: captures, replays, compilations, and which of them are out of the ordinary."""

from __future__ import annotations

import pytest

from tests.logs.log_lines import at, capture, glog, kinds, plog, record_of, replay, vllm

FILLER = [glog(0, "malloc: block=0x1 size=2", file="NPUCachingAllocator.cpp:12")]


def test_a_capture_has_its_forward_and_its_building_time():
    record = record_of(capture(0, 2.0))
    (item,) = record["captures"]["list"]
    assert (item["seconds"], item["forward_s"], item["instantiate_s"], item["state"]) == (2.0, 1.8, 0.2, "complete")
    assert (item["graph"], item["rank"], item["line"]) == ("0xaa01", "1", 1)
    assert record["captures"]["from"] == ["TORCH_NPU_LOGS=+aclgraph lines"]


def test_a_slow_capture_is_judged_per_graph_and_not_per_service_start():
    lines = [line for number in range(11) for line in capture(number * 2, 1.9, f"0xb{number}")]
    lines.append(vllm(30, "Graph capturing finished in 22 secs, took 0.26 GiB"))
    record = record_of(lines)
    assert kinds(record) == []
    assert record["capture_phases"][0]["seconds"] == 22
    assert kinds(record_of(capture(0, 10.5))) == ["slow_capture"]
    assert kinds(record_of(capture(0, 10.5), limits={"capture_s": 11})) == []


def test_a_capture_that_never_ends_is_found_with_its_line():
    lines = [
        *capture(0, 1)[:2],
        *(glog(1 + n, "malloc: block=0x1", file="NPUCachingAllocator.cpp:1") for n in range(90)),
    ]
    (finding,) = record_of(lines)["anomalies"]
    assert (finding["kind"], finding["line"], finding["value"]) == ("open_capture", 1, 90.0)


def test_a_capture_followed_by_another_begin_has_failed():
    record = record_of([*capture(0, 1)[:2], *capture(5, 1, "0xaa02")])
    assert kinds(record) == ["failed_capture"]
    assert (record["captures"]["failed"], record["captures"]["complete"]) == (1, 1)


def test_captures_that_grow_are_found_and_even_ones_are_not():
    start, lines = 0.0, []
    for number in range(12):
        length = 0.5 + number * 0.3
        lines += capture(start, length, f"0xc{number}")
        start += length + 0.1
    assert "growing_capture" in kinds(record_of(lines))
    even = [line for number in range(12) for line in capture(number * 2, 1, f"0xc{number}")]
    assert kinds(record_of(even)) == []


def test_captures_that_keep_coming_while_serving_are_a_storm():
    lines = [*capture(0, 0.1), *(replay(1 + n * 0.01) for n in range(20))]
    lines += [line for n in range(15) for line in capture(2 + n, 0.1, f"0xd{n:02}")]
    assert "capture_storm" in kinds(record_of(lines))


def test_replays_are_counted_per_graph_and_named_for_what_they_are():
    lines = [*capture(0, 1), *(replay(2 + n * 0.001) for n in range(100))]
    record = record_of(lines)
    (graph,) = record["replays"]["graphs"]
    assert (graph["count"], graph["interval_p50_us"], graph["interval_p99_us"]) == (100, 1000, 1000)
    assert record["replays"]["measure"].startswith("time between enqueues")
    assert any(spot["what"] == "how long a replay takes on the device" for spot in record["blind_spots"])


def test_an_uneven_cadence_is_found_and_a_service_without_work_is_not():
    uneven = [replay(10 + n * 0.002 + (n // 20) * 0.05) for n in range(400)]
    assert kinds(record_of([*capture(0, 1), *uneven])) == ["uneven_replay"]
    idle = [replay(10 + n * 0.002 + (n // 100) * 30) for n in range(400)]
    record = record_of([*capture(0, 1), *idle])
    assert kinds(record) == []
    assert record["replays"]["graphs"][0]["idle_gaps"] == 3


def test_a_pointer_that_is_used_again_after_reset_is_another_graph():
    lines = [
        *capture(0, 1),
        *(replay(2 + n * 0.001) for n in range(10)),
        glog(3, "NPUGRAPH Reset releasing graph: model_ri=0xaa01, capture_dev=1, mempool_id=(1,0)"),
        *capture(4, 1),
        *(replay(6 + n * 0.001) for n in range(30)),
    ]
    record = record_of(lines)
    assert sorted((graph["capture_number"], graph["count"]) for graph in record["replays"]["graphs"]) == [
        (1, 10),
        (2, 30),
    ]
    assert record["timeline"]["counts"]["reset"] == 1


BAR = (
    "Capturing ACL graphs (decode, FULL):   0%|     | 0/11 [00:00<?]\r"
    "Capturing ACL graphs (decode, FULL): 100%|##| 11/11 [00:21<00:00, 1.98s/it]"
)
LIMIT = "[a.py:7]4242 The static_capture_size_limit reached when capturing"
COPY = "[acl_graph.py:77]4242 process inputs foreach copy took 3.210000 [s]"
CACHE = "Directly load the compiled graph(s) for dynamic shape from the cache, took 1.250 s"
WARM_UP = "torch.compile and initial profiling/warmup run together took 34.69 s in total"
RECOMPILE = "[0/1] [__recompiles] Recompiling function forward in /m.py:42"
SGLANG = "[2026-03-05 08:00:01 TP0] Capture npu graph end. Time elapsed: 12.50 s. mem usage=0.5 GB"


@pytest.mark.parametrize(
    ("line", "kind", "seconds"),
    [
        (vllm(1, "torch.compile takes 34.76 s in total", worker=""), "compile", 34.76),
        (vllm(1, WARM_UP), "compile", 34.69),
        (vllm(1, "Dynamo bytecode transform time: 5.80 s"), "compile", 5.8),
        (vllm(1, "Compiling a graph for compile range (1, 2048) takes 36.81 s"), "compile", 36.81),
        (vllm(1, CACHE), "cache_load", 1.25),
        (vllm(1, "Graph capturing finished in 22 secs, took 0.26 GiB"), "capture_total", 22),
        (SGLANG, "capture_total", 12.5),
        (BAR, "capture_bar", 21),
        (plog(1, COPY, module="TORCHAIR"), "compile", 3.21),
        (plog(1, LIMIT, "WARNING", "TORCHAIR"), "fallback", None),
        (
            glog(1, "NPUGraph: skipped — CPU node detected (x)", file="torch_npu/utils/_graph_tree.py:82"),
            "fallback",
            None,
        ),
        (glog(1, RECOMPILE, file="torch/_dynamo/guards.py:9", rank=None), "recompile", None),
        ("Graph break in user code at /m.py:12", "graph_break", None),
        (vllm(1, "graph for size 64 evicted from the LRU cache of graphs"), "eviction", None),
    ],
)
def test_an_event_is_read_from_its_line(line, kind, seconds):
    record = record_of([*FILLER, line])
    events = [item for item in record["timeline"]["events"] if item["kind"] == kind]
    assert len(events) == 1
    assert events[0]["seconds"] == (pytest.approx(seconds) if seconds is not None else None)
    assert events[0]["line"] == 2


def test_a_negation_with_the_same_words_is_no_event():
    line = plog(
        1, "[acl_graph.py:9]4242 The current AclGraph no needs to be recaptured for fx_graph g", "DEBUG", "TORCHAIR"
    )
    assert record_of([line])["timeline"]["events"] == []


def test_captures_in_two_logs_are_counted_once_from_the_nearer_one():
    lines = [
        plog(0, "[context.cc:42]1 capture begin success, device_id=0, model_id=7.", "EVENT"),
        *capture(0, 2),
        plog(2, "[context.cc:44]1 capture end success, device_id=0, capture model_id=7.", "EVENT"),
    ]
    record = record_of(lines)
    assert record["captures"]["count"] == 1
    assert record["processes"][0]["captures_from"] == ["torch_npu", "plog"]


def test_plog_events_alone_give_capture_times_and_say_what_they_lack():
    lines = [
        plog(0, "[context.cc:42]1 capture begin success, device_id=0, model_id=7.", "EVENT"),
        plog(3, "[context.cc:44]1 capture end success, device_id=0, capture model_id=7.", "EVENT"),
        *(plog(4 + n * 0.01, "[capture_model.cc:159]1 capture model execute, model_id=7!") for n in range(60)),
    ]
    record = record_of(lines)
    assert [item["seconds"] for item in record["captures"]["list"]] == [3.0]
    assert record["replays"]["graphs"][0]["count"] == 60
    assert any("divides into" in spot["what"] for spot in record["blind_spots"])


def test_the_switch_is_named_for_what_an_error_log_cannot_show():
    record = record_of([plog(0, "[a.cc:1]1 f: failed", "ERROR")])
    switches = " ".join(spot["switch"] for spot in record["blind_spots"])
    for switch in ("TORCH_NPU_LOGS=+aclgraph", "TORCH_LOGS=recompiles,graph_breaks", "torch_npu.profiler"):
        assert switch in switches


def test_a_rank_that_falls_silent_is_found():
    lines = []
    for second in range(200):
        for rank in range(4):
            if rank != 2 or second < 60:
                lines.append(replay(second, "0xaa01", pid=100 + rank, rank=rank))
    (finding,) = [item for item in record_of(lines)["anomalies"] if item["kind"] == "silent_rank"]
    assert (finding["rank"], finding["value"]) == ("2", 140.0)


def test_times_are_those_of_the_log():
    record = record_of(capture(1, 2))
    assert record["span"]["first"] == f"{at(1):%Y-%m-%d %H:%M:%S}.000000" or record["span"]["first"].endswith(
        "08:00:01.000000"
    )
    assert record["span"]["last"].endswith("08:00:03.000000")


def xllm(seconds: float, text: str, level: str = "I", pid: int = 8473) -> str:
    """A line of xLLM's glog, with a year."""
    moment = at(seconds)
    return f"{level}{moment:%Y%m%d %H:%M:%S}.{moment.microsecond:06d} {pid} acl_graph_executor_impl.cpp:393] {text}"


def xllm_end(seconds: float, bucket: int) -> str:
    return xllm(seconds, f"Lazy capturing ACL graph for bucket num_tokens: {bucket} (actual num_tokens: {bucket}) done")


def test_xllm_by_default_shows_which_graphs_were_captured_and_names_the_switch_for_how_long():
    record = record_of([xllm_end(bucket, bucket) for bucket in (32, 16, 8)])
    assert [(item["graph"], item["state"], item["seconds"]) for item in record["captures"]["list"]] == [
        ("8", "complete", None),
        ("16", "complete", None),
        ("32", "complete", None),
    ]
    assert record["captures"]["from"] == ["xLLM's lines"]
    assert any("GLOG_v=50" in spot["switch"] for spot in record["blind_spots"])


def test_verbose_xllm_shows_capture_times_and_replays():
    lines = []
    for number, bucket in enumerate((16, 8)):
        lines.append(
            xllm(number, f"ACL graph capture begin, bucket_num_tokens={bucket}, actual_num_tokens={bucket - 1}")
        )
        lines.append(xllm_end(number + 0.5, bucket))
    lines += [xllm(3 + n * 0.01, "AclGraphExecutorImpl::run() in replay mode") for n in range(50)]
    record = record_of(lines)
    assert [(item["graph"], item["seconds"]) for item in record["captures"]["list"]] == [("16", 0.5), ("8", 0.5)]
    (graph,) = record["replays"]["graphs"]
    assert (graph["count"], graph["process"]) == (50, "8473")
    assert not any("GLOG_v=50" in spot["switch"] for spot in record["blind_spots"])


def test_a_failed_xllm_capture_is_an_event_and_an_error():
    lines = [
        xllm(0, "ACL graph capture begin, bucket_num_tokens=16, actual_num_tokens=9"),
        xllm(1, "Failed to capture ACL graph for bucket num_tokens: 16", "E"),
    ]
    record = record_of(lines)
    assert (record["captures"]["failed"], record["errors"]["total"]) == (1, 1)


XLLM_FALLBACK = "Falling back to eager mode because kv_max_seq_len (9000) > max_seq_len (8192)."
XLLM_VERIFY = "Falling back to eager speculative verification because graph input source storage moved after capture."
XLLM_WARM_UP = "Decode warmup completed: bucket_count=9, decode_seq_len=16, decode_total_latency=1.23457e+06 ms"


@pytest.mark.parametrize(
    ("line", "kind", "seconds"),
    [
        (xllm(1, XLLM_FALLBACK, "W"), "fallback", None),
        (xllm(1, XLLM_VERIFY, "W"), "fallback", None),
        (xllm(1, XLLM_WARM_UP), "capture_total", 1234.57),
        (xllm(1, XLLM_WARM_UP.replace("1.23457e+06", "5120.5")), "capture_total", 5.1205),
    ],
)
def test_an_xllm_event_is_read_from_its_line(line, kind, seconds):
    test_an_event_is_read_from_its_line(line, kind, seconds)

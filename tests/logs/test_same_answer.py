"""The same log gives the same answer however it is cut, packed, prefixed, merged or spread over processes."""

from __future__ import annotations

import datetime
import gzip
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_graph.logs import engine, inputs, scan
from npu_graph.logs.inputs import Source, find_sources
from npu_graph.logs.layout import calibrate
from npu_graph.logs.literals import present_literals
from npu_graph.logs.partial import Partial, SourceInfo, merge
from npu_graph.logs.record import analyse
from npu_graph.logs.scan import Scanner
from tests.logs.log_lines import at, capture, glog, plog, pta, record_of, replay, scan_bytes, vllm
from tools.generate_log import generate


def small_log(seed: int) -> bytes:
    """A few hundred lines of everything, in an order that a seed chooses: errors, captures, junk, glued records."""
    rnd = random.Random(seed)
    lines: list[str] = []
    now = 0.0
    for number in range(60):
        now += rnd.random()
        pid = 4242 + number % 3
        graph = f"0xaa{number % 4:02}"
        lines += rnd.choice(
            [
                lambda now=now, pid=pid, graph=graph: capture(now, 0.2, graph, pid, pid % 3),
                lambda now=now, pid=pid, graph=graph: [replay(now + k * 0.001, graph, pid, pid % 3) for k in range(9)],
                lambda now=now, pid=pid: [plog(now, "[a.cc:12]7 f: failed, id=3", "ERROR", pid=pid)] * 3,
                lambda now=now, pid=pid: [plog(now, "[a.cc:12]7 one") + plog(now, "[b.cc:9]7 glued", "ERROR", pid=pid)],
                lambda now=now, pid=pid: [
                    "Traceback (most recent call last):",
                    '  File "/m.py", line 3, in f',
                    "RuntimeError: replay failed, error code is 507015",
                    pta(now, pid),
                    "EZ9999: Inner Error!",
                ],
                lambda now=now, pid=pid: [vllm(now, "EngineCore encountered an error", "ERROR", pid)],
                lambda now=now, pid=pid: [vllm(now, "Engine 000: running", pid=pid, file="loggers.py:127")],
                lambda: ["", "x" * 5000, "\x00\xff junk", "Killed"],
                lambda now=now: ["Capturing ACL graphs: 0%|  |\rCapturing ACL graphs: 100%|##| 11/11 [00:21<00:00]"],
            ]
        )()
    text = "\n".join(lines)
    return text.encode("utf-8", "surrogateescape") + (b"" if seed % 2 else b"\n")


def as_json(partial: Partial) -> str:
    return json.dumps(partial.to_record(), sort_keys=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 50), st.lists(st.integers(0, 40000), max_size=6))
def test_cutting_a_log_anywhere_changes_nothing(seed, cuts):
    data = small_log(seed)
    assert as_json(scan_bytes(data, cuts)) == as_json(scan_bytes(data))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 50), st.integers(1, 400))
def test_the_size_of_blocks_changes_nothing(seed, lines_per_block):
    data = small_log(seed)
    source = Source("made.log", len(data), 0.0, False)
    layout = calibrate(data[:65536], source)
    scanner = Scanner(layout)
    lines = data.splitlines(keepends=True) if b"\r" not in data else [part + b"\n" for part in data.split(b"\n")]
    if not data.endswith(b"\n"):
        lines[-1] = lines[-1].rstrip(b"\n")
    elif b"\r" in data:
        lines.pop()
    for start in range(0, len(lines), lines_per_block):
        scanner.feed(b"".join(lines[start : start + lines_per_block]))
    found = Partial()
    found.add(
        SourceInfo("", "made.log", len(data), layout.clock.source, layout.clock.zone), [scanner.finish(len(data))]
    )
    assert as_json(found) == as_json(scan_bytes(data))


def findings(record: dict[str, Any]) -> dict[str, Any]:
    """What a user reads, without where the file lies and how its lines are dressed."""
    kept = json.loads(json.dumps(record))
    for item in [
        *kept["captures"]["list"],
        *kept["timeline"]["events"],
        *kept["anomalies"],
        *kept["errors"]["clusters"],
    ]:
        item.pop("source", None)
    first = kept["first_failure"]
    return {
        "captures": kept["captures"],
        "anomalies": kept["anomalies"],
        "replays": [{k: v for k, v in g.items() if k != "sources"} for g in kept["replays"]["graphs"]],
        "clusters": [
            (c["count"], c["key"], c["line"], c["first_us"], c["last_us"]) for c in kept["errors"]["clusters"]
        ],
        "levels": kept["levels"],
        "lines": kept["input"]["lines"],
        "first": first and (first["key"], first["line"], first["time"]),
    }


def dressed(data: bytes, prefix: bytes) -> bytes:
    return b"\n".join(prefix + line for line in data.rstrip(b"\n").split(b"\n")) + b"\n"


@pytest.mark.parametrize("prefix", ["vllm-1  | ", "[pod/vllm-0/server] ", "node-17 | "])
def test_a_constant_prefix_changes_no_finding(prefix):
    for seed in range(5):
        data = small_log(2 * seed)
        plain = findings(analyse(scan_bytes(data), folders=[]))
        assert findings(analyse(scan_bytes(dressed(data, prefix.encode())), folders=[])) == plain


@pytest.mark.parametrize("prefix", ["[rank0]: ", "2026-03-05T08:00:00.123456789Z ", "2026-03-05T08:00:00Z stdout F "])
def test_a_prefix_that_tells_more_changes_no_count(prefix):
    data = small_log(4)
    plain = findings(analyse(scan_bytes(data), folders=[]))
    behind = findings(analyse(scan_bytes(dressed(data, prefix.encode())), folders=[]))
    assert sorted(c[:2] for c in behind["clusters"]) == sorted(c[:2] for c in plain["clusters"])
    assert [g["count"] for g in behind["replays"]] == [g["count"] for g in plain["replays"]]
    assert [c["seconds"] for c in behind["captures"]["list"]] == [c["seconds"] for c in plain["captures"]["list"]]


def test_prefixes_of_changing_length_are_taken_off_line_by_line():
    lines = [f"{'vllm' if n % 2 else 'engine-worker'}-{n % 2}  | {replay(n * 0.001)}" for n in range(200)]
    record = analyse(scan_bytes(("\n".join([*lines, *capture(1, 2)]) + "\n").encode()), folders=[])
    assert (record["replays"]["count"], record["captures"]["count"]) == (200, 1)


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("generated") / "mixed.log"
    truth = generate(path, 3_000_000, "mixed")
    return path, truth


def scanned(path: Path, **options: Any) -> dict[str, Any]:
    return analyse(engine.scan(find_sources([str(path)]), engine.Options(**options)), folders=[])


def test_nothing_planted_is_lost(generated):
    path, truth = generated
    record = scanned(path)
    complete = [item for item in record["captures"]["list"] if item["state"] == "complete"]
    assert sorted((item["graph"], round(item["seconds"], 6)) for item in complete) == sorted(
        (graph, round(seconds, 6)) for graph, _, seconds in truth["captures"]
    )
    assert {f"{g['process']} {g['graph']}": g["count"] for g in record["replays"]["graphs"]} == truth["replays"]
    assert record["errors"]["total"] == truth["errors"]
    assert len(truth["captures"]) > 3
    assert truth["errors"] > 0


@pytest.mark.parametrize("profile", ["plog", "storm", "dense"])
def test_nothing_planted_is_lost_in_other_mixes(tmp_path, profile):
    truth = generate(tmp_path / "x.log", 1_500_000, profile)
    record = scanned(tmp_path / "x.log")
    assert record["replays"]["count"] == sum(truth["replays"].values()) > 0
    assert record["errors"]["total"] == truth["errors"] > 0


@pytest.mark.parametrize("jobs", [2, 4])
def test_several_processes_give_the_answer_of_one(generated, jobs):
    path, _ = generated
    assert scanned(path, jobs=jobs, stretch=400_000) == scanned(path)


def test_a_packed_file_gives_the_answer_of_the_plain_one(generated, tmp_path):
    path, _ = generated
    packed = tmp_path / "mixed.log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    assert findings(scanned(packed)) == findings(scanned(path))


def parts_of_three_hosts() -> list[Partial]:
    parts = []
    for number, host in enumerate(("a", "b", "c")):
        data = small_log(number + 1)
        source = Source("x.log", len(data), 0.0, False)
        layout = calibrate(data[:65536], source)
        scanner = Scanner(layout)
        scanner.feed(data)
        part = Partial()
        part.add(SourceInfo(host, "x.log", len(data), "", None), [scanner.finish(len(data))])
        part.skipped.add((host, "y.bin", "binary, not text"))
        parts.append(part)
    return parts


def test_merging_is_associative_order_independent_and_idempotent():
    a, b, c = parts_of_three_hosts()
    whole = as_json(merge([a, b, c]))
    for order in itertools.permutations([a, b, c]):
        assert as_json(merge(order)) == whole
    assert as_json(merge([merge([a, b]), c])) == as_json(merge([a, merge([b, c])])) == whole
    assert as_json(merge([a, b, c, b, merge([a, c])])) == whole


def test_a_partial_result_survives_its_file():
    whole = merge(parts_of_three_hosts())
    again = Partial.from_record(json.loads(as_json(whole)))
    assert as_json(again) == as_json(whole)
    assert json.dumps(analyse(again, folders=[])) == json.dumps(analyse(whole, folders=[]))


def test_a_time_window_gives_the_same_answer_with_several_processes(tmp_path):
    """A line without a stamp belongs to the time of the stamped line before it, wherever the file is cut."""
    path = tmp_path / "service.log"
    rows = [
        row for second in range(400) for row in (plog(second, "[a.cc:1]7 on"), *["[rank1]: RuntimeError: lost"] * 20)
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    since = int(at(200).replace(tzinfo=datetime.timezone.utc).timestamp() * 1_000_000)
    alone = scanned(path, since=since)
    assert alone["errors"]["total"] == 4000
    assert scanned(path, since=since, jobs=2, stretch=5_000) == alone


def test_stretches_of_one_file_from_two_parts_join():
    data = small_log(2)
    half = data.find(b"\n", len(data) // 2) + 1
    source = Source("x.log", len(data), 0.0, False)
    layout = calibrate(data[:65536], source)
    parts = []
    for begin, end in ((0, half), (half, len(data))):
        scanner = Scanner(layout, begin)
        scanner.feed(data[begin:end])
        part = Partial()
        part.add(SourceInfo("", "x.log", len(data), layout.clock.source, None), [scanner.finish(end)])
        parts.append(part)
    joined = analyse(merge(reversed(parts)), folders=[])
    assert joined == analyse(scan_bytes(data, path="x.log"), folders=[])


def test_glog_lines_keep_the_line_number_that_grep_gives():
    lines = [glog(n, "malloc: x", file="NPUCachingAllocator.cpp:1") for n in range(50)]
    record = analyse(scan_bytes(("\n".join([*lines, "RuntimeError: boom"]) + "\n").encode()), folders=[])
    assert record["first_failure"]["line"] == 51


@pytest.mark.parametrize("size", [97, 1000, 4096])
def test_the_size_of_reads_changes_nothing(tmp_path, monkeypatch, size):
    for seed in range(6):
        path = tmp_path / f"{seed}.log"
        path.write_bytes(small_log(seed) + b"[INFO] GE(7,python3):no stamp [ERROR] RUNTIME(7,python3):hidden\n")
        whole = scanned(path)
        with monkeypatch.context() as patched:
            patched.setattr(inputs, "BLOCK", size)
            assert scanned(path) == whole


def test_the_c_librarys_search_changes_nothing(monkeypatch):
    data = small_log(3)
    monkeypatch.setattr(scan, "present_literals", lambda text, items: [item for item in items if item in text])
    by_python = as_json(scan_bytes(data))
    monkeypatch.undo()
    assert as_json(scan_bytes(data)) == by_python


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.lists(st.binary(min_size=1, max_size=4).filter(lambda item: 0 not in item)))
def test_a_literal_is_found_where_it_stands_also_after_a_nul(text, items):
    assert present_literals(text, items) == [item for item in items if item in text]


def test_statistics_of_a_service_count_but_other_lines_with_the_same_head_are_read():
    lines = []
    for number in range(50):
        worker = "Worker_TP0_EP0_with_a_long_name" if number % 2 else ""
        lines.append(vllm(number, "Avg prompt throughput: Error: 1", file="loggers.py:127", worker=worker))
        lines.append(f"[2026-03-05 08:00:{number:02} TP0] Decode batch. #running-req: {number}, Error: none")
    lines.append(vllm(60, "torch.compile takes 34.76 s in total", worker=""))
    lines.append("[2026-03-05 08:01:01.123 TP0] Capture npu graph end. Time elapsed: 12.50 s. mem usage=0.5 GB")
    lines.append(vllm(62, "EngineCore encountered an error", "ERROR", worker=""))
    record = record_of(lines)
    assert record["levels"] == {"INFO": 51, "ERROR": 1}
    assert record["formats"] == {"vllm": 52, "sglang": 51}
    assert [item["seconds"] for item in record["capture_phases"]] == [12.5]
    assert [item["seconds"] for item in record["compiles"]] == [34.76]
    assert record["errors"]["total"] == 1

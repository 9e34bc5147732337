"""What goes wrong with real log folders: each fault is survived, named in the report, and costs bounded memory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from npu_graph import bundle
from npu_graph.logs import engine
from npu_graph.logs.inputs import find_sources
from npu_graph.logs.record import analyse
from tests.logs.log_lines import capture, glog, kinds, plog, pta, record_of, record_of_paths, replay, vllm

SCRIPT = bundle.ROOT / "graph-log-analyzer" / "scripts" / "parse_npu_logs.py"
ERROR = plog(5, "[device_error_proc.cc:1393]7 f: aicore exception", "ERROR")


def write(path: Path, lines: list[str], end: str = "\n") -> str:
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return str(path)


def notes(record: dict) -> list[str]:
    return [note for item in record["input"]["sources"] for note in item["notes"]]


def test_a_truncated_file_ends_in_half_a_line(tmp_path):
    path = write(tmp_path / "a.log", [*capture(0, 1), ERROR[:60]], end="")
    record = record_of_paths([path])
    assert record["captures"]["complete"] == 1
    assert record["input"]["lines"] == 5


def test_rotated_files_of_one_process_are_one_story(tmp_path):
    lines = [*capture(0, 3), *(replay(4 + n * 0.001) for n in range(100))]
    write(tmp_path / "run.log.1", lines[:2])
    write(tmp_path / "run.log", lines[2:])
    record = record_of_paths([str(tmp_path)])
    assert [item["seconds"] for item in record["captures"]["list"]] == [3.0]
    assert [graph["count"] for graph in record["replays"]["graphs"]] == [100]


def test_a_file_that_grows_is_read_up_to_the_size_it_had(tmp_path):
    path = tmp_path / "a.log"
    write(path, [ERROR])
    found = find_sources([str(path)])
    with path.open("a") as out:
        out.write(ERROR.replace("device_error_proc.cc:1393", "later.cc:1") + "\n")
    record = analyse(engine.scan(found, engine.Options()), folders=[])
    assert (record["errors"]["total"], record["input"]["lines"]) == (1, 1)


def test_without_time_stamps_the_order_is_that_of_the_lines(tmp_path):
    path = write(tmp_path / "a.log", ["step 1", "ValueError: first", "RuntimeError: second"])
    record = record_of_paths([path])
    assert record["first_failure"]["key"] == "ValueError: first"
    assert record["first_failure"]["confidence"] == "low"
    assert record["span"]["first"] == "-"


def test_a_year_that_is_not_written_comes_from_a_dated_line_else_from_the_file(tmp_path):
    dated = record_of([*capture(0, 1), ERROR])
    assert dated["captures"]["list"][0]["time_us"] < dated["first_failure"]["time_us"]
    path = Path(write(tmp_path / "a.log", capture(0, 1)))
    os.utime(path, (1_750_000_000, 1_750_000_000))  # June 2025: 5 March is of the same year
    record = record_of_paths([str(path)])
    assert record["span"]["first"].startswith("2025-03-05")
    assert record["input"]["sources"][0]["year_from"] == "the file's time"
    os.utime(path, (1_740_000_000, 1_740_000_000))  # February 2025: 5 March can only be of the year before
    assert record_of_paths([str(path)])["span"]["first"].startswith("2024-03-05")


def test_a_run_over_new_year_keeps_its_order():
    lines = [
        "V1231 23:59:59.900000 7 NPUGraph.cpp:1] NPUGRAPH Capture begin",
        "V0101 00:00:01.100000 7 NPUGraph.cpp:1] NPUGRAPH Capture end done: model_ri=0x1, has_graph_exec=1",
        "[INFO] RUNTIME(7,python):2026-01-01-00:00:02.000.000 [a.cc:1]7 x",
    ]
    assert record_of(lines)["captures"]["list"][0]["seconds"] == pytest.approx(1.2)


def test_a_container_clock_in_utc_is_brought_to_the_logs_own_clock():
    lines = [f"2026-03-05T00:00:0{n}.000000000Z " + plog(n, "[a.cc:1]7 x") for n in range(1, 9)]
    lines.append("2026-03-05T00:00:09.500000000Z RuntimeError: boom")
    record = record_of(lines)
    assert record["input"]["sources"][0]["utc_offset_min"] == 480
    assert record["first_failure"]["time"] == "2026-03-05 08:00:09.500000"


def test_a_clock_that_goes_back_is_named_and_breaks_no_duration():
    lines = [*capture(100, 1), *capture(40, 1, "0xaa02"), *(replay(200 - n) for n in range(3))]
    record = record_of(lines)
    assert record["clock"]["steps_back"][0]["seconds"] == pytest.approx(61, abs=0.2)
    assert all(item["seconds"] is None or item["seconds"] >= 0 for item in record["captures"]["list"])
    assert record["replays"]["graphs"][0]["clock_went_back"] == 2


def test_a_process_name_with_colons_keeps_its_time():
    record = record_of([plog(5, "[a.cc:1]7 f: failed", "ERROR", name="VLLM::Worker_TP1")])
    assert record["first_failure"]["time"].endswith("08:00:05.000000")
    assert record["first_failure"]["rank"] == "TP1"


def test_two_records_on_one_line_are_two():
    glued = plog(1, "[a.cc:1]7 fine") + plog(2, "[b.cc:2]7 bad", "ERROR")
    record = record_of([glued, plog(3, "[c.cc:3]7 x", "ERROR") + plog(4, "[d.cc:4]7 y", "ERROR")])
    assert {item["key"] for item in record["errors"]["clusters"]} == {
        "RUNTIME b.cc:2",
        "RUNTIME c.cc:3",
        "RUNTIME d.cc:4",
    }
    assert record["input"]["glued_records"] == 2


def test_an_error_block_inside_service_lines_has_the_time_and_process_of_the_block():
    lines = [
        vllm(
            46,
            "RuntimeError: NPU function error: c10_npu::acl::X, error code is 107027",
            "ERROR",
            102,
            "VllmWorker TP2",
        ),
        vllm(46, pta(46, 102), "ERROR", 102, "VllmWorker TP2"),
        vllm(
            46,
            "EE9999: [PID: 102] 2026-03-05-08:00:46.558.672 Not allow to synchronize captured-stream, stream_id=9.",
            "ERROR",
            102,
            "VllmWorker TP2",
        ),
    ]
    record = record_of(lines)
    first = record["first_failure"]
    assert (first["time"], first["process"], first["rank"]) == ("2026-03-05 08:00:46.558672", "102", "DP0.TP2")


def test_a_second_never_goes_before_a_microsecond_of_that_second(tmp_path):
    write(tmp_path / "service.log", ["[2026-03-05 08:00:05 TP0] ERROR: RuntimeError: something went wrong"])
    write(tmp_path / "plog.log", [ERROR.replace(":05.000.000", ":05.900.000")])
    assert record_of_paths([str(tmp_path)])["first_failure"]["key"] == "RUNTIME device_error_proc.cc:1393"


def test_a_retry_that_declares_errors_void_is_believed():
    void = plog(6, "[hccl.cc:1]7 retry succeeded, error log can be ignored", "INFO", "HCCL")
    record = record_of([ERROR, void, plog(9, "[later.cc:5]7 real", "ERROR")])
    assert record["first_failure"]["key"] == "RUNTIME later.cc:5"


def test_a_wait_is_no_first_failure_while_another_rank_failed_by_itself():
    lines = [
        plog(1, "[hccl.cc:1]7 wait timeout, remote rank 1", "ERROR", "HCCL", pid=100),
        plog(3, "[device_error_proc.cc:1393]7 aicore exception", "ERROR", pid=101),
    ]
    record = record_of(lines)
    assert record["first_failure"]["process"] == "101"
    only_waits = record_of(lines[:1] + [replay(n, pid=102, rank=2) for n in range(30)])
    assert only_waits["first_failure"]["confidence"] == "low"
    assert only_waits["first_failure"]["processes_without_errors"] == ["102 (rank 2)"]


def test_an_error_that_the_run_survived_is_not_the_first_failure():
    lines = [plog(0, "[old.cc:1]7 harmless", "ERROR"), *(replay(n, rank=1) for n in range(1, 300))]
    lines.append(plog(301, "[device_error_proc.cc:1393]7 aicore exception", "ERROR"))
    assert record_of(lines)["first_failure"]["key"] == "RUNTIME device_error_proc.cc:1393"


def test_binary_garbage_and_bad_utf8_inside_a_log_are_survived(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(
        bytes(range(256)) * 8 + b"\n" + "\n".join(capture(0, 1)).encode() + b"\n\xff\xfe\x00raw\n" + ERROR.encode()
    )
    record = record_of_paths([str(path)])
    assert (record["captures"]["complete"], record["errors"]["total"]) == (1, 1)


def test_a_progress_bar_is_one_line_and_its_last_state_counts():
    bar = "Capturing ACL graphs: 0%|  | 0/11\rCapturing ACL graphs: 100%|##| 11/11 [00:21<00:00, 1.98s/it]"
    record = record_of([bar, ERROR])
    assert record["first_failure"]["line"] == 2
    assert record["capture_phases"][0]["seconds"] == 21


def test_a_folder_lists_what_it_cannot_read_and_reads_the_rest(tmp_path):
    write(tmp_path / "good.log", [ERROR])
    (tmp_path / "core.bin").write_bytes(b"\0" * 1000)
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 2 + b"\0" * 1000)
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "dangling.log").symlink_to(tmp_path / "nowhere")
    record = record_of_paths([str(tmp_path)])
    skipped = {Path(item["path"]).name: item["reason"] for item in record["input"]["skipped"]}
    assert set(skipped) == {"binary.log", "pipe.log", "dangling.log"}
    assert record["errors"]["total"] == 1


def test_an_unreadable_file_is_listed(tmp_path, monkeypatch):
    write(tmp_path / "good.log", [ERROR])
    write(tmp_path / "secret.log", [ERROR])
    real_open = Path.open

    def refuse(self, *args, **kwargs):  # a root user may read a file without permission bits
        if self.name == "secret.log":
            raise PermissionError(13, "Permission denied")
        return real_open(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    record = record_of_paths([str(tmp_path)])
    assert [item["reason"] for item in record["input"]["skipped"]] == ["Permission denied"]
    assert record["errors"]["total"] == 1


def test_symbolic_links_that_lead_back_end(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    write(inner / "x.log", [ERROR])
    (inner / "loop").symlink_to(tmp_path)
    (tmp_path / "again.log").symlink_to(inner / "x.log")
    record = record_of_paths([str(tmp_path)])
    assert (len(record["input"]["sources"]), record["errors"]["total"]) == (1, 1)


def test_a_truncated_archive_gives_what_it_holds_and_says_so(tmp_path):
    data = ("\n".join([ERROR, *(f"line {n} {os.urandom(20).hex()}" for n in range(3000))]) + "\n").encode()
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(data)[:-3000])
    record = record_of_paths([str(path)])
    assert record["errors"]["total"] == 1
    assert "truncated_archive" in notes(record)


def test_a_gzip_bomb_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("npu_graph.logs.inputs._BOMB_FROM", 4 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blocks = [packer.compress((ERROR + "\n").encode())]
    blocks += [packer.compress(b"0" * (1 << 20)) for _ in range(64)]
    path = tmp_path / "bomb.gz"
    path.write_bytes(b"".join(blocks) + packer.flush())
    record = record_of_paths([str(path)])
    assert "bomb" in notes(record)
    assert record["errors"]["total"] == 1


STATUS = Path("/proc/self/status")


def _peak_mb(arguments: list[str], **options) -> tuple[subprocess.CompletedProcess, float]:
    """Run the script and return its peak; ru_maxrss will not do, a child inherits the peak of the process that made it."""
    code = (
        "import re,runpy,sys; sys.argv=sys.argv[1:]\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as e: print('exit', e.code, file=sys.stderr)\n"
        f"print('peak', re.search(r'VmHWM:\\s+(\\d+)', open('{STATUS}').read()).group(1), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT), *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        **options,
    )
    return done, int(done.stderr.rsplit("peak ", 1)[1]) / 1024


@pytest.mark.skipif(not STATUS.exists(), reason="no /proc/self/status on this system")
def test_a_line_of_a_gigabyte_costs_no_memory(tmp_path):
    path = tmp_path / "long.log"
    with path.open("wb") as out:
        out.write(ERROR.encode() + b"\n" + b"x" * 100_000)
        out.truncate(1 << 30)  # the rest of the line is a hole, which reads as NULs
    with path.open("ab") as out:
        out.write(b"\n" + plog(9, "[last.cc:9]7 end", "ERROR").encode() + b"\n")
    done, peak = _peak_mb([str(path), "--jobs", "1", "--output", "json"])
    assert '"RUNTIME last.cc:9"' in done.stdout
    assert peak < 150


def test_a_million_kinds_of_errors_keep_their_total(monkeypatch):
    monkeypatch.setattr("npu_graph.logs.segment.MAX_CLUSTERS", 50)
    monkeypatch.setattr("npu_graph.logs.scan.MAX_CLUSTERS", 50)
    words = [f"{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{'uvwxyzabcd'[n // 100]}" for n in range(400)]
    record = record_of([f"ValueError: {word}" for word in words])
    assert record["errors"]["total"] == 400
    assert record["errors"]["kinds"] + record["errors"]["unclustered"] == 400


def test_nothing_readable_is_said_in_one_line(tmp_path):
    for arguments, code in ((["/no/such/file"], 3), ([str(tmp_path)], 3), ([], 2), (["x", "--threshold", "no=1"], 2)):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *arguments],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
        assert done.stdout == ""


def test_text_of_a_log_stays_text_in_markdown():
    from npu_graph.logs.render import render

    record = record_of(["RuntimeError: <script>alert(1)</script> | [x](javascript:1) `rm -rf`"])
    text = render(record, markdown=True)
    assert "\n    | RuntimeError: <script>" in text
    assert "- <script>" not in text


def test_a_growing_capture_of_unknown_files_is_still_scanned_by_words():
    lines = [glog(0, "some text", file="unknown_file.cpp:1"), "torch.compile takes 31.00 s in total"]
    assert kinds(record_of(lines)) == ["slow_compile"]

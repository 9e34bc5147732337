"""parse_npu_logs.py keeps the contract that its --help promises."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npu_graph import bundle
from tests.logs.log_lines import capture, glog, plog, replay, vllm

SCRIPT = bundle.ROOT / "graph-log-analyzer" / "scripts" / "parse_npu_logs.py"
DIAGNOSE = bundle.ROOT / "graph-mode-diagnostics" / "scripts" / "diagnose.py"
PYENV = Path.home() / ".pyenv" / "versions"
OLDEST = 8
OTHERS = [
    path
    for path in sorted(PYENV.glob("3.*/bin/python") if PYENV.is_dir() else [])
    if int(path.parts[-3].split(".")[1]) >= OLDEST
]
ERROR = plog(5, "[device_error_proc.cc:1393]7 f: aicore exception", "ERROR")


def run(*arguments: str, stdin: str = "", python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-S", str(SCRIPT), *arguments], input=stdin, capture_output=True, encoding="utf-8", timeout=60
    )


@pytest.fixture
def log(tmp_path) -> str:
    lines = [*capture(0, 12), *(replay(13 + n * 0.001) for n in range(60)), ERROR]
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_self_check_says_what_it_is_and_passes():
    done = run("--test")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith("self-check on lines made by this script")
    assert done.stdout.endswith("SELF TEST PASSED\n")


@pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parts[-3])
@pytest.mark.versions
def test_the_self_check_passes_on_every_python(python):
    assert "SELF TEST PASSED" in run("--test", python=str(python)).stdout


def test_help_shows_examples_and_exit_codes():
    text = run("--help").stdout
    for word in ("--since", "--rank", "--merge", "examples:", "exit codes:", "capture_s"):
        assert word in text


def test_a_finding_is_exit_code_1_and_a_healthy_log_0(log, tmp_path):
    assert run(log).returncode == 1
    healthy = tmp_path / "ok.log"
    healthy.write_text("\n".join(capture(0, 1)) + "\n")
    assert run(str(healthy)).returncode == 0


def test_text_names_the_failure_and_every_claim_has_a_line(log):
    text = run(log, "--summary").stdout
    assert f"{log}:65" in text
    assert "slow capture: 12 s (threshold 10)" in text
    assert len(text.splitlines()) <= 60
    assert "最早的失败" in run(log, "--lang", "zh").stdout


def test_a_long_report_is_bounded_and_all_gives_the_rest(tmp_path):
    path = tmp_path / "x.log"
    lines = [plog(n, f"[file_{n:04}.cc:{n}]7 {'long text ' * 40}", "ERROR") for n in range(300)]
    path.write_text("\n".join([*lines, *(line for n in range(900) for line in capture(n, 11, f"0x{n}"))]) + "\n")
    short = run(str(path)).stdout
    assert len(short.encode()) < 22_000
    assert "--all" in short or len(short.encode()) < 20_480
    assert len(run(str(path), "--all").stdout) >= len(short) - 200


def test_json_has_the_schema_and_markdown_has_headings(log):
    record = json.loads(run(log, "--output", "json").stdout)
    assert record["schema"] == "npu-graph/log/1"
    assert "## FIRST FAILURE" in run(log, "--output", "md").stdout


def test_the_trace_opens_in_a_trace_viewer(log):
    trace = json.loads(run(log, "--output", "trace").stdout)
    events = trace["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["cat"] == "captures"]
    assert [(event["ts"], event["dur"]) for event in slices] == [(0, 12_000_000)]
    assert {event["ph"] for event in events} == {"M", "X", "i"}
    for event in events:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ph"] == "M" or event["ts"] >= 0
    named = {event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    assert named == {event["pid"] for event in events}


def test_the_excerpt_is_what_diagnose_needs(tmp_path):
    lines = [glog(n, "malloc: block=0x1", file="NPUCachingAllocator.cpp:1") for n in range(40)]
    lines += [
        "Traceback (most recent call last):",
        '  File "/m.py", line 3, in f',
        "RuntimeError: x:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:47 NPU function error: "
        "c10_npu::acl::AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 107027",
        "EE9999: [PID: 4242] 2026-03-05-08:00:41.558.672 Not allow to synchronize captured-stream, stream_id=9.",
    ]
    path = tmp_path / "x.log"
    path.write_text("\n".join(lines) + "\n")
    excerpt = run(str(path), "--excerpt")
    assert excerpt.returncode == 0
    assert excerpt.stdout.splitlines() == lines[40:]
    diagnosis = subprocess.run(
        [sys.executable, str(DIAGNOSE), "-", "--output", "json"],
        input=excerpt.stdout, capture_output=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert json.loads(diagnosis.stdout)["patterns"][0]["id"] == "P-CAP-001"
    assert json.loads(run(str(path), "--output", "json").stdout)["diagnosis"]["patterns"][0]["id"] == "P-CAP-001"


def test_a_window_leaves_out_what_is_outside(log):
    since = json.loads(run(log, "--since", "2026-03-05 08:00:04", "--output", "json").stdout)
    assert since["errors"]["total"] == 1
    until = json.loads(run(log, "--until", "2026-03-05 08:00:04", "--output", "json").stdout)
    assert (until["errors"]["total"], until["replays"]["count"]) == (0, 0)
    assert run(log, "--since", "yesterday").returncode == 2


def test_one_rank_can_be_asked_for(tmp_path):
    lines = [line for rank in range(3) for line in capture(rank, 11, f"0x{rank}", 100 + rank, rank)]
    path = tmp_path / "x.log"
    path.write_text("\n".join(lines) + "\n")
    record = json.loads(run(str(path), "--rank", "2", "--output", "json").stdout)
    assert [item["rank"] for item in record["captures"]["list"]] == ["2"]
    missing = run(str(path), "--rank", "7")
    assert missing.returncode == 3
    assert "0, 1, 2" in missing.stderr


def test_parts_of_hosts_are_merged_and_their_clocks_compared(tmp_path):
    parts = []
    for host, shift in (("node-a", 0.0), ("node-b", 5.0)):
        lines = [line for n in range(10) for line in capture(n * 2 + shift, 1, f"0x{n}", 100, 0 if shift == 0 else 1)]
        if shift:
            lines.append(plog(31 + shift, "[a.cc:1]7 f: aicore exception", "ERROR", pid=100))
        else:
            lines.append(plog(33, "[b.cc:2]7 g: other failure", "ERROR", pid=100))
        path = tmp_path / f"{host}.log"
        path.write_text("\n".join(lines) + "\n")
        part = tmp_path / f"{host}.json"
        part.write_text(run(str(path), "--partial", "--host", host).stdout)
        path.unlink()
        parts.append(str(part))
    record = json.loads(run("--merge", *parts, "--output", "json").stdout)
    assert record["input"]["hosts"] == ["node-a", "node-b"]
    assert record["clock"]["skews"][0]["other_ahead_s"] == pytest.approx(5.0)
    # node-b's clock is five seconds ahead, so its error came first although its stamp is later.
    assert record["first_failure"]["process"] == "node-b/100"
    assert record["first_failure"]["context"]
    assert json.loads(run("--merge", *reversed(parts), "--output", "json").stdout) == record
    assert run("--merge", str(SCRIPT)).returncode == 3


def test_standard_input_is_read_like_a_file(log):
    text = Path(log).read_text()
    by_name = json.loads(run(log, "--output", "json").stdout)
    piped = json.loads(run("-", "--output", "json", stdin=text).stdout)
    assert piped["captures"]["list"][0]["seconds"] == by_name["captures"]["list"][0]["seconds"]
    assert piped["first_failure"]["key"] == by_name["first_failure"]["key"]
    assert run("-", stdin="").returncode == 3


def test_an_interrupt_leaves_what_was_found(tmp_path):
    path = tmp_path / "x.log"
    with path.open("wb") as out:
        out.write((ERROR + "\n").encode() + b"x" * 70_000)
        out.truncate(300 << 30)  # a hole keeps the reader busy
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(path), "--jobs", "1", "--output", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    time.sleep(3)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    record = json.loads(out)
    assert record["partial"] and record["input"]["interrupted"]
    assert record["errors"]["total"] == 1, err


def test_the_locale_changes_nothing(tmp_path):
    path = tmp_path / "x.log"
    path.write_text(vllm(1, "torch.compile takes 34.76 s in total 编译") + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), "--lang", "zh"],
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert "编译过慢" in done.stdout.decode("utf-8")

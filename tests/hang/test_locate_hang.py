"""What a user gets from locate_hang.py: the class, the odd rank, the rank that others wait for; on hand-written texts."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import twins
from cost import cpu_seconds
from support import ROOT, run_script

SCRIPT = "graph-mode-diagnostics/scripts/locate_hang.py"
sys.path.insert(0, str(ROOT / "graph-mode-diagnostics" / "scripts"))

from hang_locate.record import locate_hang

from npu_graph.cli import InputText


def locate(*texts: str, names: tuple[str, ...] = (), **options: Any) -> dict[str, Any]:
    inputs = [InputText(names[i] if i < len(names) else f"in{i}.txt", text, 0) for i, text in enumerate(texts)]
    return locate_hang(inputs, **options)


def workers(stacks: dict[int, str], title: str = "VLLM::Worker_TP{}") -> list[str]:
    return [
        twins.spy(1000 + rank, title.format(rank), frames.replace("{line}", str(540 + rank % 3)))
        for rank, frames in stacks.items()
    ]


ALL_BUT_3 = {rank: twins.REPLAYING for rank in range(8) if rank != 3}

CASES = {
    "update": ([twins.spy(7, "python serve.py", twins.JOINING, ("Thread-4", twins.UPDATING))], "graph_update", "known"),
    "update, main thread": (workers({0: twins.UPDATING}), "graph_update", "known"),
    "replay without update, device idle, update code in the log": (
        [*workers({0: twins.REPLAYING}), twins.npu_smi([0]), "INFO capture with auto_dispatch_capture=True\n"],
        "event_never_recorded",
        "known",
    ),
    "update thread failed": (
        [
            *workers({0: twins.REPLAYING}),
            "Exception in thread Thread-3:\n  File \"x/torch_npu/npu/graphs.py\", line 99, in update_capture_record\n"
            "RuntimeError: there are only 1 elements in the incoming cpu_update_input list\n",
        ],
        "event_never_recorded",
        "known",
    ),
    "synchronise alone": (workers({0: twins.REPLAYING}), "event_never_recorded", "candidate"),
    "idle rank runs a dummy batch in eager": (workers({**ALL_BUT_3, 3: twins.DUMMY_EAGER}), "collective_missed", "known"),
    "one rank waits for work": (workers({**ALL_BUT_3, 3: twins.IDLE}), "collective_missed", "known"),
    "prefill on one side, decode on the other": (
        workers({0: twins.EXTENDING, 1: twins.EXTENDING, 2: twins.REPLAYING, 3: twins.EXTENDING}),
        "collective_missed",
        "known",
    ),
    "one rank reads data, the others stand in a barrier": (
        workers({0: twins.BARRIER, 1: twins.DATA_WAIT, 2: twins.BARRIER}, "python train.py --local_rank={}"),
        "collective_missed",
        "known",
    ),
    "capture waits": (
        [*workers({0: twins.CAPTURING, 1: twins.CAPTURING}),
         "[rank0]:[W227 15:02:27.67 NPUGraph.cpp:223] Warning: Waiting for pending NCCL work to finish before starting graph capture. (function operator())\n"],
        "capture_pending_comm",
        "known",
    ),
    "kernel never ends": (
        [*workers({0: twins.REPLAYING}), twins.npu_smi([100]), "[ERROR] RUNTIME(9,python3):2026-03-01-10:00:00.1 [x.cc:1]9 aicore timeout, kernel_name=MoeCombine\n"],
        "device_kernel",
        "known",
    ),
    "device busy": ([*workers({0: twins.REPLAYING}), twins.npu_smi([99])], "device_kernel", "candidate"),
    "communicator set-up": (
        [*workers({0: twins.STORE_WAIT, 1: twins.STORE_WAIT}, "python train.py --rank {}"), "EI0006: Getting socket times out. Reason: x\n"],
        "rendezvous",
        "known",
    ),
    "no request": ([*workers({0: twins.IDLE, 1: twins.IDLE}), twins.spy(50, "VLLM::EngineCore", twins.ENGINE)], "no_work", "known"),
    "compiling": (workers({0: twins.COMPILING}), "still_working", "candidate"),
    "heartbeat lost": (
        ["there are(is) 1 abnormal device(s):\n    Cluster Exception Location[IP/ID]:[10.0.0.9/1], Arrival Time:[x], "
         "Discoverer:[10.0.0.9/0], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1. Process has exited\n"],
        "peer_lost",
        "known",
    ),
    "heartbeat lost, older text": (
        ["        serverId[10.0.0.9], deviceId[0], Heartbeat Lost Occurred, Possible Reason: 1. Process has exited for rank\n"],
        "peer_lost",
        "known",
    ),
    "two ranks stand apart, no majority": (workers({0: twins.REPLAYING, 1: twins.DUMMY_EAGER}), "collective_missed", "known"),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "expected", "verdict"), CASES.values(), ids=list(CASES))
def test_the_class_of_each_hang(texts: list[str], expected: str, verdict: str) -> None:
    record = locate(*texts)
    assert [item["class"] for item in record["classes"]][:1] == [expected], record["classes"]
    assert record["verdict"] == verdict
    best = record["classes"][0]
    assert best["evidence"] and all(item["line"] >= 1 and item["text"] for item in best["evidence"])
    assert best["confirm"] and best["collect"]


def test_the_odd_rank_is_named_and_the_others_are_condensed() -> None:
    record = locate(*workers({**ALL_BUT_3, 3: twins.DUMMY_EAGER}, "python worker.py --rank {}"))
    assert record["classes"][0]["ranks"] == ["rank 3"]
    assert [(group["members"], group["count"], group["odd"]) for group in record["groups"]] == [
        ("ranks 0-2,4-7", 7, False),
        ("rank 3", 1, True),
    ]
    assert record["groups"][1]["mode"] == "dummy" and not record["groups"][1]["in_graph_code"]


def test_a_driver_process_is_never_the_odd_one() -> None:
    record = locate(
        *workers({0: twins.REPLAYING, 1: twins.REPLAYING}), twins.spy(50, "VLLM::EngineCore_DP0", twins.ENGINE)
    )
    assert record["processes"] == {"workers": 2, "others": ["EngineCore"], "absent_ranks": "", "moving": []}
    assert len(record["groups"]) == 1


def test_background_threads_do_not_make_a_lock() -> None:
    record = locate(twins.spy(7, "python a.py", twins.IDLE.replace("{line}", "1"), ("Thread-1", twins.TQDM)))
    assert [item["class"] for item in record["classes"]] == ["no_work"]


class TestRanksThatOthersWaitFor:
    def test_the_rank_that_reports_no_wait_comes_first(self) -> None:
        text = "".join(twins.notify_block(100 + rank, rank, rank, "3", 8) for rank in range(8) if rank != 3)
        record = locate(text)
        assert record["verdict"] == "candidate" or record["classes"][0]["score"] >= 0.6
        first = record["waited_for"][0]
        assert (first["group_rank"], first["world_rank"], first["waiters"], first["itself_waits"]) == (3, 3, 7, False)
        assert record["silent"] == [{"group": "group_name_12", "size": 8, "ranks": "3"}]

    def test_a_ring_is_followed_to_its_end(self) -> None:
        # 0 waits for 1, 1 for 2, 2 for 3; 3 says nothing.
        text = "".join(twins.notify_block(100 + rank, rank, rank, str(rank + 1), 4) for rank in range(3))
        record = locate(text)
        assert record["waited_for"][0]["group_rank"] == 3
        assert record["classes"][0]["class"] == "collective_missed"

    def test_a_place_in_a_communicator_is_not_taken_for_a_world_rank(self) -> None:
        text = "".join(twins.notify_block(100 + own, 16 + own, own, "2", 4) for own in (0, 1))
        first = locate(text)["waited_for"][0]
        assert first["world_rank"] is None
        assert first["rank"] == "rank 2 of group_name_12"

    def test_a_member_that_reported_is_named_by_its_world_rank(self) -> None:
        text = twins.notify_block(101, 25, 1, "2", 4) + twins.notify_block(102, 26, 2, "3", 4)
        by_rank = {item["group_rank"]: item for item in locate(text)["waited_for"]}
        assert by_rank[2]["world_rank"] == 26 and by_rank[2]["itself_waits"]
        assert by_rank[3]["world_rank"] is None

    def test_an_unknown_remote_rank_names_nobody(self) -> None:
        record = locate(twins.notify_block(101, 0, 0, "unknown", 8))
        assert record["waited_for"] == []
        assert record["classes"][0]["class"] == "collective_missed"
        assert record["verdict"] == "candidate"

    def test_stack_and_notify_that_agree_are_stronger_than_either(self) -> None:
        stacks = workers({**ALL_BUT_3, 3: twins.DATA_WAIT}, "python t.py --rank {}")
        text = "".join(twins.notify_block(1000 + rank, rank, rank, "3", 8) for rank in range(8) if rank != 3)
        alone = locate(*stacks)["classes"][0]["score"]
        both = locate(*stacks, text)["classes"][0]
        assert both["score"] > alone and both["ranks"][0] == "rank 3"

    def test_members_that_ran_another_operation_are_named(self) -> None:
        text = "".join(twins.task_exception(500 + r, r, 4, "AllReduce", 21, 256) for r in (0, 1, 3))
        text += twins.task_exception(502, 2, 4, "AllReduce", 20, 128)
        best = locate(text)["classes"][0]
        assert best["class"] == "collective_missed"
        assert best["ranks"] == ["rank 2 of group_name_3"]
        assert any("count[128]" in item["text"] for item in best["evidence"])

    def test_aicpu_lines_take_their_group_from_the_operation_line(self) -> None:
        head = (
            "[ERROR] HCCL(5375,aicpu_scheduler):2026-03-01-10:00:00.1 [aicpu_communicator.cc:1] [5792][TaskException]"
        )
        text = (
            f"{head}base information is streamId:149, type:NOTIFY WAIT, localRank:1, remoteRank:0, taskId:26064.\n"
            f"{head}opData information is tag:worldCommSendRecv_2_1_group_name_17271Send, group:group_name_17271, opIndex:3, count:9.\n"
        )
        first = locate(text)["waited_for"][0]
        assert (first["group"], first["group_rank"]) == ("group_name_17271", 0)

    def test_a_link_that_never_came_up_is_set_up_not_a_missed_collective(self) -> None:
        text = (
            "[ERROR] HCCL(808,):2026-03-01-02:21:43.1 [transport_manager.cc:954] [862][RunFailed]Transport init error! createLink para:rank[7]"
            "-localUserrank[7]-localIpAddr[10.0.0.2/7], remoteRank[15]-remoteUserrank[15]-remoteIpAddr[10.0.0.3/7], tag[AllGather_group_name_119]\n"
            "EI0006: Getting socket times out.\n"
        )
        best = locate(text)["classes"][0]
        assert best["class"] == "rendezvous" and best["ranks"] == ["rank 15 of group_name_119"]

    def test_the_table_of_link_errors(self) -> None:
        head = "[ERROR] HCCL(59420,python3):2026-03-01-10:00:00.1 [comm_base.cc:1018][107626]   "
        text = f"{head}|  dest_ip(rank_id)  |  src_ip(rank_id)   |   Role   |   Status   |\n{head}|  10.0.0.6(1)   |   10.0.0.5(0)   |  server  | no connect |\n"
        record = locate(text)
        assert record["classes"][0]["class"] == "rendezvous"
        assert record["waited_for"][0]["group_rank"] == 1

    def test_the_trace_line_of_the_heartbeat(self) -> None:
        text = "[INFO] HCCL(9,python):2026-03-01-10:00:00.1 [heartbeat.cc:536][3851][HCCL_TRACE]rank [10.0.0.8/2]: rank [10.0.0.6/5] status[LOST] by rank [10.0.0.6/6]\n"
        best = locate(text)["classes"][0]
        assert (best["class"], best["ranks"]) == ("peer_lost", ["10.0.0.6/5"])


class TestInputs:
    def test_faulthandler_and_py_spy_give_the_same_class(self) -> None:
        texts = [twins.fault(twins.REPLAYING.replace("{line}", "85")) for _ in range(3)] + [
            twins.fault(twins.IDLE.replace("{line}", "9"))
        ]
        record = locate(*texts, names=("rank0.log", "rank1.log", "rank2.log", "rank3.log"))
        assert record["classes"][0]["class"] == "collective_missed"
        assert record["classes"][0]["ranks"] == ["rank 3"]

    def test_ranks_that_interleave_in_one_log_are_read_apart(self) -> None:
        stacks = [twins.fault(twins.REPLAYING.replace("{line}", "85")).splitlines() for _ in range(3)]
        stacks[1] = twins.fault(twins.DUMMY_EAGER).splitlines()
        rows = [f"[rank{rank}]: {lines[i]}" for i in range(12) for rank, lines in enumerate(stacks) if i < len(lines)]
        record = locate("\n".join(rows))
        assert {group["members"]: group["odd"] for group in record["groups"]} == {"ranks 0,2": False, "rank 1": True}

    def test_json_of_py_spy(self) -> None:
        frames = [{"name": "synchronize", "filename": "/x/torch_npu/npu/utils.py", "short_filename": "torch_npu/npu/utils.py", "line": 75},
                  {"name": "step", "filename": "/w/train.py", "short_filename": "train.py", "line": 9}]  # fmt: skip
        row = {
            "pid": 4,
            "thread_id": 1,
            "thread_name": "MainThread",
            "os_thread_id": 4,
            "active": False,
            "owns_gil": False,
            "frames": frames,
        }
        record = locate(json.dumps([row]))
        assert record["groups"][0]["called_from"] == "step (train.py:9)"

    def test_two_samples_that_differ_are_slow_not_hung(self) -> None:
        record = locate(*workers({0: twins.REPLAYING}), *workers({0: twins.COMPILING}))
        assert record["processes"]["moving"] == ["TP0"]
        assert record["classes"][0]["class"] == "still_working"

    def test_two_samples_that_agree_raise_the_score(self) -> None:
        once = locate(*workers({0: twins.UPDATING}))
        twice = locate(*workers({0: twins.UPDATING}), *workers({0: twins.UPDATING}))
        assert twice["classes"][0]["score"] > once["classes"][0]["score"]

    def test_ranks_without_a_dump_are_listed(self) -> None:
        record = locate(*workers({0: twins.REPLAYING, 2: twins.REPLAYING}, "python t.py --rank {}"), world=4)
        assert record["processes"]["absent_ranks"] == "1,3"
        assert record["missing"][0]["how"].startswith("py-spy dump")

    def test_a_log_line_about_capture_that_goes_on_claims_nothing(self) -> None:
        text = "Warning: Waiting for pending NCCL work to finish before starting graph capture.\nINFO capture done\nINFO serving\nINFO request 1\n"
        assert locate(text)["classes"] == []

    def test_source_lines_are_read_below_the_root_only(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a.py").write_text("import x\nwith self._lock:\n")
        (tmp_path / "out.py").write_text("secret\nsecret line\n")
        inside = twins.spy(7, "python", "    run (a.py:2)\n    <module> (a.py:2)\n")
        outside = twins.spy(8, "python", f"    run ({tmp_path}/out.py:2)\n    run (../out.py:2)\n")
        record = locate(inside, outside, roots=[str(tmp_path / "in")])
        assert "with self._lock" in json.dumps(record) and "secret" not in json.dumps(record)
        assert record["classes"][0]["class"] == "host_lock"

    def test_chips_and_their_processes(self) -> None:
        record = locate(twins.npu_smi([100, 0], [11, 12]))
        assert record["devices"] == [
            {"npu": 0, "health": "OK", "ai_core_percent": 100, "pids": [11]},
            {"npu": 1, "health": "OK", "ai_core_percent": 0, "pids": [12]},
        ]


class TestCommand:
    def test_a_folder_of_dumps(self, tmp_path: Path) -> None:
        for rank, text in enumerate(workers({**ALL_BUT_3, 3: twins.IDLE}, "python t.py")):
            (tmp_path / f"stack_rank{rank}.txt").write_text(text)
        result = run_script(SCRIPT, str(tmp_path), "--output", "json")
        assert result.returncode == 0, result.stderr
        record = json.loads(result.stdout)
        assert record["schema"] == "npu-graph/hang/1"
        assert record["classes"][0]["ranks"] == ["rank 7"]  # dict order: 0,1,2,4,5,6,7,3

    def test_chinese_report(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text(workers({0: twins.UPDATING})[0])
        text = run_script(SCRIPT, str(path), "--lang", "zh").stdout.decode()
        assert "结论: 成立" in text and "卡在图参数更新中" in text and "下一步收集" in text

    @pytest.mark.parametrize(
        ("content", "code"),
        [(b"hello\n", 3), (b"", 3), (b"\x00\x01\x02" * 900, 3), ("图模式卡住了\n".encode("gb18030"), 3)],
    )
    def test_nothing_usable_is_one_line_and_exit_3(self, tmp_path: Path, content: bytes, code: int) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(content)
        result = run_script(SCRIPT, str(path))
        assert result.returncode == code and result.stderr.count(b"\n") == 1

    @pytest.mark.parametrize("arguments", [(), ("--pid", "0"), ("--pid", "x"), ("a", "--again", "-1")])
    def test_wrong_usage_is_exit_2(self, arguments: tuple[str, ...]) -> None:
        assert run_script(SCRIPT, *arguments).returncode == 2

    def test_pid_without_py_spy_is_exit_4_with_the_install_line(self) -> None:
        result = run_script(SCRIPT, "--pid", "1", env={"PATH": "/nonexistent"})
        assert result.returncode == 4 and b"pip install py-spy" in result.stderr

    def test_without_native_frames_the_python_frames_are_taken(self, tmp_path: Path) -> None:
        stacks = twins.spy(7, "python serve.py", twins.UPDATING)
        program = tmp_path / "py-spy"
        program.write_text(
            f"#!{sys.executable}\nimport sys\nif '--native' in sys.argv:\n    sys.exit('Error: UNW_EINVAL')\nprint({stacks!r})\n"
        )
        program.chmod(0o755)
        result = run_script(SCRIPT, "--pid", "7", "--native", "--output", "json", env={"PATH": str(tmp_path)})
        assert json.loads(result.stdout)["classes"][0]["class"] == "graph_update"
        assert b"Python frames only, --native failed: Error: UNW_EINVAL" in result.stderr

    def test_text_in_a_dump_cannot_break_markdown(self, tmp_path: Path) -> None:
        path = tmp_path / "rank`1`<b>.txt"
        evil = "`</code><script>](http://e.x)`"
        path.write_text(
            twins.spy(0, "", f"    synchronize (torch_npu/npu/utils.py:75)\n    {evil} (a|b.py:3)\n").replace(
                "Process 0: \n", ""
            )
        )
        text = run_script(SCRIPT, str(path), "--output", "md").stdout.decode()
        assert "<script>" in text
        outside = re.sub(r"(`+) ?.*?[^`]\1(?!`)", "", text)
        assert "<" not in outside and "](" not in outside


@pytest.mark.parametrize("ranks", [64, 512])
def test_many_ranks_in_seconds(tmp_path: Path, ranks: int) -> None:
    odd = ranks * 2 // 3
    background = tuple((f"Thread-{n}", twins.TQDM) for n in range(20))
    for rank in range(ranks):
        frames = (twins.IDLE if rank == odd else twins.REPLAYING).replace("{line}", "85")
        (tmp_path / f"rank_{rank}.txt").write_text(twins.spy(1000 + rank, "python t.py", frames, *background))
    blocks = "".join(
        twins.notify_block(1000 + r, r, r, str(odd), ranks, "hccl_world_group") for r in range(ranks) if r != odd
    )
    (tmp_path / "service.log").write_text(blocks)
    begin = time.perf_counter()
    result = run_script(SCRIPT, str(tmp_path), "--output", "json")
    seconds = time.perf_counter() - begin
    record = json.loads(result.stdout)
    assert record["classes"][0]["class"] == "collective_missed"
    assert record["classes"][0]["ranks"][0] == f"rank {odd}"
    assert record["waited_for"][0]["world_rank"] == odd
    assert seconds < 10, f"{ranks} ranks took {seconds:.1f} s"


@pytest.mark.parametrize(
    "line",
    ["    " + "a" * 200_000, "Thread 1 (idle): \"" + "(" * 100_000, "    f (" * 30_000, "| 0 " * 50_000, "[" * 100_000,
     "Process 1: " + "x" * 100_000, "EI0002 remote rank: [" * 20_000, "rank[1]" * 50_000],
)  # fmt: skip
def test_hostile_lines_take_linear_time(line: str) -> None:
    text = "\n".join([twins.spy(1, "x", twins.IDLE), line, line, "AICore(%)", line])
    assert cpu_seconds(lambda: locate(text), 3) < 3


@pytest.mark.parametrize("text", ["", "\n", "x", "wait\nb\nwait c\n\n", "a\nb wait wait\n", "wait", "\n\nwait"])
def test_lines_are_found_as_a_plain_loop_finds_them(text: str) -> None:
    from hang_locate.scan import lines_with

    plain = [(number, line) for number, line in enumerate(text.split("\n"), 1) if "wait" in line or "c" in line]
    assert list(lines_with(text, ("wait", "c"))) == plain


def test_the_last_lines_of_a_log_are_known_as_such() -> None:
    from hang_locate.events import read_events

    text = "".join(f"INFO line {n}\n" for n in range(50)) + "107020\nINFO b\n\n  \nINFO c\n\n"
    assert [(event.line, event.last) for event in read_events([("a", text), ("b", text + "INFO d\n")])] == [
        (51, True),
        (51, False),
    ]

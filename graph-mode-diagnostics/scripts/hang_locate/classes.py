"""The classes of hang: what each means, what would confirm it and what to collect next, in English and Chinese."""

# ruff: noqa: E501 (texts)
from __future__ import annotations

from typing import NamedTuple


class HangClass(NamedTuple):
    """One class. Texts are (English, Chinese) pairs; `pattern` is an id of known-patterns.md or ''."""

    name: str
    stage: str
    pattern: str
    title: tuple[str, str]
    meaning: tuple[str, str]
    confirm: tuple[str, str]
    collect: tuple[str, str]


CLASSES = {
    item.name: item
    for item in (
        HangClass(
            "graph_update",
            "update",
            "P-HANG-002",
            ("in the graph's parameter update", "卡在图参数更新中"),
            (
                "A thread stands in graph_task_update_begin or _end: the update stream waits for work that does not finish.",
                "有线程停在 graph_task_update_begin 或 _end：更新流在等一个不结束的任务。",
            ),
            (
                "Two dumps 30 s apart show the same frame; the update runs on its own stream, not on the one that replays.",
                "相隔 30 秒的两次 dump 停在同一帧；更新用的是自己的流，而不是 replay 的流。",
            ),
            (
                "The order of replay() and update() in the step, and the stream each runs on; plog of this PID.",
                "该 step 里 replay() 与 update() 的先后及各自所在的流；该 PID 的 plog。",
            ),
        ),
        HangClass(
            "event_never_recorded",
            "replay",
            "P-HANG-002",
            ("replay waits for an event that was never recorded", "重放在等一个从未 record 的 event"),
            (
                "The replayed graph waits on the device for an event that a parameter update (or another stream) must record; "
                "no thread is about to do so.",
                "重放的图在设备上等一个应由参数更新（或另一条流）record 的 event，而没有任何线程将要去做。",
            ),
            (
                "AI Core load is 0 in npu-smi while the host waits; number of updates equals number of replays, and one "
                "entry of cpu_update_input for each recorded operator.",
                "主机在等而 npu-smi 的 AI Core 为 0；更新次数等于重放次数，cpu_update_input 每个记录的算子一项。",
            ),
            (
                "npu-smi info; log lines or exceptions of the update thread; with --source-root the code around replay().",
                "npu-smi info；更新线程的日志或异常；用 --source-root 给出 replay() 附近的代码。",
            ),
        ),
        HangClass(
            "collective_missed",
            "replay",
            "P-HANG-001",
            ("a collective that one rank did not enter", "有 rank 没有进入集合通信"),
            (
                "Most ranks wait on the device for a collective; the rank named runs something else: idle, a dummy batch in "
                "another mode or size, another graph, or an earlier failure.",
                "多数 rank 在设备上等集合通信；被点名的 rank 在做别的：空闲、以别的模式或大小空跑、别的图，或早已失败。",
            ),
            (
                "The named rank's last collective differs in operator, index or count from the others' (HCCL 'opData information').",
                "被点名的 rank 最后一个集合通信在算子、序号或 count 上与其他 rank 不同（HCCL 的 opData information）。",
            ),
            (
                "Stack and log tail of the named rank; the batch size and graph mode of every rank in this step.",
                "被点名 rank 的栈与日志末尾；该 step 各 rank 的 batch 大小与图模式。",
            ),
        ),
        HangClass(
            "capture_pending_comm",
            "capture",
            "P-HANG-003",
            ("capture waits for pending communication", "捕获在等未完成的通信"),
            (
                "Entering the capture drains earlier work first; a collective issued before it never completes.",
                "进入捕获前要先排空已下发的任务；之前下发的某个集合通信一直不结束。",
            ),
            (
                "Every rank reaches the capture, and issued the same collectives before it.",
                "所有 rank 都到了捕获处，且之前下发了相同的集合通信。",
            ),
            ("Stacks of all ranks; the last collective each issued.", "所有 rank 的栈；各自最后下发的集合通信。"),
        ),
        HangClass(
            "device_kernel",
            "replay",
            "",
            ("a kernel on the device does not end", "设备上的核函数不结束"),
            (
                "The host waits and the AI Cores are busy: a kernel runs on, or spins for a peer inside a fused communication operator.",
                "主机在等而 AI Core 繁忙：某个核函数一直在跑，或融合通信算子在里面自旋等对端。",
            ),
            (
                "AI Core load stays near 100 % in two npu-smi samples; plog names the kernel after the time limit.",
                "两次 npu-smi 采样 AI Core 都接近 100 %；超时后 plog 会给出核函数名。",
            ),
            (
                "npu-smi info twice, 30 s apart; plog of this PID (kernel_name); for communication kernels the other ranks' stacks.",
                "相隔 30 秒的两次 npu-smi info；该 PID 的 plog（kernel_name）；若是通信核函数还要其他 rank 的栈。",
            ),
        ),
        HangClass(
            "host_lock",
            "not_graph",
            "",
            ("a lock on the host", "主机上的锁"),
            (
                "A thread waits for a lock, a condition or another thread; the device is not involved.",
                "线程在等锁、条件变量或另一个线程；与设备无关。",
            ),
            (
                "The thread that holds the lock is in the same dump and itself waits.",
                "持锁的线程也在同一个 dump 里，而且它自己也在等。",
            ),
            (
                "py-spy dump --native --locals of this process; with --source-root the lines that take locks.",
                "该进程的 py-spy dump --native --locals；用 --source-root 给出加锁的行。",
            ),
        ),
        HangClass(
            "peer_lost",
            "replay",
            "",
            ("a rank is gone", "有 rank 已经退出或失联"),
            (
                "A process ended or its heartbeat stopped; the others wait for it until HCCL_EXEC_TIMEOUT.",
                "某个进程已结束或心跳中断；其他 rank 会一直等到 HCCL_EXEC_TIMEOUT。",
            ),
            (
                "The process is no longer in `ps`, or its log ends earlier than the others'.",
                "`ps` 里已没有该进程，或它的日志比别人早结束。",
            ),
            (
                "The first error in the log of the lost rank: run diagnose.py on it. dmesg for the out-of-memory killer.",
                "失联 rank 日志里的第一个错误：交给 diagnose.py。dmesg 里是否有 OOM kill。",
            ),
        ),
        HangClass(
            "rendezvous",
            "env",
            "",
            ("communicator set-up waits for a rank", "建立通信域时有 rank 未到"),
            (
                "Ranks wait in init_process_group, a new group or an HCCL link that one rank does not join.",
                "rank 停在 init_process_group、新建通信组或 HCCL 建链，有一个 rank 没来。",
            ),
            (
                "Every rank runs the same set-up in the same order; addresses and ports are reachable.",
                "所有 rank 按同样顺序建立通信；地址和端口可达。",
            ),
            (
                "Stacks of the ranks that are not there; HCCL_CONNECT_TIMEOUT and plog of both ends.",
                "不在其中的 rank 的栈；HCCL_CONNECT_TIMEOUT 与两端 plog。",
            ),
        ),
        HangClass(
            "no_work",
            "not_graph",
            "",
            ("the ranks wait for work: nothing hangs on the device", "各 rank 都在等任务：设备上没有卡住"),
            (
                "Every worker waits for a message. The request is stuck earlier: scheduler, engine core, API server or client.",
                "所有 worker 都在等消息。请求卡在更早的地方：调度器、engine core、API server 或客户端。",
            ),
            ("The stack of the engine core or scheduler process.", "engine core 或调度进程的栈。"),
            ("py-spy dump of the processes that are not workers.", "非 worker 进程的 py-spy dump。"),
        ),
        HangClass(
            "still_working",
            "compile",
            "",
            ("slow, not hung: work is going on", "慢而不是卡死：仍在工作"),
            ("The host compiles, loads or computes.", "主机正在编译、加载或计算。"),
            ("A second dump 30 s later differs.", "30 秒后的第二次 dump 与第一次不同。"),
            ("A second dump, and the last log lines with their time.", "第二次 dump，以及带时间的最后几行日志。"),
        ),
    )
}

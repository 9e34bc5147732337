"""Texts of hung ranks, written for the tests after the layouts of py-spy, faulthandler, HCCL and npu-smi."""

from __future__ import annotations

REPLAYING = """\
    synchronize (torch_npu/npu/streams.py:{line})
    __call__ (vllm_ascend/compilation/acl_graph.py:231)
    _model_forward (vllm_ascend/worker/model_runner_v1.py:1402)
    execute_model (vllm_ascend/worker/model_runner_v1.py:1577)
    execute_model (vllm_ascend/worker/worker.py:388)
    worker_busy_loop (vllm/v1/executor/multiproc_executor.py:957)
    worker_main (vllm/v1/executor/multiproc_executor.py:742)
    run (multiprocessing/process.py:108)
    <module> (<string>:1)
"""
DUMMY_EAGER = """\
    synchronize (torch_npu/npu/utils.py:75)
    _dummy_run (vllm_ascend/worker/model_runner_v1.py:2290)
    execute_dummy_batch (vllm_ascend/worker/worker.py:512)
    worker_busy_loop (vllm/v1/executor/multiproc_executor.py:957)
    worker_main (vllm/v1/executor/multiproc_executor.py:742)
    run (multiprocessing/process.py:108)
    <module> (<string>:1)
"""
IDLE = """\
    acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:{line})
    dequeue (vllm/distributed/device_communicators/shm_broadcast.py:640)
    worker_busy_loop (vllm/v1/executor/multiproc_executor.py:948)
    worker_main (vllm/v1/executor/multiproc_executor.py:742)
    run (multiprocessing/process.py:108)
    <module> (<string>:1)
"""
ENGINE = """\
    acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:541)
    dequeue (vllm/distributed/device_communicators/shm_broadcast.py:640)
    get_response (vllm/v1/executor/multiproc_executor.py:390)
    collective_rpc (vllm/v1/executor/multiproc_executor.py:360)
    execute_dummy_batch (vllm/v1/engine/core.py:390)
    run_busy_loop (vllm/v1/engine/core.py:1600)
"""
UPDATING = """\
    graph_task_update_end (torch_npu/npu/graphs.py:75)
    update_capture_record (torch_npu/npu/graphs.py:117)
    update (torch_npu/npu/graphs.py:243)
    _update_inputs (sglang/srt/hardware_backend/npu/graph_runner/npu_graph_runner.py:187)
    run (threading.py:975)
"""
JOINING = """\
    _wait_for_tstate_lock (threading.py:1116)
    join (threading.py:1096)
    replay (sglang/srt/hardware_backend/npu/graph_runner/npu_graph_runner.py:160)
    forward_decode (sglang/srt/model_executor/model_runner.py:2100)
    event_loop_overlap (sglang/srt/managers/scheduler.py:812)
    <module> (<string>:1)
"""
EXTENDING = """\
    all_gather_into_tensor (torch/distributed/distributed_c10d.py:3800)
    wrapper (torch/distributed/c10d_logger.py:81)
    forward (sglang/srt/layers/logits_processor.py:410)
    forward_extend (sglang/srt/model_executor/model_runner.py:2150)
    event_loop_overlap (sglang/srt/managers/scheduler.py:812)
    <module> (<string>:1)
"""
CAPTURING = """\
    capture_begin (torch_npu/npu/graphs.py:196)
    __enter__ (torch_npu/npu/graphs.py:331)
    __call__ (vllm_ascend/compilation/acl_graph.py:178)
    _dummy_run (vllm_ascend/worker/model_runner_v1.py:2290)
    _capture_model (vllm_ascend/worker/model_runner_v1.py:2688)
    worker_main (vllm/v1/executor/multiproc_executor.py:742)
    <module> (<string>:1)
"""
BARRIER = """\
    barrier (torch/distributed/distributed_c10d.py:4817)
    wrapper (torch/distributed/c10d_logger.py:81)
    save_checkpoint (trainer/checkpoint.py:77)
    train_step (trainer/loop.py:140)
    <module> (train.py:31)
"""
STORE_WAIT = """\
    _new_process_group_helper (torch/distributed/distributed_c10d.py:1980)
    init_process_group (torch/distributed/distributed_c10d.py:1770)
    main (train.py:12)
    <module> (train.py:40)
"""
DATA_WAIT = """\
    read_shard (trainer/data.py:55)
    next_batch (trainer/data.py:31)
    train_step (trainer/loop.py:121)
    <module> (train.py:31)
"""
COMPILING = """\
    compile_fx_inner (torch/_inductor/compile_fx.py:700)
    call_user_compiler (torch/_dynamo/output_graph.py:1500)
    _compile (torch/_dynamo/convert_frame.py:900)
    forward (model.py:10)
    <module> (serve.py:5)
"""
TQDM = """\
    wait (threading.py:331)
    wait (threading.py:629)
    run (tqdm/_monitor.py:60)
    _bootstrap_inner (threading.py:1045)
"""


def spy(pid: int, title: str, main: str, *others: tuple[str, str]) -> str:
    """Return one `py-spy dump`."""
    text = f"Process {pid}: {title}\nPython v3.11.10 (/usr/local/python3.11.10/bin/python3.11)\n\n"
    text += f'Thread {pid} (idle): "MainThread"\n{main}'
    for number, (name, frames) in enumerate(others, 1):
        text += f'Thread {pid + number} (idle): "{name}"\n{frames}'
    return text


def fault(frames: str, current: bool = True) -> str:
    """Return the same stack as faulthandler prints it."""
    lines = []
    for frame in frames.splitlines():
        function, _, place = frame.strip().partition(" (")
        file, _, line = place.rstrip(")").rpartition(":")
        lines.append(f'  File "/usr/lib/python3/site-packages/{file}", line {line} in {function}')
    head = (
        "Current thread 0x0000ffff9c1d5020 (most recent call first):"
        if current
        else "Thread 0x0000ffff9c1d5020 (most recent call first):"
    )
    return head + "\n" + "\n".join(lines) + "\n"


def notify_block(pid: int, world: int, own: int, remote: str, size: int, group: str = "group_name_12") -> str:
    """Return an EI0002 block as torch_npu prints it, one process."""
    return (
        f"[ERROR] 2026-03-01-10:00:00 (PID:{pid}, Device:{own % 8}, RankID:{world}) ERR00100 PTA call acl api failed.\n"
        f"EI0002: [PID: {pid}] 2026-03-01-10:00:00.100.200 The wait execution of the Notify register times out. Reason: "
        f"The Notify register has not received the Notify record from remote rank: [{remote}]. base information: "
        f"[streamID:[7], taskID[3], taskType[Notify Wait], tag[AllReduce_{group}Ring_device], AlgType(level 0-1-2):"
        f"[ring-ring-NHR].]. task information: [notify id:[0x0000000000000101], stage:[0], remote rank:[{remote}]]. "
        f"group information: [group:[{group}], user define information[Unspecified], rankSize[{size}], rankId[{own}]]\n"
        "        Possible Cause: 1. An exception occurs during the execution on some NPUs in the cluster.\n"
    )


def task_exception(
    pid: int, own: int, size: int, operator: str, index: int, count: int, group: str = "group_name_3"
) -> str:
    """Return the three plog lines of one HCCL task exception."""
    head = f"[ERROR] HCCL({pid},python3):2026-03-01-10:00:0{own % 10}.100.200 [task_exception_handler.cc"
    mark = f"[{pid + 7}][TaskExecStage][Timeout][Host]Task run failed,"
    return (
        f"{head}:908] {mark} base information is streamID:[2], taskID[21], tag[{operator}_{group}], AlgType(level 0-1-2):[ring].\n"
        f"{head}:771] {mark} groupRank information is group:[{group}], user define information[], rankSize[{size}], rankId[{own}].\n"
        f"{head}:704] {mark} opData information is timeStamp:[2026-03-01-09:58:00.1], deviceId[{own}], index[{index}], "
        f"count[{count}], reduceType[sum], src[0x12c0c0013000], dst[0x12c0c0014000], dataType[float32].\n"
    )


def npu_smi(loads: list[int], pids: list[int] | None = None) -> str:
    """Return an `npu-smi info` table, one chip a card."""
    line = "+---------------------------+---------------+----------------------------------------------------+\n"
    text = line + (
        "| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |\n" + line
        + "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
        "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n" + line
    )  # fmt: skip
    for card, load in enumerate(loads):
        text += (
            f"| {card}     910B2               | OK            | 101.2       41                0    / 0             |\n"
        )
        text += (
            f"| 0                         | 0000:C{card}:00.0  | {load:<11} 0    / 0          3180 / 65536         |\n"
            + line
        )
    for card, pid in enumerate(pids or []):
        text += (
            f"| {card}       0                 | {pid:<13} | python3                  | 3112                    |\n"
            + line
        )
    return text

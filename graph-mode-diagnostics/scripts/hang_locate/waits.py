"""What a stack waits for: a table from frames of torch_npu, torch, frameworks and the standard library to a kind."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from .dumps import Frame, Thread
from .identity import Process
from .sources import SourceLines


class Rule(NamedTuple):
    """`function` matches the bare name as a whole, `file` the end of the path."""

    kind: str
    function: re.Pattern[str]
    file: re.Pattern[str]


def _rules(*rows: tuple[str, str, str]) -> tuple[Rule, ...]:
    return tuple(
        Rule(kind, re.compile(rf"(?:{function})\Z"), re.compile(rf"(?:{file})\Z")) for kind, function, file in rows
    )


_GRAPHS = r"torch_npu/npu/graphs\.py"
_ASCEND = r"vllm_ascend/.{0,200}\.py"
# The first rule that matches the innermost frames decides. Order: the graph's own calls before the synchronise that
# one of them may contain. Sources: torch_npu/npu/graphs.py, utils.py, streams.py (2.1.0 to 2.13.0);
# torch/distributed/distributed_c10d.py; vllm/distributed/device_communicators/shm_broadcast.py;
# vllm_ascend/compilation/acl_graph.py ACLGraphWrapper.__call__; sglang npu_graph_runner.py.
_RULES = _rules(
    ("graph_update", r"_?graph_task_update_(?:begin|end)|update_capture_record", _GRAPHS),
    ("graph_update", r"_?update_(?:full_)?(?:graph|attn|mla|draft)\w{0,40}_params", _ASCEND),
    ("capture_begin", r"capture_begin", _GRAPHS),
    ("capture_begin", r"__enter__", _GRAPHS),
    ("capture_end", r"capture_end|__exit__", _GRAPHS),
    ("replay", r"replay", _GRAPHS),
    ("device_sync", r"synchronize", r"torch_npu/npu/(?:utils|streams)\.py|torch/(?:cuda|accelerator|npu)/\w{1,20}\.py"),
    (
        "rendezvous",
        r"_store_based_barrier|init_process_group|_new_process_group_helper|new_group|split_group"
        r"|_new_group_with_tag|_create_(?:c10d_store|tcp_store)|\w{0,20}rendezvous\w{0,20}",
        r"torch/distributed/(?:distributed_c10d|rendezvous)\.py|torch_npu/distributed/\w{1,30}\.py",
    ),
    (
        "collective",
        r"all_reduce\w{0,20}|all_gather\w{0,20}|_all_gather_base|reduce_scatter\w{0,20}|_reduce_scatter_base"
        r"|all_to_all\w{0,20}|broadcast\w{0,20}|barrier|monitored_barrier|reduce|gather\w{0,10}|scatter\w{0,20}|send\w{0,20}"
        r"|recv\w{0,20}|batch_isend_irecv",
        r"torch/distributed/(?:distributed_c10d|_functional_collectives)\.py",
    ),
    ("idle", r"acquire_read|dequeue|wait_for_\w{1,20}", r"shm_broadcast\.py"),
    ("idle", r"recv\w{0,20}|poll|_wait", r"zmq/.{0,60}\.py"),
    ("idle", r"recv_requests|process_input_queue_block", r"sglang/.{0,200}\.py|vllm/.{0,200}\.py"),
    ("idle", r"_worker", r"concurrent/futures/thread\.py"),
    ("idle", r"select|_run_once|run_forever", r"(?:selectors|asyncio/base_events)\.py"),
    ("idle", r"wait|_recv\w{0,10}|poll|recv\w{0,10}", r"multiprocessing/connection\.py"),
    ("idle", r"get", r"multiprocessing/queues\.py|(?:^|/)queue\.py"),
    ("child", r"communicate|_communicate|wait|_wait|_try_wait", r"(?:^|/)subprocess\.py"),
    ("child", r"poll|wait", r"multiprocessing/popen_\w{1,12}\.py"),
    ("join", r"_wait_for_tstate_lock|join", r"(?:^|/)threading\.py"),
    ("join", r"join", r"multiprocessing/process\.py"),
    (
        "lock",
        r"acquire|__enter__|wait|wait_for",
        r"(?:^|/)threading\.py|multiprocessing/synchronize\.py|filelock/.{0,40}\.py",
    ),
    ("lock", r"result|wait|exception", r"concurrent/futures/_base\.py"),
    ("sleep", r"sleep", r"asyncio/\w{1,20}\.py"),
)
# Frames of `py-spy dump --native`, innermost first; the names are those of CANN, torch_npu and CPython.
_NATIVE_RULES = (
    ("graph_update", re.compile(r"(?:aclmdlRICaptureTaskUpdate|AclmdlRICaptureTaskUpdate|graph_task_update)")),
    ("capture_begin", re.compile(r"NPUGraph::capture_begin")),
    ("replay", re.compile(r"NPUGraph::replay|mdlRIExecute")),
    (
        "device_sync",
        re.compile(
            r"npuSynchronizeDevice|NPUStream::synchronize|rtStreamSynchronize|rtDeviceSynchronize"
            r"|aclrtSynchronize|NPUEvent::synchronize|local_scalar_dense_npu|ProcessGroupHCCL.{0,60}ynchronize"
        ),
    ),
    ("rendezvous", re.compile(r"HcclCommInitRootInfo|HcclCommInitClusterInfoConfig|HcclGetRootInfo|TCPStore::wait")),
    (
        "collective",
        re.compile(
            r"\bHccl(?:AllReduce|AllGather|ReduceScatter|Broadcast|AlltoAll|Send|Recv|Barrier)"
            r"|ProcessGroup\w{1,10}::(?:Work\w{0,10}|barrier|wait)|gloo::"
        ),
    ),
    ("lock", re.compile(r"PyThread_acquire_lock|lock_PyThread_acquire|rlock_acquire|acquire_timed")),
)
# How far from the innermost frame the waiting call may stand: past wrappers, not past the model's own code.
_DEPTH = 6
_NATIVE_DEPTH = 40
# What a source line says about a call in C that has no Python frame of its own.
_LINE_RULES = (
    ("device_sync", re.compile(r"\.(?:item|tolist|cpu|numpy|nonzero|synchronize)\(|\.to\(.{0,40}cpu|\bprint\(")),
    # `with name:` without a call is a lock's own __enter__, which has no Python frame.
    (
        "lock",
        re.compile(
            r"\.acquire\(|^with [\w.\[\]'\"]{1,80}(?: as \w{1,40})?:|\bwith .{0,80}(?:lock|mutex|cond|semaphore)",
            re.IGNORECASE,
        ),
    ),
    ("join", re.compile(r"\.join\(\s{0,4}(?:timeout|\))")),
    ("collective", re.compile(r"\bdist\.\w{1,40}\(|\ball_(?:reduce|gather)\w{0,30}\(|\bbarrier\(|\bwork\.wait\(")),
    ("sleep", re.compile(r"\bsleep\(")),
    ("idle", re.compile(r"\.(?:get|recv|recv_multipart|accept|poll|select|readline)\(")),
)
# Work that is not waiting: a hang report is often a slow start.
_BUSY = (
    ("compile", re.compile(r"torch/_(?:inductor|dynamo|functorch)/|torchair/|npugraph_ex/|/triton/|_inductor/|tvm/")),
    ("load", re.compile(r"safetensors|weight_utils\.py|model_loader|loader\.py")),
)
# What a rank was doing, from any frame: two ranks of one step must agree. The later rows win over the earlier.
_MODES = (
    ("prefill", re.compile(r"forward_extend|run_prefill|\bprefill\b|_forward_prefill")),
    ("decode", re.compile(r"forward_decode|run_decode|_forward_decode")),
    ("step", re.compile(r"execute_model|forward_step|training_step|train_step|forward_batch_generation|decode_step")),
    ("dummy", re.compile(r"_?dummy_run|execute_dummy_batch|forward_idle|get_idle_batch|run_dummy\w{0,10}")),
    ("warm-up", re.compile(r"profile_run|warming_up_model|compile_or_warm_up_model|warm_?up\w{0,20}")),
    (
        "capturing",
        re.compile(r"_?capture_model|_?capture_(?:cuda|acl|npu)?graphs?|capture_one_batch_size|capture_begin"),
    ),
)
_GRAPH_CALL = re.compile(
    r"acl_?graph(?:_\w{1,20})?\.py|npu_graph_runner\.py|cuda_graph_runner\.py|_graph_tree\.py|graphs\.py"
)
# Files that are not the user's: of the interpreter, of torch, of torch_npu.
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch|torch_npu|threading|queue|selectors|socket|subprocess|asyncio|multiprocessing|concurrent|contextlib"
    r"|zmq|uvloop|runpy|importlib|_bootstrap|filelock)(?:/|\.py)|^<|site-packages/torch"
)
# Threads that sleep between two looks at something: waiting is all they do.
_BACKGROUND = re.compile(
    r"tqdm/|prometheus|_?monitor|watchdog|heartbeat|tensorboard|usage_lib|opentelemetry|apscheduler"
)
# Most telling first: the thread that shows this is the one to report.
_RANKING = ("graph_update", "capture_begin", "capture_end", "replay", "device_sync", "collective", "rendezvous",
            "lock", "join", "compile", "load", "child", "running", "sleep", "idle", "blocked")  # fmt: skip
DEVICE_KINDS = ("device_sync", "replay", "collective", "capture_end")


class Waiting(NamedTuple):
    """Where one thread stands. `at` is the frame that waits, `user` the nearest frame outside libraries."""

    kind: str
    at: Frame | None
    user: Frame | None
    thread: Thread
    source_line: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.at}" if self.at else self.kind


class Standing(NamedTuple):
    """Where a process stands: the thread that matters, and what it was doing."""

    process: Process
    waiting: Waiting
    threads: list[Waiting]
    mode: str
    in_graph: bool


def read_standing(process: Process, sources: SourceLines) -> Standing:
    """Find the wait that explains the process: the main thread's, unless another stands in a device call."""
    waits = [read_wait(thread, sources) for thread in process.threads if thread.frames]
    main = next((wait for wait in waits if wait.thread.name == "MainThread"), None)
    if main is None:  # faulthandler names no thread; the main one has the module at its outer end
        main = next(
            (w for w in waits if w.thread.frames[-1].function in ("<module>", "_run_module_as_main")), waits[-1]
        )
    chosen = main
    if main.kind in ("idle", "join", "lock", "sleep", "blocked", "child"):
        better = [w for w in waits if _RANKING.index(w.kind) < _RANKING.index("lock")]
        chosen = min(better, key=lambda w: _RANKING.index(w.kind)) if better else main
    names = " ".join(f"{frame.name} {frame.file}" for frame in chosen.thread.python_frames)
    mode = next((name for name, expression in reversed(_MODES) if expression.search(names)), "")
    in_graph = any(_GRAPH_CALL.search(frame.file) for frame in chosen.thread.python_frames)
    return Standing(process, chosen, waits, mode, in_graph)


def read_wait(thread: Thread, sources: SourceLines) -> Waiting:
    """Return what a thread waits for."""
    frames = thread.python_frames
    user = next((frame for frame in frames if not _LIBRARY.search(frame.file)), None)
    leaf = frames[0] if frames else thread.frames[0]
    line = sources.text_of(leaf) if frames else ""
    if thread.name != "MainThread" and user is not None and _BACKGROUND.search(f"{user.file} {thread.name}".lower()):
        return Waiting("idle", leaf, user, thread, line)
    for rule in _RULES:
        for frame in frames[:_DEPTH]:
            if rule.function.match(frame.name) and rule.file.search(frame.file.replace("\\", "/")):
                return Waiting(rule.kind, frame, user, thread, line)
    for native in thread.frames[:_NATIVE_DEPTH]:
        if not native.native:
            break
        for kind, expression in _NATIVE_RULES:
            if expression.search(native.function):
                return Waiting(kind, leaf, user, thread, line)
    for kind, expression in _LINE_RULES:
        if line and expression.search(line):
            return Waiting(kind, leaf, user, thread, line)
    names = " ".join(frame.file for frame in frames[:40])
    for kind, expression in _BUSY:
        if expression.search(names):
            return Waiting(kind, leaf, user, thread, line)
    return Waiting("running" if thread.state.startswith("active") else "blocked", leaf, user, thread, line)


def fold(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the stack as a key without line numbers; loops that poll stand at another line each time."""
    return tuple(f"{frame.function} ({_short(frame.file)})" for frame in frames if not frame.native)


def _short(file: str) -> str:
    """Two nodes may have the package under different roots: keep the last three parts."""
    return "/".join(file.replace("\\", "/").split("/")[-3:])

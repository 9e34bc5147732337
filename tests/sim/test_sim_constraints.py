"""Every documented constraint of capture: a script that breaks it, and the twin that keeps it.

The texts expected here are those that torch_npu 2.13.0 prints, with the code that the runtime source gives.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from sim_harness import Script

pytestmark = [pytest.mark.sim]


class Constraint(NamedTuple):
    """`broken` must end with an error that contains each of `texts`; `kept` must succeed."""

    name: str
    source: str
    broken: Script
    texts: tuple[str, ...]
    kept: Script


def constraint(
    name: str, source: str, broken: str, texts: str | tuple[str, ...], kept: str, *options: str, **env: str
) -> Constraint:
    wanted = (texts,) if isinstance(texts, str) else texts
    return Constraint(name, source, Script(broken, options, tuple(env.items())), wanted, Script(kept, options))


DEV = "hicann/runtime docs/zh/dev_guide/04-01_single_stream_capture.md"
CROSS = "hicann/runtime docs/zh/dev_guide/04-02_cross_stream_capture.md"
UPDATE = "hicann/runtime docs/zh/dev_guide/04-03_task_update.md"
NPUGRAPH = "Ascend/pytorch docs/zh/developer_notes/npugraph.md"
GROUP = """
g = torch_npu.npu.NPUGraph()
with torch_npu.npu.graph(g):
    s = torch.npu.current_stream()
    y = x * 2
    torch_npu.npu.graph_task_group_begin(s); z = y + 1; handle = torch_npu.npu.graph_task_group_end(s)
    w = z * 10
update = torch.npu.Stream()
"""

CONSTRAINTS = [
    constraint(
        "the default stream cannot be captured",
        DEV,
        "torch_npu.npu.NPUGraph().capture_begin()",
        "NPU graphs must be captured on a non-default stream",
        """
s = torch.npu.Stream()
g = torch_npu.npu.NPUGraph()
with torch.npu.stream(s):
    g.capture_begin(); y = x + 1; g.capture_end()
g.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "item() inside a capture",
        DEV,
        "capture(lambda: x.sum().item())",
        (
            "LocalScalarDenseNpu.cpp:24",
            "AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 107027",
            "ERR00100",
        ),
        """
g, y = capture(lambda: x.sum())
g.replay(); assert y.item() == 4
""",
    ),
    constraint(
        "stream synchronisation inside a capture",
        DEV,
        "capture(lambda: torch.npu.current_stream().synchronize())",
        "error code is 107027",
        """
g, _ = capture(lambda: x + 1)
g.replay(); torch.npu.current_stream().synchronize()
""",
    ),
    constraint(
        "stream query inside a capture",
        DEV,
        "capture(lambda: torch.npu.current_stream().query())",
        "acl::AclrtStreamQuery(stream(), &status), error code is 107027",
        """
g, _ = capture(lambda: x + 1)
g.replay(); assert torch.npu.current_stream().query()
""",
    ),
    constraint(
        "device synchronisation inside a capture",
        DEV,
        "capture(lambda: torch.npu.synchronize())",
        "AclrtSynchronizeDeviceWithTimeout, error code is 107027",
        """
g, _ = capture(lambda: x + 1)
g.replay(); torch.npu.synchronize()
""",
    ),
    constraint(
        "event synchronisation inside a capture",
        DEV,
        """
e = torch.npu.Event()
capture(lambda: (e.record(), e.synchronize()))
""",
        "aclrtSynchronizeEvent(event_), error code is 107028",
        """
e = torch.npu.Event()
g, _ = capture(lambda: x + 1)
g.replay(); e.record(); e.synchronize()
""",
    ),
    constraint(
        "event query inside a capture",
        DEV,
        """
e = torch.npu.Event()
capture(lambda: (e.record(), e.query()))
""",
        "107028",
        """
e = torch.npu.Event()
e.record(); torch.npu.synchronize(); assert e.query()
""",
        # With the task queue, NPUEvent::query answers False without asking CANN until the record has left the queue.
        TASK_QUEUE_ENABLE="0",
    ),
    constraint(
        "a synchronous copy inside a capture",
        DEV,
        """
h = torch.ones(4)
capture(lambda: x.copy_(h))
""",
        ("CopyKernelOpApi.cpp:89", "aclrtMemcpy, error code is 107030"),
        """
h = torch.full((4,), 7.0).pin_memory()
g, _ = capture(lambda: x.copy_(h, non_blocking=True))
g.replay(); same(x, [7.0] * 4)
""",
    ),
    constraint(
        "a new tensor from a Python list inside a capture",
        DEV,
        "capture(lambda: torch.tensor([1.0, 2.0], device='npu'))",
        "107030",
        """
t = torch.tensor([1.0, 2.0], device='npu')
g, y = capture(lambda: t * 2)
g.replay(); same(y, [2.0, 4.0])
""",
    ),
    constraint(
        "an asynchronous copy of pageable memory inside a capture",
        DEV,
        """
h = torch.ones(4)
capture(lambda: x.copy_(h, non_blocking=True))
""",
        (
            "the current copy params are srclen=16, dstlen=16, kind=1",
            "pageable memory copy task does not support graph capture",
        ),
        """
h = torch.ones(4).pin_memory()
g, _ = capture(lambda: x.copy_(h, non_blocking=True))
g.replay()
""",
    ),
    constraint(
        "a forked stream that does not come back",
        CROSS,
        """
s = torch.npu.Stream()
def body():
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): return x + 1
capture(body)
""",
        ("NPUGraph.cpp:371", "endCaptureErr, error code is 107025"),
        """
s = torch.npu.Stream()
def body():
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): y = x + 1
    torch.npu.current_stream().wait_stream(s)
    return y
g, y = capture(body)
g.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "work on a forked stream after it came back",
        CROSS,
        """
s = torch.npu.Stream()
def body():
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): y = x + 1
    torch.npu.current_stream().wait_stream(s)
    with torch.npu.stream(s): y.add_(1)
capture(body)
""",
        "107025",
        """
s = torch.npu.Stream()
def body():
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): y = (x + 1).add_(1)
    torch.npu.current_stream().wait_stream(s)
    return y
g, y = capture(body)
g.replay(); same(y, [3.0] * 4)
""",
    ),
    constraint(
        "a wait for an event recorded outside the capture",
        CROSS,
        """
e = torch.npu.Event(); e.record()
capture(lambda: torch.npu.current_stream().wait_event(e))
""",
        "107024",
        """
e = torch.npu.Event(); e.record()
torch.npu.current_stream().wait_event(e)
g, y = capture(lambda: x + 1)
g.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "an event that links two captures",
        "hicann/runtime src/runtime/feature/aclgraph/v100/api_impl_capture_event.cc CaptureEventWait",
        """
a, b, e = torch.npu.Stream(), torch.npu.Stream(), torch.npu.Event()
g, h = torch_npu.npu.NPUGraph(), torch_npu.npu.NPUGraph()
with torch.npu.stream(a): g.capture_begin(); e.record()
with torch.npu.stream(b): h.capture_begin(); b.wait_event(e)
""",
        "107032",
        """
a, b = torch.npu.Stream(), torch.npu.Stream()
g, h = torch_npu.npu.NPUGraph(), torch_npu.npu.NPUGraph()
for s, k in ((a, g), (b, h)):
    with torch.npu.stream(s): k.capture_begin(); y = x + 1; k.capture_end()
h.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "end of a capture on another thread",
        CROSS,
        """
import threading
s, g, seen = torch.npu.Stream(), torch_npu.npu.NPUGraph(), []
with torch.npu.stream(s): g.capture_begin()
def end():
    torch.npu.set_device(0)
    try:
        with torch.npu.stream(s): g.capture_end()
    except Exception as error: seen.append(error)
t = threading.Thread(target=end); t.start(); t.join()
raise seen[0]
""",
        "107038",
        """
import threading
s, g, seen = torch.npu.Stream(), torch_npu.npu.NPUGraph(), []
with torch.npu.stream(s): g.capture_begin(capture_error_mode="relaxed"); y = x + 1
def end():
    torch.npu.set_device(0)
    with torch.npu.stream(s): g.capture_end()
t = threading.Thread(target=end); t.start(); t.join()
g.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "a capture inside a capture of the same stream",
        "hicann/runtime src/runtime/feature/aclgraph/context_aclgraph.cc StreamBeginCapture",
        """
h = torch_npu.npu.NPUGraph()
capture(lambda: h.capture_begin())
""",
        ("NPUGraph.cpp:318", "AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 107027"),
        """
g, _ = capture(lambda: x + 1)
h, y = capture(lambda: x + 2)
h.replay(); same(y, [3.0] * 4)
""",
    ),
    constraint(
        "a replay inside a capture",
        "hicann/runtime src/runtime/api/impl/api_error.cc ModelExecuteAsync",
        """
g, _ = capture(lambda: x + 1)
capture(lambda: g.replay())
""",
        "AclmdlRIExecuteAsync(model_ri_, stream), error code is 107027",
        """
g, y = capture(lambda: x + 1)
g.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "too many graphs for the driver's streams",
        UPDATE,
        "graphs = [capture(lambda: x + 1)[0] for _ in range(200)]",
        (
            "AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 207008",
            "EL0009",
            "stream resources are insufficient",
        ),
        """
for _ in range(200):
    g, y = capture(lambda: x + 1)
    g.replay(); g.reset()
""",
        "--streams",
        "120",
    ),
    constraint(
        "too many graphs for the driver's queues",
        "vllm-ascend #9691",
        "graphs = [capture(lambda: x + 1)[0] for _ in range(200)]",
        ("AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 207005", "resource alloc fail"),
        """
for _ in range(200):
    g, y = capture(lambda: x + 1)
    g.replay(); g.reset()
""",
        "--queues",
        "120",
    ),
    constraint(
        "a task group outside a capture",
        UPDATE,
        "torch_npu.npu.graph_task_group_begin(torch.npu.Stream())",
        "107029",
        GROUP + "g.replay(); same(w, [30.0] * 4)",
    ),
    constraint(
        "a task group that is not closed",
        "hicann/runtime src/runtime/feature/aclgraph/context_aclgraph.cc CheckCaptureModelValidity",
        "capture(lambda: torch_npu.npu.graph_task_group_begin(torch.npu.current_stream()))",
        "107033",
        GROUP + "g.replay()",
    ),
    constraint(
        "a copy inside a task group",
        "hicann/runtime src/runtime/core/src/stream/stream.cc PackingTaskGroup",
        """
h = torch.ones(4).pin_memory()
def body():
    s = torch.npu.current_stream()
    torch_npu.npu.graph_task_group_begin(s); x.copy_(h, non_blocking=True); torch_npu.npu.graph_task_group_end(s)
capture(body)
""",
        "507009",
        GROUP + "g.replay()",
    ),
    constraint(
        "another captured stream submits into an open task group",
        UPDATE,
        """
s = torch.npu.Stream()
def body():
    s.wait_stream(torch.npu.current_stream())
    torch_npu.npu.graph_task_group_begin(torch.npu.current_stream())
    with torch.npu.stream(s): y = x + 1
    torch.npu.current_stream().synchronize()
capture(body)
""",
        "107034",
        GROUP + "g.replay()",
        TASK_QUEUE_ENABLE="0",
    ),
    constraint(
        "an update on a capturing stream",
        UPDATE,
        GROUP + "capture(lambda: torch_npu.npu.graph_task_update_begin(torch.npu.current_stream(), handle))",
        "107027",
        GROUP
        + """
with torch.npu.stream(update):
    torch_npu.npu.graph_task_update_begin(update, handle)
    torch.add(y, 5, out=z)
    torch_npu.npu.graph_task_update_end(update)
g.replay(); same(w, [70.0] * 4)
""",
    ),
    constraint(
        "an update that leaves tasks out",
        UPDATE,
        GROUP + "torch_npu.npu.graph_task_update_begin(update, handle); torch_npu.npu.graph_task_update_end(update)",
        "507000",
        GROUP
        + """
with torch.npu.stream(update):
    torch_npu.npu.graph_task_update_begin(update, handle)
    torch.add(y, 2, out=z)
    torch_npu.npu.graph_task_update_end(update)
g.replay(); same(w, [40.0] * 4)
""",
    ),
    constraint(
        "an update with more tasks than the group",
        UPDATE,
        GROUP
        + """
with torch.npu.stream(update):
    torch_npu.npu.graph_task_update_begin(update, handle); torch.add(y, 2, out=z); torch.add(y, 3, out=z)
""",
        "507000",
        GROUP + "g.replay()",
        TASK_QUEUE_ENABLE="0",
    ),
    constraint(
        "two streams that update one group",
        UPDATE,
        GROUP
        + """
begin = torch_npu.npu.graph_task_update_begin
begin(update, handle); begin(torch.npu.Stream(), handle)
""",
        "107033",
        GROUP + "g.replay()",
    ),
    constraint(
        "an external event that nobody records",
        UPDATE,
        """
e = torch.npu.ExternalEvent()
g, _ = capture(lambda: (e.wait(torch.npu.current_stream()), e.reset(torch.npu.current_stream()), x.add_(1)))
g.replay(); torch.npu.synchronize()
""",
        "507046",
        """
e = torch.npu.ExternalEvent()
g, _ = capture(lambda: (e.wait(torch.npu.current_stream()), e.reset(torch.npu.current_stream()), x.add_(1)))
g.replay(); e.record(torch.npu.Stream()); torch.npu.synchronize(); same(x, [2.0] * 4)
""",
        "--wait-limit",
        "1",
    ),
    constraint(
        "memory that a graph uses is freed",
        DEV,
        """
y = torch.ones(1 << 20, device='npu')
g, _ = capture(lambda: y.add_(1))
del y, _; torch.npu.synchronize(); torch.npu.empty_cache()
g.replay(); torch.npu.synchronize()
""",
        "507035",
        """
y = torch.ones(1 << 20, device='npu')
g, _ = capture(lambda: y.add_(1))
torch.npu.empty_cache()
g.replay(); torch.npu.synchronize(); assert y[0].item() == 2
""",
    ),
    constraint(
        "an operator without an aclnn function",
        NPUGRAPH,
        "capture(lambda: torch.trace(x.reshape(2, 2)))",
        "Cannot run aclop operators during NPU graph capture. Current working aclop is Trace",
        """
g, y = capture(lambda: x * 2)
g.replay(); same(y, [2.0] * 4)
""",
    ),
    constraint(
        "a size that depends on data",
        NPUGRAPH,
        "capture(lambda: torch.nonzero(x))",
        "107027",
        """
g, y = capture(lambda: torch.where(x > 0, x, x * 0))
g.replay(); same(y, [1.0] * 4)
""",
    ),
    constraint(
        "TASK_QUEUE_ENABLE=2",
        NPUGRAPH,
        "capture(lambda: x + 1)",
        ("Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture", "ERR00007"),
        """
g, y = capture(lambda: x + 1)
g.replay(); same(y, [2.0] * 4)
""",
        TASK_QUEUE_ENABLE="2",
    ),
    constraint(
        "pinned memory in expandable segments",
        "Ascend/pytorch master torch_npu/csrc/core/npu/NPUGraph.cpp capture_begin",
        "capture(lambda: x + 1)",
        "ACLGraph capture is not supported when pin_memory_expandable_segments=True",
        """
g, y = capture(lambda: x + 1)
g.replay()
""",
        PYTORCH_NPU_ALLOC_CONF="pin_memory_expandable_segments:True",
    ),
    constraint(
        "a new seed inside a capture",
        "Ascend/pytorch master torch_npu/csrc/aten NPUGeneratorImpl.cpp set_current_seed",
        "capture(lambda: torch.npu.manual_seed(1))",
        "can be called during stream capture only if new seed is the same",
        """
torch.npu.manual_seed(1)
g, y = capture(lambda: torch.rand(4, device='npu'))
g.replay(); a = y.cpu(); g.replay(); assert not torch.equal(a, y.cpu())
""",
    ),
    constraint(
        "a graph object used twice",
        NPUGRAPH,
        """
g, _ = capture(lambda: x + 1)
with torch_npu.npu.graph(g): x + 2
""",
        "already owns a captured graph",
        """
g, _ = capture(lambda: x + 1)
g.reset()
with torch_npu.npu.graph(g): y = x + 2
g.replay(); same(y, [3.0] * 4)
""",
    ),
    constraint(
        "a replay without a capture",
        NPUGRAPH,
        "torch_npu.npu.NPUGraph().replay()",
        "Called NPUGraph::replay without a preceding successful capture",
        """
g, y = capture(lambda: x + 1)
g.replay()
""",
    ),
    constraint(
        "a random number in the branch of a conditional node",
        "Ascend/pytorch master torch_npu/csrc/core/npu/NPUGraph.cpp begin_capture_to_if_node",
        """
p = torch.ones((), dtype=torch.bool, device='npu')
g = torch_npu.npu.NPUGraph()
with torch_npu.npu.graph(g):
    g.begin_capture_to_if_node(p); torch.rand(4, device='npu'); g.end_capture_to_conditional_node()
""",
        "RNG within data-dependent conditional nodes is not supported",
        """
p = torch.ones((), dtype=torch.bool, device='npu')
g = torch_npu.npu.NPUGraph()
with torch_npu.npu.graph(g):
    y = x * 2; g.begin_capture_to_if_node(p); y.add_(100); g.end_capture_to_conditional_node(); z = y + 1
g.replay(); same(z, [103.0] * 4)
p.fill_(False); g.replay(); same(z, [3.0] * 4)
""",
    ),
    constraint(
        "a new input tensor instead of a copy into the captured one",
        NPUGRAPH,
        """
g, y = capture(lambda: x * 5)
x = torch.full((4,), 7.0, device='npu')
g.replay(); same(y, [35.0] * 4)
""",
        "[5.0, 5.0, 5.0, 5.0], expected [35.0, 35.0, 35.0, 35.0]",
        """
g, y = capture(lambda: x * 5)
x.copy_(torch.full((4,), 7.0))
g.replay(); same(y, [35.0] * 4)
""",
    ),
    constraint(
        "a Python branch is frozen at capture",
        NPUGRAPH,
        """
flag = True
g, y = capture(lambda: x + 1 if flag else x - 1)
flag = False
g.replay(); same(y, [0.0] * 4)
""",
        "[2.0, 2.0, 2.0, 2.0], expected [0.0, 0.0, 0.0, 0.0]",
        """
plus, y = capture(lambda: x + 1)
minus, z = capture(lambda: x - 1)
flag = False
(plus if flag else minus).replay(); same(z, [0.0] * 4)
""",
    ),
    constraint(
        "a result read before the side stream has finished",
        "torch.npu.Stream",
        """
s = torch.npu.Stream(); torch.npu.synchronize()
with torch.npu.stream(s): y = x * 2
same(y + 1, [3.0] * 4)
""",
        "-431602080.0",
        """
s = torch.npu.Stream(); torch.npu.synchronize()
with torch.npu.stream(s): y = x * 2
torch.npu.current_stream().wait_stream(s); same(y + 1, [3.0] * 4)
""",
        "--defer",
    ),
    constraint(
        "a missing wait between two streams of one graph",
        CROSS,
        """
s = torch.npu.Stream(); torch.npu.synchronize()
def body():
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): y = x * 2
    z = y + 1
    torch.npu.current_stream().wait_stream(s)
    return z
g, z = capture(body)
g.replay(); torch.npu.synchronize(); same(z, [3.0] * 4)
""",
        "-431602080.0",
        """
s = torch.npu.Stream(); torch.npu.synchronize()
def body():
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): y = x * 2
    torch.npu.current_stream().wait_stream(s)
    return y + 1
g, z = capture(body)
g.replay(); torch.npu.synchronize(); same(z, [3.0] * 4)
""",
        "--defer",
    ),
]


@pytest.mark.parametrize("case", CONSTRAINTS, ids=lambda c: c.name.replace(" ", "_"))
def test_a_broken_constraint_fails_and_its_twin_succeeds(simulator, case: Constraint) -> None:
    broken = simulator.run(case.broken)
    assert broken.code == 1, f"nothing failed: {broken.text[-1500:]}"
    for text in case.texts:
        assert text in broken.err, broken.err[-3000:]
    kept = simulator.run(case.kept)
    assert kept.code == 0, kept.err[-3000:]

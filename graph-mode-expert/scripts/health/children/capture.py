"""Probe: capture a small graph on a side stream, replay it with changed inputs, compare with eager, update it."""

import gc
import json
import os
import sys
import traceback

sys.path.pop(0)  # the folder of this script; its names must not hide a package
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

SIZE = 16
# A replay runs the same kernels as eager does; half precision paths of matmul leave differences far below this.
TOLERANCE = 1e-2
REPLAYS = 3


def stage(name):
    print("@@STAGE " + name, flush=True)


def tell(result):
    """Say what is known so far: the last thing said counts, also when the process dies after it."""
    print("@@RESULT " + json.dumps(result), flush=True)


def describe(error):
    return {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}


def make_inputs(torch, device):
    """Return weights and inputs whose results differ between replays by far more than the tolerance."""
    base = torch.arange(SIZE * SIZE, dtype=torch.float32).reshape(SIZE, SIZE) / (SIZE * SIZE)
    weight = (torch.eye(SIZE) * 2.0 + 0.25).to(device)
    inputs = [(base + 1.5 * at).to(device) for at in range(REPLAYS + 1)]
    return weight, inputs


def compute(torch, x, weight):
    return torch.relu(torch.matmul(x, weight) + 1.0) * 0.5


def capture_and_replay(torch, device, result):
    weight, inputs = make_inputs(torch, device)
    static_input = inputs[0].clone()
    side = torch.npu.Stream(device=device)
    stage("warm up on a side stream")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        for _ in range(2):
            compute(torch, static_input, weight)
    torch.npu.current_stream().wait_stream(side)
    torch.npu.synchronize()

    # Capturing empties the cache first; so does this, that the difference is the pool of the graph.
    torch.npu.empty_cache()
    reserved = torch.npu.memory_reserved(device)
    graph = torch.npu.NPUGraph()
    pool = torch.npu.graph_pool_handle()
    stage("capture")
    with torch.npu.graph(graph, pool=pool, stream=side):
        result["capturing"] = bool(torch.npu.is_current_stream_capturing())
        output = compute(torch, static_input, weight)
    result["graph_bytes"] = int(torch.npu.memory_reserved(device) - reserved)
    result["captured"] = True
    tell(result)

    previous = None
    result["replays"] = []
    for at in range(1, REPLAYS + 1):
        stage(f"replay {at}")
        static_input.copy_(inputs[at])
        graph.replay()
        torch.npu.synchronize()
        got = output.cpu()
        want = compute(torch, inputs[at], weight).cpu()
        result["replays"].append(
            {
                "difference": float((got - want).abs().max()),
                "stale": previous is not None and bool(torch.equal(got, previous)),
                "close": bool(torch.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE)),
            }
        )
        previous = got
        tell(result)
    stage("release the graph")
    graph.reset()
    result["released"] = True
    tell(result)


def update_parameter(torch, device, result):
    """Capture x * 2 as a task group, then update the scalar: the replay must show the new one."""
    npu = torch.npu
    side, update_stream = npu.Stream(device=device), npu.Stream(device=device)
    source = torch.ones(SIZE, device=device)
    target = torch.zeros(SIZE, device=device)
    with npu.stream(side):
        torch.mul(source, 2.0, out=target)
    npu.synchronize()
    graph = npu.NPUGraph()
    stage("capture a task group")
    with npu.graph(graph, stream=side):
        stream = npu.current_stream()
        npu.graph_task_group_begin(stream)
        torch.mul(source, 2.0, out=target)
        handle = npu.graph_task_group_end(stream)
    graph.replay()
    npu.synchronize()
    before = float(target.cpu()[0])
    stage("update the task group")
    with npu.stream(update_stream):
        npu.graph_task_update_begin(update_stream, handle)
        torch.mul(source, 5.0, out=target)
        npu.graph_task_update_end(update_stream)
    npu.synchronize()
    graph.replay()
    npu.synchronize()
    result["update"] = {"before": before, "after": float(target.cpu()[0])}
    stage("release the updated graph")
    graph.reset()


def examine(wanted):
    result = {}
    try:
        import torch
        import torch_npu  # noqa: F401

        device = torch.device("npu", wanted)
        stage("open the device")
        torch.npu.set_device(device)
        capture_and_replay(torch, device, result)
        if hasattr(torch.npu, "graph_task_update_begin"):
            try:
                update_parameter(torch, device, result)
            except Exception as error:
                result["update_error"] = describe(error)
        gc.collect()
    except BaseException as error:
        result["error"] = describe(error)
    return result


tell(examine(int(sys.argv[1])))
# Libraries of a half-initialised accelerator may crash at exit; the answer is out, so leave without them.
sys.stdout.flush()
os._exit(0)

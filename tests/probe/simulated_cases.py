"""Probe and then really capture functions on the simulator; prints one JSON line a function. Arguments: their names."""

import json
import sys
from pathlib import Path

import torch
import torch_npu

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "graph-mode-diagnostics" / "scripts"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from capture_probe.record import probe_target

from npu_graph.user_callables import Target

torch.npu.set_device(0)
weight = torch.ones(4, 4).npu()
static = torch.zeros(4, 4).npu()
side = torch.npu.Stream()


def make_inputs(seed):
    return (torch.full((4, 4), float(seed + 1)).npu(),)


def clean_matmul(x):
    return torch.relu(weight @ x) * 2


def clean_where(x):
    return torch.where(x > 0, x, -x)


def clean_state(x):
    static.copy_(x)
    return static + 1


def clean_side_stream(x):
    main = torch.npu.current_stream()
    side.wait_stream(main)
    with torch.npu.stream(side):
        y = x * 2
    main.wait_stream(side)
    return x + y


def faulty_item(x):
    return x * x.sum().item()


def faulty_branch(x):
    return x * 2 if (x > 0).all() else x


def faulty_cpu(x):
    return x.cpu()


def faulty_tensor(x):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0], device="npu")


def faulty_nonzero(x):
    return torch.nonzero(x)


def faulty_synchronize(x):
    y = x * 2
    torch.npu.synchronize()
    return y


def faulty_open_stream(x):
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x * 2
    return x + 1


def private_format(x):
    if not torch.npu.is_current_stream_capturing():  # the simulator has no aclop path in eager mode
        return x @ x
    return torch_npu.npu_format_cast(x, 29) @ x


def captures(call):
    """Say whether the function can be captured and replayed."""
    (static_input,) = make_inputs(0)
    call(static_input)
    torch.npu.synchronize()
    graph = torch_npu.npu.NPUGraph()
    try:
        with torch_npu.npu.graph(graph):
            call(static_input)
        graph.replay()
        torch.npu.synchronize()
    except Exception as error:
        return str(error).splitlines()[0][:200]
    return ""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        target = Target(globals()[name], make_inputs, name)
        record = probe_target(target, "npu", [0, 1], try_capture=name == "private_format")
        found = [(item["rule"], item["where"] and item["where"]["code"]) for item in record["findings"]]
        print(
            "RESULT "
            + json.dumps(
                {"name": name, "verdict": record["verdict"], "found": found, "error": captures(globals()[name])}
            ),
            flush=True,
        )

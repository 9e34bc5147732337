"""Functions and factories for compare_modes.py on the simulator: real NPUGraph captures, one fault each."""

import torch
import torch_npu

torch.npu.set_device(0)
torch.manual_seed(0)
model = torch.nn.Linear(8, 8).requires_grad_(False).npu()
first_weight = model.weight.detach().clone()


class Gate(torch.nn.Module):
    """Rounds to half precision in a graph only, in place on what the layer before gave."""

    def forward(self, x):
        if torch.compiler.is_compiling() or torch.npu.is_current_stream_capturing():
            x.copy_(x.half().float())
        return x


torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(8, 8), Gate(), torch.nn.Linear(8, 8)).requires_grad_(False).npu()


def make_inputs(step):
    return (torch.randn(5, 8, generator=torch.Generator().manual_seed(step)).npu(),)


def good(x):
    return torch.relu(model(x)) + 1


def make_lengths(step):
    return (*make_inputs(step), float(step + 2))


def host_number(x, length):
    return torch.relu(model(x)) / length


def reset():
    model.weight.data.copy_(first_weight)


def reload_at_a_new_address():
    model.weight = torch.nn.Parameter(model.weight.detach().clone() * 2, requires_grad=False)


def _capture(call, args):
    static = args[0].clone()
    call(static)
    torch.npu.synchronize()
    graph = torch_npu.npu.NPUGraph()
    with torch_npu.npu.graph(graph):
        output = call(static)
    return graph, static, output


def input_rebound(call, args, kwargs):
    graph, static, output = _capture(call, args)

    def replay(x):
        # x is bound to another tensor than the one of the capture, which the graph goes on reading
        graph.replay()
        torch.npu.synchronize()
        return output

    return replay


def number_of_the_capture(call, args, kwargs):
    graph, static, output = _capture(lambda x: call(x, args[1]), args)

    def replay(x, length):
        static.copy_(x)
        graph.replay()
        torch.npu.synchronize()
        return output

    return replay


def padded(call, args, kwargs):
    graph, static, output = _capture(call, args)

    def replay(x):
        static[:3].copy_(x[:3])
        graph.replay()
        torch.npu.synchronize()
        return output

    return replay


def unordered(call, args, kwargs):
    """Refills the input on a stream that nothing orders with the replay."""
    graph, static, output = _capture(call, args)
    side = torch.npu.Stream()
    state = {"calls": 0}

    def replay(x):
        state["calls"] += 1
        late = state["calls"] % 3 == 0  # the device decides; every third time the replay is first
        if late:
            graph.replay()
        with torch.npu.stream(side):
            static.copy_(x)
        if not late:
            side.synchronize()
            graph.replay()
        torch.npu.synchronize()
        return output

    return replay


def other_kernel(call, args, kwargs):
    graph, static, output = _capture(lambda x: call(x.half().float()), args)

    def replay(x):
        static.copy_(x)
        graph.replay()
        torch.npu.synchronize()
        return output

    return replay

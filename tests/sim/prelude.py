import torch
import torch_npu

torch.npu.set_device(0)
x = torch.ones(4, device="npu")


def capture(body, **options):
    """Capture body() into a new graph; return the graph and what body returned."""
    graph = torch_npu.npu.NPUGraph()
    with torch_npu.npu.graph(graph, **options):
        result = body()
    return graph, result


def raises(pattern, call):
    """Check that call() raises an error whose text contains the pattern; return the text."""
    try:
        call()
    except Exception as error:
        text = str(error)
        assert pattern in text, f"expected {pattern!r} in: {text}"
        return text
    raise AssertionError(f"nothing was raised; expected {pattern!r}")


def same(tensor, values):
    """Check the values of a tensor."""
    found = tensor.cpu().tolist()
    assert found == values, f"{found}, expected {values}"

"""A captured graph with updatable attention operators, for the scripts that hang on purpose."""

import torch
import torch_npu

torch.npu.set_device(0)
torch.manual_seed(1)
q, k, v = (torch.randn(1, 2, n, 16).half().npu() for n in (1, 8, 8))


def attend(length):
    return torch_npu.npu_fused_infer_attention_score(
        q, k, v, num_heads=2, input_layout="BNSD", scale=0.25, actual_seq_lengths_kv=[length]
    )[0]


def capture(operators):
    """Capture that many attention operators; return the graph."""
    graph = torch_npu.npu.NPUGraph()
    with torch_npu.npu.graph(graph, auto_dispatch_capture=True):
        for _ in range(operators):
            attend(8)
    return graph


def update(graph, entries=1):
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [3]} for _ in range(entries)])

"""One update serves one replay: its event is recorded before the first replay, and the second finds none."""

import torch
from attention_graph import capture, update


def decode_step(graph):
    graph.replay()
    torch.npu.current_stream().synchronize()


graph = capture(1)
update(graph)
decode_step(graph)
print("hung from here", flush=True)
decode_step(graph)

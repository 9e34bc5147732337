"""Replays a graph with an updatable operator, without any update; waits for ever in the synchronize."""

import torch
from attention_graph import capture

graph = capture(1)
print("hung from here", flush=True)
graph.replay()
torch.npu.synchronize()

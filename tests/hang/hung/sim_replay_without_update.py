"""Replays a graph with an updatable operator, without any update; waits for ever in the synchronize."""

from attention_graph import capture

import torch

graph = capture(1)
print("hung from here", flush=True)
graph.replay()
torch.npu.synchronize()

"""Replays a graph whose matrix product never ends; run with --hang aclnnMatmul@2, the launch inside the capture."""

import torch

x = torch.ones(8, 8).npu()
y = x @ x
torch.npu.synchronize()

graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = x @ x


def decode_step():
    graph.replay()
    return y.sum().item()


print("hung from here", flush=True)
decode_step()

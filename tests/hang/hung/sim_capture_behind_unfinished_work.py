"""Enters a capture while earlier work of the device never ends; run with --hang aclnnMatmul@2.

HCCL is not simulated: the matrix product stands in for a collective that a peer does not enter.
"""

import torch

x = torch.ones(8, 8).npu()
y = x @ x
torch.npu.synchronize()
y = x @ x


def capture_model():
    with torch.npu.graph(torch.npu.NPUGraph()):
        return x + 1


print("hung from here", flush=True)
capture_model()

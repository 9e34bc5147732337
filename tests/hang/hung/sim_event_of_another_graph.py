"""A replay waits for an event that only a second graph records, and that graph is replayed later."""

import torch

x = torch.ones(8).npu()
ready = torch.npu.ExternalEvent()
torch.npu.synchronize()

prefill, decode = torch.npu.NPUGraph(), torch.npu.NPUGraph()
with torch.npu.graph(prefill):
    y = x + 1
    ready.record(torch.npu.current_stream())
with torch.npu.graph(decode):
    ready.wait(torch.npu.current_stream())
    z = x * 2


def step():
    decode.replay()
    print(z.sum().item())
    prefill.replay()


print("hung from here", flush=True)
step()

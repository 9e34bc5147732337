"""The update stream waits for an event that the next replay records; with blocking launches the update waits on the host."""

import torch
import torch_npu
from attention_graph import attend, update

graph = torch_npu.npu.NPUGraph()
consumed = torch.npu.ExternalEvent()
with torch_npu.npu.graph(graph, auto_dispatch_capture=True):
    attend(8)
    consumed.record(torch.npu.current_stream())

consumed.wait(graph.graph_dispatch_mode.update_stream)
print("hung from here", flush=True)
update(graph)
graph.replay()
torch.npu.synchronize()

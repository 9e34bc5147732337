"""The replay and the update share a stream: the update is queued behind the wait that it should end."""

import torch
import torch_npu
from attention_graph import capture

graph = capture(1)
graph.graph_dispatch_mode.update_stream = torch.npu.current_stream()
print("hung from here", flush=True)
graph.replay()
graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [3]}])
torch_npu.npu.synchronize()

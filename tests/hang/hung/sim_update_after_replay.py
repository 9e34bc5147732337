"""Replays, then updates, as frameworks do; run with --hang aclmdlRICaptureTaskUpdateEnd, a call that does not return."""

from attention_graph import capture, update

graph = capture(1)
print("hung from here", flush=True)
graph.replay()
update(graph)

"""What both official clients call: arguments for each tool, resources to read with words that they must hold."""

from __future__ import annotations

REPORT = "RuntimeError: Called NPUGraph::replay without a preceding successful capture."
CALLS = {
    "npu_graph_diagnose": {"text": REPORT},
    "npu_graph_lookup_code": {"codes": ["107027"]},
    "npu_graph_search_knowledge": {"query": "side stream not joined"},
    "npu_graph_record_case": {"symptom": REPORT, "stage": "replay", "layer": "L2"},
}
READS = {
    "npu-graph://patterns/P-CAP-001": "P-CAP-001",
    "npu-graph://codes/107027": "capturing stream",
    "npu-graph://references/graph-mode-expert/constraints": "107030",
}
PROMPT_VALUES = "a value of the test"

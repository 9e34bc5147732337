"""What both official clients call: arguments for each tool, resources to read with words that they must hold."""

from __future__ import annotations

from pathlib import Path

REPORT = "RuntimeError: Called NPUGraph::replay without a preceding successful capture."
CALLS = {
    "npu_graph_diagnose": {"text": REPORT},
    "npu_graph_lookup_code": {"codes": ["107027"]},
    "npu_graph_search_knowledge": {"query": "side stream not joined"},
    "npu_graph_locate_source": {"text": "NPU graphs must be captured on a non-default stream", "torch_npu": "2.10.0"},
    "npu_graph_find_fix": {"words": "update_stream deadlock", "projects": ["vllm-ascend==0.18.0"]},
    "npu_graph_lint_capture": {"paths": ["model.py"]},
    "npu_graph_check_health": {"only": "variables", "redact": True},
    "npu_graph_parse_log": {"paths": ["service.log"]},
    "npu_graph_analyze_profile": {"folder": "profile"},
    "npu_graph_capture_budget": {"layers": 24, "mode": "PIECEWISE", "sizes": "1,2,4", "tp": 2},
    "npu_graph_record_case": {"symptom": REPORT, "stage": "replay", "layer": "L2"},
}
READS = {
    "npu-graph://patterns/P-CAP-001": "P-CAP-001",
    "npu-graph://codes/107027": "capturing stream",
    "npu-graph://cases/C-20261130-f95d6702b8": "create_block_mask",
    "npu-graph://references/graph-mode-expert/constraints": "107030",
}
PROMPT_VALUES = "a value of the test"
LOG = (
    "(Worker_TP0 pid=9) INFO 06-10 16:39:40 [model_runner_v1.py:3607] Graph capturing finished in 22 secs, took 0.26 GiB\n"
    f"(Worker_TP0 pid=9) ERROR 06-10 16:39:42 [multiproc_executor.py:962] {REPORT}\n"
)
MODEL = """import torch


def run(x):
    g = torch.npu.NPUGraph()
    with torch.npu.graph(g):
        y = x.npu() * 2
        print(y.sum().item())
"""
KERNELS = (
    "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num\n"
    + "".join(
        f"1,0,{48 if inside else 4294967295},{number},{5 if inside else 2},k{number},MatMul,static,AI_CORE,{1000 + 20 * number}.000,10.000,0.500,8\n"
        for number, inside in enumerate([False] * 5 + [True] * 20)
    )
)


def make_inputs(folder: Path) -> None:
    """Write the files that the calls name into the server's allowed folder."""
    (folder / "service.log").write_text(LOG, encoding="utf-8")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    output = folder / "profile" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output / "kernel_details.csv").write_text(KERNELS, encoding="utf-8")

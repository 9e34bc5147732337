"""Whose sources a file of a stack is, and its path there."""

from __future__ import annotations

from npu_graph.expressions import compile_on_use
from npu_graph.framework_map import own_path

_FRAMEWORKS = {
    "vllm_ascend": "vllm-project/vllm-ascend",
    "vllm": "vllm-project/vllm",
    "sglang": "sgl-project/sglang",
    "xllm": "xLLM-AI/xllm",
}
# npugraph_ex is made from torchair when a wheel is built: no repository has its files.
WHEEL = "torch_npu wheel"
_REPOSITORIES = (
    (compile_on_use(r"torch_npu/dynamo/npugraph_ex/"), WHEEL),
    (compile_on_use(r"torch_npu/(?:csrc/aten/ops|op_plugin)/"), "Ascend/op-plugin"),
    (compile_on_use(r"torch_npu/dynamo/torchair|torchair/"), "Ascend/torchair"),
    (compile_on_use(r"torch_npu/"), "Ascend/pytorch"),
    (compile_on_use(r"(?:^|/)torch/"), "pytorch/pytorch"),
)
_KNOWN_ROOT = compile_on_use(r"(?:torch_npu|torch)/(?:[\w.-]+/)*[\w.-]+$")


def repository_of(file: str) -> str:
    """Return the public repository of an installed file or a frame's path, '' when it is of none that is known."""
    path = path_in_package(file)
    framework = _FRAMEWORKS.get(own_path(path).partition("/")[0])
    return framework or next((name for expression, name in _REPOSITORIES if expression.search(path)), "")


def path_in_package(file: str) -> str:
    """Return the path from the package on: an installation's own folders tell nobody anything."""
    path = file.replace("\\", "/")
    found = _KNOWN_ROOT.search(path.rpartition("-packages/")[2])
    return own_path(file) or (found.group(0) if found else file)

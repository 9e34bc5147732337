"""Places in source code to read on from a failure."""

from __future__ import annotations

import re
from typing import Any, Sequence

from npu_graph.diagnosis.error_lines import CallSite
from npu_graph.diagnosis.first_cause import Failure
from npu_graph.patterns import Pattern

MAX_ANCHORS = 6
_LOST_NAME = "compiler_depend.ts"
# The functions of torch_npu's graph core by which a lost file name is found again
# (Ascend/pytorch v2.12.0 torch_npu/csrc/core/npu/NPUGraph.cpp and torch_npu/csrc/npu/Graph.cpp).
_FILE_OF_FUNCTION = dict.fromkeys(
    (
        "capture_begin",
        "capture_end",
        "replay",
        "reset",
        "pool",
        "graph_task_group_begin",
        "graph_task_group_end",
        "graph_task_update_begin",
        "graph_task_update_end",
    ),
    "torch_npu/csrc/core/npu/NPUGraph.cpp",
)
_REPOSITORIES = (
    (re.compile(r"torch_npu/(?:csrc/aten/ops|op_plugin)/"), "Ascend/op-plugin"),
    (re.compile(r"torch_npu/dynamo/torchair|torchair/"), "Ascend/torchair"),
    (re.compile(r"torch_npu/"), "Ascend/pytorch"),
    (re.compile(r"vllm_ascend/"), "vllm-project/vllm-ascend"),
    (re.compile(r"vllm/"), "vllm-project/vllm"),
    (re.compile(r"sglang/"), "sgl-project/sglang"),
    (re.compile(r"(?:^|/)torch/"), "pytorch/pytorch"),
)
# `Ascend/pytorch@v2.12.0 torch_npu/csrc/core/npu/NPUGraph.cpp NPUGraph::capture_begin`
_SOURCE = re.compile(r"([\w.-]+/[\w.-]+)@(\S+) (\S+\.\w{1,5})(?::(\d+)\S*)?(?: (\S.*))?")
_KNOWN_ROOT = re.compile(r"(?:torch_npu|vllm_ascend|vllm|sglang|torch)/(?:[\w.-]+/)*[\w.-]+$")


def find_anchors(
    primary: Failure | None, sites: Sequence[CallSite], pattern: Pattern | None, version: str | None
) -> list[dict[str, Any]]:
    """Return where to read on: the report's own call sites and frames (exact), then the pattern's sources."""
    anchors: list[dict[str, Any]] = []
    text = primary.text if primary is not None else ""
    for site in sites:
        if not site.code or primary is None or f":{site.file_line} " in text:
            anchors.append(_of_site(site, version))
    for frame in reversed(primary.frames if primary is not None else []):
        repository = _repository(frame.file)
        if repository != "pytorch/pytorch" or not anchors:
            anchors.append(_anchor(repository, _relative(frame.file), frame.function, frame.line, version, True))
    if pattern is not None:
        for source in pattern.sources:
            found = _SOURCE.fullmatch(source)
            if found:
                repository, revision, file, line, function = found.groups()
                anchors.append(_anchor(repository, file, function or "", int(line) if line else None, revision, False))
    distinct = {(item["file"], item["function"], item["line"]): item for item in reversed(anchors)}
    return [item for item in anchors if distinct.get((item["file"], item["function"], item["line"])) is item][
        :MAX_ANCHORS
    ]


def _of_site(site: CallSite, version: str | None) -> dict[str, Any]:
    if site.file.endswith(_LOST_NAME):
        file = _FILE_OF_FUNCTION.get(site.function)
        # The printed line belongs to the real file, so it stays exact once the file is known.
        return _anchor("Ascend/pytorch", file or _LOST_NAME, site.function, site.file_line, version, file is not None)
    file = _relative(site.file.replace("../", ""))
    return _anchor(_repository(file), file, site.function, site.file_line, version, True)


def _anchor(
    repository: str, file: str, function: str, line: int | None, version: str | None, exact: bool
) -> dict[str, Any]:
    return {
        "repo": repository,
        "file": file,
        "function": function,
        "line": line,
        "version": version if repository else None,
        "exact": exact,
    }


def _repository(file: str) -> str:
    return next((name for expression, name in _REPOSITORIES if expression.search(file)), "")


def _relative(file: str) -> str:
    """Return the path from the package on: an installation's own folders tell nobody anything."""
    found = _KNOWN_ROOT.search(file.replace("\\", "/"))
    return found.group(0) if found else file

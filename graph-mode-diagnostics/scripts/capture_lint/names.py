"""Dotted names of a file's imports, brought to one spelling, and the names of the graph API."""

from __future__ import annotations

import ast

# The same function under several names: users write any of them, transfer_to_npu maps torch.cuda to torch.npu.
_SPELLINGS = (
    ("torch_npu.npu.graphs.", "torch.npu."),
    ("torch_npu.npu.", "torch.npu."),
    ("torch.npu.graphs.", "torch.npu."),
    ("torch.cuda.graphs.", "torch.npu."),
    ("torch.cuda.", "torch.npu."),
    ("torch.accelerator.", "torch.npu."),
)
_RENAMED = {"torch.npu.CUDAGraph": "torch.npu.NPUGraph", "torch.npu.memory.empty_cache": "torch.npu.empty_cache"}

GRAPH_CONTEXT = "torch.npu.graph"
STREAM_CONTEXT = "torch.npu.stream"
GRAPHED_CALLABLES = "torch.npu.make_graphed_callables"
# Backends that capture; "npu" (torchair) captures only in reduce-overhead mode and is left to its own checks.
CAPTURING_BACKENDS = frozenset(("npugraph_ex", "npugraphs"))
EXPECTED_FAILURE = frozenset(("assertRaises", "assertRaisesRegex", "raises", "suppress"))


def canonical(name: str) -> str:
    """Return a dotted name in the spelling that the rules use."""
    for spelling, one in _SPELLINGS:
        if name.startswith(spelling):
            name = one + name[len(spelling) :]
            break
    return _RENAMED.get(name, name)


def read_imports(tree: ast.AST, module: str) -> dict[str, str]:
    """Return local name → dotted name for every import statement of a file, wherever it stands."""
    names: dict[str, str] = {}
    package = module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    top = alias.name.partition(".")[0]
                    names[top] = top
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".") if package else []
                kept = parts[: len(parts) - node.level + 1]
                base = ".".join([*kept, base]) if base else ".".join(kept)
            for alias in node.names:
                names[alias.asname or alias.name] = f"{base}.{alias.name}" if base else alias.name
    return names


def dotted(node: ast.AST, imports: dict[str, str]) -> str:
    """Return the dotted name of an expression: `()` stands for a call, `[]` for an index, '' for anything else."""
    suffix: list[str] = []
    for _ in range(40):
        if isinstance(node, ast.Attribute):
            suffix.append("." + node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            suffix.append("()")
            node = node.func
        elif isinstance(node, ast.Subscript):
            suffix.append("[]")
            node = node.value
        else:
            break
    if not isinstance(node, ast.Name):
        return ""
    return canonical(imports.get(node.id, node.id) + "".join(reversed(suffix)))

"""Reads which graph-mode names a torch_npu package has, with their signatures, from its Python sources.

Nothing is imported: the same reader serves the table of releases (tools/build_api_table.py, from wheels) and the
health check of an installation whose native libraries cannot be loaded.
"""

from __future__ import annotations

import ast
import sys
from typing import Callable, Dict, Iterator, NamedTuple, Optional

# A source is asked for by its path inside the package folder; None says that the release has no such file.
ReadSource = Callable[[str], Optional[str]]
# name -> signature ("" for a thing without one, such as a module or a registered backend)
Api = Dict[str, str]


class Place(NamedTuple):
    """Where a public name is defined."""

    file: str
    defined_as: str


# Names a user calls, and the source that defines each. The text of the table is the Python source, so what exists
# only in C++ (NPUGraph.register_generator_state, for one) is not in it.
GRAPHS = "npu/graphs.py"
PLACES = {
    "torch.npu.graph": Place(GRAPHS, "graph.__init__"),
    "torch.npu.graph_pool_handle": Place(GRAPHS, "graph_pool_handle"),
    "torch.npu.is_current_stream_capturing": Place(GRAPHS, "is_current_stream_capturing"),
    "torch.npu.make_graphed_callables": Place(GRAPHS, "make_graphed_callables"),
    "torch.npu.graph_task_group_begin": Place(GRAPHS, "graph_task_group_begin"),
    "torch.npu.graph_task_group_end": Place(GRAPHS, "graph_task_group_end"),
    "torch.npu.graph_task_update_begin": Place(GRAPHS, "graph_task_update_begin"),
    "torch.npu.graph_task_update_end": Place(GRAPHS, "graph_task_update_end"),
    "torch.npu.super_kernel_scope_begin": Place(GRAPHS, "super_kernel_scope_begin"),
    "torch.npu.super_kernel_scope_end": Place(GRAPHS, "super_kernel_scope_end"),
    "torch.npu.ExternalEvent": Place("npu/streams.py", "ExternalEvent"),
    "torch.npu.MemPool": Place("npu/memory.py", "MemPool"),
    "torch.npu.use_mem_pool": Place("npu/memory.py", "use_mem_pool"),
    "torch.npu.register_npu_graph_handler": Place(
        "npu/_npugraph_handlers/npugraph_handler.py", "register_npu_graph_handler"
    ),
    "torch.compiler.npugraph_mark_step_begin": Place("utils/_graph_tree.py", "npugraph_mark_step_begin"),
}
# Packages and files whose presence is the feature.
MODULES = {
    "torch_npu.npu._graph_tree": "npu/_graph_tree.py",
    "torch_npu.npu._npugraph_handlers": "npu/_npugraph_handlers/__init__.py",
    "torch_npu.npu._aclgraph_update_plan": "npu/_aclgraph_update_plan/__init__.py",
    "torch_npu.npu._npugraph_conditional_nodes": "npu/_npugraph_conditional_nodes.py",
    "torch_npu.npu.npugraph_ex": "npu/npugraph_ex/__init__.py",
    "torch_npu.dynamo.npugraph_ex": "dynamo/npugraph_ex/__init__.py",
    "torch_npu.dynamo.torchair": "dynamo/torchair/__init__.py",
}
# Dynamo backends appear as string constants in the file that registers them.
BACKENDS = {
    "torch.compile(backend='npu')": ("dynamo/__init__.py", "npu"),
    "torch.compile(backend='npugraph_ex')": ("dynamo/__init__.py", "npugraph_ex"),
    "torch.compile(backend='npugraphs')": ("utils/_graph_tree.py", "npugraphs"),
}
LOG_FILE = "_logging/_internal.py"
# Log modules of TORCH_NPU_LOGS; one that a release does not register makes `import torch_npu` fail.
LOG_MODULES = (
    *("aclgraph", "npugraph", "acl", "dispatch", "dispatch_time", "memory", "op_plugin", "silent", "recovery"),
    *("shmem", "env"),
)


def read_api(read_source: ReadSource) -> Api:
    """Return the graph-mode names of one package.

    Args:
        read_source: returns the text of a file, named by its path inside the `torch_npu` folder, or None.
    """
    trees: dict[str, ast.Module | None] = {}

    def tree(path: str) -> ast.Module | None:
        if path not in trees:
            text = read_source(path)
            trees[path] = None if text is None else ast.parse(text)
        return trees[path]

    api: Api = {}
    for name, place in PLACES.items():
        found = _find(tree(place.file), place.defined_as)
        if found is not None:
            api[name] = found
    api.update(_methods(tree(GRAPHS), "NPUGraph", "torch.npu.NPUGraph"))
    api.update({name: "" for name, path in MODULES.items() if read_source(path) is not None})
    for name, (path, word) in BACKENDS.items():
        if word in _constants(tree(path)):
            api[name] = ""
    registered = _constants(tree(LOG_FILE))
    api.update({f"TORCH_NPU_LOGS={word}": "" for word in LOG_MODULES if word in registered})
    return api


def _find(tree: ast.Module | None, dotted: str) -> str | None:
    """Return the signature of `function`, `Class` or `Class.method`, or None when it is not defined."""
    body: list[ast.stmt] = tree.body if tree else []
    parts = dotted.split(".")
    for at, part in enumerate(parts):
        node = next((item for item in _definitions(body) if item.name == part), None)
        if node is None:
            return None
        if at == len(parts) - 1:
            return "" if isinstance(node, ast.ClassDef) else signature(node)
        body = node.body
    return None


def _definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Yield the definitions of a block, also those inside a top-level if or try."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try)):
            yield from _definitions(node.body)
            yield from _definitions(node.orelse)


def _methods(tree: ast.Module | None, class_name: str, shown_as: str) -> Api:
    for node in _definitions(tree.body if tree else []):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            methods = {
                f"{shown_as}.{item.name}": signature(item)
                for item in node.body
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
            }
            return {shown_as: "", **methods}
    return {}


def signature(node: ast.FunctionDef) -> str:
    """Return the parameters as `(a, b=None, *, c='x')`, without self, cls and annotations."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    shown: list[str] = [_parameter(name.arg, default) for name, default in zip(positional, defaults)]
    if positional and positional[0].arg in ("self", "cls"):
        shown = shown[1:]
    if arguments.vararg:
        shown.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [_parameter(name.arg, default) for name, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        shown.append("**" + arguments.kwarg.arg)
    return "(" + ", ".join(shown) + ")"


def _parameter(name: str, default: ast.expr | None) -> str:
    if default is None:
        return name
    if isinstance(default, ast.Constant):
        return f"{name}={default.value!r}"
    # Only constants occur today; anything else is shown by its text where this Python can (3.9 on).
    return f"{name}={ast.unparse(default) if sys.version_info >= (3, 9) else '...'}"


def _constants(tree: ast.Module | None) -> set[str]:
    """Return the short strings of a source, as the names that it may register."""
    if tree is None:
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 40:
            found.add(node.value)
    return found

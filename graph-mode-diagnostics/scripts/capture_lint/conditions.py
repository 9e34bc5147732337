"""What a condition or a backend says about capture, and which code is worth walking at all."""

from __future__ import annotations

import ast

from . import names
from .project import Function
from .trace import Value

_INTERESTING = frozenset(
    ("graph", "capture_begin", "make_graphed_callables", "compile", "replay", "NPUGraph", "CUDAGraph", "update")
)


def captures(backend: Value) -> bool:
    """Say whether a backend named in torch.compile captures graphs."""
    return isinstance(backend.detail, str) and backend.detail in names.CAPTURING_BACKENDS


def capture_guard(test: ast.expr) -> str:
    """Return 'inside' for `if capturing:`, 'outside' for `if not capturing:`, '' for any other condition."""
    negated = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        negated, test = not negated, test.operand
    if isinstance(test, ast.BoolOp):
        kinds = {capture_guard(part) for part in test.values} - {""}
        return kinds.pop() if len(kinds) == 1 and isinstance(test.op, ast.And) and not negated else ""
    name = test.func if isinstance(test, ast.Call) else test
    word = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
    if "capturing" not in word and word not in ("is_capture", "in_capture", "is_compiling", "in_profile_run"):
        return ""
    if word == "in_profile_run":
        negated = not negated
    return "outside" if negated else "inside"


def mentions_capture(function: Function) -> bool:
    """Say whether a function's own text opens a capture or replays a graph."""
    return mentions(function.node)


def mentions(node: ast.AST) -> bool:
    """Say whether a piece of code uses one of the graph API's names."""
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute) and child.attr in _INTERESTING and child.attr != "update":
            return True
        if isinstance(child, ast.Name) and child.id in _INTERESTING and child.id not in ("compile", "update"):
            return True
    return False

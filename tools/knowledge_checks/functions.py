"""The functions of a source file with their first and last line, in C++ and Python text."""

from __future__ import annotations

import ast
from typing import NamedTuple

from source_sites import function_spans


class Span(NamedTuple):
    """A function or class: qualified name, first and last line."""

    name: str
    first: int
    last: int


def spans_of(path: str, text: str) -> list[Span]:
    """Return the functions and classes of one file; [] for a file of another language."""
    if path.endswith(".py"):
        return _python_spans(text)
    if path.endswith((".cpp", ".cc", ".h", ".hpp", ".cxx")):
        return [Span(*span) for span in function_spans(text)]
    return []


def spans_named(spans: list[Span], name: str) -> list[Span]:
    """Return the spans that a name means: the whole qualified name, or its last parts."""
    wanted = name.replace("::", ".").rstrip("()").split(".")
    found = []
    for span in spans:
        parts = span.name.replace("::", ".").split(".")
        if parts[-len(wanted) :] == wanted or parts[-1:] == wanted[-1:] and len(parts) == 1:
            found.append(span)
    return found


def _python_spans(text: str) -> list[Span]:
    spans: list[Span] = []
    tree = _parsed(text)
    if tree is not None:
        _collect(tree, [], spans)
    return spans


def _collect(node: ast.AST, names: list[str], spans: list[Span]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = names
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [*names, child.name]
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            spans.append(Span(".".join(inner), first, child.end_lineno or child.lineno))
        _collect(child, inner, spans)


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None

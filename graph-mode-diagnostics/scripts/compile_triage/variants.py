"""Rewrites one torch.compile call for each step, and leaves every other character of the script as it was."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import NamedTuple

from npu_graph import cli

from . import steps
from .compile_calls import BARE, CompileCall, CompileNode, Script, find_calls

# What the generic backends are told; they know nothing of an NPU backend's options.
_BACKENDS = {
    steps.EAGER: "eager",
    steps.DYNAMO: "eager",
    steps.AOT: "aot_eager",
    steps.DECOMPOSED: "aot_eager_decomp_partition",
}


class Edit(NamedTuple):
    """Replace text[start:end] (characters) by `new`."""

    start: int
    end: int
    new: str


def make_variant(script: Script, call: CompileCall, step: str) -> str:
    """Return the script's text with the call rewritten for a step; line numbers stay.

    Raises:
        CommandError: exit code 5 when the result would differ in more than the call (never a wrong variant).
    """
    if step == steps.ORIGINAL:
        return script.text
    editor = _Editor(script.text)
    if call.form == BARE:
        edits = [_edit_bare(editor, call.node, step)]
    else:
        assert isinstance(call.node, ast.Call)
        edits = _edits(editor, call.node, step)
    text = editor.apply(edits)
    if not differs_only_in_call(script, text, call):
        raise cli.CommandError(
            f"the call at {call.file}:{call.line} could not be rewritten for step {step}; write it as a plain "
            "torch.compile(model, backend=..., options=...) and run again",
            cli.INTERNAL,
        )
    return text


def differs_only_in_call(script: Script, text: str, call: CompileCall) -> bool:
    """Say whether a variant, apart from the one call, is the same program as the script, line for line."""
    try:
        trees = [ast.parse(script.text), ast.parse(text)]
    except SyntaxError:
        return False
    first, second = (_without_call(script._replace(tree=tree), call.number) for tree in trees)
    return first is not None and first == second


def _without_call(script: Script, number: int) -> tuple[str, list[int]] | None:
    """Return a program's dump and line numbers with a mark in place of one call, None where that call is not there."""
    calls = find_calls(script)
    if number > len(calls):
        return None
    node = calls[number - 1].node

    class Mark(ast.NodeTransformer):
        def visit(self, item: ast.AST) -> ast.AST:
            if item is node:
                return ast.copy_location(ast.Constant(value="the call"), item)
            return self.generic_visit(item)

    marked = Mark().visit(script.tree)
    return ast.dump(marked), [getattr(item, "lineno", 0) for item in ast.walk(marked)]


def _edit_bare(editor: _Editor, node: CompileNode, step: str) -> Edit:
    """`@torch.compile` becomes `@torch.compile(backend=...)`."""
    extra = ", disable=True" if step == steps.EAGER else ""
    backend = _BACKENDS.get(step, "")
    end = editor.end(node)
    return Edit(end, end, f'(backend="{backend}"{extra})' if backend else '(options={"force_eager": True})')


def _edits(editor: _Editor, node: ast.Call, step: str) -> list[Edit]:
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    spread = [keyword.value for keyword in node.keywords if keyword.arg is None]
    wanted: dict[str, str] = {}
    if step == steps.FORCE_EAGER:
        wanted["options"] = _merged_options(editor, given.get("options"), spread)
        if "mode" in given and "options" not in given:
            wanted["mode"] = "None"  # torch.compile takes mode or options, not both
    else:
        wanted["backend"] = f'"{_BACKENDS[step]}"'
        if "options" in given:
            wanted["options"] = "None"
        if step == steps.EAGER:
            wanted["disable"] = "True"
    edits = [editor.replace(given[name], text) for name, text in wanted.items() if name in given]
    dropped = set(wanted) | ({"options"} if step != steps.FORCE_EAGER else set())
    if step == steps.FORCE_EAGER and spread:
        dropped.add("mode")
    for value in spread:
        names = ", ".join(f'"{name}"' for name in sorted(dropped))
        kept = f"{{key: value for key, value in dict({editor.text_of(value)}).items() if key not in ({names},)}}"
        edits.append(Edit(editor.start(value), editor.end(value), kept))
    new = [f"{name}={text}" for name, text in wanted.items() if name not in given]
    if new:
        edits.append(editor.insert_arguments(node, ", ".join(new)))
    return edits


def _merged_options(editor: _Editor, options: ast.expr | None, spread: list[ast.expr]) -> str:
    """Return the options of the original with force_eager added."""
    if options is not None and not (isinstance(options, ast.Constant) and options.value is None):
        return f'{{**({editor.text_of(options)} or {{}}), "force_eager": True}}'
    if spread:
        return f'{{**(dict({editor.text_of(spread[-1])}).get("options") or {{}}), "force_eager": True}}'
    return '{"force_eager": True}'


class _Editor:
    """Turns positions of syntax nodes (lines and bytes) into positions in the text (characters)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = _split(text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def _at(self, line: int, column: int) -> int:
        text = self._lines[line - 1]
        return self._starts[line - 1] + len(text.encode("utf-8")[:column].decode("utf-8"))

    def start(self, node: ast.AST) -> int:
        return self._at(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text_of(self, node: ast.AST) -> str:
        return self.text[self.start(node) : self.end(node)]

    def replace(self, node: ast.AST, new: str) -> Edit:
        """Replace a node inside a call; the line breaks it held are kept, so that later lines keep their numbers."""
        old = self.text_of(node)
        breaks = old.count("\n") - new.count("\n")
        return Edit(self.start(node), self.end(node), new + "\n" * max(0, breaks))

    def insert_arguments(self, node: ast.Call, new: str) -> Edit:
        """Add keyword arguments before a call's closing bracket, whatever commas and comments stand there."""
        begin, end = self.start(node), self.end(node)
        segment = self.text[begin:end]
        last, position = _last_token(segment)
        if last == ",":
            new = f" {new}"
        elif last != "(" or node.args or node.keywords:
            new = f", {new}"
        return Edit(begin + position, begin + position, new)

    def apply(self, edits: list[Edit]) -> str:
        text = self.text
        for edit in sorted(edits, reverse=True):
            text = text[: edit.start] + edit.new + text[edit.end :]
        return text


def _split(text: str) -> list[str]:
    """Split as Python does: at line ends only (a form feed or a separator character is none)."""
    return io.StringIO(text, newline="").readlines()


def _last_token(call: str) -> tuple[str, int]:
    """Return the last token before a call's closing bracket, and the position after it."""
    lines = _split(call)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
    tokens = [item for item in tokenize.generate_tokens(iter([*lines, ""]).__next__) if item.type not in skipped]
    before = tokens[-2]
    return before.string, starts[before.end[0] - 1] + before.end[1]

"""Finds where a script calls torch.compile, in whatever form, and which backend it asks for."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import NamedTuple, Union

from capture_lint.names import dotted, read_imports

from npu_graph import cli

CALL, DECORATOR, BARE, PARTIAL, METHOD = "call", "decorator", "bare decorator", "partial", "module.compile"
# Keyword arguments by which `model.compile(...)` of an nn.Module is told from re.compile and others.
_COMPILE_KEYWORDS = frozenset(("backend", "fullgraph", "dynamic", "mode", "options", "disable"))
_OTHER_COMPILERS = ("re.", "regex.", "torch.jit.", "sre_compile.", "tf.", "keras.", "jinja2.", "torch.compiler.")
MAX_SCRIPT_BYTES = 2 * 1024 * 1024
CompileNode = Union[ast.Call, ast.Name, ast.Attribute]


class Script(NamedTuple):
    """A Python file as text, with what is needed to write it back as it was."""

    path: Path
    text: str
    encoding: str
    tree: ast.Module


class CompileCall(NamedTuple):
    """One call of torch.compile.

    number: from 1, in the order of the file. backend: as written; 'inductor' when the call names none, '' when it
    cannot be told (a variable, an object). target: what is compiled, as text.
    """

    number: int
    file: str
    line: int
    form: str
    backend: str
    target: str
    node: CompileNode


def read_script(path: Path) -> Script:
    """Read and parse a script.

    Raises:
        CommandError: exit code 3 when it is not a Python file that this Python can parse.
    """
    if path.suffix == ".ipynb":
        raise cli.CommandError(
            f"{path} is a notebook; export it to a script first (jupyter nbconvert --to script {path.name})",
            cli.NO_INPUT,
        )
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size < 0:
            raise cli.CommandError(f"{path} is not a file; name the script that reproduces the failure", cli.NO_INPUT)
        if size > MAX_SCRIPT_BYTES:
            raise cli.CommandError(
                f"{path} is larger than {MAX_SCRIPT_BYTES >> 20} MiB; that is no script", cli.NO_INPUT
            )
        data = path.read_bytes()
    except OSError as error:
        raise cli.CommandError(f"{path} cannot be read: {error.strerror or error}", cli.NO_INPUT) from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        where = f" line {error.lineno}" if error.lineno else ""
        raise cli.CommandError(f"{path}{where} is not valid Python: {error.msg}", cli.NO_INPUT) from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise cli.CommandError(f"{path} is not Python text: {cli.one_line(str(error), 120)}", cli.NO_INPUT) from None
    return Script(path, text, encoding, tree)


def find_calls(script: Script) -> list[CompileCall]:
    """Return every call of torch.compile in a script, in order."""
    imports = read_imports(script.tree, script.path.stem)
    aliases = _aliases(script.tree, imports)
    constants = _constants(script.tree)
    decorators = {id(item) for node in ast.walk(script.tree) for item in getattr(node, "decorator_list", ())}
    statements = {id(node.value) for node in ast.walk(script.tree) if isinstance(node, ast.Expr)}
    found: list[tuple[int, int, str, CompileNode]] = []
    for node in ast.walk(script.tree):
        form = ""
        if isinstance(node, ast.Call):
            form = _form_of_call(node, imports, aliases, id(node) in decorators, id(node) in statements)
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) in decorators:
            form = BARE if _names_compile(node, imports, aliases) else ""
        if form and isinstance(node, (ast.Call, ast.Name, ast.Attribute)):
            found.append((node.lineno, node.col_offset, form, node))
    found.sort(key=lambda item: item[:2])
    return [
        CompileCall(
            number, str(script.path), line, form, backend_of(node, constants), _target(node, form, script), node
        )
        for number, (line, _, form, node) in enumerate(found, 1)
    ]


def _form_of_call(node: ast.Call, imports: dict[str, str], aliases: set[str], decorator: bool, statement: bool) -> str:
    if _names_compile(node.func, imports, aliases):
        return DECORATOR if decorator else CALL
    name = dotted(node.func, imports)
    if name in ("functools.partial", "partial") and node.args and _names_compile(node.args[0], imports, aliases):
        return PARTIAL
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "compile" or name.startswith(_OTHER_COMPILERS):
        return ""
    keywords = {item.arg for item in node.keywords}
    if node.args or not statement or not keywords <= _COMPILE_KEYWORDS:
        return ""
    return METHOD


def _names_compile(node: ast.AST, imports: dict[str, str], aliases: set[str]) -> bool:
    name = dotted(node, imports)
    return name == "torch.compile" or name in aliases


def _aliases(tree: ast.Module, imports: dict[str, str]) -> set[str]:
    """Return names that a script binds to torch.compile itself (`compiler = torch.compile`)."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and dotted(node.value, imports) == "torch.compile":
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the names that are bound once in the whole script, to a plain string (`BACKEND = "npugraph_ex"`)."""
    values: dict[str, str] = {}
    stored: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            values.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
        elif isinstance(node, ast.arg):  # a parameter of the same name may stand for anything
            stored[node.arg] = stored.get(node.arg, 0) + 2
    return {name: value for name, value in values.items() if stored.get(name) == 1}


def backend_of(node: CompileNode, constants: dict[str, str]) -> str:
    """Return the backend that a call asks for; 'inductor' is torch's own default."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    for keyword in keywords:
        if keyword.arg == "backend":
            if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
                return keyword.value.value
            return constants.get(keyword.value.id, "") if isinstance(keyword.value, ast.Name) else ""
    return "" if any(keyword.arg is None for keyword in keywords) else "inductor"


def _target(node: CompileNode, form: str, script: Script) -> str:
    """Return what is compiled, as far as the call says it."""
    if form in (DECORATOR, BARE):
        for item in ast.walk(script.tree):
            if any(decorator is node for decorator in getattr(item, "decorator_list", ())):
                return str(getattr(item, "name", ""))
    if not isinstance(node, ast.Call):
        return ""
    arguments = node.args[1:] if form == PARTIAL else node.args
    shown = arguments[0] if arguments else None
    if form == METHOD and isinstance(node.func, ast.Attribute):
        shown = node.func.value
    text = ast.get_source_segment(script.text, shown) if shown is not None else ""
    return " ".join((text or "").split())[:80]


def choose_call(calls: list[CompileCall], number: int) -> CompileCall:
    """Return call `number`, or without one (0) the first that asks for an NPU backend, else the first.

    Raises:
        CommandError: exit code 3 without any call, 2 for a number that is not there.
    """
    if not calls:
        raise cli.CommandError(
            "no torch.compile call was found in the script; name the file that holds it with --file", cli.NO_INPUT
        )
    if number:
        if number > len(calls):
            raise cli.CommandError(f"--call {number} is not there; the script has {len(calls)} torch.compile call(s)")
        return calls[number - 1]
    for call in calls:
        if call.backend in ("npugraph_ex", "npugraphs", "npu"):
            return call
    return calls[0]

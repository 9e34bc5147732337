"""Finds where a script calls torch.compile, in whatever form, and which backend it asks for."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import NamedTuple, Union

from npu_graph import cli

CALL, DECORATOR, BARE, PARTIAL, METHOD = "call", "decorator", "bare decorator", "partial", "module.compile"
# Keyword arguments by which `model.compile(...)` of an nn.Module is told from re.compile and others.
_COMPILE_KEYWORDS = frozenset(("backend", "fullgraph", "dynamic", "mode", "options", "disable"))
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
    except (RecursionError, MemoryError):  # what ast.parse raises for nesting that is too deep
        raise cli.CommandError(f"{path} cannot be parsed: its nesting is too deep", cli.NO_INPUT) from None
    except (UnicodeDecodeError, ValueError) as error:
        raise cli.CommandError(f"{path} is not Python text: {cli.one_line(str(error), 120)}", cli.NO_INPUT) from None
    return Script(path, text, encoding, tree)


class Names(NamedTuple):
    """The local names of a script that matter here: for torch, torch.compile, functools, partial, and every import."""

    torch: set[str]
    compile: set[str]
    functools: set[str]
    partial: set[str]
    imported: set[str]


def find_calls(script: Script) -> list[CompileCall]:
    """Return every call of torch.compile in a script, in order."""
    names = read_names(script.tree)
    constants = _constants(script.tree)
    decorators = {id(item) for node in ast.walk(script.tree) for item in getattr(node, "decorator_list", ())}
    statements = {id(node.value) for node in ast.walk(script.tree) if isinstance(node, ast.Expr)}
    found: list[tuple[int, int, str, CompileNode]] = []
    for node in ast.walk(script.tree):
        form = ""
        if isinstance(node, ast.Call):
            form = _form_of_call(node, names, id(node) in decorators, id(node) in statements)
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) in decorators:
            form = BARE if _is(node, names.torch, "compile", names.compile) else ""
        if form and isinstance(node, (ast.Call, ast.Name, ast.Attribute)):
            found.append((node.lineno, node.col_offset, form, node))
    found.sort(key=lambda item: item[:2])
    calls = []
    for number, (line, _, form, node) in enumerate(found, 1):
        backend, target = backend_of(node, constants), _target(node, form, script)
        calls.append(CompileCall(number, str(script.path), line, form, backend, target, node))
    return calls


def read_names(tree: ast.Module) -> Names:
    """Read the imports of a script, wherever they stand, and `compiler = torch.compile`."""
    names = Names(set(), set(), set(), set(), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, local = alias.name.partition(".")[0], alias.asname
                names.imported.add(local or top)
                if alias.name in ("torch", "functools") or (top == "torch" and not local):
                    getattr(names, top).add(local or top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names.imported.add(alias.asname or alias.name)
                if (node.module, alias.name) in (("torch", "compile"), ("functools", "partial")):
                    getattr(names, alias.name).add(alias.asname or alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is(node.value, names.torch, "compile", names.compile):
            names.compile.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def _is(node: ast.AST, modules: set[str], attribute: str, direct: set[str]) -> bool:
    """Say whether an expression is `module.attribute`, or one of the names that stand for it."""
    if isinstance(node, ast.Name):
        return node.id in direct
    return (
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
    )


def _form_of_call(node: ast.Call, names: Names, decorator: bool, statement: bool) -> str:
    if _is(node.func, names.torch, "compile", names.compile):
        return DECORATOR if decorator else CALL
    if _is(node.func, names.functools, "partial", names.partial) and node.args:
        return PARTIAL if _is(node.args[0], names.torch, "compile", names.compile) else ""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "compile" or not statement or node.args:
        return ""
    root: ast.AST = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and root.id in names.imported:
        return ""  # re.compile(), torch.jit.compile(): a function of a module, no nn.Module
    return METHOD if {item.arg for item in node.keywords} <= _COMPILE_KEYWORDS else ""


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the names bound once in the whole script, to a backend's name or to settings that hold one."""
    values: dict[str, str] = {}
    stored: dict[str, int] = {}
    for node in ast.walk(tree):
        text = _backend_in(node.value) if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and text is not None:
            values.update({target.id: text for target in node.targets if isinstance(target, ast.Name)})
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
        elif isinstance(node, ast.arg):  # a parameter of the same name may stand for anything
            stored[node.arg] = stored.get(node.arg, 0) + 2
    return {name: value for name, value in values.items() if stored.get(name) == 1}


def _backend_in(node: ast.expr) -> str | None:
    """Return a plain string, or the backend in `{"backend": "..."}` and `dict(backend="...")`; None otherwise."""
    pairs: list[tuple[object, ast.expr]] = []
    if isinstance(node, ast.Dict):
        pairs = [(getattr(key, "value", None), value) for key, value in zip(node.keys, node.values)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        pairs = [(item.arg, item.value) for item in node.keywords]
    for name, value in pairs:
        if name == "backend":
            node = value
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def backend_of(node: CompileNode, constants: dict[str, str]) -> str:
    """Return the backend that a call asks for; 'inductor' is torch's own default."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    for keyword in keywords:
        if keyword.arg == "backend":
            if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
                return keyword.value.value
            return constants.get(keyword.value.id, "") if isinstance(keyword.value, ast.Name) else ""
    for keyword in keywords:
        if keyword.arg is None:  # **settings
            return constants.get(keyword.value.id, "") if isinstance(keyword.value, ast.Name) else ""
    return "inductor"


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

"""Places in torch_npu's sources that raise, warn or log: found in C++ and Python text, without building or importing.

`sites_of(path, text)` is what tools/measure_source_map.py calls for every file of every release.
"""

from __future__ import annotations

import ast
import re
from typing import Iterator, NamedTuple

# The macros whose text reaches a user. Each prints its own line, and the name of the function around it.
_MACROS = (
    *("NPU_CHECK_ERROR_WITHOUT_UCE", "NPU_CHECK_ERROR", "NPU_CHECK_WARN", "OPS_CHECK_ERROR"),
    *("TORCH_CHECK", "TORCH_INTERNAL_ASSERT", "TORCH_WARN_ONCE", "TORCH_WARN_DEPRECATION", "TORCH_WARN"),
    *("ASCEND_LOGW", "ASCEND_LOGE", "PyErr_SetString", "assertNotCapturingAclop", "assertNotCapturing"),
)
_MACRO = re.compile(r"\b(?:c10_npu::)?(" + "|".join(_MACROS) + r")\s*\(")
# These print the text of the call they wrap; the others print their string literals.
_PRINT_THE_CALL = frozenset(
    ["NPU_CHECK_ERROR", "NPU_CHECK_ERROR_WITHOUT_UCE", "NPU_CHECK_WARN", "OPS_CHECK_ERROR", "TORCH_INTERNAL_ASSERT"]
)
# The macro body is a lambda, so that the function printed is operator().
_WRAPPED_IN_LAMBDA = frozenset(["TORCH_WARN_ONCE"])
_NOT_FUNCTIONS = frozenset(["if", "for", "while", "switch", "catch", "return", "do", "else", "defined", "sizeof"])
_FUNCTION_HEAD = re.compile(r"((?:[\w~]+(?:<[^<>]*>)?::)*(?:operator\s*\(\)|operator\s*[^\w\s(]+|[~\w]+))\s*\(")
_LAMBDA_HEAD = re.compile(
    r"\[[^\[\]]*\]\s*(?:\([^{}]*\))?\s*(?:mutable\b)?\s*(?:noexcept\b)?\s*(?:->\s*[\w:<>*&,\s]+)?\s*$"
)
_CLASS_HEAD = re.compile(r"\b(?:class|struct)\s+(?:\w+\s+)*?(\w+)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


class Site(NamedTuple):
    """One place. `function` is qualified; `printed` is the name that a message or traceback shows."""

    function: str
    printed: str
    kind: str
    message: str
    line: int


def failure_sites_of(text: str) -> list[Site]:
    """Return where Python code raises, asserts with a message, or warns."""
    tree = ast.parse(text)
    _resolve_names(tree)
    return [
        *(site for site in _walk(tree, [], text.splitlines()) if site.kind != "frame"),
        *_asserts(tree, []),
    ]


# glog's checks and error logs; their text is what is streamed into them.
_STREAMED = re.compile(r"\b(LOG\((?:FATAL|ERROR|WARNING)\)|P?CHECK(?:_[A-Z]{2,3})?(?=\s*\())")


def streamed_sites_of(text: str) -> list[Site]:
    """Return where C++ code checks or logs an error by glog, with the literals that it streams."""
    bare = _without_comments(text)
    blank = _without_literals(bare)
    scopes = _function_scopes(blank)
    found = []
    for match in _STREAMED.finditer(blank):
        end = blank.find(";", match.end())
        function, printed = _scope_at(scopes, match.start())
        if end < 0 or not function:
            continue
        pieces: list[str] = []
        for part in _split_streamed(bare[match.end() : end]):
            literals = _LITERAL.findall(part)
            pieces.append("".join(literals) if literals else "{}")
        message = _folded(_unescape("".join(pieces)))
        line = text.count("\n", 0, match.start()) + 1
        found.append(Site(function, printed, match.group(1), re.sub(r"(?:\{\})+$", "", message).strip(), line))
    return found


def _split_streamed(statement: str) -> list[str]:
    """Return the operands of << in a statement, without what stands before the first."""
    return statement.split("<<")[1:]


def sites_of(path: str, text: str) -> list[Site]:
    """Return the sites of one source file; Python's include its calls, which are the frames of a traceback."""
    return list(_python_sites(text) if path.endswith(".py") else _cpp_sites(text))


# --- C++ -------------------------------------------------------------------------------------------------------


def _cpp_sites(text: str) -> Iterator[Site]:
    bare = _without_comments(text)
    blank = _without_literals(bare)
    scopes = _function_scopes(blank)
    for found in _MACRO.finditer(blank):
        end = _closing(blank, found.end() - 1)
        if end < 0:
            continue
        function, printed = _scope_at(scopes, found.start())
        if not function:
            continue  # a declaration or a definition of the checker itself
        kind = found.group(1)
        message = _cpp_message(kind, bare[found.end() : end])
        if message:
            printed = "operator()" if kind in _WRAPPED_IN_LAMBDA else printed
            yield Site(function, printed, kind, message, text.count("\n", 0, found.start()) + 1)


def _cpp_message(kind: str, arguments: str) -> str:
    parts = _split_arguments(arguments)
    if kind in _PRINT_THE_CALL and not (kind == "TORCH_INTERNAL_ASSERT" and len(parts) > 1):
        return _folded(parts[0])
    if kind == "assertNotCapturing" and parts:
        return "".join(_LITERAL.findall(parts[0]))
    pieces: list[str] = []
    for part in parts[1:] if kind.startswith(("TORCH_CHECK", "TORCH_INTERNAL", "PyErr")) else parts:
        literals = _LITERAL.findall(part)
        if "PTA_ERROR(" in part or "ErrCode::" in part:
            continue
        if literals:
            pieces.append("".join(literals))
        elif pieces and pieces[-1] != "{}":
            pieces.append("{}")
    while pieces and pieces[-1] == "{}":
        pieces.pop()
    message = _folded(_unescape("".join(pieces)))
    return _as_placeholders(message) if message else _folded(parts[0])


def _split_arguments(arguments: str) -> list[str]:
    blank, depth, start, parts = _without_literals(arguments), 0, 0, []
    for at, character in enumerate(blank):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(arguments[start:at])
            start = at + 1
    return [*parts, arguments[start:]]


def _without_comments(text: str) -> str:
    """Return the text with comments and preprocessor lines blanked, at the same offsets."""
    pattern = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
    text = pattern.sub(lambda m: m.group() if m.group()[0] in "\"'" else _spaces(m.group()), text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: _spaces(m.group()), text, flags=re.MULTILINE)


def _without_literals(text: str) -> str:
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', lambda m: '"' + " " * (len(m.group()) - 2) + '"', text)


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _closing(blank: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(blank)):
        if blank[at] == "(":
            depth += 1
        elif blank[at] == ")":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _function_scopes(blank: str) -> list[tuple[int, int, str, str]]:
    """Return (start, end, kind, name) of every function, lambda and class body."""
    stack: list[tuple[int, str, str]] = []
    scopes: list[tuple[int, int, str, str]] = []
    boundary, parentheses = 0, 0
    for at, character in enumerate(blank):
        if character == "(":
            parentheses += 1
        elif character == ")":
            parentheses = max(0, parentheses - 1)
        elif character == ";" and parentheses == 0:
            boundary = at + 1
        elif character == "{":
            kind, name = _head_of(blank[boundary:at])
            stack.append((at, kind, name))
            if kind == "initializer":
                continue
            # A body inside a call's parentheses (a lambda argument) has its own statements.
            stack[-1] = (at, kind, f"{name}\0{parentheses}")
            boundary, parentheses = at + 1, 0
        elif character == "}" and stack:
            start, kind, name = stack.pop()
            if kind == "initializer":
                continue
            name, _, saved = name.partition("\0")
            parentheses = int(saved or 0)
            if kind != "block":
                scopes.append((start, at, kind, name))
            boundary = at + 1
    return scopes


def function_spans(text: str) -> list[tuple[str, int, int]]:
    """Return (qualified name, first line, last line) of the functions and classes of a C++ text."""
    blank = _without_literals(_without_comments(text))
    scopes = _function_scopes(blank)
    spans = []
    for start, end, kind, name in scopes:
        if kind == "lambda":
            continue
        around = sorted((s for s in scopes if s[2] == "class" and s[0] < start and end < s[1]), key=lambda s: s[0])
        qualified = "::".join([*(scope[3] for scope in around), name]) if "::" not in name else name
        # The body starts at its brace; the head, with the name, stands before it.
        head = max(blank.rfind(name.rpartition("::")[2], 0, start), 0)
        spans.append((qualified, blank.count("\n", 0, head) + 1, blank.count("\n", 0, end) + 1))
    return spans


def _head_of(head: str) -> tuple[str, str]:
    text = head.strip()
    if _LAMBDA_HEAD.search(text):
        return "lambda", "operator()"
    of_class = _CLASS_HEAD.search(text)
    if of_class and "(" not in text.partition(":")[0]:
        return "class", of_class.group(1)
    if "(" not in text or text.startswith(("namespace", "extern")) or "=" in text.partition("(")[0]:
        return "block", ""
    if re.search(r"\)\s*:\s*[^{}]*\b\w+$", text):
        return "initializer", ""
    while re.search(r"<[^<>]*>", text):
        text = re.sub(r"<[^<>]*>", "", text)  # std::function<bool(stream)> f() is f, not bool
    found = _FUNCTION_HEAD.search(text)
    if not found or found.group(1) in _NOT_FUNCTIONS or text.split()[0] in _NOT_FUNCTIONS:
        return "block", ""
    return "function", re.sub(r"\s+", "", found.group(1))


def _scope_at(scopes: list[tuple[int, int, str, str]], at: int) -> tuple[str, str]:
    around = sorted((s for s in scopes if s[0] < at < s[1]), key=lambda s: s[0])
    functions = [scope for scope in around if scope[2] != "class"]
    if not functions:
        return "", ""
    classes = [scope[3] for scope in around if scope[2] == "class" and scope[0] < functions[0][0]]
    named = [scope[3] for scope in functions if scope[2] == "function"]
    name = named[-1] if named else "operator()"
    function = "::".join([*classes, name]) if "::" not in name else name
    return function, functions[-1][3].rpartition("::")[2] if functions[-1][2] == "function" else "operator()"


def _unescape(text: str) -> str:
    return text.replace("\\n", " ").replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")


# --- Python ----------------------------------------------------------------------------------------------------

_LOG_LEVELS = frozenset(["warning", "error", "critical", "exception", "warn"])


def _python_sites(text: str) -> Iterator[Site]:
    tree = ast.parse(text)
    _resolve_names(tree)
    yield from _walk(tree, [], text.splitlines())


def _resolve_names(tree: ast.AST) -> None:
    """Put the text in place of a variable that a raise or warning prints: `msg = "..."; warn(msg)`."""
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        texts: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                texts.setdefault(node.targets[0].id, []).append((node.lineno, node.value))
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
                before = [value for line, value in texts.get(node.args[0].id, ()) if line < node.lineno]
                if before and _told(node) or before and _dotted(node.func).endswith(("Error", "Exception")):
                    text = _text_of(before[-1])
                    if text.strip("{} "):
                        node.args[0] = before[-1]


def _walk(node: ast.AST, names: list[str], lines: list[str]) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        inner = names
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [*names, child.name]
        in_function = bool(names)
        function, printed = ".".join(names) or "<module>", names[-1] if names else "<module>"
        if isinstance(child, ast.Raise) and child.exc is not None:
            kind, message = _raised(child.exc)
            yield Site(function, printed, kind, message, child.lineno)
        elif isinstance(child, ast.Call):
            told = _told(child)
            if told:
                yield Site(function, printed, *told, child.lineno)
            if in_function:
                yield Site(function, printed, "frame", _folded(lines[child.lineno - 1]), child.lineno)
        yield from _walk(child, inner, lines)


def _asserts(node: ast.AST, names: list[str]) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        inner = names
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [*names, child.name]
        elif isinstance(child, ast.Assert) and child.msg is not None:
            name = ".".join(names) or "<module>"
            yield Site(name, name.rpartition(".")[2], "assert", _python_message([child.msg]), child.lineno)
        yield from _asserts(child, inner)


def _raised(raised: ast.expr) -> tuple[str, str]:
    if isinstance(raised, ast.Call):
        return f"raise {_dotted(raised.func)}", _python_message(raised.args)
    return f"raise {_dotted(raised)}", ""


def _told(call: ast.Call) -> tuple[str, str] | None:
    name = _dotted(call.func)
    head, _, last = name.rpartition(".")
    if name in ("warnings.warn", "warn", "torch_npu.utils._error_code._warn"):
        return "warn", _python_message(call.args)
    if name == "torch._check":
        return "torch._check", _python_message(call.args[1:])
    if (
        last in _LOG_LEVELS
        and head
        and head.rpartition(".")[2].lstrip("_").lower().endswith(("log", "logger", "logging"))
    ):
        return f"log.{'warning' if last == 'warn' else last}", _python_message(call.args)
    return None


def _python_message(arguments: list[ast.expr]) -> str:
    for argument in arguments[:1]:
        return _as_placeholders(_folded(_text_of(argument)))
    return ""


def _text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "{}"
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(v) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if isinstance(node.right, ast.Call) and _dotted(node.right.func).endswith("_error"):
            return _text_of(node.left)  # + pta_error(ErrCode.PARAM)
        return _text_of(node.left) + _text_of(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _text_of(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return re.sub(r"\{[^{}]*\}", "{}", _text_of(node.func.value))
    if isinstance(node, ast.Lambda):
        return _text_of(node.body)
    return "{}"


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


# --- both ------------------------------------------------------------------------------------------------------


def _folded(text: str) -> str:
    return " ".join(text.split())


def _as_placeholders(text: str) -> str:
    """Return the text with every printf conversion as `{}`, as an f-string's holes are."""
    return re.sub(r"%[-+ #0-9.]*l{0,2}[sdifuxpr]", "{}", text)

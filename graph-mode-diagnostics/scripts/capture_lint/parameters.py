"""What is known of a function's parameters: from the call, the annotation, the default, or their use as tensors."""

from __future__ import annotations

import ast
import re
from typing import Sequence

from .project import Function
from .trace import DEVICE, HOST, UNKNOWN, Value
from .values import words

_TENSOR_METHODS = words(
    "sum mean view reshape permute transpose contiguous matmul mul add sub softmax float half unsqueeze squeeze flatten"
    " shape copy_ fill_ zero_ clone detach size dim dtype device ndim item tolist cpu numpy npu expand any all max"
    " min argmax topk sort nonzero masked_fill index_select gather scatter add_ mul_ relu sigmoid tanh chunk split t T"
)


# An annotation of these words alone says that the parameter is a tensor; in a union it may be a number.
_TENSOR_ANNOTATION = words("torch Tensor Optional None typing")
# A parameter with one of these in its name holds a copy on the host (seq_lens_cpu), whatever its annotation.
_HOST_NAMES = words("cpu host numpy np pinned")


def bind_arguments(
    function: Function, args: Sequence[Value], keywords: dict[str, Value], captured: bool
) -> dict[str, Value]:
    """Return parameter name → value for a call; a default stands where nothing is passed.

    Args:
        captured: the call runs inside a capture, where a parameter annotated as a tensor is one on the device.
    """
    parameters = function.parameters
    if parameters and parameters[0].arg in ("self", "cls") and function.owner is not None:
        parameters = parameters[1:]
    values = presumed_arguments(function, certain=False)
    annotated = annotated_tensors(function) if captured else {}
    for parameter, value in zip(parameters, args):
        name = parameter.arg
        values[name] = value if value.kind != "unknown" else annotated.get(name, values.get(name, UNKNOWN))
    for name, value in keywords.items():
        if value.kind != "unknown":
            values[name] = value
        elif name in annotated:
            values[name] = annotated[name]
    return values


def annotated_tensors(function: Function) -> dict[str, Value]:
    """Return the parameters whose annotation says that they are tensors, as tensors on the device."""
    return {
        parameter.arg: DEVICE
        for parameter in function.parameters
        if "Tensor" in (written := set(re.findall(r"\w+", _annotation(parameter.annotation))))
        and written <= _TENSOR_ANNOTATION
        and not _named_for_host(parameter)
    }


def presumed_arguments(function: Function, certain: bool) -> dict[str, Value]:
    """Judge parameters by annotation and default; with `certain`, by use as a tensor as well.

    Args:
        certain: the function is known to be captured, so a parameter used like a tensor is one on the device.
    """
    arguments = function.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = zip(reversed(positional), reversed(arguments.defaults))
    defaults: dict[str, ast.expr | None] = {parameter.arg: default for parameter, default in pairs}
    for parameter, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        defaults[parameter.arg] = keyword_default
    used = tensors_by_use(function.node) if certain else set()
    values: dict[str, Value] = {}
    for parameter in function.parameters:
        name = parameter.arg
        if name in ("self", "cls"):
            continue
        values[name] = _presume(parameter, defaults.get(name), name in used, certain)
    return values


def _named_for_host(parameter: ast.arg) -> bool:
    return bool(_HOST_NAMES & set(parameter.arg.lower().split("_")))


def _presume(parameter: ast.arg, default: ast.expr | None, used: bool, certain: bool) -> Value:
    written = _annotation(parameter.annotation)
    if _named_for_host(parameter) and ("Tensor" in written or not written):
        return UNKNOWN
    if "Tensor" in written:
        simple = "list" not in written.lower() and "dict" not in written.lower() and "tuple" not in written.lower()
        if not simple:
            return Value("iterable", DEVICE) if "dict" not in written.lower() else UNKNOWN
        return DEVICE if certain else UNKNOWN
    if written in ("int", "float", "bool", "str"):
        return HOST
    if isinstance(default, ast.Constant) and default.value is not None:
        return HOST
    if not written and used:
        return DEVICE
    return UNKNOWN


def _annotation(node: ast.expr | None) -> str:
    parts: list[str] = []
    for child in ast.walk(node) if node is not None else ():
        if isinstance(child, ast.Name):
            parts.append(child.id)
        elif isinstance(child, ast.Attribute):
            parts.append(child.attr)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            parts.append(child.value)
    return " ".join(parts)


def tensors_by_use(node: ast.AST) -> set[str]:
    """Return the names that a function uses like tensors: their methods, torch functions, matrix products."""
    used: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute) and child.attr in _TENSOR_METHODS and isinstance(child.value, ast.Name):
            used.add(child.value.id)
        elif isinstance(child, ast.BinOp) and isinstance(child.op, ast.MatMult):
            used.update(side.id for side in (child.left, child.right) if isinstance(side, ast.Name))
        elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            root = child.func.value
            if not isinstance(root, ast.Name) or root.id not in ("torch", "F", "torch_npu", "self"):
                continue
            if child.func.attr not in ("zeros", "ones", "empty", "arange", "full", "compile"):
                taken = child.args[:1] if root.id == "self" else child.args[:2]
                used.update(item.id for item in taken if isinstance(item, ast.Name))
    return used

"""Reads expressions in the order of execution: tells their values, and emits an event for each thing they do."""

from __future__ import annotations

import ast
from typing import Iterable

from .names import dotted
from .project import Class, Function, Module
from .trace import DEVICE, HOST, NONE, UNKNOWN, Event, Value
from .values import (
    HOST_ATTRIBUTES,
    NN_CONTAINERS,
    SAME_ATTRIBUTES,
    call_result,
    join,
    operator_result,
    words,
)

_LOG_METHODS = words("debug info warning warn error critical exception log info_once warning_once debug_once")
_CONVERTERS = frozenset(("int", "float", "complex", "range", "bin", "hex", "chr", "divmod"))
# Built-in functions that compare or test their arguments' elements.
_TESTERS = frozenset(("bool", "min", "max", "sorted", "any", "all", "filter"))
_PRINTERS = frozenset(("print", "str", "repr", "format", "pprint", "pprint.pprint", "logging.log"))
_HOST_MATH = ("math.", "numpy.", "np.")


class Frame:
    """One activation of a function: its names, and what surrounds the statement being read."""

    def __init__(
        self, module: Module, owner: Class | None, identity: int, outer: dict[str, Value] | None = None
    ) -> None:
        self.module = module
        self.owner = owner
        self.identity = identity
        self.names: dict[str, Value] = {}
        self.outer = outer or {}
        self.globals: set[str] = set()
        self.returned: list[Value] = []
        self.path: tuple[str, ...] = ()
        self.guarded = False
        self.loops: tuple[int, ...] = ()
        self.arms: tuple[tuple[int, int], ...] = ()


class ExpressionReader:
    """Reads expressions within `self.frame`; a subclass says what a call and an event do."""

    frame: Frame
    default_device = False

    def emit(self, event: Event) -> None:
        raise NotImplementedError

    def call(self, event: Event, node: ast.Call, target: Value) -> Value:
        raise NotImplementedError

    def dotted(self, node: ast.AST) -> str:
        """Return the canonical dotted name of an expression in this file."""
        return dotted(node, self.frame.module.imports)

    def lookup(self, name: str) -> Value:
        """Return what is known of a local, enclosing or module name."""
        if name in self.frame.names:
            return self.frame.names[name]
        return self.frame.outer.get(name, UNKNOWN)

    def read(self, node: ast.AST | None) -> Value:
        """Return the value of an expression, emitting what it does."""
        if node is None:
            return NONE
        reader = getattr(self, "_read_" + type(node).__name__.lower(), None)
        if reader is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.read(child)
            return UNKNOWN
        value: Value = reader(node)
        return value

    def read_test(self, node: ast.expr) -> Value:
        """Read an expression whose truth Python asks for."""
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self.read_test(part)
            return HOST
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.read_test(node.operand)
            return HOST
        value = self.read(node)
        if value.on_device:
            self.emit(Event("test", node, self.dotted(node), value=value))
        return value

    def _read_constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return NONE
        return Value("host", node.value) if isinstance(node.value, (str, bool, int, float)) else HOST

    def _read_name(self, node: ast.Name) -> Value:
        value = self.lookup(node.id)
        if value.kind == "unknown":
            name = self.dotted(node)
            value = self._definition(name)
        if value.on_device or value.kind in ("unknown", "cpu"):
            self.emit(Event("load", node, node.id, value=value))
        return value

    def _definition(self, name: str) -> Value:
        module = self.frame.module
        function = self.project_function(module, name)
        if function is not None:
            return Value("function", function)
        owner = self.project_class(module, name)
        return (
            Value("class", owner)
            if owner is not None
            else Value("unknown", name if name.startswith("torch.") else None)
        )

    def project_function(self, module: Module, name: str) -> Function | None:
        raise NotImplementedError

    def project_method(self, name: str) -> Function | None:
        raise NotImplementedError

    def project_class(self, module: Module, name: str) -> Class | None:
        raise NotImplementedError

    def _read_attribute(self, node: ast.Attribute) -> Value:
        name = self.dotted(node)
        if name in self.frame.names or name in self.frame.outer:
            value = self.lookup(name)
            if value.on_device or value.kind == "cpu":
                self.emit(Event("load", node, name, value=value))
            return value
        base = self.read(node.value)
        if base.kind in ("device", "mask", "cpu"):
            if node.attr in HOST_ATTRIBUTES:
                self.emit(Event("host_attribute", node, name, value=base))
                return Value("host", "npu" if base.on_device else "cpu") if node.attr == "device" else HOST
            if node.attr in SAME_ATTRIBUTES:
                return base
            return UNKNOWN
        if base.kind == "iterable" and node.attr in ("values", "indices") and base.detail == DEVICE:
            return DEVICE
        if name.startswith("self.") and name.count(".") == 1:
            method = self.project_method(node.attr)
            if method is not None:
                return Value("function", method)
            self.emit(Event("load", node, name, value=UNKNOWN))
        if name.startswith("torch."):
            return self._definition(name)
        return UNKNOWN

    def _read_tuple(self, node: ast.Tuple) -> Value:
        return Value("tuple", [self.read(item) for item in node.elts])

    _read_list = _read_tuple

    def _read_starred(self, node: ast.Starred) -> Value:
        value = self.read(node.value)
        return value if value.kind == "tuple" else UNKNOWN

    def _read_dict(self, node: ast.Dict) -> Value:
        for part in (*node.keys, *node.values):
            self.read(part)
        return HOST

    def _read_binop(self, node: ast.BinOp) -> Value:
        left, right = self.read(node.left), self.read(node.right)
        if isinstance(node.op, ast.Mod) and isinstance(left.detail, str):
            for value in right.items or [right]:
                if value.on_device:
                    self.emit(Event("format", node, "%", value=value))
            return HOST
        return operator_result(left, right)

    def _read_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            self.read_test(node.operand)
            return HOST
        return self.read(node.operand)

    def _read_boolop(self, node: ast.BoolOp) -> Value:
        values = [self.read_test(part) for part in node.values[:-1]]
        last = self.read(node.values[-1])
        result = last
        for value in values:
            result = join(value, result)
        return result

    def _read_compare(self, node: ast.Compare) -> Value:
        values = [self.read(node.left), *map(self.read, node.comparators)]
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return HOST
        device = any(value.on_device for value in values)
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            if values[0].on_device and values[-1].kind == "tuple" or values[-1].on_device:
                self.emit(Event("test", node, "in", value=DEVICE))
            return HOST
        if device and len(node.ops) > 1:
            self.emit(Event("test", node, "chain", value=DEVICE))
        if device:
            # A tensor compared with a string or None is a plain comparison of objects.
            return (
                HOST
                if any(isinstance(value.detail, str) or value.kind == "none" for value in values)
                else Value("mask")
            )
        return HOST if all(value.kind in ("host", "none") for value in values) else UNKNOWN

    def _read_ifexp(self, node: ast.IfExp) -> Value:
        self.read_test(node.test)
        return join(self.read(node.body), self.read(node.orelse))

    def _read_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.read(node.value)
        self.bind(node.target, value, node)
        return value

    def _read_joinedstr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.read(part.value)
                if value.on_device:
                    self.emit(Event("format", part.value, "f-string", value=value))
                self.read(part.format_spec)
        return HOST

    def _read_lambda(self, node: ast.Lambda) -> Value:
        return Value("function", Function(self.frame.module, node, self.frame.owner, "<lambda>"))

    def _read_subscript(self, node: ast.Subscript) -> Value:
        base = self.read(node.value)
        index = self._read_index(node.slice, base)
        if base.kind in ("device", "mask", "unknown"):
            # Only a tensor is indexed by a tensor of truths.
            if index.kind == "mask":
                kind = "index" if isinstance(node.ctx, ast.Load) else "store_index"
                self.emit(Event(kind, node, self.dotted(node.value), receiver=base, value=index))
                return DEVICE
            if base.kind != "unknown":
                return base._replace(detail=None)
        if isinstance(index.detail, int) and -len(base.items) <= index.detail < len(base.items):
            return base.items[index.detail]
        if base.kind == "iterable" and isinstance(base.detail, Value):
            return base.detail
        if base.kind == "cpu":
            return base
        return UNKNOWN

    def _read_index(self, node: ast.AST, base: Value) -> Value:
        if type(node).__name__ == "Index":  # Python 3.8 wraps an index
            node = getattr(node, "value", node)
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [self._read_index(part, base) for part in node.elts]
            masks = [part for part in parts if part.kind == "mask"]
            return masks[0] if masks else UNKNOWN
        if isinstance(node, ast.Slice) or type(node).__name__ == "ExtSlice":
            for bound in (getattr(node, name, None) for name in ("lower", "upper", "step")):
                if self.read(bound).on_device and bound is not None:
                    self.emit(Event("convert", bound, "slice bound", value=DEVICE))
            return HOST
        value = self.read(node)
        if value.on_device and base.kind in ("tuple", "host", "iterable"):
            self.emit(Event("convert", node, "index", value=DEVICE))
        return value

    def _read_listcomp(self, node: ast.ListComp) -> Value:
        self._read_generators(node.generators)
        return Value("iterable", self.read(node.elt))

    _read_setcomp = _read_listcomp
    _read_generatorexp = _read_listcomp

    def _read_dictcomp(self, node: ast.DictComp) -> Value:
        self._read_generators(node.generators)
        self.read(node.key)
        self.read(node.value)
        return HOST

    def _read_generators(self, generators: Iterable[ast.comprehension]) -> None:
        for generator in generators:
            self.bind(generator.target, self.element(self.read(generator.iter)), generator.target)
            for test in generator.ifs:
                self.read_test(test)

    def element(self, value: Value) -> Value:
        """Return what iterating a value gives."""
        if value.on_device or value.kind == "cpu":
            return value._replace(detail=None)
        if value.kind == "iterable" and isinstance(value.detail, Value):
            return value.detail
        if value.items:
            result = value.items[0]
            for item in value.items[1:]:
                result = join(result, item)
            return result
        return HOST if value.kind == "host" else UNKNOWN

    def bind(self, target: ast.AST, value: Value, node: ast.AST) -> None:
        """Bind a target to a value and emit the assignment."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for position, part in enumerate(target.elts):
                if len(value.items) == len(target.elts):
                    self.bind(part, value.items[position], node)
                else:
                    self.bind(part, DEVICE if value.on_device else self.element(value), node)
            return
        if isinstance(target, ast.Starred):
            self.bind(target.value, UNKNOWN, node)
            return
        if isinstance(target, ast.Subscript):
            base = self.read(target.value)
            index = self._read_index(target.slice, base)
            name = self.dotted(target.value)
            masked = index.kind == "mask" and base.on_device
            event = Event("store_index" if masked else "store", target, name, receiver=base, value=value)
            event.args = [index]
            event.arg_names = [self.dotted(getattr(node, "value", target))]
            self.emit(event)
            return
        name = self.dotted(target)
        if isinstance(target, ast.Attribute):
            self.read(target.value)
        if name:
            event = Event("assign", node, name, receiver=self.lookup(name), value=value)
            self.emit(event)
            self.frame.names[name] = value
            for known in [key for key in self.frame.names if key.startswith(name + ".")]:
                del self.frame.names[known]

    def _read_call(self, node: ast.Call) -> Value:
        name = self.dotted(node.func)
        receiver, target = UNKNOWN, UNKNOWN
        if isinstance(node.func, ast.Attribute):
            stored = self.lookup(name) if name else UNKNOWN
            if stored.kind != "unknown":
                target = stored
            else:
                receiver = self.read(node.func.value)
        elif isinstance(node.func, ast.Name):
            target = self.lookup(node.func.id)
            if target.kind == "unknown" and node.func.id not in self.frame.names:
                target = self._definition(name)
        else:
            target = self.read(node.func)
        if not name and isinstance(node.func, ast.Attribute):
            name = f"?.{node.func.attr}"  # a method of an expression that has no name
        event = Event("call", node, name, receiver=receiver)
        for argument in node.args:
            value = self.read(argument)
            if isinstance(argument, ast.Starred):
                event.args += value.items
            else:
                event.args.append(value)
            event.arg_names.append(self.dotted(argument))
        for keyword in node.keywords:
            value = self.read(keyword.value)
            if keyword.arg:
                event.keywords[keyword.arg] = (
                    value._replace(detail=self.dotted(keyword.value))
                    if (value.kind == "unknown" and value.detail is None)
                    else value
                )
        event.value = call_result(name, receiver, event.args, event.keywords, self.default_device)
        self._use_of_arguments(event, node)
        result = self.call(event, node, target)
        return event.value if result.kind == "unknown" else result

    def _use_of_arguments(self, event: Event, node: ast.Call) -> None:
        """Emit what built-in functions do with device tensors: print them, convert them, test them."""
        given = [(value, item) for value, item in zip(event.args, node.args) if value.on_device]
        if not given:
            return
        name, last = event.name, event.method
        if (
            name in _PRINTERS
            or (last in _LOG_METHODS and "log" in event.owner.lower())
            or (last == "format" and isinstance(getattr(node.func, "value", None), ast.Constant))
        ):
            kind = "format"
        elif name in _CONVERTERS or name.startswith(_HOST_MATH):
            kind = "convert"
        elif name in _TESTERS and (
            name == "bool" or len(node.args) > 1 or name in ("any", "all", "sorted", "min", "max")
        ):
            kind = "test"
        else:
            return
        for value, item in given:
            self.emit(Event(kind, item, f"{name.rpartition('.')[2]}()", value=value))


def container_of_modules(name: str) -> bool:
    """Say whether a call makes a container of nn.Modules."""
    return name.startswith("torch.nn.") and name.rpartition(".")[2] in NN_CONTAINERS

"""Walks a function's statements in order, follows calls across the given files, and knows when a capture is open."""

from __future__ import annotations

import ast
from typing import Iterable, Sequence

from . import names
from .conditions import capture_guard, captures, mentions_capture
from .expressions import ExpressionReader, Frame, container_of_modules
from .parameters import annotated_tensors, bind_arguments, presumed_arguments
from .project import Class, Function, Module, Project
from .trace import COMPILED, DEVICE, GRAPHED, MANUAL, NONE, UNKNOWN, Event, Region, Trace, Value
from .values import join

MAX_DEPTH = 12
# How often one function is read again in one region: code where everything calls everything would double at each level.
MAX_READINGS = 8
# A file that makes more events than this is pathological; what was seen until then is still judged.
MAX_EVENTS = 200_000


class Walker(ExpressionReader):
    """Builds one trace. Regions nest; names of a frame are its own, `self.x` is shared between a class's methods."""

    def __init__(self, project: Project, trace: Trace, inlined: set[int]) -> None:
        self.project = project
        self.trace = trace
        self.inlined = inlined
        self.regions: list[Region] = []
        self.streams: list[str] = []
        self.expected = 0
        self.depth = 0
        self.frames = 0
        self.loops = 0
        self.branches = 0
        self.active: set[int] = set()
        self.readings: dict[tuple[int, int], int] = {}
        self.self_names: dict[int, dict[str, Value]] = {}
        self.exits: list[list[tuple[str, object]]] = []
        self.frame = Frame(project.modules[0], None, 0) if project.modules else None  # type: ignore[assignment]

    # -- events ------------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        if len(self.trace.events) >= MAX_EVENTS:
            return
        event.file = self.frame.module.source.file
        event.frame = self.frame.identity
        event.path = self.frame.path
        event.loops = self.frame.loops
        event.arms = self.frame.arms
        event.region = self.regions[-1] if self.regions else None
        event.streams = tuple(self.streams)
        event.guarded = self.frame.guarded
        event.expected_failure = self.expected > 0
        self.trace.events.append(event)

    def project_function(self, module: Module, name: str) -> Function | None:
        return self.project.function(module, name)

    def project_method(self, name: str) -> Function | None:
        return self.project.method(self.frame.owner, name) if self.frame.owner is not None else None

    def project_class(self, module: Module, name: str) -> Class | None:
        return self.project.class_named(module, name)

    # -- units -------------------------------------------------------------------------------------------------

    def walk_module(self, module: Module) -> dict[str, Value]:
        """Read a file's top-level statements and return its names."""
        self.frame = Frame(module, None, self._next_frame())
        self.block(module.source.tree.body)
        return self.frame.names

    def walk_unit(self, function: Function, outer: dict[str, Value]) -> None:
        """Read one function as it stands, its parameters judged by annotation and use."""
        region = self.compiled_by_decorator(function)
        if region is not None:
            self.regions.append(region)
        values = presumed_arguments(function, certain=region is not None)
        if region is None and mentions_capture(function):
            values.update(annotated_tensors(function))
        self.enter(function, values, outer, UNKNOWN)
        self.regions.clear()

    def walk_region(
        self, function: Function, kind: str, line: int, outer: dict[str, Value], args: Sequence[Value]
    ) -> None:
        """Read a function as the body of a capture."""
        region = Region(kind, function.file, line, f"{kind} {function.label}")
        values = presumed_arguments(function, certain=True)
        # A bound method's first parameter is the object; sample arguments begin after it.
        plain = [item.arg for item in function.parameters if item.arg not in ("self", "cls")]
        for name, value in zip(plain, args):
            if value.kind != "unknown":
                values[name] = value
        depth = len(self.regions)
        self.regions.append(region)
        self.enter(function, values, outer, UNKNOWN)
        del self.regions[depth:]  # empty already where the function ends a capture that it did not begin

    # -- functions ---------------------------------------------------------------------------------------------

    def enter(self, function: Function, values: dict[str, Value], outer: dict[str, Value], instance: Value) -> Value:
        """Read a function's body in a frame of its own; return what it returns."""
        key = id(function.node)
        reading = (key, id(self.regions[-1]) if self.regions else 0)
        self.readings[reading] = self.readings.get(reading, 0) + 1
        if key in self.active or self.depth >= MAX_DEPTH or self.readings[reading] > MAX_READINGS:
            return UNKNOWN
        self.active.add(key)
        self.inlined.add(key)
        caller, regions, streams = self.frame, len(self.regions), len(self.streams)
        frame = Frame(function.module, function.owner, self._next_frame(), outer)
        frame.path = (*caller.path, function.label) if caller is not None else (function.label,)
        frame.arms = caller.arms if caller is not None else ()
        frame.guarded = bool(caller is not None and caller.guarded and self.depth)
        frame.names.update(values)
        owner = instance.detail if instance.kind == "module" and isinstance(instance.detail, Class) else function.owner
        if owner is not None:
            frame.owner = owner
            frame.names.update(self.names_of_self(owner))
        self.frame = frame
        self.depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                frame.returned.append(self.read(function.node.body))
            else:
                self.block(function.node.body)
        finally:
            self.depth -= 1
            del self.regions[regions:]
            del self.streams[streams:]
            self.frame = caller
            self.active.discard(key)
        if owner is not None and (caller is None or caller.owner is owner):
            shared = {name: value for name, value in frame.names.items() if name.startswith("self.")}
            self.self_names.setdefault(id(owner), {}).update(shared)
        result = NONE if not frame.returned else frame.returned[0]
        for value in frame.returned[1:]:
            result = join(result, value)
        return result

    def names_of_self(self, owner: Class) -> dict[str, Value]:
        """Return what __init__ (of the class and its bases) leaves in `self.…`."""
        known = self.self_names.get(id(owner))
        if known is not None:
            return known
        self.self_names[id(owner)] = found = {}
        is_module = self.project.is_module_class(owner)
        for init in self._inits(owner):
            quiet = Walker(self.project, Trace(init.file, init.label), set())
            quiet.self_names = self.self_names
            quiet.default_device = self.default_device
            quiet.frame = Frame(init.module, owner, 0)
            quiet.depth = MAX_DEPTH - 2
            frame = Frame(init.module, owner, 1)
            frame.names.update(presumed_arguments(init, certain=False))
            quiet.frame = frame
            if not isinstance(init.node, ast.Lambda):
                quiet.block(init.node.body)
            for name, value in frame.names.items():
                if name.startswith("self."):
                    found[name] = DEVICE if is_module and value.kind == "cpu" else value
        return found

    def _inits(self, owner: Class) -> Iterable[Function]:
        for base in owner.bases:
            parent = self.project.class_named(owner.module, base)
            if parent is not None and parent is not owner and "__init__" in parent.methods:
                yield parent.methods["__init__"]
        if "__init__" in owner.methods:
            yield owner.methods["__init__"]

    def _next_frame(self) -> int:
        self.frames += 1
        return self.frames

    # -- calls -------------------------------------------------------------------------------------------------

    def call(self, event: Event, node: ast.Call, target: Value) -> Value:
        name, last = event.name, event.method
        event.target = target
        self.emit(event)
        if last == "capture_begin" and event.receiver.kind in ("graph", "unknown"):
            self._begin(Region(MANUAL, event.file, node.lineno, f"capture_begin of {event.owner}", event.owner, node))
        elif last == "capture_end" and self.regions:
            matching = [region for region in self.regions if region.graph == event.owner] or self.regions[-1:]
            self.regions.remove(matching[-1])
            self.emit(Event("exit", node, event.owner))
        elif name == "torch.npu.set_stream":
            self.streams.append(event.arg_names[0] if event.arg_names else "?")
        elif last == "enter_context" and node.args and self.exits:
            self.exits[-1] += self._open_context(node.args[0])
        elif name == "torch.set_default_device":
            self.default_device = True
        elif last == "register_buffer" and len(node.args) > 1 and isinstance(event.args[0].detail, str):
            self.frame.names[f"{event.owner}.{event.args[0].detail}"] = DEVICE
        elif name == names.GRAPHED_CALLABLES and node.args:
            return self._graphed(event, node)
        elif name == "torch.compile":
            return self._compiled(event, node)
        if name in ("functools.partial", "partial") and event.args and event.args[0].kind == "function":
            return event.args[0]
        if container_of_modules(name):
            return Value("chain", self._modules_inside(event.args))
        return self._follow(event, target)

    def _modules_inside(self, args: Sequence[Value]) -> list[Value]:
        """Return the modules that a container is made of, once each."""
        parts = [part for value in args for part in (value.items or [self.element(value), value])]
        modules = [part for part in parts if part.kind == "module"]
        return list({id(part.detail): part for part in modules}.values()) or [Value("module")]

    def _follow(self, event: Event, target: Value) -> Value:
        """Enter the called function when it is in the given files and matters here."""
        function: Function | None = None
        instance, values = UNKNOWN, event.args
        if target.kind == "chain":
            # A Sequential calls its modules one after the other; each takes what the one before gave.
            for item in target.items:
                self._follow(event, item)
            return DEVICE if any(value.on_device for value in event.args) else UNKNOWN
        if target.kind == "function" and isinstance(target.detail, Function):
            function = target.detail
        elif target.kind == "class" and isinstance(target.detail, Class):
            return Value("module", target.detail)
        elif target.kind == "module" and isinstance(target.detail, Class):
            instance = target
            function = self.project.method(target.detail, "forward") or self.project.method(target.detail, "__call__")
        elif event.receiver.kind == "module" and isinstance(event.receiver.detail, Class):
            instance = event.receiver
            function = self.project.method(event.receiver.detail, event.method)
        elif event.owner in ("self", "cls") and self.frame.owner is not None:
            function = self.project.method(self.frame.owner, event.method)
            instance = Value("module", self.frame.owner)
        elif event.owner and "(" not in event.owner:
            function = self.project.function(self.frame.module, event.name)
            if function is None:
                owner = self.project.class_named(self.frame.module, event.name)
                if owner is not None:
                    return Value("module", owner)
        if function is None:
            on_device = any(value.on_device for value in (*event.args, *event.keywords.values()))
            return DEVICE if target.kind == "module" and on_device else UNKNOWN
        return self._enter_call(function, event, values, instance)

    def _enter_call(self, function: Function, event: Event, args: Sequence[Value], instance: Value) -> Value:
        passed = bind_arguments(function, args, event.keywords, captured=bool(self.regions))
        outer = self._outer_for(function)
        if self.regions or mentions_capture(function):
            return self.enter(function, passed, outer, instance)
        if self.depth >= 4:
            return UNKNOWN
        quiet = Walker(self.project, Trace(function.file, function.label), set())
        quiet.self_names = self.self_names
        quiet.readings = self.readings
        quiet.default_device = self.default_device
        quiet.frame, quiet.depth, quiet.active = self.frame, self.depth + 1, set(self.active)
        return quiet.enter(function, passed, outer, instance)

    def _outer_for(self, function: Function) -> dict[str, Value]:
        if function.module is self.frame.module:
            return {**self.frame.outer, **{k: v for k, v in self.frame.names.items() if not k.startswith("self.")}}
        return {}

    def _graphed(self, event: Event, node: ast.Call) -> Value:
        """Read each function given to make_graphed_callables as the body of a capture."""
        samples = event.args[1] if len(event.args) > 1 else event.keywords.get("sample_args", UNKNOWN)
        given = event.args[0]
        for position, value in enumerate(given.items or [given]):
            args = samples.items
            if given.items:
                args = args[position].items if position < len(args) else []
            self._walk_value(value, GRAPHED, node.lineno, args)
        return given._replace(fresh=True)

    def _compiled(self, event: Event, node: ast.Call) -> Value:
        if not captures(event.keywords.get("backend", UNKNOWN)):
            return event.args[0] if event.args else UNKNOWN
        if event.args:
            self._walk_value(event.args[0], COMPILED, node.lineno, [])
            return event.args[0]._replace(fresh=True)
        return UNKNOWN

    def _walk_value(self, value: Value, kind: str, line: int, args: Sequence[Value]) -> None:
        function: Function | None = None
        if value.kind == "function" and isinstance(value.detail, Function):
            function = value.detail
        elif value.kind == "module" and isinstance(value.detail, Class):
            function = self.project.method(value.detail, "forward") or self.project.method(value.detail, "__call__")
        if function is not None:
            self.walk_region(function, kind, line, self._outer_for(function), args)

    def compiled_by_decorator(self, function: Function) -> Region | None:
        """Return the region of a function decorated with torch.compile and a capturing backend."""
        for decorator in getattr(function.node, "decorator_list", ()):
            if not isinstance(decorator, ast.Call):
                continue
            called = names.dotted(decorator.func, function.module.imports)
            through_partial = called.rpartition(".")[2] == "partial" and bool(decorator.args)
            if through_partial:
                called = names.dotted(decorator.args[0], function.module.imports)
            if called != "torch.compile":
                continue
            for keyword in decorator.keywords:
                backend = Value("host", getattr(keyword.value, "value", None))
                if keyword.arg == "backend" and captures(backend):
                    return Region(COMPILED, function.file, decorator.lineno, f"compiled {function.label}")
        return None

    # -- contexts ----------------------------------------------------------------------------------------------

    def _begin(self, region: Region) -> None:
        nested = self.regions[-1] if self.regions else None
        event = Event("enter", region.node or ast.Pass(), region.graph)
        self.emit(event)
        event.region = nested
        event.value = Value("region", region)
        self.regions.append(region)

    def _open_context(self, node: ast.expr) -> list[tuple[str, object]]:
        """Open what a with-item opens; return what has to be closed again."""
        if not isinstance(node, ast.Call):
            return []
        call = node
        name = self.dotted(call.func)
        last = name.rpartition(".")[2]
        first = self.dotted(call.args[0]) if call.args else ""
        if not first and call.args and isinstance(call.args[0], ast.Starred):
            first = "?"
        if last in names.EXPECTED_FAILURE:
            self.expected += 1
            return [("expected", None)]
        known_graph = bool(call.args) and self.lookup(first).kind == "graph"
        if name == names.GRAPH_CONTEXT or (last == "graph" and known_graph):
            region = Region(
                MANUAL, self.frame.module.source.file, call.lineno, f"torch.npu.graph({first})", first, call
            )
            self._begin(region)
            stream = [self.dotted(item.value) for item in call.keywords if item.arg == "stream"]
            self.streams.append(stream[0] if stream else f"<capture {call.lineno}>")
            return [("region", region), ("stream", None)]
        if name == names.STREAM_CONTEXT or ("stream" in last.lower() and self.lookup(first).kind == "stream"):
            self.emit(Event("stream_enter", call, first))
            self.streams.append(first or f"<stream {call.lineno}>")
            return [("stream", (first, call))]
        return []

    def _close(self, opened: list[tuple[str, object]]) -> None:
        for kind, what in reversed(opened):
            if kind == "expected":
                self.expected -= 1
            elif kind == "stream":
                if self.streams:
                    self.streams.pop()
                if isinstance(what, tuple):
                    self.emit(Event("stream_exit", what[1], what[0]))
            elif kind == "region" and what in self.regions:
                region: Region = what
                while self.regions and self.regions.pop() is not region:
                    pass
                event = Event("exit", region.node or ast.Pass(), region.graph)
                self.emit(event)
                event.value = Value("region", region)

    # -- statements --------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Read statements in order."""
        for statement in statements:
            reader = getattr(self, "_do_" + type(statement).__name__.lower(), None)
            if reader is not None:
                reader(statement)

    def _do_expr(self, node: ast.Expr) -> None:
        self.read(node.value)

    def _do_assign(self, node: ast.Assign) -> None:
        value = self.read(node.value)
        if isinstance(node.value, ast.Attribute) and self.dotted(node.value) == "torch.bool":
            value = Value("host", "torch.bool")
        for target in node.targets:
            self.bind(target, value, node)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.read(node.value), node)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        name = self.dotted(node.target)
        current = self.read(node.target)
        value = self.read(node.value)
        event = Event("augassign", node, name, receiver=current, value=value)
        event.arg_names = [type(node.op).__name__]
        self.emit(event)
        if name and not current.on_device:
            self.frame.names[name] = DEVICE if value.on_device else current

    def _do_return(self, node: ast.Return) -> None:
        value = self.read(node.value)
        self.emit(Event("return", node, value=value))
        self.frame.returned.append(value)

    def _do_raise(self, node: ast.Raise) -> None:
        guarded, self.frame.guarded = self.frame.guarded, True  # runs only when the code fails anyway
        self.read(node.exc)
        self.frame.guarded = guarded

    def _do_assert(self, node: ast.Assert) -> None:
        self.read_test(node.test)
        guarded, self.frame.guarded = self.frame.guarded, True
        self.read(node.msg)
        self.frame.guarded = guarded

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.frame.names.pop(self.dotted(target), None)

    def _do_global(self, node: ast.Global) -> None:
        self.frame.globals.update(node.names)
        for name in node.names:
            self.emit(Event("global", node, name))

    _do_nonlocal = _do_global

    def _do_functiondef(self, node: ast.FunctionDef) -> None:
        function = Function(self.frame.module, node, self.frame.owner, node.name)
        self.frame.names[node.name] = Value("function", function)
        region = self.compiled_by_decorator(function)
        if region is not None:
            self.walk_region(function, COMPILED, region.line, self._outer_for(function), [])

    _do_asyncfunctiondef = _do_functiondef

    def _do_classdef(self, node: ast.ClassDef) -> None:
        known = self.frame.module.classes.get(node.name)
        owner = known if known is not None and known.node is node else Class(self.frame.module, node)
        self.frame.names[node.name] = Value("class", owner)

    def _do_if(self, node: ast.If) -> None:
        self.read_test(node.test)
        guard = capture_guard(node.test)
        before = dict(self.frame.names)
        guarded = self.frame.guarded
        self.frame.guarded = guarded or guard == "outside"
        self.branches += 1
        number, arms = self.branches, self.frame.arms
        self.frame.arms = (*arms, (number, 0))
        self.block(node.body)
        self.frame.arms = (*arms, (number, 1))
        after_body = self.frame.names
        self.frame.names = before
        self.frame.guarded = guarded or guard == "inside"
        self.block(node.orelse)
        self.frame.arms = arms
        leaves = bool(node.body) and isinstance(node.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))
        # `if capturing: return …` leaves only eager execution for the rest.
        self.frame.guarded = guarded or (guard == "inside" and leaves)
        if leaves:
            return
        for name, value in after_body.items():
            # With no else branch, the names of the body count: the interesting case is that it ran.
            if name not in self.frame.names:
                self.frame.names[name] = value
            elif node.orelse:
                self.frame.names[name] = join(value, self.frame.names[name])
            elif value.kind != "unknown":
                self.frame.names[name] = value

    def _do_for(self, node: ast.For) -> None:
        value = self.read(node.iter)
        self.bind(node.target, self.element(value), node.target)
        self._loop(node.body)
        self.block(node.orelse)

    _do_asyncfor = _do_for

    def _do_while(self, node: ast.While) -> None:
        self.read_test(node.test)
        self._loop(node.body)
        self.block(node.orelse)

    def _loop(self, body: Sequence[ast.stmt]) -> None:
        self.loops += 1
        outside = self.frame.loops
        self.frame.loops = (*outside, self.loops)
        self.block(body)
        self.frame.loops = outside

    def _do_try(self, node: ast.Try) -> None:
        self.block(node.body)
        guarded = self.frame.guarded
        for handler in node.handlers:
            self.frame.guarded = True  # runs only after a failure
            self.block(handler.body)
        self.frame.guarded = guarded
        self.block(node.orelse)
        self.block(node.finalbody)

    _do_trystar = _do_try

    def _do_with(self, node: ast.With) -> None:
        opened: list[tuple[str, object]] = []
        self.exits.append(opened)
        for item in node.items:
            value = self.read(item.context_expr)
            opened += self._open_context(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, item.optional_vars)
        self.block(node.body)
        self.exits.pop()
        self._close(opened)

    _do_asyncwith = _do_with

    def _do_match(self, node: ast.AST) -> None:
        self.read(getattr(node, "subject", None))
        for case in getattr(node, "cases", ()):
            self.block(case.body)

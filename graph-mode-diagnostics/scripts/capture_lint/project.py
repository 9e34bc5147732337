"""The functions and classes of all given files, and how a name in one file reaches a definition in another."""

from __future__ import annotations

import ast
from typing import Sequence, Union

from .names import dotted, read_imports
from .sources import Source

FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]


class Function:
    """A function definition, where it stands, and the class or function around it."""

    def __init__(self, module: Module, node: FunctionNode, owner: Class | None, label: str) -> None:
        self.module = module
        self.node = node
        self.owner = owner
        self.label = label

    @property
    def file(self) -> str:
        return self.module.source.file

    @property
    def parameters(self) -> list[ast.arg]:
        """Return positional and keyword parameters in order, self or cls included."""
        arguments = self.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


class Class:
    """A class definition with its methods."""

    def __init__(self, module: Module, node: ast.ClassDef) -> None:
        self.module = module
        self.node = node
        self.methods: dict[str, Function] = {}
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.methods[item.name] = Function(module, item, self, f"{node.name}.{item.name}")

    @property
    def bases(self) -> list[str]:
        return [dotted(base, self.module.imports) for base in self.node.bases]


class Module:
    """One file: its imports, its functions and classes (those inside functions too, by name)."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.imports = read_imports(source.tree, source.module)
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.all_functions: list[Function] = []
        self._collect(source.tree, None, "")

    def _collect(self, node: ast.AST, owner: Class | None, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found = Class(self, child)
                self.classes.setdefault(child.name, found)
                self.all_functions += found.methods.values()
                for method in found.methods.values():
                    self._collect(method.node, None, method.label + ".")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function = Function(self, child, owner, prefix + child.name)
                if not prefix:
                    self.functions.setdefault(child.name, function)
                self.all_functions.append(function)
                self._collect(child, None, function.label + ".")
            elif not isinstance(child, ast.expr):  # no definition stands inside an expression, which may be deep
                self._collect(child, owner, prefix)


class Project:
    """All given files."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.modules = [Module(source) for source in sources]
        self._by_name = {module.source.module: module for module in self.modules}

    def function(self, module: Module, name: str) -> Function | None:
        """Return the function that a dotted name means in a file, if it is in one of the given files."""
        if name in module.functions:
            return module.functions[name]
        target, last = self._imported(name)
        return target.functions.get(last) if target else None

    def class_named(self, module: Module, name: str) -> Class | None:
        """Return the class that a dotted name means in a file."""
        if name in module.classes:
            return module.classes[name]
        target, last = self._imported(name)
        return target.classes.get(last) if target else None

    def _imported(self, name: str) -> tuple[Module | None, str]:
        where, _, last = name.rpartition(".")
        if not where:
            return None, last
        found = self._by_name.get(where)
        if found is None:
            # Files given without their package (a script next to its helper) are known by their last part.
            short = where.rpartition(".")[2]
            candidates = [module for name, module in self._by_name.items() if name.rpartition(".")[2] == short]
            found = candidates[0] if len(candidates) == 1 and short in (where, where.rpartition(".")[2]) else None
        return found, last

    def method(self, owner: Class, name: str, depth: int = 8) -> Function | None:
        """Return a method of a class or of its bases in the given files."""
        if name in owner.methods:
            return owner.methods[name]
        for base in owner.bases if depth else []:
            parent = self.class_named(owner.module, base)
            if parent is not None and parent is not owner:
                found = self.method(parent, name, depth - 1)
                if found is not None:
                    return found
        return None

    def is_module_class(self, owner: Class, depth: int = 8) -> bool:
        """Say whether a class derives from torch.nn.Module, as far as the given files show."""
        for base in owner.bases if depth else []:
            if base.rpartition(".")[2] == "Module":
                return True
            parent = self.class_named(owner.module, base)
            if parent is not None and parent is not owner and self.is_module_class(parent, depth - 1):
                return True
        return False

    def find_entry(self, module_name: str, function: str) -> Function | None:
        """Return the function of `--entry module:function`; a method is Class.method, a class means its forward."""
        for module in self.modules:
            name = module.source.module
            if name != module_name and not name.endswith("." + module_name) and module.source.file != module_name:
                continue
            owner, _, method = function.partition(".")
            if owner in module.classes:
                found = module.classes[owner]
                if method:
                    return self.method(found, method)
                return self.method(found, "forward") or self.method(found, "__call__")
            if function in module.functions:
                return module.functions[function]
        return None

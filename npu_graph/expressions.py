"""Regular expressions that are compiled when they can match: compiling them all costs more than most answers."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Callable, cast

from npu_graph.regex_safety import needed_literals

# A method that gives None where nothing matches needs no compiled expression to say so of a text without its literals.
_GUARDED = ("match", "search", "fullmatch")
_METHODS = (*_GUARDED, "finditer", "findall", "sub", "split")


class _OnUse:
    """Stands for a compiled expression; once a text may match, its methods are those of the compiled one."""

    __slots__ = ("_flags", "_source", *_METHODS)

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        # Python asks here only for what is not set yet.
        literals = self._literals() if name in _GUARDED else ()
        if literals:
            guarded = self._guarded(name, literals)
            setattr(self, name, guarded)
            return guarded
        return getattr(self._compiled(), name)

    def _compiled(self) -> Any:
        compiled = re.compile(self._source, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return compiled

    def _literals(self) -> tuple[Any, ...]:
        if self._flags & re.IGNORECASE:
            return ()
        if isinstance(self._source, str):
            return needed_literals(self._source)
        return tuple(item.encode("latin-1") for item in needed_literals(self._source.decode("latin-1")))

    def _guarded(self, name: str, literals: tuple[Any, ...]) -> Callable[..., Any]:
        def ask(text: Any, *bounds: int) -> Any:
            for literal in literals:
                if literal in text:
                    return getattr(self._compiled(), name)(text, *bounds)
            return None

        return ask


def compile_on_use(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, save that a faulty expression is reported when it is compiled."""
    return cast("re.Pattern[AnyStr]", _OnUse(expression, flags))

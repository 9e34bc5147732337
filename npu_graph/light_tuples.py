"""typing.NamedTuple without its compiling every annotation: that is two thirds of the cost of making such a class.

A short run makes sixty of them, 0.2 ms each. To a type checker it is typing.NamedTuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    # What the class statement itself puts into the namespace; the rest are methods and properties.
    _OF_THE_STATEMENT = ("__module__", "__qualname__", "__annotations__")

    class _Maker(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(mcs, name, bases, namespace)
            fields = namespace.get("__annotations__", {})
            defaults = [namespace[field] for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])
            made.__annotations__ = dict(fields)
            for key, value in namespace.items():
                if key not in _OF_THE_STATEMENT and key not in fields:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """Base of a class whose annotated names are the fields of a tuple."""

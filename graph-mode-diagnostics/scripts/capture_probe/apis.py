"""Calls that no operator shows: waits, seeds, cache clearing, stream and event methods; watched while a run lasts."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any, Callable, Iterator

# Module, attribute, rule. Only modules that are already imported are touched.
_FUNCTIONS = (
    ("torch.npu", "synchronize", "synchronize"),
    ("torch.npu", "empty_cache", "empty_cache"),
    ("torch.npu", "manual_seed", "seed"),
    ("torch.npu", "manual_seed_all", "seed"),
    ("torch.cuda", "synchronize", "synchronize"),
    ("torch.cuda", "empty_cache", "empty_cache"),
    ("torch.cpu", "synchronize", "synchronize"),
    ("torch.accelerator", "synchronize", "synchronize"),
    ("torch", "manual_seed", "seed"),
    ("torch", "seed", "seed"),
    ("torch.random", "manual_seed", "seed"),
)
# Class, method, rule or stream action. torch_npu and torch.cuda have Python classes over the C ones.
_METHODS = (
    ("Stream", "synchronize", "synchronize"),
    ("Stream", "query", "synchronize"),
    ("Event", "synchronize", "synchronize"),
    ("Event", "query", "synchronize"),
    ("Event", "elapsed_time", "synchronize"),
    ("Stream", "wait_stream", "wait_stream"),
    ("Stream", "wait_event", "wait_event"),
    ("Stream", "record_event", "record_event"),
    ("Event", "record", "record"),
    ("Event", "wait", "wait"),
)
_STREAM_MODULES = ("torch.npu", "torch.cuda", "torch.cpu")


@contextlib.contextmanager
def watched(on_call: Callable[[str, str, tuple[Any, ...], Any], None]) -> Iterator[None]:
    """Call `on_call(rule or action, name, arguments, result)` after each watched call, inside the context."""
    import torch

    undo: list[tuple[Any, str, Any]] = []
    for module_name, attribute, rule in _FUNCTIONS:
        module = _module(torch, module_name)
        original = getattr(module, attribute, None) if module is not None else None
        if callable(original):
            undo.append((module, attribute, original))
            setattr(module, attribute, _wrap(original, rule, f"{module_name}.{attribute}", on_call))
    for module_name in _STREAM_MODULES:
        module = _module(torch, module_name)
        for class_name, method, rule in _METHODS:
            owner = getattr(module, class_name, None) if module is not None else None
            original = owner.__dict__.get(method) if isinstance(owner, type) else None
            if original is None or not callable(original):
                continue
            with contextlib.suppress(TypeError):  # a class in C cannot be changed
                setattr(owner, method, _wrap(original, rule, f"{class_name}.{method}", on_call))
                undo.append((owner, method, original))
    try:
        yield
    finally:
        for owner, attribute, original in reversed(undo):
            setattr(owner, attribute, original)


def current_stream(device: str) -> Any:
    """Return the current stream of the device as a hashable value; None where the device has no streams."""
    import torch

    module = _module(torch, f"torch.{device}")
    getter = getattr(module, "current_stream", None)
    if getter is None:
        return None
    try:
        return stream_key(getter())
    except (RuntimeError, AttributeError, AssertionError):
        return None


def stream_key(stream: Any) -> Any:
    """Return what identifies a stream: its handle, else the object."""
    for name in ("npu_stream", "cuda_stream", "stream_id"):
        value = getattr(stream, name, None)
        if isinstance(value, int):
            return value
    return id(stream)


def _wrap(original: Any, rule: str, name: str, on_call: Callable[[str, str, tuple[Any, ...], Any], None]) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        on_call(rule, name, (*args, *kwargs.values()), result)
        return result

    return call


def _module(torch: Any, name: str) -> Any:
    if name == "torch":
        return torch
    short = name.partition(".")[2]
    module = sys.modules.get(name) or getattr(torch, short, None)
    if module is None and short in ("cpu", "random"):
        module = importlib.import_module(name)
    return module

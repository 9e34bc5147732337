"""Graph replay without a device: record the operators of one call, and replay them into the same tensors.

As a captured graph does, it keeps addresses and host numbers of the capture. Each factory but `correct` builds in one
fault that users meet.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

shuffle = random.Random(7)


class Recording(TorchDispatchMode):
    """Keeps (operator, arguments, result tensors) of what ran; views and in-place operators have nothing to write back."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        owned = {tensor.untyped_storage().data_ptr() for tensor in tensors((args, kwargs))}
        fresh = [tensor for tensor in tensors(result) if tensor.untyped_storage().data_ptr() not in owned]
        self.calls.append((func, args, kwargs, fresh))
        return result

    def replay(self, call: tuple[Any, Any, Any, list[Any]]) -> None:
        func, args, kwargs, fresh = call
        for old, new in zip(fresh, tensors(func(*args, **kwargs))):
            old.copy_(new)


def tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def capture(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Recording, tuple[Any, ...], Any]:
    static = tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)
    recording = Recording()
    with torch.no_grad(), recording:
        output = call(*static, **kwargs)
    return recording, static, output


def correct(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    recording, static, output = capture(call, args, kwargs)

    def replay(*new: Any) -> Any:
        for old, value in zip(static, new):
            old.copy_(value)
        for item in recording.calls:
            recording.replay(item)
        return output

    return replay


def input_not_copied(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    recording, _, output = capture(call, args, kwargs)

    def replay(*_: Any) -> Any:
        for item in recording.calls:
            recording.replay(item)
        return output

    return replay


def second_input_rebound(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Copies the first input only: the second was bound to a new tensor."""
    good = correct(call, args, kwargs)
    return lambda *new: good(new[0], args[1])


def padded_rows_hold_garbage(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    good = correct(call, args, kwargs)

    def replay(*new: Any) -> Any:
        padded = new[0].clone()
        padded[3:] = 77.0  # what an earlier, larger batch left there
        return good(padded, *new[1:])

    return replay


def no_event_between_streams(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """The copy of the input and the replay race: now and then the replay is first."""
    recording, static, output = capture(call, args, kwargs)

    def replay(*new: Any) -> Any:
        late = shuffle.random() < 0.5
        if not late:
            static[0].copy_(new[0])
        for item in recording.calls:
            recording.replay(item)
        if late:
            static[0].copy_(new[0])
        return output

    return replay


def other_kernel(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    good = correct(call, args, kwargs)
    return lambda *new: good(*new).to(torch.bfloat16).float()


def nan_from_padding(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    good = correct(call, args, kwargs)

    def replay(*new: Any) -> Any:
        result = good(*new).clone()
        result[0, 0] = float("nan")
        return result

    return replay

"""Record every operator of one run of a callable, with the rule it breaks and the user's line."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, NamedTuple

from .apis import current_stream, stream_key, watched
from .frames import Place, user_stack
from .streams import StreamTracker

# Operators beyond torch's own tags. On NPU `aten.is_nonzero` and `equal` end in a device-to-host copy.
_SYNC = {"aten._local_scalar_dense", "aten.is_nonzero", "aten.equal", "aten.allclose", "aten.item"}
# Their size depends on data although torch does not tag them, or only for some arguments.
_DYNAMIC = {"aten.bincount", "aten.masked_select", "aten.combinations"}
# Methods that dispatch shows as nothing, or as harmless operators, when the tensor is on the CPU.
_HOST_METHODS = {
    "tolist": "sync",
    "numpy": "device_to_host",
    "__array__": "device_to_host",
    "cpu": "device_to_host",
    "__repr__": "sync",
    "__str__": "sync",
    "__format__": "sync",
    "pin_memory": "pinned_memory",
}
# torch.tensor, as_tensor and from_numpy end in one of these.
_FRESH = ("aten.lift_fresh", "aten.lift_fresh_copy")
_MAX_SCALAR = 60


class Operator(NamedTuple):
    """One operator of a run. `external` are (argument position, address) of tensors made before the run."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    scalars: tuple[str, ...]
    external: tuple[tuple[int, int], ...]
    place: Place | None


class Hit(NamedTuple):
    """A rule that an operator or call broke in one run."""

    rule: str
    operator: str
    detail: str
    stack: list[Place]
    index: int


class Run(NamedTuple):
    """Everything recorded in one run."""

    operators: list[Operator]
    hits: list[Hit]
    inputs: set[int]
    made: list[Any]


class Recorder:
    """Records runs. `device` is the device type whose operators a graph would hold."""

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self.device = device
        self._quiet = 0
        self._inside: list[str] = []
        self._run = Run([], [], set(), [])
        self._made: set[int] = set()
        self._streams = StreamTracker()

    @contextlib.contextmanager
    def recording(self, inputs: Any = ()) -> Iterator[Run]:
        """Record what runs inside the context; `inputs` are the arguments of the call, nested as they are."""
        self._run = Run([], [], {address for address in map(_address, self._tensors(inputs)) if address}, [])
        self._made = set()
        self._streams.start(current_stream(self.device))
        dispatch, function = _modes(self._torch, self)
        with watched(self._on_call), dispatch, function:
            yield self._run
        for fault in self._streams.faults():
            stack = fault.stack
            self._run.hits.append(Hit(fault.rule, "stream", f"stream {fault.stream}", stack, fault.index))

    def on_function(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle one torch function: host methods are found here, since on the CPU they reach no operator."""
        name = getattr(func, "__name__", "")
        rule = _HOST_METHODS.get(name) if args and isinstance(args[0], self._torch.Tensor) else None
        if rule is None and name == "to" and self._is_literal_cpu(args, kwargs):
            rule = "device_to_host"
        if rule is None or self._quiet or not self._on_device(args[0]):
            self._inside.append(name)
            try:
                return func(*args, **kwargs)
            finally:
                self._inside.pop()
        shown = "print or format" if name in ("__repr__", "__str__", "__format__") else f"Tensor.{name}"
        self._hit(rule, shown, "")
        self._quiet += 1
        try:
            return func(*args, **kwargs)
        finally:
            self._quiet -= 1

    def on_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle one operator: check it, run it, note what it made."""
        if self._quiet:
            return func(*args, **kwargs)
        tensors = self._tensors((args, kwargs))
        addresses = [_address(tensor) for tensor in tensors]
        stack = user_stack()
        index = len(self._run.operators)
        name = str(getattr(func, "_overloadpacket", func)).replace("::", ".")
        if name in _FRESH:  # made from host data just now, before any operator could show it
            self._made.update(addresses)
        self._run.operators.append(
            Operator(
                name,
                tuple(tuple(int(size) for size in tensor.shape) for tensor in tensors),
                tuple(self._scalars((args, kwargs))),
                tuple((at, where) for at, where in enumerate(addresses) if where and where not in self._made),
                stack[0] if stack else None,
            )
        )
        for rule, detail in self._check(func, name, args, kwargs, tensors):
            self._run.hits.append(Hit(rule, name, detail, stack, index))
        stream = current_stream(self.device)
        if stream is not None and any(self._on_device(tensor) for tensor in tensors):
            self._streams.on_operator(stream, stack, index)
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            if "aclop" in str(error):  # raised inside a capture only: eager mode runs aclop operators silently
                self._run.hits.append(Hit("no_aclnn", name, str(error).partition("\n")[0][:200], stack, index))
            raise
        before = set(addresses)
        for tensor in self._tensors(result):
            where = _address(tensor)
            if where and where not in before:
                self._made.add(where)
                self._run.made.append((_storage_reference(tensor), _bytes(tensor), stack))
        return result

    def _check(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Any]
    ) -> Iterator[tuple[str, str]]:
        tags = {tag.name for tag in getattr(func, "tags", ())}
        devices = {tensor.device.type for tensor in tensors}
        if name in _SYNC or "data_dependent_output" in tags:
            yield "sync", ""
        elif self._dynamic(name, tags, args, kwargs):
            yield "data_dependent_shape", ""
        if "nondeterministic_seeded" in tags:
            yield "random", "" if kwargs.get("generator") is None else "own generator"
        if name in _FRESH:
            # x[mask] = 3.0 wraps its number in a tensor; that is no copy of the user's.
            if not {"__setitem__", "__getitem__"} & set(self._inside):
                yield "host_to_device", "a tensor is made from host data"
        elif name == "aten._pin_memory":
            yield "pinned_memory", ""
        elif name in ("aten._to_copy", "aten.copy_"):
            target = self._target_device(name, args, kwargs)
            source = args[1] if name == "aten.copy_" and len(args) > 1 else args[0]
            origin = source.device.type if isinstance(source, self._torch.Tensor) else target
            if self.device != "cpu" and origin != target:
                blocking = "" if kwargs.get("non_blocking") else "blocking"
                if target == self.device and origin == "cpu":
                    yield "host_to_device", blocking
                elif origin == self.device and target == "cpu":
                    yield "device_to_host", blocking
        elif self.device != "cpu" and tensors and devices == {"cpu"} and "lift" not in name:
            yield "host_compute", ""

    def _dynamic(self, name: str, tags: set[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if name in ("aten.index", "aten.index_put_", "aten.index_put", "aten._index_put_impl_"):
            indices = args[1] if len(args) > 1 else ()
            masks = [item for item in indices if getattr(item, "dtype", None) in (self._torch.bool, self._torch.uint8)]
            # A mask with a single value is a masked_fill, which has a fixed size.
            single = name != "aten.index" and len(args) > 2 and args[2].numel() == 1
            return bool(masks) and not single
        if name == "aten.repeat_interleave":
            return kwargs.get("output_size") is None
        return "dynamic_output_shape" in tags or name in _DYNAMIC

    def _on_call(self, rule: str, name: str, args: tuple[Any, ...], result: Any) -> None:
        """A watched Python call ended: a wait, a seed, or a stream action."""
        if self._quiet:
            return
        if rule in ("synchronize", "seed", "empty_cache"):
            self._hit(rule, name, "")
        elif rule == "record":
            stream = stream_key(args[1]) if len(args) > 1 and args[1] is not None else current_stream(self.device)
            self._streams.on_record(id(args[0]), stream)
        elif rule == "wait":
            stream = stream_key(args[1]) if len(args) > 1 and args[1] is not None else current_stream(self.device)
            self._streams.on_wait(id(args[0]), stream)
        elif rule == "record_event":
            self._streams.on_record(id(result), stream_key(args[0]))
        elif rule == "wait_event" and len(args) > 1:
            self._streams.on_wait(id(args[1]), stream_key(args[0]))
        elif rule == "wait_stream" and len(args) > 1:
            self._streams.on_wait_stream(stream_key(args[0]), stream_key(args[1]))

    def _hit(self, rule: str, operator: str, detail: str) -> None:
        self._run.hits.append(Hit(rule, operator, detail, user_stack(), len(self._run.operators)))

    def _on_device(self, tensor: Any) -> bool:
        return bool(tensor.device.type == self.device)

    def _is_literal_cpu(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Say whether `.to` names the CPU. A device object may be x.device, which on the CPU says nothing."""
        if not isinstance(args[0], self._torch.Tensor):
            return False
        return "cpu" in [item for item in (*args[1:], kwargs.get("device")) if isinstance(item, str)]

    def _target_device(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if name == "aten.copy_":
            return str(args[0].device.type)
        device = kwargs.get("device")
        return self._torch.device(device).type if device is not None else str(args[0].device.type)

    def _tensors(self, value: Any) -> list[Any]:
        found: list[Any] = []
        _walk(value, self._torch.Tensor, found.append, 0)
        return found

    def _scalars(self, value: Any) -> list[str]:
        found: list[str] = []

        def note(item: Any) -> None:
            if isinstance(item, (bool, int, float, complex)):
                found.append(repr(item)[:_MAX_SCALAR])

        _walk(value, object, note, 0)
        return found


def _walk(value: Any, kind: type, found: Callable[[Any], None], depth: int) -> None:
    if depth > 6:
        return
    if isinstance(value, (tuple, list)):
        for item in value:
            _walk(item, kind, found, depth + 1)
    elif isinstance(value, dict):
        for item in value.values():
            _walk(item, kind, found, depth + 1)
    elif isinstance(value, kind):
        found(value)


# A tensor without storage (sparse, opaque) or without data (fake) raises RuntimeError or NotImplementedError, which is
# one; it has no address that a graph could keep.
def _address(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except RuntimeError:
        return 0


def _bytes(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().nbytes())
    except RuntimeError:
        return 0


def _storage_reference(tensor: Any) -> Any:
    """Return a weak reference to the storage: a tensor object may go while a view keeps its memory."""
    from torch.multiprocessing.reductions import StorageWeakRef

    try:
        return StorageWeakRef(tensor.untyped_storage())
    except RuntimeError:
        return None


def _modes(torch: Any, recorder: Recorder) -> tuple[Any, Any]:
    """Return the dispatch mode and the function mode that feed the recorder (their bases exist only with torch)."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.on_operator(func, args, kwargs or {})

    class Functions(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.on_function(func, args, kwargs or {})

    return Operators(), Functions()

"""What a call or an operator gives, told from names alone: a device tensor, a mask, a host value."""

from __future__ import annotations

from typing import Sequence

from .trace import CPU, DEVICE, HOST, MASK, UNKNOWN, Value


def words(text: str) -> frozenset[str]:
    """Return the words of a table that is written as text."""
    return frozenset(text.split())


CREATORS = words(
    "zeros ones empty full rand randn randint arange linspace logspace eye tensor as_tensor randperm tril_indices"
    " triu_indices normal empty_strided scalar_tensor hann_window"
)
LIKE_CREATORS = words("zeros_like ones_like empty_like full_like rand_like randn_like randint_like")
NEW_CREATORS = words("new_zeros new_ones new_empty new_full new_tensor new_empty_strided")
TO_HOST = words("item tolist numpy")
# Methods of a tensor whose answer is kept on the host: reading it waits for nothing.
HOST_METHODS = words(
    "size dim ndimension numel nelement stride storage_offset data_ptr is_contiguous element_size get_device"
    " is_floating_point is_complex is_signed is_pinned untyped_storage storage type has_names requires_grad_"
    " retain_grad register_hook backward record_stream is_same_size __len__ is_shared is_inference is_set_to set_"
)
HOST_ATTRIBUTES = words(
    "shape dtype device ndim layout is_npu is_cuda is_cpu requires_grad is_leaf names itemsize nbytes is_sparse is_meta"
    " is_quantized grad_fn __class__ __dict__ __name__"
)
SAME_ATTRIBUTES = words("T mT H mH data grad real imag")
COMPARING = words(
    "eq ne gt ge lt le greater greater_equal less less_equal not_equal isnan isinf isfinite isneginf isposinf isclose"
    " isin logical_and logical_or logical_not logical_xor any all signbit eq_ ne_ gt_ ge_ lt_ le_ bool"
)
# Functions of torch that answer with a Python value about a tensor, without reading its contents.
HOST_FUNCTIONS = words(
    "is_tensor is_floating_point is_complex numel get_default_dtype finfo iinfo device is_grad_enabled broadcast_shapes"
    " result_type promote_types can_cast Size is_storage typename is_inference_mode_enabled Generator"
)
# These functions read the tensor to answer True or False: the answer is a host value, and it costs a wait.
READING_FUNCTIONS = words("equal allclose is_nonzero")
HOST_BUILTINS = words(
    "len int float bool str repr range isinstance issubclass hasattr id type print sorted min max sum abs round dict"
    " set list tuple zip enumerate map filter any all callable hash format vars dir open input iter next super"
)
TENSOR_ROOTS = ("torch.", "torch_npu.", "F.", "torchair.")
_MODULE_METHODS = words("eval train to half float bfloat16 cpu npu cuda requires_grad_")
NN_CONTAINERS = words("ModuleList Sequential ModuleDict")
BLACK_HOLES = ("torch.distributed.", "torch.utils.", "torch._dynamo.", "torch.profiler.", "torch.jit.", "torch.cuda.")


def names_npu(value: Value) -> bool | None:
    """Say whether a value given as a device is the NPU; None when it cannot be told."""
    if isinstance(value.detail, str):
        return not value.detail.startswith(("cpu", "meta"))
    return None


def call_result(
    name: str, receiver: Value, args: Sequence[Value], keywords: dict[str, Value], default_device: bool
) -> Value:
    """Return what a call gives.

    Args:
        name: canonical dotted name of what is called.
        receiver: the value before the last dot, for a method.
        args: the positional arguments' values.
        keywords: the named arguments' values.
        default_device: the file sets the NPU as torch's default device.
    """
    last = name.rpartition(".")[2]
    if receiver.kind in ("device", "mask", "cpu"):
        return _method_result(last, receiver, args, keywords)
    if receiver.kind == "module" or (receiver.kind == "chain" and last in _MODULE_METHODS):
        return _module_result(last, receiver)
    if name.startswith(TENSOR_ROOTS) and "(" not in name:
        return _torch_result(name, last, args, keywords, default_device)
    if last in ("npu", "cuda") and receiver.kind == "unknown":
        return DEVICE
    if last == "to" and receiver.kind == "unknown":
        return DEVICE if any(names_npu(value) for value in (*args, *keywords.values())) else UNKNOWN
    if last in NEW_CREATORS and receiver.kind == "unknown":
        return DEVICE
    if "." not in name and name in HOST_BUILTINS:
        if name in ("min", "max", "sum", "abs", "round") and any(value.on_device for value in args):
            return DEVICE
        if name in ("list", "tuple", "sorted", "reversed", "zip", "enumerate") and args:
            return args[0] if args[0].kind in ("tuple", "iterable", "unknown") else HOST
        return HOST
    if name.startswith(("np.", "numpy.", "math.", "time.", "random.", "os.", "json.", "re.")):
        return HOST
    return UNKNOWN


def _module_result(last: str, receiver: Value) -> Value:
    """A module's own methods give the module back, or its tensors."""
    if last in ("parameters", "buffers"):
        return Value("iterable", DEVICE)
    if last in _MODULE_METHODS:
        return receiver
    return UNKNOWN


def _method_result(last: str, receiver: Value, args: Sequence[Value], keywords: dict[str, Value]) -> Value:
    if last in TO_HOST or last in HOST_METHODS:
        return HOST
    if last == "cpu":
        return CPU
    if last in ("npu", "cuda"):
        return DEVICE
    if last == "pin_memory":
        return Value("cpu", "pinned")
    if last in ("to", "type"):
        for value in (*args, *keywords.values()):
            if isinstance(value.detail, str) and value.kind == "host":
                return DEVICE if names_npu(value) else CPU
            if value.on_device:
                return DEVICE
        if any(value.detail == "torch.bool" for value in args):
            return receiver._replace(kind="mask") if receiver.on_device else receiver
        return receiver._replace(kind="device") if receiver.kind == "mask" and args else receiver
    if receiver.kind == "cpu":
        return CPU if last not in NEW_CREATORS else creation(keywords, False, CPU)
    if last in NEW_CREATORS:
        return creation(keywords, False, DEVICE)
    if last in COMPARING:
        return MASK
    if receiver.kind == "mask" and last in (
        "view",
        "reshape",
        "expand",
        "squeeze",
        "unsqueeze",
        "clone",
        "flatten",
        "t",
    ):
        return receiver
    if last in ("split", "chunk", "unbind", "tensor_split"):
        return Value("iterable", receiver._replace(detail=None))
    return DEVICE


def _torch_result(
    name: str, last: str, args: Sequence[Value], keywords: dict[str, Value], default_device: bool
) -> Value:
    if name == "torch.device":
        return Value("host", args[0].detail if args and isinstance(args[0].detail, str) else None)
    if name in ("torch.npu.NPUGraph",):
        return Value("graph")
    if name in ("torch.npu.Stream", "torch.npu.current_stream", "torch.npu.default_stream", "torch.npu.ExternalStream"):
        return Value("stream", last)
    if name in ("torch.npu.Event", "torch.npu.ExternalEvent"):
        return Value("event", last)
    if name in ("torch.Generator", "torch.npu.default_generators[]"):
        return Value("generator")
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return DEVICE
    if name.startswith("torch.nn.") and last[:1].isupper():
        return Value("module")
    if name.startswith(BLACK_HOLES) or name.startswith("torch.npu."):
        return UNKNOWN
    if last in CREATORS:
        if last == "as_tensor" and args and args[0].on_device:
            return DEVICE
        return creation(keywords, default_device, CPU)
    if last in ("from_numpy", "frombuffer"):
        return CPU
    if last in HOST_FUNCTIONS or last in READING_FUNCTIONS:
        return HOST
    given = [*args, *keywords.values()]
    flat = [item for value in given for item in (value.items or [value])]
    if last in LIKE_CREATORS and "device" in keywords:
        return creation(keywords, default_device, CPU)
    if any(value.on_device for value in flat):
        if last in COMPARING:
            return MASK
        return Value("iterable", DEVICE) if last in ("split", "chunk", "unbind", "tensor_split") else DEVICE
    if name.startswith(("torch_npu.npu_", "torch.ops.")):
        return DEVICE
    if flat and all(value.kind in ("cpu", "host", "none") for value in flat):
        return CPU if any(value.kind == "cpu" for value in flat) else UNKNOWN
    return UNKNOWN


def creation(keywords: dict[str, Value], default_device: bool, otherwise: Value) -> Value:
    """Return what a function that makes a tensor gives, from its device, dtype and pin_memory arguments."""
    device = keywords.get("device")
    if device is not None and device.kind != "none":
        made = CPU if names_npu(device) is False else DEVICE
    else:
        made = DEVICE if default_device else otherwise
    if made.kind == "cpu" and "pin_memory" in keywords and keywords["pin_memory"].detail is not False:
        return Value("cpu", "pinned")
    dtype = keywords.get("dtype")
    if made.kind == "device" and dtype is not None and dtype.detail == "torch.bool":
        return MASK
    return made


def operator_result(left: Value, right: Value) -> Value:
    """Return what an arithmetic or bit operator gives."""
    if left.kind == "mask" and right.kind in ("mask", "host"):
        return MASK
    if left.on_device or right.on_device:
        return DEVICE
    if "cpu" in (left.kind, right.kind):
        return CPU
    if left.kind == "host" and right.kind == "host":
        return HOST
    return UNKNOWN


def join(first: Value, second: Value) -> Value:
    """Return what is known of a name after two branches."""
    if first == second or second.kind == "none":
        return first
    if first.kind == "none":
        return second
    if first.on_device and second.on_device:
        return DEVICE
    return UNKNOWN if first.kind != second.kind else first._replace(detail=None)

"""Operators to compare with CPU torch: one line each, with the dtypes that the simulator claims for it."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812 (the usual name)

FLOAT = (torch.float32, torch.float16, torch.bfloat16)
INT = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
NUMBER = FLOAT + INT
ALL = (*NUMBER, torch.bool)
F32 = (torch.float32,)
I64 = (torch.int64,)


COMPLEX = (torch.complex64, torch.complex128)


class Case(NamedTuple):
    """One comparison: `call` gets `tensors` tensors of each dtype, in every layout."""

    name: str
    call: Callable[..., Any]
    dtypes: tuple
    tensors: int = 1
    domain: str = "any"  # any, positive, unit (-1, 1), index, nonzero
    shapes: tuple = ((3, 4),)
    layouts: tuple = ("plain", "transposed", "strided", "scalar", "empty")


def unary(names: str, dtypes: tuple, domain: str = "any") -> list[Case]:
    """Return cases for torch functions of one tensor, and for their in-place methods where torch has them."""
    cases = []
    for name in names.split():
        cases.append(Case(name, getattr(torch, name), dtypes, 1, domain))
        if hasattr(torch.Tensor, name + "_"):
            in_place = [d for d in dtypes if d.is_floating_point] or dtypes
            cases.append(Case(name + "_", lambda x, n=name: getattr(x, n + "_")(), tuple(in_place), 1, domain))
    return cases


def binary(names: str, dtypes: tuple, domain: str = "any") -> list[Case]:
    """Return cases for torch functions of two tensors: same shape, broadcast, a scalar, and in place."""
    cases = []
    for name in names.split():
        f = getattr(torch, name)
        cases.append(Case(name, f, dtypes, 2, domain))
        cases.append(Case(name + " broadcast", f, dtypes, 2, domain, ((2, 3, 4), (3, 1)), ("plain", "strided")))
        if hasattr(torch.Tensor, name + "_") and name not in ("lt", "gt", "le", "ge", "eq", "ne"):
            cases.append(Case(name + "_", lambda x, y, n=name: getattr(x, n + "_")(y), dtypes, 2, domain))
    return cases


def scalar(names: str, dtypes: tuple, values: tuple = (2, 3), domain: str = "any") -> list[Case]:
    """Return cases for torch functions of a tensor and a Python number."""
    return [
        Case(f"{name} {value}", lambda x, n=name, v=value: getattr(torch, n)(x, v), dtypes, 1, domain)
        for name in names.split()
        for value in values
    ]


def _index(x: torch.Tensor, values: list[int]) -> torch.Tensor:
    """An index tensor on the device of x; pinned so that no capture rule is in the way."""
    return torch.tensor(values, device=x.device)


def _on_npu(x: torch.Tensor, name: str, reference: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return torch_npu's operator on the device, and the reference on the CPU."""
    if x.device.type == "cpu":
        return reference(x, *args, **options)
    return getattr(torch.ops.npu, name)(x, *args, **options)


ELEMENTWISE = [
    *unary("abs neg sign relu", (*FLOAT, torch.int64, torch.int32)),
    *unary("ceil floor trunc round frac", FLOAT),
    *unary("exp exp2 expm1 sin cos tanh sigmoid erf erfc sinh cosh sinc atan asinh", FLOAT),
    *unary("log log2 log10 log1p sqrt rsqrt reciprocal", FLOAT, "positive"),
    *unary("acos asin atanh erfinv tan", FLOAT, "unit"),
    Case("acosh", lambda x: torch.acosh(x + 1), FLOAT, 1, "positive"),
    *unary("isfinite signbit", FLOAT),
    *unary("isposinf isneginf", FLOAT),
    Case("isfinite of infinities", lambda x: torch.isfinite(x / (x - x)), F32),
    *unary("logical_not", ALL),
    *unary("bitwise_not", (*INT, torch.bool)),
    *binary("add sub mul", NUMBER),
    *binary("div", FLOAT, "nonzero"),
    Case("true div of integers", torch.div, INT, 2, "nonzero"),
    *[
        Case(
            f"div {m}",
            lambda x, y, m=m: torch.div(x, y, rounding_mode=m),
            (*FLOAT, torch.int64, torch.int32),
            2,
            "nonzero",
        )
        for m in ("floor", "trunc")
    ],
    *binary("floor_divide remainder fmod", (*F32, torch.int64, torch.int32), "nonzero"),
    *binary("maximum minimum", NUMBER),
    *binary("eq ne lt gt le ge", ALL),
    *binary("logical_and logical_or logical_xor", ALL),
    *binary("bitwise_and bitwise_or bitwise_xor", (*INT, torch.bool)),
    *binary("atan2 logaddexp", FLOAT),
    *binary("pow", FLOAT, "positive"),
    Case("pow of integers", lambda x, y: torch.pow(x, y.abs() % 5), I64, 2),
    Case("gcd", torch.gcd, (torch.int64, torch.int32), 2),
    Case("shifts", lambda x, y: (x << (y.abs() % 8)) >> 1, (torch.int64, torch.int32), 2),
    *scalar("add sub mul", NUMBER),
    *scalar("add mul", FLOAT, (0.5,)),
    *scalar("div", FLOAT),
    *scalar("floor_divide remainder fmod", (*F32, torch.int64), (3, -2)),
    *scalar("eq ne lt gt le ge", NUMBER),
    *scalar("pow", FLOAT, (2, 0.5, -1), "positive"),
    *scalar("pow", I64, (2, 3)),
    *scalar("clamp_min clamp_max", (*FLOAT, torch.int64)),
    *scalar("bitwise_and bitwise_or bitwise_xor", (torch.int64, torch.int32), (5,)),
    Case("scalar minus tensor", lambda x: 3 - x, (*FLOAT, torch.int64)),
    Case("scalar to the power", lambda x: torch.pow(2.0, x), FLOAT),
    Case("alpha", lambda x, y: torch.add(x, y, alpha=3), NUMBER, 2),
    Case("sub alpha", lambda x, y: torch.sub(x, y, alpha=2), NUMBER, 2),
    Case("rsub", lambda x, y: torch.rsub(x, y, alpha=2), (*FLOAT, torch.int64), 2),
    Case("in place scalar", lambda x: x.add_(2).mul_(3).sub_(1), NUMBER),
    Case("mixed int and float", lambda x, y: x + y.to(torch.int64), F32, 2),
    Case("int64 beyond 2**53", lambda x: x * 9007199254740993 + 9007199254740993 - x, I64),
    Case("int64 comparison beyond 2**53", lambda x: (x + 9007199254740993) > (x + 9007199254740992), I64),
    Case("int64 wraps", lambda x: (x + 1) * 0x7FFFFFFFFFFFFFFF, I64),
    Case("clamp", lambda x: torch.clamp(x, -1, 2), (*FLOAT, torch.int64, torch.int32)),
    Case("clamp tensors", lambda x, y, z: torch.clamp(x, torch.minimum(y, z), torch.maximum(y, z)), F32, 3),
    Case("clamp min tensor", lambda x, y: torch.clamp(x, min=y), F32, 2),
    Case("where", lambda x, y: torch.where(x > y, x, y), NUMBER, 2),
    Case("where broadcast", lambda x, y: torch.where(x > 0, x, y), F32, 2, "any", ((3, 4), (4,)), ("plain",)),
    Case("masked_fill", lambda x: x.masked_fill(x > 0, 7), NUMBER),
    Case("masked_fill_ tensor", lambda x: x.masked_fill_(x > 0, x.new_ones(())), FLOAT),
    Case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=2), (*FLOAT, torch.int64), 3),
    Case("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=2), FLOAT, 3, "nonzero"),
    Case("addcmul_", lambda x, y, z: x.addcmul_(y, z, value=2), FLOAT, 3),
    Case("addcdiv_", lambda x, y, z: x.addcdiv_(y, z, value=2), FLOAT, 3, "nonzero"),
    Case("lerp", lambda x, y: torch.lerp(x, y, 0.25), FLOAT, 2),
    Case("lerp tensor", torch.lerp, F32, 3),
    Case("lerp_", lambda x, y: x.lerp_(y, 0.75), F32, 2),
    Case("nan_to_num", lambda x: torch.nan_to_num(x / (x - x), 1.0, 2.0, 3.0), F32),
    Case("round decimals", lambda x: torch.round(x, decimals=1), F32),
    Case(
        "cast",
        lambda x: [x.to(d) for d in (torch.float32, torch.float16, torch.int64, torch.int32, torch.bool)],
        NUMBER,
    ),
    Case("copy with broadcast", lambda x, y: x.copy_(y), ALL, 2, "any", ((3, 4), (4,)), ("plain", "strided")),
    Case("fill", lambda x: x.fill_(3), ALL),
    Case("fill tensor", lambda x: x.fill_(x.new_ones(())), FLOAT),
    Case("zero and one", lambda x: (x.zero_().clone(), torch.ones_like(x)), ALL),
    Case("overlapping copy", lambda x: (x[1:].copy_(x[:-1].clone()), x)[1], ALL, layouts=("plain",)),
    Case("in place on a column", lambda x: (x[:, 1].add_(5), x)[1], NUMBER, layouts=("plain", "transposed")),
    Case("in place on a broadcast reader", lambda x: x.add_(x[0:1].clone()), NUMBER, layouts=("plain", "strided")),
    Case("isclose", lambda x, y: (torch.isclose(x, y), torch.isclose(x, x + 1e-9)), FLOAT, 2),
    Case(
        "activations", lambda x: [f(x) for f in (F.silu, F.gelu, F.mish, F.hardswish, F.hardsigmoid, F.softplus)], FLOAT
    ),
    Case(
        "more activations", lambda x: [F.elu(x), F.selu(x), F.leaky_relu(x, 0.1), F.logsigmoid(x), F.hardtanh(x)], F32
    ),
    # torch_npu 2.13.0 computes F.gelu(approximate="tanh") with aclnnGelu (erf): its own operator is compared.
    Case("gelu tanh", lambda x: _on_npu(x, "npu_gelu", F.gelu, approximate="tanh"), FLOAT),
    Case("threshold", lambda x: F.threshold(x, 0.5, -1.0), F32),
    Case("glu", lambda x: F.glu(x, -1), F32, layouts=("plain", "transposed")),
]

COMPLEX_NUMBERS = [
    *unary("neg exp sin cos sinh cosh", COMPLEX),
    *unary("log log2 log10 sqrt rsqrt reciprocal", COMPLEX, "nonzero"),
    *unary("tan", COMPLEX, "unit"),
    Case("abs", torch.abs, (torch.complex64,)),
    *binary("add sub mul", COMPLEX),
    *binary("div", COMPLEX, "nonzero"),
    *binary("eq ne", COMPLEX),
    *scalar("add sub mul div eq ne", COMPLEX, (2, 0.5, 1 - 2j)),
    Case("alpha", lambda x, y: torch.add(x, y, alpha=3 + 1j), COMPLEX, 2),
    Case("scalar minus tensor", lambda x: (3 + 2j) - x, COMPLEX),
    Case("rsub", lambda x, y: torch.rsub(x, y, alpha=2), COMPLEX, 2),
    Case("real plus complex", lambda x: x.real + x, COMPLEX),
    Case("real times a complex number", lambda x: x * (2 + 1j), F32),
    Case("conj", lambda x: torch.conj(x).clone().mul_(1), COMPLEX),
    Case("to real and back", lambda x: x.real.to(x.dtype), COMPLEX),
    Case("fill", lambda x: x.fill_(1 - 2j), COMPLEX),
    Case("padding and triangles", lambda x: (F.pad(x, (1, 2), value=3), x.repeat(2, 1), x.tril(), x.triu()), COMPLEX),
    Case("moves", lambda x: (torch.cat([x, x * 2]), torch.stack([x, x]), x.clone(), x.t().contiguous()), COMPLEX),
]

REDUCTIONS = [
    Case("sum", lambda x: x.sum(), NUMBER),
    Case("sum of bool", lambda x: x.sum(), (torch.bool,)),
    Case(
        "sum dim",
        lambda x: (x.sum(0), x.sum(-1, keepdim=True)),
        NUMBER,
        layouts=("plain", "transposed", "strided", "empty"),
    ),
    Case("sum int64 beyond 2**53", lambda x: (x * 2305843009213693951).sum(), I64),
    Case("mean", lambda x: (x.mean(), x.mean(0)), FLOAT, layouts=("plain", "transposed", "strided")),
    Case("prod", lambda x: x.prod(), (*F32, torch.int64)),
    Case("prod dim", lambda x: x.prod(1), (*F32, torch.int64), layouts=("plain", "strided")),
    Case(
        "all any",
        lambda x: (x.all(), x.any(), x.all(1), x.any(0)),
        (torch.bool,),
        layouts=("plain", "strided", "empty"),
    ),
    Case("max min", lambda x: (x.max(), x.min()), NUMBER, layouts=("plain", "transposed", "strided", "scalar")),
    Case("max min dim", lambda x: (*x.max(1), *x.min(0)), (*FLOAT, torch.int64), layouts=("plain", "strided")),
    Case("argmax argmin", lambda x: (x.argmax(), x.argmin(1)), (*FLOAT, torch.int64), layouts=("plain", "strided")),
    Case("amax amin", lambda x: (x.amax(1), x.amin((0, 1))), FLOAT, layouts=("plain", "strided")),
    Case("max of a NaN", lambda x: (x / (x - x)).max(), F32, layouts=("plain",)),
    Case("logsumexp", lambda x: torch.logsumexp(x, 1), F32, layouts=("plain", "transposed")),
    Case("std var", lambda x: (x.std(1), x.var(), x.std(unbiased=False)), F32, layouts=("plain", "strided")),
    Case("var_mean", lambda x: torch.var_mean(x, 1), F32, layouts=("plain", "strided")),
    Case(
        "norm",
        lambda x: [torch.linalg.vector_norm(x, p) for p in (0, 1, 2, 3, float("inf"))],
        F32,
        layouts=("plain", "strided"),
    ),
    Case(
        "cumsum", lambda x: (x.cumsum(0), x.cumsum(1)), (*F32, torch.int64), layouts=("plain", "transposed", "strided")
    ),
    Case("cumprod", lambda x: x.cumprod(1), F32, layouts=("plain", "strided")),
    Case(
        "sort", lambda x: (*x.sort(1), *x.sort(0, descending=True)), (*FLOAT, torch.int64), layouts=("plain", "strided")
    ),
    Case("topk", lambda x: x.topk(2, 1), FLOAT, layouts=("plain", "strided")),
    Case("topk values", lambda x: x.topk(2, 1)[0], I64, layouts=("plain", "strided")),  # equal values: any index
    Case(
        "equal",
        lambda x, y: (torch.tensor(torch.equal(x, y)), torch.tensor(torch.equal(x, x.clone()))),
        NUMBER,
        2,
        layouts=("plain",),
    ),
]

PRODUCTS = [
    Case("mm", torch.mm, FLOAT, 2, "any", ((3, 4), (4, 5)), ("plain", "transposed", "strided", "empty")),
    Case("matmul batch", torch.matmul, FLOAT, 2, "any", ((2, 3, 4), (2, 4, 5)), ("plain", "transposed")),
    Case("matmul broadcast", torch.matmul, F32, 2, "any", ((2, 1, 3, 4), (4, 5)), ("plain",)),
    Case("matmul vectors", lambda x, y: (x @ y, torch.dot(y, y)), F32, 2, "any", ((3, 4), (4,)), ("plain", "strided")),
    Case("mv", torch.mv, F32, 2, "any", ((3, 4), (4,)), ("plain", "transposed")),
    Case("bmm", torch.bmm, FLOAT, 2, "any", ((2, 3, 4), (2, 4, 5)), ("plain", "strided")),
    Case(
        "addmm",
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        FLOAT,
        3,
        "any",
        ((3, 5), (3, 4), (4, 5)),
        ("plain", "transposed"),
    ),
    Case(
        "baddbmm",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=2),
        F32,
        3,
        "any",
        ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        ("plain",),
    ),
    Case("addbmm", torch.addbmm, F32, 3, "any", ((3, 5), (2, 3, 4), (2, 4, 5)), ("plain",)),
    Case("addmv", torch.addmv, F32, 3, "any", ((3,), (3, 4), (4,)), ("plain",)),
    Case("addr", torch.addr, F32, 3, "any", ((3, 4), (3,), (4,)), ("plain",)),
    Case("linear", F.linear, FLOAT, 3, "any", ((3, 4), (5, 4), (5,)), ("plain",)),
]

SHAPES = [
    Case(
        "cat", lambda x, y: (torch.cat((x, y), 0), torch.cat((x, y), 1)), ALL, 2, layouts=("plain", "strided", "empty")
    ),
    Case("stack", lambda x, y: (torch.stack((x, y)), torch.stack((x, y), -1)), NUMBER, 2),
    Case("split", lambda x: torch.split_with_sizes_copy(x, (1, 3), 1), F32, layouts=("plain",)),
    Case("repeat", lambda x: x.repeat(2, 1, 3), NUMBER, layouts=("plain", "strided")),
    Case("flip", lambda x: (x.flip(0), x.flip((0, 1))), ALL, layouts=("plain", "strided")),
    Case("roll", lambda x: (x.roll(2), x.roll((1, -1), (0, 1))), (*FLOAT, torch.int64), layouts=("plain", "strided")),
    Case("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=3), NUMBER, layouts=("plain", "strided")),
    Case("tril triu", lambda x: (x.tril(), x.triu(1), x.tril(-1)), NUMBER, layouts=("plain", "strided")),
    Case("tril_ triu_", lambda x: (x.clone().tril_(), x.clone().triu_()), F32, layouts=("plain",)),
    Case("contiguous", lambda x: x.t().contiguous(), ALL, layouts=("plain", "strided")),
    Case(
        "arange",
        lambda x: [torch.arange(*a, device=x.device) for a in ((5,), (2, 9, 3), (0.0, 1.0, 0.25))],
        F32,
        layouts=("plain",),
    ),
    Case(
        "linspace eye",
        lambda x: (torch.linspace(-1, 1, 7, device=x.device), torch.eye(3, 4, device=x.device)),
        F32,
        layouts=("plain",),
    ),
    Case(
        "repeat_interleave",
        lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, 1)),
        NUMBER,
        layouts=("plain", "strided"),
    ),
]

INDEXING = [
    Case("index_select", lambda x: x.index_select(1, _index(x, [2, 0, 2])), ALL, layouts=("plain", "strided")),
    Case(
        "gather", lambda x: x.gather(1, _index(x, [[0, 2], [1, 1], [3, 0]])), ALL, layouts=("plain", "transposed_back")
    ),
    Case(
        "scatter",
        lambda x: x.scatter(1, _index(x, [[0, 2], [1, 3], [3, 0]]), x[:, 2:].clone()),
        NUMBER,
        layouts=("plain",),
    ),
    Case("scatter value", lambda x: x.scatter(0, _index(x, [[0, 2]]), 9), NUMBER, layouts=("plain",)),
    Case(
        "scatter_add",
        lambda x: x.scatter_add(1, _index(x, [[0, 0], [1, 1], [3, 0]]), x[:, 2:].clone()),
        (*F32, torch.int64, torch.int32),
        layouts=("plain",),
    ),
    Case(
        "index_add",
        lambda x: x.index_add(0, _index(x, [0, 2, 0]), x.clone(), alpha=2),
        (*F32, torch.int64),
        layouts=("plain",),
    ),
    Case("index_copy_", lambda x: x.index_copy_(0, _index(x, [2, 0]), x[:2].clone()), F32, layouts=("plain",)),
    Case("index_fill_", lambda x: x.index_fill_(1, _index(x, [1, 3]), 5), NUMBER, layouts=("plain",)),
    Case(
        "advanced index",
        lambda x: (x[_index(x, [2, 0])], x[:, _index(x, [1, -1])], x[_index(x, [[0], [1]]), _index(x, [2, 3])]),
        ALL,
        layouts=("plain", "strided"),
    ),
    Case(
        "index_put",
        lambda x: x.index_put((_index(x, [0, 2]), _index(x, [1, 1])), x.new_ones(2)),
        NUMBER,
        layouts=("plain",),
    ),
    Case(
        "index_put accumulate",
        lambda x: x.index_put((_index(x, [0, 0]),), x[:2].clone(), accumulate=True),
        (*F32, torch.int64),
        layouts=("plain",),
    ),
    Case("mask", lambda x: (x[x > 0], torch.masked_select(x, x > 0)), NUMBER, layouts=("plain", "strided")),
    Case("nonzero", lambda x: (x > 0).nonzero(), NUMBER, layouts=("plain", "strided", "empty")),
    Case("masked_scatter", lambda x: x.masked_scatter(x > 0, x.flip(0)), (*F32, torch.int64), layouts=("plain",)),
    Case(
        "unique",
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        (torch.int64, torch.float32),
        layouts=("plain",),
    ),
    Case("embedding", lambda x: F.embedding(_index(x, [[0, 2], [1, 0]]), x), FLOAT, layouts=("plain",)),
    Case("one_hot", lambda x: F.one_hot(_index(x, [0, 2, 1]), 4), F32, layouts=("plain",)),
    Case("take", lambda x: torch.take(x, _index(x, [0, 5, -1])), F32, layouts=("plain", "strided")),
    Case("searchsorted", lambda x: torch.searchsorted(x.sort(1)[0], x), F32, layouts=("plain",)),
]


def _grad(f: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Return a function that gives f's value and the gradient of its sum for every input."""

    def call(*tensors: torch.Tensor) -> Any:
        inputs = [t.detach().clone().requires_grad_() for t in tensors]
        out = f(*inputs)
        (out * out.detach().add(1)).sum().backward()
        return [out.detach(), *(t.grad for t in inputs)]

    return call


NETWORKS = [
    Case(
        "softmax", lambda x: (F.softmax(x, 1), F.log_softmax(x, 0)), FLOAT, layouts=("plain", "transposed", "strided")
    ),
    *[
        Case(f"{name} gradient", _grad(f), F32, layouts=("plain",))
        for name, f in (
            ("softmax", lambda x: F.softmax(x, -1)),
            ("log_softmax", lambda x: F.log_softmax(x, -1)),
            ("relu", torch.relu),
            ("sigmoid", torch.sigmoid),
            ("tanh", torch.tanh),
            ("gelu", F.gelu),
            ("silu", F.silu),
            ("leaky_relu", lambda x: F.leaky_relu(x, 0.2)),
            ("softplus", F.softplus),
            ("elu", F.elu),
            ("hardswish", F.hardswish),
            ("hardsigmoid", F.hardsigmoid),
            ("layer_norm", lambda x: F.layer_norm(x, (4,))),
            ("dropout without drop", lambda x: F.dropout(x, 0.5, training=False)),
        )
    ],
    Case(
        "layer_norm affine",
        _grad(lambda x, w, b: F.layer_norm(x, (4,), w, b)),
        F32,
        3,
        "any",
        ((3, 4), (4,), (4,)),
        ("plain",),
    ),
    Case("linear gradient", _grad(F.linear), F32, 3, "any", ((3, 4), (5, 4), (5,)), ("plain",)),
    Case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), F32, 3, "any", ((2, 4, 3), (4,), (4,)), ("plain",)),
    Case(
        "batch_norm",
        lambda x, m, v: (F.batch_norm(x, m, v.abs(), training=True), m),
        F32,
        3,
        "any",
        ((5, 4), (4,), (4,)),
        ("plain",),
    ),
    Case(
        "batch_norm eval",
        lambda x, m, v: F.batch_norm(x, m, v.abs() + 1),
        F32,
        3,
        "any",
        ((5, 4), (4,), (4,)),
        ("plain",),
    ),
    *[
        Case(f"{name} {r}", _grad(lambda x, y, f=f, r=r: f(x, y.detach(), reduction=r)), F32, 2, layouts=("plain",))
        for name, f in (("mse_loss", F.mse_loss), ("smooth_l1_loss", F.smooth_l1_loss))
        for r in ("none", "mean", "sum")
    ],
    Case("l1_loss", F.l1_loss, F32, 2, layouts=("plain",)),
    Case(
        "bce with logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), F32, 2, layouts=("plain",)
    ),
    Case("cross_entropy", _grad(lambda x: F.cross_entropy(x, _index(x, [1, 0, 3]))), F32, layouts=("plain",)),
    Case("nll ignore", lambda x: F.nll_loss(F.log_softmax(x, 1), _index(x, [1, -100, 3])), F32, layouts=("plain",)),
    Case(
        "embedding gradient",
        _grad(lambda w: F.embedding(_index(w, [[0, 2], [1, 0]]), w, padding_idx=1)),
        F32,
        layouts=("plain",),
    ),
]

FOREACH = [
    *[
        Case(
            f"_foreach_{n}",
            lambda x, y, n=n: getattr(torch, f"_foreach_{n}")([x, y]),
            F32,
            2,
            "positive",
            layouts=("plain",),
        )
        for n in [
            "abs",
            "neg",
            "exp",
            "log",
            "sqrt",
            "reciprocal",
            "sigmoid",
            "tanh",
            "sin",
            "cos",
            "erf",
            "expm1",
            "log1p",
            "log2",
            "log10",
            "tan",
        ]
    ],
    *[
        Case(
            f"_foreach_{n} scalar",
            lambda x, y, n=n: getattr(torch, f"_foreach_{n}")([x, y], 2.5),
            F32,
            2,
            "positive",
            layouts=("plain",),
        )
        for n in ["add", "sub", "mul", "div", "pow", "maximum", "minimum"]
    ],
    *[
        Case(
            f"_foreach_{n} list",
            lambda x, y, n=n: getattr(torch, f"_foreach_{n}")([x, y], [y, x]),
            F32,
            2,
            "positive",
            layouts=("plain",),
        )
        for n in ["add", "sub", "mul", "div", "maximum", "minimum"]
    ],
    *[
        Case(
            f"_foreach_{n} scalars",
            lambda x, y, n=n: getattr(torch, f"_foreach_{n}")([x, y], [2.0, 3.0]),
            F32,
            2,
            "positive",
            layouts=("plain",),
        )
        for n in ["add", "sub", "mul", "div"]
    ],
    Case(
        "_foreach_addcmul", lambda x, y: torch._foreach_addcmul([x, y], [y, x], [x, x], 0.5), F32, 2, layouts=("plain",)
    ),
    Case(
        "_foreach_addcdiv",
        lambda x, y: torch._foreach_addcdiv([x, y], [y, x], [x, x], 0.5),
        F32,
        2,
        "nonzero",
        layouts=("plain",),
    ),
    Case("_foreach_lerp", lambda x, y: torch._foreach_lerp([x, y], [y, x], 0.25), F32, 2, layouts=("plain",)),
    Case("_foreach_zero_", lambda x, y: (torch._foreach_zero_([x, y]), x, y)[1:], F32, 2, layouts=("plain",)),
    Case("_foreach_copy_", lambda x, y: (torch._foreach_copy_([x], [y]), x)[1], F32, 2, layouts=("plain",)),
]


def _swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    a, b = x.chunk(2, dim)
    return F.silu(a) * b


def _rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> tuple:
    rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd


def _add_rms_norm(x: torch.Tensor, y: torch.Tensor, gamma: torch.Tensor) -> tuple:
    out, rstd = _rms_norm(x + y, gamma)
    return out, rstd, x + y


def _rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


NPU_ONLY = [
    Case("npu_swiglu", lambda x: _on_npu(x, "npu_swiglu", _swiglu), F32, layouts=("plain", "strided")),
    Case(
        "npu_rms_norm", lambda x, g: _on_npu(x, "npu_rms_norm", _rms_norm, g), F32, 2, "any", ((3, 4), (4,)), ("plain",)
    ),
    Case(
        "npu_add_rms_norm",
        lambda x, y, g: _on_npu(x, "npu_add_rms_norm", _add_rms_norm, y, g),
        F32,
        3,
        "any",
        ((3, 4), (3, 4), (4,)),
        ("plain",),
    ),
    Case(
        "npu_rotary_mul",
        lambda x, c, s: _on_npu(x, "npu_rotary_mul", _rotary, c, s),
        F32,
        3,
        "any",
        ((1, 2, 3, 64), (1, 1, 3, 64), (1, 1, 3, 64)),
        ("plain",),
    ),
]

CASES = NPU_ONLY + ELEMENTWISE + COMPLEX_NUMBERS + REDUCTIONS + PRODUCTS + SHAPES + INDEXING + NETWORKS + FOREACH

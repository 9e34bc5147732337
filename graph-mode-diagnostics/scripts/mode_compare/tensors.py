"""Compare two tensors: tolerance by dtype, NaN and Inf aware, and where the differences lie."""

from __future__ import annotations

from typing import Any, NamedTuple

# (rtol, atol): the defaults of torch.testing.assert_close (pytorch docs, torch.testing). Other types must be equal.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
MAX_ROWS = 4096


class Difference(NamedTuple):
    """How two tensors differ. `rows` are indices of the first dimension that differ; `reason` is '' when they agree."""

    reason: str
    dtype: str
    shape: tuple[int, ...]
    mismatched: int
    total: int
    max_abs: float
    max_rel: float
    rows: tuple[int, ...]
    first_index: tuple[int, ...]
    new_nan: int
    new_inf: int
    bitwise: bool

    @property
    def differs(self) -> bool:
        return bool(self.reason)


def tolerance_of(dtype: Any, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """Return (rtol, atol) for a dtype; given values win."""
    default = TOLERANCES.get(str(dtype).rpartition(".")[2], (0.0, 0.0))
    return (default[0] if rtol is None else rtol, default[1] if atol is None else atol)


def compare(expected: Any, actual: Any, rtol: float | None = None, atol: float | None = None) -> Difference:
    """Compare two tensors of any device.

    A NaN or Inf on one side only is a difference; the same one on both sides is none. Values agree when
    |actual - expected| <= atol + rtol * |expected|, computed in double precision.
    """
    expected, actual = expected.detach().cpu(), actual.detach().cpu()
    dtype, shape = str(expected.dtype).rpartition(".")[2], tuple(expected.shape)
    if expected.shape != actual.shape:
        return _whole(f"shape {list(shape)} in eager, {list(actual.shape)} in graph", dtype, shape, expected.numel())
    if expected.dtype != actual.dtype:
        other = str(actual.dtype).rpartition(".")[2]
        return _whole(f"dtype {dtype} in eager, {other} in graph", dtype, shape, expected.numel())
    if expected.numel() == 0:
        return Difference("", dtype, shape, 0, 0, 0.0, 0.0, (), (), 0, 0, True)
    rtol, atol = tolerance_of(expected.dtype, rtol, atol)
    return _values(expected, actual, rtol, atol, dtype, shape)


def _values(expected: Any, actual: Any, rtol: float, atol: float, dtype: str, shape: tuple[int, ...]) -> Difference:
    import torch

    wide = torch.complex128 if expected.is_complex() else torch.float64
    exact = not (expected.is_floating_point() or expected.is_complex())
    left, right = (expected, actual) if exact else (expected.to(wide), actual.to(wide))
    same = left == right
    nan_left = torch.zeros_like(same) if exact else torch.isnan(left)
    nan_right = torch.zeros_like(same) if exact else torch.isnan(right)
    bitwise = bool((same | (nan_left & nan_right)).all())
    finite = torch.ones_like(same) if exact else torch.isfinite(left) & torch.isfinite(right)
    if exact:
        delta = (left.to(torch.float64) - right.to(torch.float64)).abs()
        size = left.to(torch.float64).abs()
        close = same
    else:
        delta = torch.where(finite, (left - right).abs().to(torch.float64), torch.zeros((), dtype=torch.float64))
        size = torch.where(finite, left.abs().to(torch.float64), torch.zeros((), dtype=torch.float64))
        close = same | (nan_left & nan_right) | (finite & (delta <= atol + rtol * size))
    bad = ~close
    count = int(bad.sum())
    new_nan = int((nan_right & ~nan_left).sum())
    new_inf = 0 if exact else int((torch.isinf(right) & ~torch.isinf(left)).sum())
    if not count:
        return Difference(
            "", dtype, shape, 0, bad.numel(), float(delta.max()), _relative(delta, size), (), (), 0, 0, bitwise
        )
    where = torch.nonzero(bad)
    rows = tuple(sorted({int(row) for row in where[:, 0].unique()[:MAX_ROWS]})) if bad.dim() else ()
    first = tuple(int(value) for value in where[0]) if bad.dim() else ()
    reason = f"{new_nan} new NaN" if new_nan else f"{new_inf} new Inf" if new_inf else "values"
    return Difference(
        reason,
        dtype,
        shape,
        count,
        bad.numel(),
        float(delta.max()),
        _relative(delta, size),
        rows,
        first,
        new_nan,
        new_inf,
        bitwise,
    )


def _relative(delta: Any, size: Any) -> float:
    return float((delta / size.clamp(min=1e-30)).max())


def _whole(reason: str, dtype: str, shape: tuple[int, ...], total: int) -> Difference:
    return Difference(reason, dtype, shape, total, total, 0.0, 0.0, (), (), 0, 0, False)


def flatten(value: Any, name: str = "output") -> dict[str, Any]:
    """Return the tensors of a nested result by name: output, output[0], output.key."""
    import torch

    if isinstance(value, torch.Tensor):
        return {name: value}
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            found.update(flatten(item, f"{name}.{key}"))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            found.update(flatten(item, f"{name}[{index}]"))
    elif hasattr(value, "__dict__"):  # a framework's output object
        for key, item in vars(value).items():
            if isinstance(item, (torch.Tensor, tuple, list, dict)):
                found.update(flatten(item, f"{name}.{key}"))
    return found


def snapshot(tensors: dict[str, Any]) -> dict[str, Any]:
    """Copy tensors to the host: a graph's output is overwritten by the next replay."""
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}

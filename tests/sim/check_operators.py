"""Compares every operator case on the simulator with CPU torch; prints failures and one line of counts.

Run under npu_sim/run.py. Exit code 1 when a comparison fails, or when fewer than `--least` were made.
"""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from pathlib import Path
from typing import Any

# With the task queue an operator's error appears later, and spoils every operator after it.
os.environ.setdefault("TASK_QUEUE_ENABLE", "0")
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from operator_cases import CASES, Case

# Relative and absolute tolerance: the simulator computes in double and rounds once, CPU torch in the type or in float.
TOLERANCE = {
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
    torch.float32: 2e-5,
    torch.float64: 1e-9,
    torch.complex64: 2e-5,
    torch.complex128: 1e-9,
}


def make_tensor(shape: tuple, dtype: torch.dtype, domain: str, seed: int) -> torch.Tensor:
    """Return CPU values for a dtype and a domain; integers stay small so that products fit."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_complex:
        return torch.complex(*(make_tensor(shape, torch.float64, domain, seed + n) for n in (0, 1))).to(dtype)
    if dtype.is_floating_point:
        x = torch.randn(shape, generator=generator)
        if domain == "positive":
            x = x.abs() + 0.25
        elif domain == "unit":
            x = torch.tanh(x) * 0.9
        elif domain == "nonzero":
            x = x + torch.where(x >= 0, 0.5, -0.5)
        return x.to(dtype)
    low = 1 if domain in ("nonzero", "positive") or dtype == torch.uint8 else -9
    return torch.randint(low, 10, shape, generator=generator).to(dtype)


def in_layout(shape: tuple, layout: str) -> tuple[tuple, Any]:
    """Return the shape to allocate and the view that gives a tensor of `shape` in that layout."""
    if layout == "scalar":
        return (), lambda t: t
    if layout == "empty":
        return (0, *shape[1:]), lambda t: t
    if layout.startswith("transposed") and len(shape) >= 2:
        return (*shape[:-2], shape[-1], shape[-2]), lambda t: t.transpose(-1, -2)
    if layout == "strided":
        return (*shape[:-1], shape[-1] * 2 + 1), lambda t: t[..., 1::2]
    return shape, lambda t: t


def run(case: Case, dtype: torch.dtype, layout: str, device: str) -> Any:
    shapes = case.shapes * case.tensors if len(case.shapes) == 1 else case.shapes
    tensors = []
    for index, shape in enumerate(shapes):
        base_shape, view = in_layout(shape, layout)
        seed = zlib.crc32(f"{case.name}{index}".encode())
        tensors.append(view(make_tensor(base_shape, dtype, case.domain, seed).to(device)))
    return flatten(case.call(*tensors))


def flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach().cpu()]
    return [t for item in value for t in flatten(item)]


def difference(want: list[torch.Tensor], got: list[torch.Tensor]) -> str | None:
    """Return what differs, or None. Integers must be equal bit for bit."""
    if len(want) != len(got):
        return f"{len(got)} results, expected {len(want)}"
    for w, g in zip(want, got):
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"{tuple(g.shape)} {g.dtype}, expected {tuple(w.shape)} {w.dtype}"
        if w.dtype not in TOLERANCE:
            if not torch.equal(w, g):
                return f"{g.tolist()}, expected {w.tolist()}"
            continue
        tolerance = TOLERANCE[w.dtype]
        wide = torch.complex128 if w.dtype.is_complex else torch.float64
        if not torch.allclose(w.to(wide), g.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"{g.flatten()[:6].tolist()}, expected {w.flatten()[:6].tolist()}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    compared = refused = failed = 0
    for case in CASES:
        if options.only and options.only not in case.name:
            continue
        for dtype in case.dtypes:
            for layout in case.layouts:
                label = f"{case.name} {str(dtype)[6:]} {layout}"
                try:
                    want = run(case, dtype, layout, "cpu")
                except Exception:  # CPU torch itself refuses the combination
                    refused += 1
                    continue
                try:
                    problem = difference(want, run(case, dtype, layout, "npu"))
                except Exception as error:
                    problem = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                    problem += "".join(f" | {line[:200]}" for line in str(error).splitlines() if "npu_sim" in line)
                compared += 1
                if problem:
                    failed += 1
                    print(f"FAIL {label}: {problem}")
    print(f"COMPARED {compared} FAILED {failed} REFUSED_BY_CPU {refused}")
    return 1 if failed or compared < options.least else 0


if __name__ == "__main__":
    sys.exit(main())

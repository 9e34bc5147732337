"""A small model for compare_modes.py: weights that can be reloaded, state that can be rebound."""

from __future__ import annotations

import torch

torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 8)
        self.act = torch.nn.ReLU()
        self.down = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))


model = Block().requires_grad_(False)
load = {"moe": torch.zeros(8)}


def make_inputs(step: int) -> tuple[torch.Tensor]:
    return (torch.randn(5, 8, generator=torch.Generator().manual_seed(step)),)


def two_inputs(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    return (*make_inputs(step), torch.full((8,), float(step)))


def forward(x: torch.Tensor) -> torch.Tensor:
    return model(x)


def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return model(x) * scale + 1


def accumulate_by_rebinding(x: torch.Tensor) -> torch.Tensor:
    load["moe"] = load["moe"] + x.sum(0)
    return model(x)


def accumulate_in_place(x: torch.Tensor) -> torch.Tensor:
    load["moe"].add_(x.sum(0))
    return model(x)


def state() -> torch.Tensor:
    return load["moe"]


def reset() -> None:
    load["moe"].zero_()
    weights(1.0)


def weights(factor: float) -> None:
    torch.manual_seed(0)
    fresh = Block()
    model.up.weight.data.copy_(fresh.up.weight.data * factor)


def reload_in_place() -> None:
    weights(2.0)


def reload_at_a_new_address() -> None:
    model.up.weight = torch.nn.Parameter(model.up.weight.detach().clone() * 2, requires_grad=False)


class Gate(torch.nn.Module):
    """Works in place on what the layer before gave, with a host number that a graph keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(self.factor)


gated = torch.nn.Sequential(torch.nn.Linear(8, 8), Gate(), torch.nn.Linear(8, 8)).requires_grad_(False)
shared = torch.nn.Linear(8, 8).requires_grad_(False)
looped = torch.nn.Sequential(shared, Gate(), shared)


def gated_forward(x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    gated[1].factor = float(factors[0]) + 1
    return gated(x)


def looped_forward(x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    looped[1].factor = float(factors[0]) + 1
    return looped(x)


def random_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(8)


def drifts_when_compiled(x: torch.Tensor) -> torch.Tensor:
    return model(x) + (0.5 if torch.compiler.is_compiling() else 0.0)


def fails_under_hooks(x: torch.Tensor) -> torch.Tensor:
    if model._forward_hooks or model._forward_pre_hooks:
        raise ValueError("no more hooks")
    return model(x)


calls = {"count": 0}


def fails_at_step_three(x: torch.Tensor) -> torch.Tensor:
    calls["count"] += 1
    if calls["count"] == 3:
        raise ValueError("no more pages")
    return x * 2

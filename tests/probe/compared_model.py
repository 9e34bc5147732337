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


def random_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(8)


calls = {"count": 0}


def fails_at_step_three(x: torch.Tensor) -> torch.Tensor:
    calls["count"] += 1
    if calls["count"] == 3:
        raise ValueError("no more pages")
    return x * 2

"""Adam (Kingma and Ba 2015, Algorithm 1), for ascent.

The numbers of `torch.optim.Adam`, which imports torch's compiler for seconds.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

BETAS, EPS = (0.9, 0.999), 1e-8  # the paper's


def eps_for(rewards: Tensor) -> float:
    """The paper's constant, less for rewards below one: gradients are in their unit."""
    largest = float(rewards.abs().max())
    return EPS * min(1.0, largest) if largest > 0.0 else EPS


def cosine_decay(step: float, n_steps: float) -> float:
    """Factor of a step size that falls from 1 to 0 along half a cosine."""
    return 0.5 * (1.0 + math.cos(math.pi * step / n_steps))


class Adam:
    """Steps along running means of gradients, over the roots of those of squares."""

    def __init__(self, parameters: Sequence[Tensor], eps: float = EPS) -> None:
        self.parameters = list(parameters)  # changed in place
        self.eps, self.n_steps = eps, 0
        # One vector for all: a call for each operation, not for each parameter.
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.means, self.squares = torch.zeros_like(flat), torch.zeros_like(flat)
        self.change, self.changes = flat, self._by_parameter(flat)

    def rates(self, rate: float) -> tuple[float, float]:
        """Factor of the means in the next step, and of the roots of squares its inverse."""
        unbiased = [1.0 - beta ** (self.n_steps + 1) for beta in BETAS]
        return rate / unbiased[0], math.sqrt(unbiased[1])

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Step upwards once: one gradient per parameter, with step size `rate`."""
        rate, root = self.rates(rate)
        self.n_steps += 1
        torch._foreach_copy_(self.changes, list(gradients))
        self.means.lerp_(self.change, 1.0 - BETAS[0])  # which is the gradient, for now
        self.squares.mul_(BETAS[1]).addcmul_(self.change, self.change, value=1.0 - BETAS[1])
        lengths = self.squares.sqrt().div_(root)
        torch.mul(self.means, rate, out=self.change).div_(lengths.add_(self.eps))
        torch._foreach_add_(self.parameters, self.changes)

    def fields(self) -> tuple[Any, ...]:
        """For C, see `adam.h`."""
        learned = [(p.numel(), p.data_ptr()) for p in self.parameters]
        sizes = (np.array(one) for one in zip(*learned, strict=True))
        return (len(learned), *sizes, self.change, self.means, self.squares, *BETAS, self.eps)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next step depends on, beside the parameters."""
        means, squares = map(self._by_parameter, (self.means, self.squares))
        return {"step": self.n_steps, "means": means, "squares": squares}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another one's `state_dict` stood."""
        found = {name: list(state_dict[name]) for name in ("means", "squares")}
        shapes = [p.shape for p in self.parameters]
        for name, moments in found.items():
            if [m.shape for m in moments] != shapes:
                raise ValueError(f"Moments must have the parameters' shapes, {name} have not.")
        for flat, moments in zip((self.means, self.squares), found.values(), strict=True):
            flat.copy_(torch.cat([m.detach().reshape(-1) for m in moments]))
        self.n_steps = int(state_dict["step"])

    def _by_parameter(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split_with_sizes([p.numel() for p in self.parameters])
        return [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]

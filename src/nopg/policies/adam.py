"""Adam (Kingma and Ba 2015, Algorithm 1), for ascent.

The numbers of `torch.optim.Adam`, which imports torch's compiler for seconds.
"""

import math
from collections.abc import Sequence
from typing import Any

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
        self._parameters = list(parameters)  # changed in place
        self._eps = eps
        self._step = 0
        # One vector for all: a call for each operation, not for each parameter.
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])
        self._means, self._squares = torch.zeros_like(flat), torch.zeros_like(flat)
        self._change, self._changes = flat, self._by_parameter(flat)

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Step upwards once: one gradient per parameter, with step size `rate`."""
        self._step += 1
        unbiased = rate / (1.0 - BETAS[0] ** self._step)
        torch._foreach_copy_(self._changes, list(gradients))
        gradient = self._change
        self._means.lerp_(gradient, 1.0 - BETAS[0])
        self._squares.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1.0 - BETAS[1])
        lengths = self._squares.sqrt().div_(math.sqrt(1.0 - BETAS[1] ** self._step))
        torch.mul(self._means, unbiased, out=self._change).div_(lengths.add_(self._eps))
        torch._foreach_add_(self._parameters, self._changes)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next step depends on, beside the parameters."""
        means, squares = map(self._by_parameter, (self._means, self._squares))
        return {"step": self._step, "means": means, "squares": squares}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another one's `state_dict` stood."""
        found = {name: list(state_dict[name]) for name in ("means", "squares")}
        shapes = [p.shape for p in self._parameters]
        for name, moments in found.items():
            if [m.shape for m in moments] != shapes:
                raise ValueError(f"Moments must have the parameters' shapes, {name} have not.")
        self._means, self._squares = (
            torch.cat([m.detach().reshape(-1) for m in moments]).to(self._means)
            for moments in found.values()
        )
        self._step = int(state_dict["step"])

    def _by_parameter(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split_with_sizes([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]

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
        self._means = [torch.zeros_like(p) for p in parameters]
        self._squares = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Step upwards once: one gradient per parameter, with step size `rate`."""
        self._step += 1
        unbiased = rate / (1.0 - BETAS[0] ** self._step)
        gradients, means, squares = list(gradients), self._means, self._squares
        torch._foreach_lerp_(means, gradients, 1.0 - BETAS[0])
        torch._foreach_mul_(squares, BETAS[1])
        torch._foreach_addcmul_(squares, gradients, gradients, value=1.0 - BETAS[1])
        lengths = torch._foreach_sqrt(squares)
        torch._foreach_div_(lengths, math.sqrt(1.0 - BETAS[1] ** self._step))
        torch._foreach_add_(lengths, self._eps)
        torch._foreach_addcdiv_(self._parameters, means, lengths, value=unbiased)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next step depends on, beside the parameters."""
        return {"step": self._step, "means": self._means, "squares": self._squares}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another one's `state_dict` stood."""
        found = {name: list(state_dict[name]) for name in ("means", "squares")}
        shapes = [p.shape for p in self._parameters]
        for name, moments in found.items():
            if [m.shape for m in moments] != shapes:
                raise ValueError(f"Moments must have the parameters' shapes, {name} have not.")
        like = self._parameters
        self._means, self._squares = (
            [m.detach().clone().to(p) for m, p in zip(moments, like, strict=True)]
            for moments in found.values()
        )
        self._step = int(state_dict["step"])

"""What a policy is: states in, the parameters of an action distribution out.

Three families, told apart by what `outputs` returns:

    DeterministicPolicy   (actions,)          (m, d_a)
    GaussianPolicy        (mean, std)         (m, d_a) each
    CategoricalPolicy     (probabilities,)    (m, n_actions)

Actions are in the user's units; squashing and scaling happen inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Policy(nn.Module, ABC):
    """A differentiable map from states to action distributions."""

    @abstractmethod
    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """Parameters of the action distribution at each state, (m, d_s) in."""

    @abstractmethod
    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Actions at each state: the most typical one, or a draw if `generator`."""

    def forward(self, states: Tensor) -> Tensor:
        """The most typical action at each state."""
        return self.act(states)


class Standardise(nn.Module):
    """(x - mean) / std a column; the identity until `fit_to` is called."""

    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("std", torch.ones(width, dtype=torch.float64))

    def fit_to(self, samples: Tensor) -> None:
        """Take mean and spread from data, (n, width); constant columns keep std 1."""
        std = samples.std(dim=0, correction=0)
        self.mean.copy_(samples.mean(dim=0))
        self.std.copy_(torch.where(std > 0, std, torch.ones_like(std)))

    def forward(self, x: Tensor) -> Tensor:
        """Standardised columns, (m, width)."""
        return (x - self.mean) / self.std


class Squash(nn.Module):
    """Maps any number into the action box: centre + half width * tanh(x)."""

    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.register_buffer("low", low.to(torch.float64))
        self.register_buffer("high", high.to(torch.float64))

    @property
    def half_width(self) -> Tensor:
        """Half the length of each side of the box, (d_a,)."""
        return 0.5 * (self.high - self.low)

    def forward(self, x: Tensor) -> Tensor:
        """Actions strictly inside the box, (m, d_a)."""
        centre = 0.5 * (self.high + self.low)
        return torch.addcmul(centre, self.half_width, torch.tanh(x))

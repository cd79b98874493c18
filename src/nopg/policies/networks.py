"""The small networks policies are made of, drawn from an explicit generator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def mlp(
    width_in: int, width_out: int, hidden: Sequence[int], generator: torch.Generator
) -> nn.Sequential:
    """A float64 perceptron with ReLU between its layers.

    Weights are Xavier uniform and biases uniform in 1 / sqrt(width), as in the
    authors' release; drawing them here keeps the global generator out of it.
    """
    widths = [width_in, *hidden, width_out]
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(widths):
        layer = nn.Linear(fan_in, fan_out, dtype=torch.float64)
        with torch.no_grad():
            bound = math.sqrt(6.0 / (fan_in + fan_out))
            layer.weight.uniform_(-bound, bound, generator=generator)
            edge = 1.0 / math.sqrt(fan_in)
            layer.bias.uniform_(-edge, edge, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Gain(nn.Module):
    """u = K x with a full gain matrix, or a diagonal one as in the paper's LQR."""

    def __init__(self, gain: Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(gain.to(torch.float64).clone())  # (d_a, d_s) or (d,)

    def forward(self, states: Tensor) -> Tensor:
        """K x for each state, (m, d_a)."""
        if self.gain.ndim == 1:
            return states * self.gain
        return states @ self.gain.T

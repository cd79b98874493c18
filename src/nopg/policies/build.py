"""Policies from a few words: which family, how wide, for which actions.

A `PolicySpec` is plain numbers and text, so that a model file can say how its
policy is built without holding code.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nopg.errors import ConfigError
from nopg.policies.families import (
    CategoricalPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    Policy,
    Squash,
    Standardise,
)

KINDS = ("deterministic", "stochastic", "discrete")


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """A policy in JSON: everything but its parameters."""

    kind: str  # "deterministic", "stochastic" or "discrete"
    n_states: int  # state dimension d_s
    n_outputs: int  # action dimension d_a, or the number of discrete actions
    hidden: tuple[int, ...] | None = (50,)
    """Widths of the hidden layers; None makes the policy linear, u = K s."""
    is_squashed: bool = True  # whether actions are squashed into the action box
    is_standardised: bool = True
    """Whether states are standardised inside the policy; the paper does not."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(
                f"`policy` must be one of {', '.join(KINDS)}, or a torch module, got "
                f"{self.kind!r}."
            )
        if self.hidden is not None:
            widths = tuple(self.hidden)
            if not all(isinstance(width, int) and width > 0 for width in widths):
                raise ConfigError(
                    f"`hidden` must be positive whole numbers, got {self.hidden!r}; "
                    "(50,) is one layer of fifty."
                )
            object.__setattr__(self, "hidden", widths)

    def build(
        self,
        generator: torch.Generator,  # source of the first parameters
        # Lower corner of the action box, (d_a,), for continuous actions.
        low: Tensor | None = None,
        high: Tensor | None = None,  # upper corner
        # Largest standard deviation, (d_a,), for stochastic policies; half the half
        # width of the box by default.
        max_std: Tensor | None = None,
    ) -> Policy:
        """A fresh policy with parameters from `generator`."""
        network = self._network(generator)
        standardise = Standardise(self.n_states) if self.is_standardised else None
        if self.kind == "discrete":
            return CategoricalPolicy(network, standardise)
        zeros = torch.zeros(self.n_outputs, dtype=torch.float64)
        squash = Squash(
            zeros - 1.0 if low is None else low, zeros + 1.0 if high is None else high
        )
        kept = squash if self.is_squashed else None
        if self.kind == "deterministic":
            return DeterministicPolicy(network, standardise, kept)
        widest = 0.5 * squash.half_width if max_std is None else max_std
        return GaussianPolicy(network, widest, standardise, kept)

    def _network(self, generator: torch.Generator) -> nn.Module:
        width = self.n_outputs * (2 if self.kind == "stochastic" else 1)
        if self.hidden is not None:
            return mlp(self.n_states, width, self.hidden, generator)
        first = torch.randn(
            (width, self.n_states), dtype=torch.float64, generator=generator
        )
        return Gain(0.1 * first)


def linear_policy(
    gain: Sequence[float] | Sequence[Sequence[float]] | Tensor,
    std: Sequence[float] | None = None,
) -> Policy:
    """u = K s, plus Gaussian noise when `std` is given; K full (d_a, d_s) or diagonal.

    Args:
        gain: First value of K: a matrix, or a vector for its diagonal.
        std: Standard deviation of each action, not learned.
    """
    network = Gain(torch.as_tensor(gain, dtype=torch.float64))
    if std is None:
        return DeterministicPolicy(network)
    return GaussianPolicy(network, torch.as_tensor(std, dtype=torch.float64))


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

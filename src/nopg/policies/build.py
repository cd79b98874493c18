"""Policies from plain numbers and text, and their perceptrons there and back."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn

from nopg.errors import ConfigError, require_choice
from nopg.policies.families import (
    CategoricalPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    NetworkPolicy,
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
    hidden: tuple[int, ...] | None = (50,)  # None makes the policy linear, u = K s
    is_squashed: bool = True  # whether actions are squashed into the action box
    is_standardised: bool = True  # inside the policy; the paper does not

    def __post_init__(self) -> None:
        require_choice("policy", self.kind, KINDS)
        if self.hidden is not None:
            widths = tuple(self.hidden)
            if not all(isinstance(width, int) and width > 0 for width in widths):
                raise ConfigError(f"`hidden` must be positive whole numbers, got {self.hidden!r}.")
            object.__setattr__(self, "hidden", widths)

    def build(
        self,
        generator: Generator,  # source of the first parameters
        low: Tensor | None = None,  # lower corner of the action box, (d_a,)
        high: Tensor | None = None,  # upper corner
        max_std: Tensor | None = None,  # (d_a,); half the half width by default
    ) -> Policy:
        """A fresh policy with parameters from `generator`."""
        network = self._network(generator)
        standardise = Standardise(self.n_states) if self.is_standardised else None
        if self.kind == "discrete":
            return CategoricalPolicy(network, standardise)
        zeros = torch.zeros(self.n_outputs, dtype=torch.float64)
        squash = Squash(zeros - 1.0 if low is None else low, zeros + 1.0 if high is None else high)
        kept = squash if self.is_squashed else None
        if self.kind == "deterministic":
            return DeterministicPolicy(network, standardise, kept)
        widest = 0.5 * squash.half_width if max_std is None else max_std
        return GaussianPolicy(network, widest, standardise, kept)

    def _network(self, generator: Generator) -> nn.Module:
        width = self.n_outputs * (2 if self.kind == "stochastic" else 1)
        if self.hidden is not None:
            return mlp(self.n_states, width, self.hidden, generator)
        first = torch.randn((width, self.n_states), dtype=torch.float64, generator=generator)
        return Gain(0.1 * first)


def linear_policy(
    gain: Sequence[float] | Sequence[Sequence[float]] | Tensor, std: Sequence[float] | None = None
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


def mlp(width_in: int, width_out: int, hidden: Sequence[int], draws: Generator) -> nn.Sequential:
    """A float64 perceptron with ReLU between its layers."""
    # Weights are Xavier uniform and biases uniform in 1 / sqrt(width), as in the authors' release;
    # drawing them here keeps the global generator out of it.
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise([width_in, *hidden, width_out]):
        layer = nn.Linear(fan_in, fan_out, dtype=torch.float64)
        with torch.no_grad():
            bound = math.sqrt(6.0 / (fan_in + fan_out))
            layer.weight.uniform_(-bound, bound, generator=draws)
            edge = 1.0 / math.sqrt(fan_in)
            layer.bias.uniform_(-edge, edge, generator=draws)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Gain(nn.Module):
    """u = K x with a full gain matrix, or a diagonal one as in the paper's LQR."""

    def __init__(self, gain: Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(gain.to(torch.float64).clone())  # (d_a, d_s) or (d,)

    def forward(self, states: Tensor) -> Tensor:
        """K x for each state, (m, d_a)."""
        return states * self.gain if self.gain.ndim == 1 else states @ self.gain.T


def perceptron_layers(module: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Weight (width out, width in) and bias of linear layers, if ReLU is between."""
    network = module.network if isinstance(module, NetworkPolicy) else module
    if isinstance(network, Gain):
        weight = torch.diag(network.gain) if network.gain.ndim == 1 else network.gain
        return [(weight, weight.new_zeros(len(weight)))]
    steps: list[Any] = [*network] if isinstance(network, nn.Sequential) else [network]
    kinds = [nn.ReLU if i % 2 else nn.Linear for i in range(len(steps))]
    is_alike = all(type(x) is kind for x, kind in zip(steps, kinds, strict=True))
    if not is_alike or len(steps) % 2 == 0:
        return []
    return [
        (x.weight, x.weight.new_zeros(len(x.weight)) if x.bias is None else x.bias)
        for x in steps[::2]
    ]


@dataclass(frozen=True)
class PerceptronPass:
    """What a policy says at some states, and what the way back needs of it.

    By hand it is a dozen calls where autograd makes a hundred, which cost more than the arithmetic
    of a thousand states and fifty units.
    """

    outputs: tuple[Tensor, ...]
    policy: DeterministicPolicy | GaussianPolicy | CategoricalPolicy
    weights: list[Tensor]  # of each layer, (width out, width in)
    inputs: list[Tensor]  # of each layer, (m, width in)
    raw: Tensor  # what the last one says, (m, width)

    @classmethod
    @torch.no_grad()
    def of(cls, policy: Policy, states: Tensor) -> Self | None:
        """Forwards; None if the policy is no perceptron or not all of it is learned."""
        kinds = (DeterministicPolicy, GaussianPolicy, CategoricalPolicy)
        if type(policy) not in kinds:  # others may say something else
            return None
        assert isinstance(policy, kinds)
        layers = perceptron_layers(policy)
        learned = [id(p) for p in policy.parameters() if p.requires_grad]
        if not layers or [id(p) for layer in layers for p in layer] != learned:
            return None
        x = states if policy.standardise is None else policy.standardise(states)
        inputs: list[Tensor] = []
        for weight, bias in layers:
            inputs.append(x.relu_() if inputs else x)
            x = torch.addmm(bias, inputs[-1], weight.T)
        return cls(policy.from_raw(x), policy, [weight for weight, _ in layers], inputs, x)

    @torch.no_grad()
    def vjp(self, slopes: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Backwards: slopes by the outputs become slopes by the parameters."""
        slope, found = self._by_raw(slopes), list[Tensor]()
        for weight, x in zip(self.weights[::-1], self.inputs[::-1], strict=True):
            found += [slope.sum(dim=0), slope.T @ x]
            if x is not self.inputs[0]:
                by_input = slope @ weight  # a mask would be three times as slow
                slope = torch.ops.aten.threshold_backward(by_input, x, 0.0)
        return tuple(found[::-1])

    def _by_raw(self, slopes: tuple[Tensor, ...]) -> Tensor:
        """The slopes by what the last layer says, (m, width)."""
        policy, slope, k = self.policy, slopes[0], slopes[0].shape[1]
        if isinstance(policy, CategoricalPolicy):
            share = self.outputs[0]
            return share * (slope - (share * slope).sum(dim=1, keepdim=True))
        if policy.squash is not None:
            bent = torch.tanh(self.raw[:, :k])
            slope = slope * policy.squash.half_width * (1.0 - bent.square())
        if isinstance(policy, DeterministicPolicy) or self.raw.shape[1] == k:
            return slope
        s = torch.sigmoid(self.raw[:, k:])
        return torch.cat([slope, slopes[1] * policy.max_std * s * (1.0 - s)], dim=1)

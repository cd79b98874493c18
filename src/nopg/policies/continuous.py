"""Policies over continuous actions: deterministic and Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nopg.policies.base import Policy, Squash, Standardise


class DeterministicPolicy(Policy):
    """One action per state: squash(network(standardise(s))).

    Args:
        network: States (m, d_s) to raw actions (m, d_a).
        standardise: Applied to the states first; None leaves them as they are.
        squash: Applied to the raw actions last; None leaves them unbounded.
    """

    def __init__(
        self,
        network: nn.Module,
        standardise: Standardise | None = None,
        squash: Squash | None = None,
    ) -> None:
        super().__init__()
        self.standardise = standardise
        self.network = network
        self.squash = squash

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """The action at each state, ((m, d_a),)."""
        raw = self.network(
            states if self.standardise is None else self.standardise(states)
        )
        return (raw if self.squash is None else self.squash(raw),)

    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The action at each state; a deterministic policy draws nothing."""
        return self.outputs(states)[0]


class GaussianPolicy(Policy):
    """Independent Gaussian actions: mean as above, std = max_std * sigmoid(head).

    Args:
        network: States to raw outputs, (m, 2 d_a): means first, then std heads; or
            (m, d_a) when the spread does not depend on the state.
        max_std: Largest standard deviation, (d_a,); with a network of width d_a this
            is the standard deviation itself.
        standardise: Applied to the states first; None leaves them as they are.
        squash: Applied to the raw means; None leaves them unbounded.
    """

    max_std: Tensor

    def __init__(
        self,
        network: nn.Module,
        max_std: Tensor,
        standardise: Standardise | None = None,
        squash: Squash | None = None,
    ) -> None:
        super().__init__()
        self.standardise = standardise
        self.network = network
        self.squash = squash
        self.register_buffer("max_std", max_std.to(torch.float64))

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """Mean and standard deviation at each state, ((m, d_a), (m, d_a))."""
        raw = self.network(
            states if self.standardise is None else self.standardise(states)
        )
        d_a = len(self.max_std)
        mean, std = raw, self.max_std.expand(raw.shape[0], d_a)
        if raw.shape[1] > d_a:
            # One call to split: the way back is one call then, too.
            mean, heads = raw.split([d_a, raw.shape[1] - d_a], dim=1)
            std = self.max_std * torch.sigmoid(heads)
        return (mean if self.squash is None else self.squash(mean)), std

    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The mean action, or a draw; draws may leave the action box."""
        mean, std = self.outputs(states)
        if generator is None:
            return mean
        noise = torch.randn(
            mean.shape, dtype=mean.dtype, device=mean.device, generator=generator
        )
        return mean + std * noise

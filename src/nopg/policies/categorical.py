"""Policies over a handful of discrete actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nopg.policies.base import Policy, Standardise


class CategoricalPolicy(Policy):
    """Probabilities softmax(network(standardise(s))) over n_actions labels.

    Args:
        network: States (m, d_s) to logits (m, n_actions).
        standardise: Applied to the states first; None leaves them as they are.
    """

    def __init__(
        self, network: nn.Module, standardise: Standardise | None = None
    ) -> None:
        super().__init__()
        self.standardise = standardise
        self.network = network

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """The probability of each action at each state, ((m, n_actions),)."""
        raw = self.network(
            states if self.standardise is None else self.standardise(states)
        )
        return (torch.softmax(raw, dim=1),)

    def act(self, states: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The likeliest label at each state, or a draw, (m,) int64."""
        (probabilities,) = self.outputs(states)
        if generator is None:
            return probabilities.argmax(dim=1)
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]

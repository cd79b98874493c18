"""A policy as it is shipped: raw observations in, actions within their limits out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nopg.policies.families import CategoricalPolicy, GaussianPolicy, Policy

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy


class Deployed(nn.Module):
    """Everything between an observation and a motor in one graph.

    The policy standardises observations and scales actions itself; clipping to the
    action space, which `predict` does outside of it, is added here.

    Args:
        policy: The policy.
        low: Lower limits of the actions, (d_a,); None for discrete ones.
        high: Upper limits.
    """

    low: Tensor | None
    high: Tensor | None

    def __init__(self, policy: Policy, low: Tensor | None, high: Tensor | None) -> None:
        super().__init__()
        self.policy = policy
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what `forward` returns."""
        if isinstance(self.policy, CategoricalPolicy):
            return ("action", "probabilities")
        has_std = isinstance(self.policy, GaussianPolicy)
        return ("action", "std") if has_std else ("action",)

    def forward(self, observation: Tensor) -> tuple[Tensor, ...]:
        """The most typical action at each state, and what else the policy knows.

        Args:
            observation: States in the user's units, (m, d_s).

        Returns:
            Actions (m, d_a), and the standard deviation (m, d_a) of a stochastic
            policy; or labels (m,) and the probability (m, n_actions) of each.
        """
        if isinstance(self.policy, CategoricalPolicy):
            (probabilities,) = self.policy.outputs(observation)
            return probabilities.argmax(dim=1), probabilities
        if isinstance(self.policy, GaussianPolicy):
            mean, std = self.policy.outputs(observation)
            # A constant spread is a view of one row; a graph wants real rows.
            return self._clipped(mean), std + torch.zeros_like(mean)
        return (self._clipped(self.policy.act(observation)),)

    def _clipped(self, actions: Tensor) -> Tensor:
        if self.low is None or self.high is None:
            return actions
        return torch.minimum(torch.maximum(actions, self.low), self.high)


def deployed(fitted: FittedPolicy) -> Deployed:
    """The module of a fitted policy, on the CPU, ready to be exported."""
    policy = copy.deepcopy(fitted.policy)  # the original stays where it is
    limits: list[Tensor | None] = [None, None]
    if not isinstance(policy, CategoricalPolicy):
        space: Any = fitted.action_space
        like = next(policy.parameters())
        limits = [torch.as_tensor(limit).to(like) for limit in (space.low, space.high)]
    made = Deployed(policy, *limits)
    made.eval()
    return made.cpu()

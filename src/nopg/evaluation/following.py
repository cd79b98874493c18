"""Following a policy through a learned system, what is not known kept apart.

A path of the learned system earns what the regression foretells as long as it stays
where data are. Once it is lost nobody knows what it earns; and where it is cut off,
nobody looked. Both are kept as discounted weights beside what it is known to earn, so
that each may be filled in by the worst or the best the data allow.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from nopg.dynamics.stepper import Array, Stepper
from nopg.errors import ConfigError
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.base import Policy
from nopg.policies.categorical import CategoricalPolicy
from nopg.policies.networks import Gain

LEFT_OUT = 1e-3
"""Weight gamma^T at which a path is cut off."""


class Actor(Protocol):
    """Who acts, as a regression takes actions: labels are one-hot rows."""

    def act(self, states: Array) -> Array:
        """Actions of a batch of states, (m, d_a)."""


class Followed(NamedTuple):
    """What is known of B paths."""

    earned: Array  # (B,), discounted, while the path was where data are
    open: Array  # (B,), discounted weight of all rewards that nobody knows

    def between(self, lowest: float, highest: float) -> tuple[Array, Array]:
        """Least and most the paths can earn, for rewards between two numbers."""
        return self.earned + self.open * lowest, self.earned + self.open * highest


def follow(system: Stepper, actor: Actor, starts: Array, gamma: float) -> Followed:
    """Follow `actor` from `starts`, (B, d_s), until the discount leaves little.

    Args:
        system: The learned system.
        actor: Who acts.
        starts: Where the paths start.
        gamma: Discount factor in [0, 1).
    """
    earned, given_up = np.zeros((2, len(starts)))
    known = np.ones(len(starts))  # neither lost nor ended
    here, horizon = starts, math.ceil(math.log(LEFT_OUT) / math.log(max(gamma, 1e-6)))
    for t in range(max(1, horizon)):
        step = system.step(here, actor.act(here))
        earned += gamma**t * known * step.rewards
        lost = known * (1.0 - step.ends) * step.lost
        given_up += gamma ** (t + 1) * lost
        known = known * (1.0 - step.ends) - lost
        here = step.next_states
        if known.max() < 1e-9:
            break
    cut_off = gamma ** (t + 1) * known
    return Followed(earned, (given_up + cut_off) / (1.0 - gamma))


def actor_of(policy: Policy) -> Actor:
    """The policy as it acts when it is asked for the most typical action."""
    if not _is_ours(getattr(policy, "network", None)):
        return _Module(policy)
    try:
        return ArrayPolicies([policy], is_decided=True)
    except ConfigError:
        return _Module(policy)


def _is_ours(network: object) -> bool:
    """Whether a network is what `ArrayPolicies` takes it for: ReLU between layers."""
    if not isinstance(network, nn.Sequential):
        return isinstance(network, Gain)
    kinds = [nn.Linear if i % 2 == 0 else nn.ReLU for i in range(len(network))]
    is_alike = all(
        type(part) is kind for part, kind in zip(network, kinds, strict=True)
    )
    return is_alike and len(network) % 2 == 1


class _Module:
    """Any policy, asked through torch."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def act(self, states: Array) -> Array:
        policy = self._policy
        like = next(policy.parameters(), torch.empty(0, dtype=torch.float64))
        with torch.no_grad():
            inputs = torch.tensor(states).to(like)
            chosen = policy.act(inputs)
            if isinstance(policy, CategoricalPolicy):
                n_labels = policy.outputs(inputs)[0].shape[1]
                chosen = torch.nn.functional.one_hot(chosen, n_labels)
        return np.asarray(chosen.detach().double().cpu().numpy())

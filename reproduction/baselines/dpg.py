"""Offline DPG with a quadratic critic, as in the appendix of the paper.

The semi-gradient of DPG is mean_s grad pi(s) grad_a Q(s, a) at a = pi(s), over the
states of the data whatever policy visited them: biased as soon as the policy
moves away from the one that made the data.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, DataError, SolverError
from reproduction.baselines.progress import flat_gradient


class QuadraticCritic(nn.Module):
    """Q(x, u) = x' Q x + u' R u, with Q and R to be learned; zero at first.

    There is no term x' u, so the true Q of most linear systems is out of its reach.
    That is the paper's choice, and part of the bias Figure 1 shows.
    """

    def __init__(self, d_s: int, d_a: int) -> None:
        super().__init__()
        self.Q = nn.Parameter(torch.zeros(d_s, d_s, dtype=torch.float64))
        self.R = nn.Parameter(torch.zeros(d_a, d_a, dtype=torch.float64))

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        """Values of state-action pairs, (n,)."""
        of_state = ((states @ self.Q) * states).sum(dim=1)
        return of_state + ((actions @ self.R) * actions).sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class DpgConfig:
    """Settings of DPG; the paper's values are written where its figures are made."""

    gamma: float
    """Discount, in [0, 1)."""
    learning_rate: float
    """Adam's, for the policy; 0 keeps the policy and fits the critic alone."""
    critic_learning_rate: float
    """Adam's, for the critic."""
    tau: float
    """How far both targets follow in each update, in (0, 1]."""

    def __post_init__(self) -> None:
        is_valid = (
            0.0 <= self.gamma < 1.0
            and self.learning_rate >= 0.0
            and self.critic_learning_rate > 0.0
            and 0.0 < self.tau <= 1.0
        )
        if not is_valid:
            raise ConfigError(
                "DPG needs gamma in [0, 1), rates that are not negative and tau in "
                f"(0, 1], got {self}; correct the one outside its range."
            )


class DpgUpdate(NamedTuple):
    """One update of critic and policy."""

    step: int
    objective: float  # mean of Q(s, pi(s)) over the data
    gradient: Tensor  # flat semi-gradient of the policy, (n_parameters,)
    critic_loss: float  # mean squared temporal-difference error


def train_dpg(
    policy: nn.Module, critic: nn.Module, data: Dataset, config: DpgConfig, *, n_updates: int
) -> Iterator[DpgUpdate]:
    """Alternate one critic and one policy step on all data, with two targets.

    Args:
        policy: States (n, d_s) to actions (n, d_a); changed in place.
        critic: States and actions to values (n,); changed in place.
        data: Transitions with continuous actions, in any order.
        config: Rates and discount.
        n_updates: Updates to make.

    Raises:
        SolverError: If the critic diverges.
    """
    batch = _Batch.of(data)
    target_policy, target_critic = copy.deepcopy(policy), copy.deepcopy(critic)
    ascent = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, maximize=True)
    descent = torch.optim.Adam(critic.parameters(), lr=config.critic_learning_rate)
    for step in range(1, n_updates + 1):
        with torch.no_grad():
            next_value = target_critic(batch.next_states, target_policy(batch.next_states))
            target = batch.rewards + config.gamma * batch.goes_on * next_value
        loss = ((critic(batch.states, batch.actions) - target) ** 2).mean()
        if not torch.isfinite(loss):
            raise SolverError(
                f"The critic must stay finite, its loss is {loss.item()} after "
                f"{step - 1} updates; lower `critic_learning_rate` or `tau`."
            )
        descent.zero_grad()
        loss.backward()
        descent.step()
        objective = critic(batch.states, policy(batch.states)).mean()
        ascent.zero_grad()
        objective.backward()
        gradient = flat_gradient(policy)
        ascent.step()
        _follow(target_policy, policy, config.tau)
        _follow(target_critic, critic, config.tau)
        yield DpgUpdate(step, objective.item(), gradient, loss.item())


class _Batch(NamedTuple):
    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    goes_on: Tensor  # (n,), 0 where the task ended

    @classmethod
    def of(cls, data: Dataset) -> _Batch:
        if data.is_discrete:
            raise DataError(
                "DPG differentiates its critic by the action and needs continuous "
                "actions, got discrete labels; learn with NOPG's discrete policy."
            )
        return cls(
            torch.as_tensor(np.array(data.observations)),
            torch.as_tensor(np.array(data.actions)),
            torch.as_tensor(np.array(data.rewards)),
            torch.as_tensor(np.array(data.next_observations)),
            torch.as_tensor(~data.terminations).to(torch.float64),
        )


def _follow(target: nn.Module, source: nn.Module, tau: float) -> None:
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
            slow.lerp_(fast, tau)

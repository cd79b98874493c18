"""G(PO)MDP with path-wise importance sampling, the paper's PWIS, Eq. (3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from nopg.errors import ConfigError, SolverError
from reproduction.baselines.behaviours import gaussian_log_density
from reproduction.baselines.progress import Update, flat_gradient
from reproduction.baselines.trajectories import Trajectories

LARGEST_LOG_WEIGHT = 700.0
"""exp overflows float64 a little above."""


class GaussianOutputs(Protocol):
    """A stochastic policy: `outputs(states)` is its mean and standard deviation."""

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """Mean and standard deviation at each state, (n, d_a) each."""


def pwis_objective(
    policy: GaussianOutputs,
    trajectories: Trajectories,
    *,
    gamma: float,
    self_normalised: bool = False,
) -> Tensor:
    """The importance-sampled return, whose gradient is Eq. (3).

    With rho_t the product of pi / pi_beta over the steps up to t,

        J = mean over trajectories of sum_t gamma^t rho_t r_t.

    Its gradient is sum_t gamma^t rho_t r_t sum_{z <= t} grad log pi(a_z | s_z), the
    G(PO)MDP estimate. Collecting the terms of each grad log pi(a_t | s_t) gives
    Eq. (3) with Q estimated from the rewards that follow, reweighted in turn.

    Args:
        policy: A Gaussian policy.
        trajectories: Episodes with the behaviour's densities.
        gamma: Discount.
        self_normalised: Divide each rho_t by its mean over trajectories: less
            variance, some bias. The paper does not; it is off by default.

    Raises:
        SolverError: If a weight overflows: the policy has left the data.
    """
    weights = importance_weights(policy, trajectories)
    if self_normalised:
        weights = weights / weights.mean(dim=0).clamp_min(1e-300)
    steps = torch.arange(weights.shape[1], dtype=weights.dtype)
    discounted = gamma**steps * weights * trajectories.rewards  # (N, T)
    return discounted.sum(dim=1).mean()


def importance_weights(policy: GaussianOutputs, trajectories: Trajectories) -> Tensor:
    """rho_t of every step, (N, T); zero in the padding."""
    real = trajectories.is_real
    outputs = policy.outputs(trajectories.states[real])
    if len(outputs) != 2:
        raise ConfigError(
            "Path-wise importance sampling needs a stochastic policy, whose outputs "
            f"are mean and standard deviation, got {len(outputs)} output(s); use a "
            "Gaussian policy, or DPG for a deterministic one."
        )
    log_pi = gaussian_log_density(trajectories.actions[real], *outputs)
    log_ratio = log_pi - trajectories.behaviour_log_density[real]
    log_rho = torch.zeros_like(trajectories.rewards)
    log_rho = log_rho.masked_scatter(real, log_ratio).cumsum(dim=1)
    largest = float(log_rho.detach().max())
    if not largest < LARGEST_LOG_WEIGHT:
        raise SolverError(
            "Importance weights must stay finite, the largest is exp("
            f"{largest:.0f}); the policy has left the data: stop earlier, lower the "
            "learning rate, or use shorter trajectories."
        )
    return torch.exp(log_rho) * real


def train_pwis(
    policy: nn.Module,
    trajectories: Trajectories,
    *,
    gamma: float,
    learning_rate: float,
    n_updates: int,
    self_normalised: bool = False,
) -> Iterator[Update]:
    """Ascend Eq. (3) with Adam on all trajectories at once, one update per turn.

    Args:
        policy: A Gaussian policy with `outputs`; changed in place.
        trajectories: Episodes with the behaviour's densities.
        gamma: Discount.
        learning_rate: Adam's.
        n_updates: Updates to make.
        self_normalised: See `pwis_objective`.

    Raises:
        SolverError: If the weights overflow on the way.
    """
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate, maximize=True)
    for step in range(1, n_updates + 1):
        objective = pwis_objective(
            policy,  # type: ignore[arg-type]  # checked by its outputs
            trajectories,
            gamma=gamma,
            self_normalised=self_normalised,
        )
        optimizer.zero_grad()
        objective.backward()  # type: ignore[no-untyped-call]
        gradient = flat_gradient(policy)
        optimizer.step()
        yield Update(step, objective.item(), gradient)

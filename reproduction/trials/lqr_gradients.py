"""Gradients of linear policies, true and estimated, and the paths they lead along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nopg.bellman.equation import BellmanEquation
from nopg.bellman.solution import Estimator
from nopg.data.dataset import Dataset
from nopg.errors import ConfigError
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.solve import SolverConfig
from nopg.policies.build import Gain, linear_policy
from nopg.policies.families import GaussianPolicy, Policy
from nopg.randomness import Seed
from reproduction.baselines.behaviours import linear_gaussian_density
from reproduction.baselines.dpg import DpgConfig, QuadraticCritic, train_dpg
from reproduction.baselines.pwis import train_pwis
from reproduction.baselines.trajectories import Trajectories
from reproduction.envs.base import FloatArray
from reproduction.envs.logs import flatten
from reproduction.envs.rollouts import rollout
from reproduction.tasks.lqr import Lqr
from reproduction.tasks.lqr_exact import exact_gradient, optimal_gain, spectral_radius
from reproduction.trials.largest_entries import LargestEntries

Estimate = Callable[[FloatArray], FloatArray]
"""Gains (k1, k2) to an estimate of dJ / d(k1, k2)."""


@dataclass(frozen=True)
class System:
    """A task, the gains its data are made with, and the noise on them."""

    env: Lqr
    start: FloatArray  # (2,), gains of the behaviour, where learning starts too
    std: float  # spread of stochastic inputs

    @property
    def optimum(self) -> FloatArray:
        """The best gains, (2,)."""
        return np.diag(optimal_gain(self.env))

    def gradient(self, gains: FloatArray, is_stochastic: bool) -> FloatArray | None:
        """The true dJ / d(k1, k2); None where J is infinite."""
        covariance = self.std**2 * np.eye(2) if is_stochastic else None
        try:
            matrix = exact_gradient(self.env, np.diag(gains), noise_cov=covariance)
        except ConfigError:
            return None
        return np.diag(matrix)

    def dataset(self, n_episodes: int, seed: int, is_stochastic: bool) -> Dataset:
        """Episodes of 30 steps from (1, 1) under the behaviour."""
        generator = Seed(seed).numpy("data")
        starts = self.env.reset_states(n_episodes, generator)
        gain = np.diag(self.start)
        if is_stochastic:
            noisy = linear_gaussian(gain, self.std)
            record = rollout(self.env, noisy, starts, self.env.horizon, generator)
        else:
            gains = self._finite_gains(n_episodes, generator)

            def fixed(states: FloatArray) -> FloatArray:
                return np.asarray(np.einsum("bij,bj->bi", gains, states))

            record = rollout(self.env, fixed, starts, self.env.horizon)
        return Dataset(*flatten(record))

    def _finite_gains(self, n: int, generator: np.random.Generator) -> FloatArray:
        """K + e with e ~ N(0, 1), drawn again where the return would be infinite."""
        found: list[FloatArray] = []
        while len(found) < n:
            gain = np.diag(self.start) + generator.standard_normal((2, 2))
            if spectral_radius(self.env, gain) < 1.0:
                found.append(gain)
        return np.stack(found)  # (n, 2, 2)


def linear_gaussian(
    gain: FloatArray, std: float
) -> Callable[[FloatArray, np.random.Generator], FloatArray]:
    """The stochastic behaviour u ~ N(K x, std^2 I)."""

    def behaviour(observations: FloatArray, generator: np.random.Generator) -> FloatArray:
        mean = observations @ np.asarray(gain, dtype=np.float64).T
        return mean + std * generator.standard_normal(mean.shape)

    return behaviour


class LinearGaussian(GaussianPolicy):
    """u ~ N(K x, std^2 I) with K diagonal and the spread fixed."""

    def __init__(self, gains: FloatArray, std: float) -> None:
        spread = torch.full((len(gains),), std, dtype=torch.float64)
        super().__init__(Gain(torch.tensor(gains)), spread)

    def outputs(self, states: Tensor) -> tuple[Tensor, ...]:
        """Mean and spread at each state, ((m, 2), (m, 2))."""
        mean, std = super().outputs(states)
        # Every output must depend on a parameter for a gradient to be asked of it.
        return mean, std + 0.0 * mean


def policy_of(system: System, gains: FloatArray, is_stochastic: bool) -> Policy:
    """The paper's diagonal linear policy."""
    if is_stochastic:
        return LinearGaussian(gains, system.std)
    return linear_policy(gains.tolist())


def gains_of(policy: nn.Module) -> FloatArray:
    """The present (k1, k2)."""
    gain = next(policy.parameters()).detach()
    return np.asarray(gain.numpy(), dtype=np.float64).copy()


def nopg_estimate(
    system: System,
    data: Dataset,
    bandwidths: Bandwidths,
    is_stochastic: bool,
    neighbours: Any,
    seed: int,
    **settings: Any,
) -> Estimate:
    """Eq. (10) at any gains, by the library; its lists of samples are made once.

    The paper's rows and draws, unless `settings` of the equation say otherwise.
    """
    problem = BellmanEquation(
        data,
        policy_of(system, system.start, is_stochastic),
        system.env.start[None].copy(),
        gamma=system.env.gamma,
        bandwidths=bandwidths,
        neighbours=neighbours,
        seed=seed,
        **settings,
    ).problem

    def estimate(gains: FloatArray) -> FloatArray:
        policy = policy_of(system, gains, is_stochastic)
        generator = Seed(seed).torch("policy-samples")
        estimator = Estimator.of(problem, policy)
        solution = estimator.solve(policy, generator, SolverConfig(rtol=1e-8))
        return torch.cat(solution.gradient(policy)).numpy()

    return estimate


def largest_entries_estimate(
    system: System, data: Dataset, bandwidths: Bandwidths, is_stochastic: bool, kept: int, seed: int
) -> Estimate:
    """Eq. (10) at any gains, with the largest entries of each row of P."""
    start = torch.tensor(system.env.start[None])
    made = LargestEntries(data, bandwidths, start, system.env.gamma, kept)

    def estimate(gains: FloatArray) -> FloatArray:
        policy = policy_of(system, gains, is_stochastic)
        generator = Seed(seed).torch("policy-samples")
        return made.gradient(policy, generator).numpy()

    return estimate


def dpg_estimate(system: System, data: Dataset, settings: Mapping[str, Any]) -> Estimate:
    """DPG's semi-gradient, with the critic fitted to the policy at hand first."""
    config = DpgConfig(
        gamma=system.env.gamma,
        learning_rate=0.0,
        critic_learning_rate=settings["learning_rate"],
        tau=settings["tau"],
    )

    def estimate(gains: FloatArray) -> FloatArray:
        policy, critic = policy_of(system, gains, False), QuadraticCritic(2, 2)
        n_updates = settings["n_critic_updates"]
        *_, last = train_dpg(policy, critic, data, config, n_updates=n_updates)
        return last.gradient.numpy()

    return estimate


def pwis_estimate(system: System, data: Dataset) -> Estimate:
    """Eq. (3) at any gains."""
    density = linear_gaussian_density(torch.tensor(np.diag(system.start)), system.std)
    trajectories = Trajectories.from_dataset(data, density)

    def estimate(gains: FloatArray) -> FloatArray:
        policy = policy_of(system, gains, True)
        gamma = system.env.gamma
        steps = train_pwis(policy, trajectories, gamma=gamma, learning_rate=0.0, n_updates=1)
        return next(steps).gradient.numpy()

    return estimate


def ascend(
    gradient: Callable[[FloatArray], FloatArray | None],
    start: FloatArray,
    *,
    learning_rate: float,
    n_updates: int,
) -> list[FloatArray]:
    """The gains visited by Adam on a gradient, the start included.

    It stops early where there is no gradient: outside the stable gains.
    """
    gains = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([gains], lr=learning_rate, maximize=True)
    path = [start.copy()]
    for _ in range(n_updates):
        found = gradient(path[-1])
        if found is None or not np.isfinite(found).all():
            break
        gains.grad = torch.tensor(found, dtype=torch.float64)
        adam.step()
        path.append(gains.detach().numpy().copy())
    return path

"""Path-wise importance sampling against Eq. (3) by hand and the exact gradient."""

import math

import numpy as np
import pytest
import torch
from reproduction.baselines.behaviours import (
    linear_gaussian_density,
    mixture_density,
    uniform_density,
)
from reproduction.baselines.pwis import importance_weights
from reproduction.envs.logs import episodes
from reproduction.envs.pendulum import pendulum_grid
from reproduction.tasks.lqr import Lqr
from reproduction.tasks.random_agents import cart_pole_random, pendulum_random
from reproduction.trials.lqr_gradients import linear_gaussian
from torch import Tensor, nn

import nopg
from nopg.errors import ConfigError, DataError, SolverError
from reproduction.baselines import Trajectories, pwis_objective, train_pwis
from tests.reproduction.finite_lqr import finite_lqr

STD = 0.3


class LinearGaussian(nn.Module):
    """u ~ N(K x, STD^2 I) with a full gain matrix."""

    def __init__(self, gain: Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(gain.clone())

    def outputs(self, states: Tensor) -> tuple[Tensor, Tensor]:
        mean = states @ self.gain.T
        return mean, torch.full_like(mean, STD)


class Deterministic(nn.Module):
    def outputs(self, states: Tensor) -> tuple[Tensor]:
        return (states,)


BEHAVIOUR = torch.tensor([[-4.0, 0.0], [0.0, -2.0]], dtype=torch.float64)
TARGET = torch.tensor([[-4.05, 0.02], [0.01, -2.04]], dtype=torch.float64)


def lqr_trajectories(n: int, n_steps: int, seed: int = 0) -> Trajectories:
    data = episodes(
        Lqr(),
        linear_gaussian(BEHAVIOUR.numpy(), STD),
        n,
        np.random.default_rng(seed),
        n_steps=n_steps,
    )
    density = linear_gaussian_density(BEHAVIOUR, STD)
    return Trajectories.from_dataset(nopg.Dataset(*data), density)


def test_gradient_is_equation_3_written_out() -> None:
    """Eq. (3): rho_t, the reweighted rest of the path as Q, grad log pi."""
    gamma, paths = 0.9, lqr_trajectories(4, 5)
    policy = LinearGaussian(TARGET)
    objective = pwis_objective(policy, paths, gamma=gamma)
    (found,) = torch.autograd.grad(objective, [policy.gain])

    def log_density(gain: Tensor, x: Tensor, u: Tensor) -> float:
        gap = (u - gain @ x) / STD
        return float(-0.5 * gap @ gap - 2 * math.log(STD * math.sqrt(2 * math.pi)))

    expected = torch.zeros(2, 2, dtype=torch.float64)
    for i in range(4):
        xs, us, rs = paths.states[i], paths.actions[i], paths.rewards[i]
        ratios = [
            math.exp(log_density(TARGET, x, u) - log_density(BEHAVIOUR, x, u))
            for x, u in zip(xs, us, strict=True)
        ]
        for t in range(5):
            rho = math.prod(ratios[: t + 1])
            q = sum(
                gamma ** (z - t) * math.prod(ratios[t + 1 : z + 1]) * float(rs[z])
                for z in range(t, 5)
            )
            score = torch.outer((us[t] - TARGET @ xs[t]) / STD**2, xs[t])
            expected += gamma**t * rho * q * score / 4
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_estimate_is_unbiased_for_another_policy() -> None:
    env, horizon = Lqr(), 6
    paths = lqr_trajectories(20_000, horizon)
    policy = LinearGaussian(TARGET)
    exact, gradient = finite_lqr(env, TARGET.numpy(), horizon, STD**2 * np.eye(2))
    terms = 0.9 ** torch.arange(horizon) * importance_weights(policy, paths) * paths.rewards
    draws = terms.sum(dim=1).detach()
    error = float(draws.std()) / math.sqrt(len(draws))
    assert abs(float(draws.mean()) - exact) < 4 * error
    objective = pwis_objective(policy, paths, gamma=0.9)
    (found,) = torch.autograd.grad(objective, [policy.gain])
    truth = torch.as_tensor(gradient)
    cosine = float((found * truth).sum() / found.norm() / truth.norm())
    assert cosine > 0.98


def test_own_policy_has_weight_one() -> None:
    paths = lqr_trajectories(10, 8)
    policy = LinearGaussian(BEHAVIOUR)
    torch.testing.assert_close(
        importance_weights(policy, paths).detach(), torch.ones(10, 8, dtype=torch.float64)
    )
    discounts = 0.9 ** torch.arange(8, dtype=torch.float64)
    expected = (discounts * paths.rewards).sum(dim=1).mean()
    for normalised in (False, True):
        found = pwis_objective(policy, paths, gamma=0.9, self_normalised=normalised)
        torch.testing.assert_close(found.detach(), expected)


def test_training_improves_the_true_objective() -> None:
    env, paths = Lqr(), lqr_trajectories(5000, 6)
    policy = LinearGaussian(BEHAVIOUR)
    before, _ = finite_lqr(env, BEHAVIOUR.numpy(), 6)
    updates = list(train_pwis(policy, paths, gamma=0.9, learning_rate=0.01, n_updates=10))
    after, _ = finite_lqr(env, policy.gain.detach().numpy(), 6)
    assert after > before
    assert [u.step for u in updates] == list(range(1, 11))
    assert updates[-1].objective > updates[0].objective
    assert updates[0].gradient.shape == (4,)


def test_episodes_of_unequal_length_are_padded() -> None:
    data = nopg.Dataset(*cart_pole_random(200, np.random.default_rng(0)))
    paths = Trajectories.from_dataset(data, uniform_density(-5.0, 5.0))
    assert len(paths) == data.n_episodes
    assert int(paths.is_real.sum()) == 200
    torch.testing.assert_close(
        paths.rewards.sum(), torch.tensor(data.rewards.sum(), dtype=torch.float64)
    )
    expected = torch.tensor(-math.log(10.0), dtype=torch.float64)
    assert (paths.behaviour_log_density[paths.is_real] == expected).all()


def test_unstructured_data_are_refused() -> None:
    grid = nopg.Dataset(*pendulum_grid(5, 5, 2))
    with pytest.raises(DataError, match="needs `episodes`, these transitions have none"):
        Trajectories.from_dataset(grid, mixture_density(2.0, 1.0))


def test_unknown_behaviour_is_refused() -> None:
    data = nopg.Dataset(*pendulum_random(60, np.random.default_rng(0)))
    with pytest.raises(DataError, match="must know the density of the policy"):
        Trajectories.from_dataset(data, None)


def test_shuffled_episodes_are_refused() -> None:
    data = nopg.Dataset(*pendulum_random(60, np.random.default_rng(0), clip=False))
    shuffled = data.subset(np.random.default_rng(0).permutation(60))
    with pytest.raises(DataError, match="episode 0 jumps"):
        Trajectories.from_dataset(shuffled, mixture_density(2.0, 1.0))


def test_clipped_actions_have_no_density() -> None:
    generator = np.random.default_rng(0)
    clipped = nopg.Dataset(*pendulum_random(60, generator))
    with pytest.raises(DataError, match="store the actions before clipping"):
        Trajectories.from_dataset(clipped, mixture_density(2.0, 1.0))
    free = nopg.Dataset(*pendulum_random(60, generator, clip=False))
    paths = Trajectories.from_dataset(free, mixture_density(2.0, 1.0))
    a = free.actions[:, 0]
    expected = np.log(
        (np.exp(-((a - 2) ** 2) / 2) + np.exp(-((a + 2) ** 2) / 2)) / (2 * math.sqrt(2 * math.pi))
    )
    np.testing.assert_allclose(paths.behaviour_log_density[0].numpy(), expected)


def test_a_wrong_behaviour_is_noticed() -> None:
    data = nopg.Dataset(*cart_pole_random(50, np.random.default_rng(0)))
    with pytest.raises(DataError, match="it is not the policy that made these data"):
        Trajectories.from_dataset(data, uniform_density(-1.0, 1.0))


def test_deterministic_policies_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs a stochastic policy"):
        pwis_objective(Deterministic(), lqr_trajectories(2, 3), gamma=0.9)


def test_overflow_is_an_error_not_a_number() -> None:
    paths = lqr_trajectories(3, 30)
    odd = Trajectories(
        paths.states,
        paths.actions,
        paths.rewards,
        paths.behaviour_log_density - 50.0,
        paths.is_real,
    )
    with pytest.raises(SolverError, match="the policy has left the data"):
        pwis_objective(LinearGaussian(BEHAVIOUR), odd, gamma=0.9)

"""The exact LQR quantities against sums, draws and finite differences."""

import numpy as np
import pytest

from nopg.envs import Lqr, rollout
from nopg.envs.base import FloatArray
from nopg.envs.lqr import linear_gaussian, linear_policies
from nopg.envs.lqr_exact import (
    exact_gradient,
    exact_objective,
    optimal_gain,
    spectral_radius,
)
from nopg.errors import ConfigError

GAIN = np.array([[-4.0, 0.3], [-0.2, -2.0]])
COV = np.array([[0.01, 0.0], [0.0, 0.02]])
CASES = [
    pytest.param(None, None, id="deterministic"),
    pytest.param(COV, None, id="gaussian"),
    pytest.param(None, 30, id="deterministic-30-steps"),
    pytest.param(COV, 30, id="gaussian-30-steps"),
]


def discounted(rewards: FloatArray, gamma: float) -> FloatArray:
    return np.asarray(rewards @ gamma ** np.arange(rewards.shape[1]))


def test_optimum_is_the_known_one() -> None:
    env = Lqr()
    gain = optimal_gain(env)
    np.testing.assert_allclose(np.diag(gain), [-6.394, -3.355], atol=5e-4)
    np.testing.assert_allclose(gain - np.diag(np.diag(gain)), 0.0, atol=1e-12)
    assert exact_objective(env, gain) == pytest.approx(-0.851, abs=5e-4)
    np.testing.assert_allclose(exact_gradient(env, gain), 0.0, atol=1e-12)
    loop = np.diag(env.A + env.B @ gain)
    np.testing.assert_allclose(loop, [0.561, 0.429], atol=5e-4)


@pytest.mark.parametrize("horizon", [None, 30])
def test_objective_is_the_sum_of_a_rollout(horizon: int | None) -> None:
    env = Lqr()
    starts = env.reset_states(1, np.random.default_rng(0))
    record = rollout(env, lambda seen: seen @ GAIN.T, starts, horizon or 2000)
    expected = discounted(record.rewards, env.gamma)[0]
    found = exact_objective(env, GAIN, horizon=horizon)
    assert found == pytest.approx(expected, rel=1e-12)


def test_objective_of_noise_is_the_mean_of_rollouts() -> None:
    env, generator = Lqr(), np.random.default_rng(0)
    behaviour = linear_gaussian(GAIN, std=0.3)
    starts = env.reset_states(20_000, generator)
    record = rollout(env, behaviour, starts, 30, generator)
    draws = discounted(record.rewards, env.gamma)
    found = exact_objective(env, GAIN, noise_cov=0.09 * np.eye(2), horizon=30)
    error = draws.std() / np.sqrt(len(draws))
    assert abs(draws.mean() - found) < 4.0 * error
    # The noise must matter here, or the test could not fail.
    assert abs(exact_objective(env, GAIN, horizon=30) - found) > 40.0 * error


@pytest.mark.parametrize(("cov", "horizon"), CASES)
def test_gradient_matches_finite_differences(
    cov: FloatArray | None, horizon: int | None
) -> None:
    env, width = Lqr(), 1e-5
    expected = np.zeros((2, 2))
    for i, j in np.ndindex(2, 2):
        nudge = np.zeros((2, 2))
        nudge[i, j] = width
        ahead, back = (
            exact_objective(env, GAIN + sign * nudge, noise_cov=cov, horizon=horizon)
            for sign in (1.0, -1.0)
        )
        expected[i, j] = (ahead - back) / (2 * width)
    found = exact_gradient(env, GAIN, noise_cov=cov, horizon=horizon)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_infinite_is_the_limit_of_finite() -> None:
    env = Lqr()
    far = exact_gradient(env, GAIN, noise_cov=COV, horizon=500)
    np.testing.assert_allclose(exact_gradient(env, GAIN, noise_cov=COV), far, rtol=1e-9)


def test_unstable_loops_are_named() -> None:
    env = Lqr()
    behaviour = np.diag([0.7, -0.7])  # the paper's own data: rho = 1.27
    assert spectral_radius(env, behaviour) == pytest.approx(0.9**0.5 * 1.27, abs=1e-3)
    for exact in (exact_objective, exact_gradient):
        with pytest.raises(ConfigError, match=r"got 1\.205; choose a stabilising gain"):
            exact(env, behaviour)
    assert np.isfinite(exact_objective(env, behaviour, horizon=30))


def test_printed_sign_has_no_optimum() -> None:
    printed = Lqr(R=np.diag([0.01, 0.01]))
    with pytest.raises(ConfigError, match="misprint"):
        optimal_gain(printed)
    # Paying for effort, ever wilder loops earn ever more.
    assert exact_objective(printed, np.diag([-22.0, -10.5])) == pytest.approx(26, abs=1)


def test_one_gain_an_episode() -> None:
    env, generator = Lqr(), np.random.default_rng(0)
    gain = np.diag([0.7, -0.7])
    behaviour = linear_policies(gain, 5, generator)
    record = rollout(env, behaviour, env.reset_states(5, generator), 4)
    # u = K x + e (x1 + x2) (1, 1): the same e in both inputs and in every step.
    states, actions = record.states[:, :-1], record.actions
    e = (actions - states @ gain.T) / states.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(e, np.broadcast_to(e[:, :1, :1], e.shape), rtol=1e-9)
    assert np.unique(np.round(e[:, 0, 0], 6)).size == 5


def test_matrices_are_checked_and_kept() -> None:
    with pytest.raises(ConfigError, match=r"`B` must have shape \(2, 2\)"):
        Lqr(B=np.ones(2))
    with pytest.raises(ConfigError, match=r"`gamma` must be in \[0, 1\)"):
        Lqr(gamma=1.0)
    with pytest.raises(ValueError, match="read-only"):
        Lqr().A[0, 0] = 3.0

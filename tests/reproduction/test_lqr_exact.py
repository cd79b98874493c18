"""The exact LQR quantities against sums, draws and finite differences."""

import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.envs.rollouts import rollout
from reproduction.tasks.lqr import Lqr
from reproduction.tasks.lqr_exact import (
    exact_gradient,
    exact_objective,
    optimal_gain,
    spectral_radius,
)

from nopg.errors import ConfigError
from tests.reproduction.finite_lqr import finite_lqr

GAIN = np.array([[-4.0, 0.3], [-0.2, -2.0]])
COV = np.array([[0.01, 0.0], [0.0, 0.02]])
CASES = [
    pytest.param(None, None, id="deterministic"),
    pytest.param(COV, None, id="gaussian"),
    pytest.param(None, 30, id="deterministic-30-steps"),
    pytest.param(COV, 30, id="gaussian-30-steps"),
]


def objective(env: Lqr, gain: FloatArray, cov: FloatArray | None, horizon: int | None) -> float:
    if horizon is None:
        return exact_objective(env, gain, noise_cov=cov)
    return finite_lqr(env, gain, horizon, cov)[0]


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
    found = objective(env, GAIN, None, horizon)
    assert found == pytest.approx(expected, rel=1e-12)


def test_objective_of_noise_is_the_mean_of_rollouts() -> None:
    env, generator = Lqr(), np.random.default_rng(0)

    def noisy(seen: FloatArray, generator: np.random.Generator) -> FloatArray:
        noise = 0.3 * generator.standard_normal(seen.shape)
        return np.asarray(seen @ GAIN.T + noise)

    starts = env.reset_states(20_000, generator)
    record = rollout(env, noisy, starts, 30, generator)
    draws = discounted(record.rewards, env.gamma)
    found, _ = finite_lqr(env, GAIN, 30, 0.09 * np.eye(2))
    error = draws.std() / np.sqrt(len(draws))
    assert abs(draws.mean() - found) < 4.0 * error
    # The noise must matter here, or the test could not fail.
    assert abs(finite_lqr(env, GAIN, 30)[0] - found) > 40.0 * error


@pytest.mark.parametrize(("cov", "horizon"), CASES)
def test_gradient_matches_finite_differences(cov: FloatArray | None, horizon: int | None) -> None:
    env, width = Lqr(), 1e-5
    expected = np.zeros((2, 2))
    for i, j in np.ndindex(2, 2):
        nudge = np.zeros((2, 2))
        nudge[i, j] = width
        ahead, back = (objective(env, GAIN + sign * nudge, cov, horizon) for sign in (1.0, -1.0))
        expected[i, j] = (ahead - back) / (2 * width)
    found = exact_gradient(env, GAIN, noise_cov=cov)
    if horizon is not None:
        found = finite_lqr(env, GAIN, horizon, cov)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_infinite_is_the_limit_of_finite() -> None:
    env = Lqr()
    value, gradient = finite_lqr(env, GAIN, 500, COV)
    found = exact_gradient(env, GAIN, noise_cov=COV)
    np.testing.assert_allclose(found, gradient, rtol=1e-9)
    assert exact_objective(env, GAIN, noise_cov=COV) == pytest.approx(value, rel=1e-9)


def test_unstable_loops_are_named() -> None:
    env = Lqr()
    behaviour = np.diag([0.7, -0.7])  # the paper's own data: rho = 1.27
    assert spectral_radius(env, behaviour) == pytest.approx(0.9**0.5 * 1.27, abs=1e-3)
    for exact in (exact_objective, exact_gradient):
        with pytest.raises(ConfigError, match=r"got 1\.205; choose a stabilising gain"):
            exact(env, behaviour)
    assert np.isfinite(finite_lqr(env, behaviour, 30)[0])


def test_printed_sign_has_no_optimum() -> None:
    printed = Lqr(R=np.diag([0.01, 0.01]))
    with pytest.raises(ConfigError, match="misprint"):
        optimal_gain(printed)
    # Paying for effort, ever wilder loops earn ever more.
    assert exact_objective(printed, np.diag([-22.0, -10.5])) == pytest.approx(26, abs=1)

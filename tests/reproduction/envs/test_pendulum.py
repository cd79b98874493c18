import math

import gymnasium
import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.envs.pendulum import Pendulum, pendulum_grid
from reproduction.envs.rollouts import rollout
from reproduction.tasks.random_agents import pendulum_random

import nopg
from nopg.errors import ConfigError
from tests.reproduction.envs.shared_files import shared_data


def still(observations: FloatArray) -> FloatArray:
    return np.zeros((len(observations), 1))


def test_agrees_with_gymnasium_side_by_side() -> None:
    env, theirs = Pendulum(), gymnasium.make("Pendulum-v1").unwrapped
    generator = np.random.default_rng(0)
    theirs.reset(seed=0)
    state = np.array([[2.0, -7.5]])
    theirs.state = state[0].copy()  # type: ignore[attr-defined]
    for _ in range(300):
        action = generator.uniform(-2.5, 2.5, 1)  # also outside: both must clip
        step = env.step(state, action[None])
        observation, reward, *_ = theirs.step(action)
        state = step.next_states
        np.testing.assert_allclose(env.observe(state)[0], observation, atol=2e-6)
        assert step.rewards[0] == pytest.approx(float(reward), abs=1e-10)


def test_the_recorded_data_follow_it_below_the_speed_limit() -> None:
    """At the limit Pendulum-v0, which they come from, clipped after moving."""
    data = shared_data("pendulum_random_5k.npz")
    seen = data["observations"].astype(float)
    states = np.stack([np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]], axis=1)
    actions = data["actions"].astype(float)

    env = Pendulum()
    step = env.step(states, actions)
    assert np.abs(step.rewards - data["rewards"]).max() < 1e-5
    gap = np.abs(env.observe(step.next_states) - data["next_observations"])
    is_at_limit = np.abs(step.next_states[:, 1]) == env.max_speed
    assert gap[~is_at_limit].max() < 1e-6
    assert 0.0 < is_at_limit.mean() < 0.1
    assert gap[is_at_limit, 2].max() < 1e-6


def test_hanging_still_earns_what_is_known() -> None:
    env = Pendulum()
    starts = env.reset_states(2, np.random.default_rng(0))
    record = rollout(env, still, starts, env.horizon)
    np.testing.assert_allclose(record.returns, -500 * math.pi**2, atol=0.05)
    np.testing.assert_allclose(record.returns, -4934.8, atol=0.05)


def test_grid_is_the_papers() -> None:
    data = nopg.Dataset(*pendulum_grid(15, 15, 2))
    assert len(data) == 450
    assert data.episodes is None
    assert not data.terminations.any()
    angles = np.arctan2(data.observations[:, 1], data.observations[:, 0])
    assert np.unique(np.round(angles, 9)).size == 15  # -pi keeps its sign in float64
    assert set(np.unique(data.actions)) == {-2.0, 2.0}
    np.testing.assert_array_equal(np.unique(data.observations[:, 2]), np.linspace(-8, 8, 15))
    # Rows run over the torque first, then the velocity, then the angle.
    assert data.observations[0, 2] == -8.0
    assert (data.actions[0], data.actions[1]) == (-2.0, 2.0)
    np.testing.assert_array_equal(data.observations[0], data.observations[1])


def test_grid_needs_both_ends() -> None:
    with pytest.raises(ConfigError, match="two ends"):
        pendulum_grid(10, 10, 1)


def test_random_agent_starts_upright_and_is_clipped_or_not() -> None:
    clipped = pendulum_random(1200, np.random.default_rng(0))
    assert len(clipped.rewards) == 1200
    assert clipped.episodes is not None
    np.testing.assert_array_equal(np.bincount(clipped.episodes), [500, 500, 200])
    np.testing.assert_array_equal(clipped.observations[0], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(np.nonzero(clipped.truncations)[0], [499, 999, 1199])
    share_at_limit = (np.abs(clipped.actions) == 2.0).mean()
    assert share_at_limit == pytest.approx(0.5, abs=0.05)
    free = pendulum_random(1200, np.random.default_rng(0), clip=False)
    assert np.abs(free.actions).max() > 2.5
    np.testing.assert_array_equal(np.clip(free.actions, -2, 2), clipped.actions)
    np.testing.assert_array_equal(free.next_observations, clipped.next_observations)


def test_random_agent_returns_as_the_recorded_one() -> None:
    record = pendulum_random(5000, np.random.default_rng(1))
    mean = record.rewards.sum() / 10
    assert mean == pytest.approx(-2578, rel=0.2)  # the authors' 500-step mean

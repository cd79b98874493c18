"""Rollouts record what the environment did."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from nopg.data import from_env
from nopg.errors import ConfigError


class Counter(gymnasium.Env[Any, Any]):
    """Adds the action to a state it reuses; ends at 5, is cut after 8 steps."""

    observation_space = Box(-100, 100, (1,), np.float64)
    action_space = Box(-1, 2, (1,), np.float64)

    def __init__(self) -> None:
        self.state = np.zeros(1)
        self.steps = 0

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.state[:], self.steps = 0.0, 0
        return self.state, {}

    def step(self, action: Any) -> Any:
        self.state += action  # the same array, as many simulators do
        self.steps += 1
        done = bool(self.state[0] >= 5)
        return self.state, -1.0, done, self.steps == 8, {}


def test_a_function_as_policy() -> None:
    data = from_env(Counter(), lambda observation: [1.5], n_episodes=2)
    assert data.observations[:, 0].tolist() == [0.0, 1.5, 3.0, 4.5] * 2
    assert data.next_observations[:, 0].tolist() == [1.5, 3.0, 4.5, 6.0] * 2
    assert data.terminations.tolist() == [False, False, False, True] * 2
    assert data.n_episodes == 2
    assert not data.truncations.any()


def test_an_object_with_predict_and_the_time_limit() -> None:
    class Still:
        def predict(self, observation: Any, deterministic: bool) -> Any:
            return (np.array([0.0 if deterministic else 1.0]), None)

    data = from_env(Counter(), Still(), n_episodes=1, deterministic=True)
    assert len(data) == 8
    assert data.truncations.tolist() == [False] * 7 + [True]


def test_actions_are_logged_as_applied_and_steps_are_exact() -> None:
    data = from_env(Counter(), lambda observation: [99.0], n_steps=5)
    assert (data.actions == 2.0).all()
    assert len(data) == 5
    assert data.truncations[-1]


def test_random_actions_repeat_with_the_seed() -> None:
    first, again, other = (from_env(Counter(), n_steps=30, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.actions, again.actions)
    assert not np.array_equal(first.actions, other.actions)


def test_a_registered_environment_with_labels() -> None:
    data = from_env("CartPole-v1", n_episodes=2)
    assert data.is_discrete
    assert data.action_space == Discrete(2)
    assert data.terminations.sum() == 2
    np.testing.assert_array_equal(data.next_observations[:1], data.observations[1:2])


def test_exactly_one_length() -> None:
    with pytest.raises(ConfigError):
        from_env(Counter(), n_steps=3, n_episodes=2)
    with pytest.raises(ConfigError):
        from_env(Counter())
    with pytest.raises(ConfigError, match="predict"):
        from_env(Counter(), 3, n_steps=3)

import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.rollouts import rollout
from reproduction.tasks.random_agents import uniform_voltage

from nopg.errors import ConfigError


def test_ended_episodes_stand_still() -> None:
    env, generator = CartPole(), np.random.default_rng(0)
    record = rollout(env, uniform_voltage, env.reset_states(20, generator), 200, generator)
    for i, length in enumerate(record.lengths):
        assert record.terminations[i, length - 1]
        assert not record.rewards[i, length:].any()
        np.testing.assert_array_equal(
            record.states[i, length:],
            np.tile(record.states[i, length], (len(record.states[i]) - length, 1)),
        )
    assert record.rewards.shape[1] == record.lengths.max()  # stops with the last one


def flat(observations: FloatArray) -> FloatArray:
    return np.zeros(len(observations))


def broken(observations: FloatArray) -> FloatArray:
    return np.full((len(observations), 1), np.nan)


def test_policies_are_checked() -> None:
    states = np.zeros((3, 2))
    with pytest.raises(ConfigError, match=r"shape \(3, 1\), got \(3,\)"):
        rollout(Pendulum(), flat, states, 2)
    with pytest.raises(ConfigError, match="finite actions"):
        rollout(Pendulum(), broken, states, 2)

import numpy as np
import pytest
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.mountain_car import MountainCar
from reproduction.tasks.random_agents import first_transitions, uniform_voltage

import nopg
from nopg.envs import (
    Pendulum,
    episodes,
    grid_transitions,
    rollout,
)
from nopg.envs.base import FloatArray
from nopg.errors import ConfigError


def test_episodes_are_consecutive_and_end_once() -> None:
    data = episodes(CartPole(), uniform_voltage, 6, np.random.default_rng(0))
    assert data.episodes is not None
    for number in range(6):
        rows = np.nonzero(data.episodes == number)[0]
        np.testing.assert_array_equal(np.diff(rows), 1)
        np.testing.assert_array_equal(
            data.observations[rows[1:]], data.next_observations[rows[:-1]]
        )
        np.testing.assert_array_equal(
            np.nonzero(data.terminations[rows])[0], [len(rows) - 1]
        )
    assert not data.truncations.any()


def test_cut_episodes_are_truncated_not_terminated() -> None:
    data = episodes(
        CartPole(), uniform_voltage, 50, np.random.default_rng(0), n_steps=14
    )
    assert data.episodes is not None
    last = np.nonzero(np.diff(data.episodes, append=-1))[0]
    np.testing.assert_array_equal(
        np.sort(
            np.r_[np.nonzero(data.terminations)[0], np.nonzero(data.truncations)[0]]
        ),
        last,
    )
    assert data.truncations.any()
    assert data.terminations.any()


def test_smaller_sets_are_the_beginning_of_larger_ones() -> None:
    small, large = (
        first_transitions(CartPole(), uniform_voltage, n, np.random.default_rng(4))
        for n in (50, 200)
    )
    np.testing.assert_array_equal(small.observations, large.observations[:50])
    assert small.truncations[-1] != small.terminations[-1]


def test_dataset_takes_them_in_one_line() -> None:
    data = episodes(CartPole(), uniform_voltage, 3, np.random.default_rng(0))
    assert len(nopg.Dataset(*data)) == len(nopg.Dataset(**data._asdict()))


def test_a_data_set_has_a_row() -> None:
    with pytest.raises(ConfigError, match="at least one row, got 0"):
        first_transitions(CartPole(), uniform_voltage, 0, np.random.default_rng(0))


def test_grid_is_every_combination() -> None:
    axes = [np.array([-0.5, 0.2]), np.array([0.0, 0.01, 0.02])]
    data = grid_transitions(MountainCar(), axes, [np.array([-1.0, 1.0])])
    assert data.episodes is None
    rows = {tuple(row) for row in np.c_[data.observations, data.actions]}
    assert len(rows) == len(data.rewards) == 12
    step = MountainCar().step(data.observations, data.actions)
    np.testing.assert_array_equal(step.next_states, data.next_observations)


def test_ended_episodes_stand_still() -> None:
    env, generator = CartPole(), np.random.default_rng(0)
    record = rollout(
        env, uniform_voltage, env.reset_states(20, generator), 200, generator
    )
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

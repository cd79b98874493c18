"""Steps of a behaviour as a data set: consecutive, and ended once."""

import numpy as np
import pytest
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.logs import episodes
from reproduction.tasks.random_agents import first_transitions, uniform_voltage

import nopg
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
        np.testing.assert_array_equal(np.nonzero(data.terminations[rows])[0], [len(rows) - 1])
    assert not data.truncations.any()


def test_cut_episodes_are_truncated_not_terminated() -> None:
    data = episodes(CartPole(), uniform_voltage, 50, np.random.default_rng(0), n_steps=14)
    assert data.episodes is not None
    last = np.nonzero(np.diff(data.episodes, append=-1))[0]
    np.testing.assert_array_equal(
        np.sort(np.r_[np.nonzero(data.terminations)[0], np.nonzero(data.truncations)[0]]), last
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

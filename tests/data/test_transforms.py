"""Transforms give new datasets and say what they did."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box

from nopg.data import Dataset, angle_to_sine_cosine, select, with_column, with_rewards
from nopg.errors import DataError


@pytest.fixture
def data() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        rng.uniform(-3, 3, (20, 3)),
        rng.normal(size=(20, 2)),
        rng.normal(size=20),
        rng.uniform(-3, 3, (20, 3)),
        np.zeros(20, bool),
        observation_names=["theta", "x", "v"],
        action_names=["left", "right"],
        observation_space=Box(-3, 3, (3,), np.float64),
    )


def test_an_angle_becomes_cosine_and_sine_in_place(data: Dataset) -> None:
    round_data = angle_to_sine_cosine(data, "theta")
    assert round_data.observation_names == ("cos_theta", "sin_theta", "x", "v")
    np.testing.assert_array_equal(round_data.observations[:, 0], np.cos(data.observations[:, 0]))
    np.testing.assert_array_equal(
        round_data.next_observations[:, 1], np.sin(data.next_observations[:, 0])
    )
    np.testing.assert_array_equal(round_data.observations[:, 2:], data.observations[:, 1:])
    space = round_data.observation_space
    assert isinstance(space, Box)
    assert space.high.tolist() == [1, 1, 3, 3]
    assert "theta" in round_data.notes[-1]
    half_turn = angle_to_sine_cosine(
        with_column(data, "deg", lambda s: 0 * s["x"] + 180.0), "deg", unit="degrees"
    )
    np.testing.assert_allclose(half_turn.observations[:, 3], -1.0)


def test_columns_are_chosen_in_the_order_asked_for(data: Dataset) -> None:
    chosen = select(data, observations=["v", "theta"], actions=["right"])
    np.testing.assert_array_equal(chosen.observations, data.observations[:, [2, 0]])
    np.testing.assert_array_equal(chosen.actions, data.actions[:, [1]])
    assert chosen.action_names == ("right",)
    with pytest.raises(DataError, match="must be among"):
        select(data, observations=["speed"])


def test_a_derived_column_is_computed_for_both_states(data: Dataset) -> None:
    energy = with_column(data, "energy", lambda s: s["v"] ** 2 / 2)
    np.testing.assert_array_equal(
        energy.next_observations[:, 3], data.next_observations[:, 2] ** 2 / 2
    )
    with pytest.raises(DataError, match="one number per row"):
        with_column(data, "bad", lambda s: 1.0)


def test_rewards_are_computed_from_all_three(data: Dataset) -> None:
    new = with_rewards(data, lambda s, a, s2: s2[:, 1] - s[:, 1] - a[:, 0] ** 2)
    expected = [
        data.next_observations[i, 1] - data.observations[i, 1] - data.actions[i, 0] ** 2
        for i in range(20)
    ]
    np.testing.assert_allclose(new.rewards, expected)
    with pytest.raises(DataError, match="all rows"):
        with_rewards(data, lambda s, a, s2: s[0])
    assert data.notes == ()  # the input is as it was

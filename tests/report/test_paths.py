"""Predicted paths are draws of what the policy's rollouts say."""

from __future__ import annotations

import numpy as np
import pytest

from nopg import Dataset
from nopg.evaluation.rollouts import Rollouts
from nopg.report.paths import horizon, logged_paths, predicted_paths
from tests.report.policies import corridor, evidence_of, pendulum, slider


def test_draws_of_the_kernels_have_the_mean_of_their_distribution() -> None:
    policy = corridor()
    rollouts = policy.rollouts(20)
    paths = predicted_paths(rollouts, n_paths=4000)
    assert not paths.is_path
    np.testing.assert_allclose(paths.running[1:], rollouts.running)
    for step in (1, 5, 20):
        drawn = paths.states[:, step]
        lasting = ~np.isnan(drawn[:, 0])
        share = rollouts.running[step - 1]
        assert lasting.mean() == pytest.approx(share, abs=2 / 4000)
        np.testing.assert_allclose(
            drawn[lasting].mean(axis=0), rollouts.mean[step - 1], atol=0.01
        )


def test_draws_of_the_kernels_are_logged_next_states_and_begin_at_the_starts() -> None:
    policy, paths = corridor(), evidence_of("corridor").paths
    assert policy.data is not None
    assert policy.initial_states is not None
    logged = {tuple(state) for state in policy.data.next_observations}
    later = paths.states[:, 1:].reshape(-1, 4)
    assert {tuple(state) for state in later[~np.isnan(later[:, 0])]} <= logged
    starts = {tuple(state) for state in paths.states[:, 0]}
    assert starts == {tuple(state) for state in policy.initial_states}


def test_paths_of_the_models_are_followed_from_their_own_start() -> None:
    policy = slider()
    rollouts = policy.rollouts(15)
    paths = predicted_paths(rollouts)
    n_starts = len(rollouts.initial)
    assert paths.is_path
    assert paths.states.shape == (2 * n_starts, 16, 2)  # once for each of two models
    np.testing.assert_array_equal(paths.states[:n_starts, 0], rollouts.initial)
    np.testing.assert_array_equal(paths.states[n_starts:, 0], rollouts.initial)
    np.testing.assert_array_equal(
        paths.states[:, 1:], rollouts.states.transpose(1, 0, 2)
    )
    # One step is short: a path that began elsewhere would leap.
    assert np.abs(paths.states[:, 1] - paths.states[:, 0]).max() < 0.3


def test_a_path_that_has_ended_is_not_drawn() -> None:
    states = np.arange(6.0).reshape(3, 2, 1)
    weights = np.array([[0.5, 0.5], [0.5, 0.1], [0.5, 0.0]])
    paths = predicted_paths(Rollouts(states, weights, np.zeros((1, 1)), "model"))
    np.testing.assert_array_equal(
        paths.states[:, :, 0], [[0, 0, 2, 4], [0, 1, np.nan, np.nan]]
    )
    np.testing.assert_allclose(paths.running, [1.0, 1.0, 0.6, 0.5])


def test_the_horizon_is_where_rewards_stop_counting() -> None:
    assert 0.97 ** horizon(0.97) <= 0.01 < 0.97 ** (horizon(0.97) - 1)
    assert horizon(0.0) == horizon(0.1) == 10
    assert horizon(0.9999) == 300


def test_recorded_episodes_are_drawn_from_their_first_row() -> None:
    rows = np.arange(7.0)[:, None]
    data = Dataset(
        rows,
        -rows,
        np.zeros(7),
        rows + 1.0,
        np.zeros(7, dtype=bool),
        episodes=np.array([3, 3, 3, 3, 8, 8, 8]),
    )
    found = logged_paths(data, 2)
    assert found is not None
    states, actions = found
    np.testing.assert_array_equal(states[:, :, 0], [[0, 1, 2], [4, 5, 6]])
    np.testing.assert_array_equal(actions, -states)
    longer = logged_paths(data, 3)
    assert longer is not None
    np.testing.assert_array_equal(longer[0][1, :, 0], [4, 5, 6, np.nan])
    assert pendulum().data is not None
    assert logged_paths(pendulum().data, 5) is None  # type: ignore[arg-type]

"""Predicted paths are draws of the chain whose return is J."""

from __future__ import annotations

import numpy as np
import pytest

from nopg import NOPG
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.report.paths import horizon, predicted_paths
from tests.report.runs import corridor, pendulum


@pytest.mark.parametrize("make", [pendulum, corridor])
def test_the_mean_return_of_paths_is_the_objective(make) -> None:  # type: ignore[no-untyped-def]
    model = make().model
    gamma = model.config.estimator.gamma
    paths = predicted_paths(model, n_paths=600, n_steps=90)
    discount = gamma ** np.arange(90)
    returns = np.nansum(paths.rewards * discount, axis=1)
    error = returns.std() / np.sqrt(len(returns))
    assert error > 0.0
    assert abs(returns.mean() - float(model.objective())) < 4.0 * error


def test_averaged_next_states_are_followed_too() -> None:
    model = NOPG(gamma=0.8, hidden=(4,), next_state_samples=3)
    model.prepare(grid_dataset(6, 6), [BOTTOM])
    paths = predicted_paths(model, n_paths=600, n_steps=40)
    returns = np.nansum(paths.rewards * 0.8 ** np.arange(40), axis=1)
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - float(model.objective())) < 4.0 * error


def test_steps_are_rows_of_the_data_and_ends_are_terminal() -> None:
    run = corridor()
    paths, data = predicted_paths(run.model, n_paths=50), run.data
    starts = {tuple(s) for s in run.model.setup.initial_states}  # type: ignore[union-attr]
    for path in range(50):
        end = int(paths.ends[path])
        rows = paths.samples[path, :end]
        assert tuple(paths.states[path, 0]) in starts
        np.testing.assert_array_equal(
            paths.states[path, 1 : end + 1], data.next_observations[rows]
        )
        np.testing.assert_array_equal(paths.rewards[path, :end], data.rewards[rows])
        assert not data.terminations[rows[:-1]].any()
        assert data.terminations[rows[-1]] == paths.is_over[path]
        assert (paths.samples[path, end:] == -1).all()
        assert np.isnan(paths.states[path, end + 1 :]).all()
    assert paths.is_over.any()


def test_paths_repeat_and_start_everywhere() -> None:
    model = corridor().model
    one, two = predicted_paths(model), predicted_paths(model)
    np.testing.assert_array_equal(one.samples, two.samples)
    assert len(np.unique(one.states[:, 0], axis=0)) == 20  # one an episode


def test_the_horizon_is_where_rewards_stop_counting() -> None:
    assert 0.97 ** horizon(0.97) <= 0.01 < 0.97 ** (horizon(0.97) - 1)
    assert horizon(0.0) == horizon(0.1) == 10
    assert horizon(0.9999) == 300

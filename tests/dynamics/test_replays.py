"""Replays: which parts of a log they are, and what models make of them."""

import numpy as np
import pytest

from nopg.dynamics.replays import HORIZONS, Replays
from tests.dynamics.noisy_runs import fitted, runs, sensed

SHORT, LONG = HORIZONS


def test_replays_are_parts_of_single_episodes() -> None:
    found = Replays.of(*runs(3, 15))
    assert found is not None
    assert found.states.shape == (3 * (15 - SHORT + 1), SHORT + 1, 1)
    expected = 0.9 * found.states[:, :-1] + 0.3 * found.actions
    np.testing.assert_allclose(found.states[:, 1:], expected)


def test_long_episodes_have_long_replays() -> None:
    found = Replays.of(*runs(2, LONG + 5))
    assert found is not None
    assert found.states.shape == (2 * 6, LONG + 1, 1)


def test_a_gap_ends_a_replay() -> None:
    columns, episodes = runs(1, 25)
    kept = np.arange(25) != 12  # a row was lost
    found = Replays.of([column[kept] for column in columns], episodes[kept])
    assert found is not None
    assert len(found.states) == (12 - SHORT + 1) * 2


def test_short_episodes_are_not_replayed() -> None:
    assert Replays.of(*runs(4, SHORT - 1)) is None


def test_a_known_system_is_replayed_exactly() -> None:
    columns, episodes = runs(5, 20)
    found = Replays.of(columns, episodes)
    assert found is not None
    assert found.error(fitted(columns), np.ones(1)) < 1e-6


def test_noise_explains_what_replays_miss() -> None:
    columns, episodes = runs(60, 30, noise=0.1)
    found, model = Replays.of(columns, episodes), fitted(columns)
    assert found is not None
    # The variance of ten steps of an autoregression.
    truth = 0.1 * np.sqrt((1.0 - 0.81**SHORT) / (1.0 - 0.81))
    assert found.paths(model, 64)[-1].std(axis=0).mean() == pytest.approx(truth, rel=0.1)
    # The geometric mean of |x| for a Gaussian x, after one step and after ten.
    expected = np.sqrt(0.1 * truth) * np.exp(-0.5 * (np.euler_gamma + np.log(2.0)))
    assert found.error(model, np.ones(1)) == pytest.approx(expected, rel=0.25)
    assert found.noise_ratio(model)[0] == pytest.approx(1.0, rel=0.25)


def test_noise_of_a_sensor_does_not_add_up() -> None:
    columns, episodes = sensed(60, 30, noise=0.1)
    found, model = Replays.of(columns, episodes), fitted(columns)
    assert found is not None
    # A start and an end that are each off by 0.1, not ten such steps.
    assert found.noise_ratio(model)[0] < 0.6

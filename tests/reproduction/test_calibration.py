"""Bands of noisy paths: as wide as new episodes scatter, whatever the noise is."""

from typing import Any

import numpy as np
import pytest
from reproduction.calibration import Calibration

from nopg.dynamics.replays import Replays
from tests.dynamics.noisy_runs import fitted, runs, sensed


@pytest.mark.parametrize("log", [runs, sensed])
def test_bands_hold_new_episodes(log: Any) -> None:
    columns, episodes = log(40, 30, noise=0.1)
    seen = episodes < 30
    some = [column[seen] for column in columns]
    model = fitted(some)
    calibration = Calibration.of(model, some, episodes[seen])
    others = Replays.of([column[~seen] for column in columns], episodes[~seen])
    assert calibration is not None
    assert others is not None
    paths = calibration.widened(others.paths(model, 64))
    low, high = np.quantile(paths, [0.05, 0.95], axis=1)
    truth = others.states[:, 1:].swapaxes(0, 1)
    holds = ((low <= truth) & (truth <= high)).mean(axis=(1, 2))
    # A hundred overlapping replays of ten episodes: three standard errors of ten.
    assert abs(holds[[0, -1]] - 0.9).max() < 3.0 * np.sqrt(0.9 * 0.1 / 10)
    assert abs(holds.mean() - 0.9) < 0.06


def test_factors_are_those_of_the_noise() -> None:
    (columns, episodes), (heard, _) = runs(40, 30, 0.1), sensed(40, 30, 0.1)
    driven = Calibration.of(fitted(columns), columns, episodes)
    sensor = Calibration.of(fitted(heard), heard, episodes)
    assert driven is not None
    assert sensor is not None
    assert driven.factors[[0, -1], 0] == pytest.approx(1.0, rel=0.25)
    # What a sensor adds is added once: bands that add it up are narrowed later on.
    assert sensor.factors[-1, 0] < 0.7 * sensor.factors[0, 0]


def test_paths_keep_their_mean_and_what_is_past_its_spread() -> None:
    calibration = Calibration(np.array([[2.0], [3.0]]))
    paths = np.random.default_rng(0).normal(size=(4, 6, 5, 2))
    found = calibration.widened(paths)
    np.testing.assert_allclose(found.mean(axis=1), paths.mean(axis=1))
    ratio = found.std(axis=1) / paths.std(axis=1)
    np.testing.assert_allclose(ratio[..., 0].mean(axis=1), [2.0, 3.0, 3.0, 3.0])
    np.testing.assert_allclose(ratio[..., 1], 1.0)


def test_nothing_is_told_without_noise_or_episodes() -> None:
    columns, episodes = runs(4, 20)
    assert Calibration.of(fitted(columns), columns, episodes) is None
    columns, episodes = runs(4, 20, noise=0.1)
    assert Calibration.of(fitted(columns), columns, None) is None
    assert Calibration.of(fitted(columns), columns, 0 * episodes) is None

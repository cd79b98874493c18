"""The local regression of steps, and its residuals, against systems that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman.samples import ArcCoordinates, Samples
from nopg.bellman.step_regression import StepRegression

NOISE = 0.05


def regression(noise: float, n: int = 1500) -> StepRegression:
    """Of v' = 0.9 v + 0.2 sin(v) + 0.3 a + noise."""
    rng = np.random.default_rng(0)
    v, a = rng.uniform(-1, 1, (n, 1)), rng.uniform(-1, 1, (n, 1))
    after = moved(v, a) + noise * rng.standard_normal((n, 1))
    samples = Samples.of(
        nopg.Dataset(v, a, -(v[:, 0] ** 2), after, np.zeros(n)), torch.float64, "cpu"
    )
    arcs, h = ArcCoordinates.of(samples.states), nopg.Bandwidths([0.15], [0.3])
    return StepRegression(samples, h, arcs, samples.continuation)


def moved(v: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.asarray(0.9 * v + 0.2 * np.sin(v) + 0.3 * a)


def test_residuals_are_the_noise_of_the_system() -> None:
    # Without noise what is left is curvature: v^3 / 6 over a few neighbours.
    assert np.abs(regression(0.0).residuals).mean() < 1e-3
    assert regression(NOISE).residuals.std() == pytest.approx(NOISE, rel=0.1)


def test_drawn_steps_have_the_mean_and_the_spread_of_the_system() -> None:
    made = regression(NOISE)
    v, a = np.full((4000, 1), 0.4), np.full((4000, 1), -0.2)
    drawn, rewards, goes_on = made.step(v, v, a, np.random.default_rng(1).random(4000))
    mean, *_ = made.step(v[:1], v[:1], a[:1], None)
    expected = float((moved(v[:1], a[:1]) - v[:1])[0, 0])
    # The mean of some forty samples is known to 0.05 / sqrt(40).
    assert float(mean[0, 0]) == pytest.approx(expected, abs=0.025)
    assert float(drawn.mean()) == pytest.approx(float(mean[0, 0]), abs=0.025)
    assert float(drawn.std()) == pytest.approx(NOISE, rel=0.25)
    assert float(rewards[0]) == pytest.approx(-(0.4**2), abs=0.15**2)
    np.testing.assert_array_equal(goes_on, 1.0)


def test_noise_is_found_where_there_is_some() -> None:
    assert not regression(0.0).is_noisy
    assert regression(NOISE).is_noisy


def test_in_noise_a_line_is_believed_as_far_as_it_helps() -> None:
    """The system is all but linear: the trend knows more than 48 neighbours do."""
    made, n = regression(3.0 * NOISE), 400
    rng = np.random.default_rng(2)
    v, a = rng.uniform(-0.8, 0.8, (n, 1)), rng.uniform(-0.8, 0.8, (n, 1))

    def error() -> float:
        found, *_ = made.step(v, v, a, None)
        return float(np.square(v + found - moved(v, a)).mean())

    shrunk = error()
    made._trust[:] = 1.0
    assert shrunk < 0.5 * error()


def test_actions_near_a_state_are_those_taken_there() -> None:
    made = regression(NOISE)
    low, high = made.actions_near(np.array([[0.3]]))
    nearest = np.argsort(np.abs(made.states[:, 0] - 0.3))[:48]
    expected = (made.actions[nearest].min(), made.actions[nearest].max())
    assert (float(low[0, 0]), float(high[0, 0])) == expected

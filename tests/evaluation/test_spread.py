"""Intervals from deviations, against normal draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nopg.evaluation.intervals import Spread, jackknife_std


def test_intervals_of_normal_draws_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((24, 20_000))
    truth = rng.standard_normal(20_000)
    spread = Spread(draws, 1.0, np.zeros(20_000))
    for level in (0.8, 0.95):
        low, high = spread.ends(np.zeros(20_000), level)
        held = np.mean((low <= truth) & (truth <= high))
        assert held == pytest.approx(level, abs=0.02)
    below = spread.probability_below(np.zeros(20_000), -1.5)
    assert below.mean() == pytest.approx(stats.norm.cdf(-1.5), abs=0.02)


def test_sides_differ_and_errors_add_up() -> None:
    skewed = np.array([[-4.0], [-2.0], [0.1], [0.2]])
    spread = Spread(skewed, 1.0, np.zeros(1))
    low, high = spread.ends(np.zeros(1), 0.95)
    assert -low > 1.5 * high
    wider = Spread(skewed, 3.0, np.zeros(1))
    assert wider.ends(np.zeros(1), 0.95)[0] == pytest.approx(3.0 * low)
    assert wider.std == pytest.approx(3.0 * np.sqrt(np.square(skewed).mean()))
    exact = Spread(np.zeros((4, 1)), 1.0, np.array([2.0]))
    width = stats.t.ppf(0.975, 3)
    assert exact.ends(np.zeros(1), 0.95)[1] == pytest.approx(2.0 * width)


def test_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(0).standard_normal((10, 4_000))
    without = (values.sum(axis=0) - values) / 9.0  # each left out once
    found = np.sqrt(np.square(jackknife_std(without)).mean())
    assert found == pytest.approx(1.0 / np.sqrt(10.0), rel=0.02)


def test_a_part_that_holds_all_of_a_place_does_not_count() -> None:
    answers = np.zeros((10, 2))
    answers[3, 1] = 1e3
    assert (jackknife_std(answers) == 0.0).all()


def test_drawn_models_and_left_out_parts_add_up_and_gaps_are_the_least() -> None:
    drawn, left_out = np.full((9, 1), 0.9), np.array([[-1.0], [0.0], [1.0], [0.5]])
    spread = Spread(drawn, 1.0, np.zeros(1), left_out)
    expected = np.sqrt(0.9**2 + jackknife_std(left_out) ** 2)
    assert spread.std == pytest.approx(expected)
    width = stats.t.ppf(0.975, 2)  # of the three squares that count of those left out
    low, high = spread.ends(np.zeros(1), 0.95)
    assert high == pytest.approx(width * expected)
    assert low == pytest.approx(-high)
    for farthest, std in ((18.0, 9.0), (0.2, spread.std), (-18.0, 9.0)):
        gaps = np.array([[0.0], [0.0], [farthest], [0.0]])  # one changes the answer
        assert Spread(drawn, 1.0, np.zeros(1), left_out, gaps).std == std
    none = np.empty((0, 1))
    assert Spread(drawn, 1.0, np.zeros(1), left_out, none).std == spread.std

"""Axes of the maps: columns, hidden angles, ranges."""

from __future__ import annotations

import math

import numpy as np

from nopg import Dataset
from nopg.report.maps import Coordinate, coordinates, held_state


def dataset(states: np.ndarray, names: list[str] | None = None) -> Dataset:
    n = len(states)
    return Dataset(states, np.zeros((n, 1)), np.zeros(n), states, np.zeros(n, bool),
                   observation_names=names)  # fmt: skip


def axes_of(states: np.ndarray, names: list[str] | None = None) -> list[Coordinate]:
    data = dataset(states, names)
    return list(coordinates(data, states[:1], np.ones(states.shape[1])))


def test_cosine_and_sine_become_their_angle() -> None:
    angles = np.linspace(-3.0, 3.0, 50)
    states = np.column_stack([np.sin(angles), angles**2, np.cos(angles)])
    found = axes_of(states, ["sin(theta)", "v", "cos(theta)"])
    assert [axis.name for axis in found] == ["theta", "v"]
    assert found[0].columns == (2, 0)
    np.testing.assert_allclose(found[0].of(states), angles, atol=1e-12)
    assert (found[0].low, found[0].high) == (-math.pi, math.pi)


def test_placing_undoes_reading() -> None:
    angle = Coordinate("theta", (0, 1), -math.pi, math.pi)
    states = np.zeros((5, 3))
    values = np.linspace(-3, 3, 5)
    angle.place(states, values)
    np.testing.assert_allclose(angle.of(states), values, atol=1e-12)
    np.testing.assert_allclose((states[:, :2] ** 2).sum(axis=1), 1.0)


def test_columns_inside_the_unit_square_are_no_angle() -> None:
    states = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    assert [axis.is_angle for axis in axes_of(states)] == [False, False]


def test_constant_columns_are_left_out() -> None:
    states = np.column_stack([np.ones(30), np.linspace(0, 1, 30)])
    assert [axis.columns for axis in axes_of(states)] == [(1,)]
    still = axes_of(np.ones((30, 2)))
    assert len(still) == 1
    assert still[0].low < 1.0 < still[0].high


def test_many_columns_leave_those_that_vary_most() -> None:
    spread = np.arange(1, 15)
    states = np.random.default_rng(0).normal(size=(200, 14)) * spread
    assert [axis.columns[0] for axis in axes_of(states)] == list(range(4, 14))


def test_an_outlier_does_not_stretch_the_axis() -> None:
    values = np.linspace(0.0, 1.0, 999)
    states = np.append(values, 1e6)[:, None]
    assert axes_of(states)[0].high < 2.0
    usual = axes_of(values[:, None])[0]
    assert usual.low < 0.0 < 1.0 < usual.high


def test_the_held_state_stays_on_the_circle() -> None:
    angles = np.array([math.pi - 0.1, -math.pi + 0.1])  # their mean is pi, not 0
    states = np.column_stack([np.cos(angles), np.sin(angles), [1.0, 3.0]])
    axis = Coordinate("theta", (0, 1), -math.pi, math.pi)
    held = held_state((axis,), states, np.array([0.5, 0.5]))
    np.testing.assert_allclose(held, [-1.0, 0.0, 2.0], atol=1e-12)

"""Planes hold what the model itself says at their states."""

from __future__ import annotations

import numpy as np
import pytest

from nopg.report import Run, maps
from nopg.report.coordinates import Coordinate, coordinates, held_state
from nopg.report.support import support_along_visits
from tests.report.runs import corridor, hostile, pendulum


def axes_and_held(run: Run) -> tuple[tuple[Coordinate, ...], np.ndarray]:
    starts = run.model.setup.initial_states
    assert starts is not None
    axes = coordinates(run.data, starts, np.array(run.model.bandwidths.state))
    support = support_along_visits(run.model)
    return axes, held_state(axes, support.states, support.visits)


def states_of(plane: maps.Plane, axes: tuple[Coordinate, ...], held: np.ndarray):  # type: ignore[no-untyped-def]
    across, up = (grid.reshape(-1) for grid in np.meshgrid(plane.xs, plane.ys))
    states = np.tile(held, (len(across), 1))
    axes[plane.x].place(states, across)
    if plane.y is not None:
        axes[plane.y].place(states, up)
    return states


def test_one_plane_of_the_pendulum_is_value_visits_and_policy() -> None:
    run = pendulum()
    axes, held = axes_and_held(run)
    assert [axis.name for axis in axes] == ["angle", "theta_dot"]
    (plane,) = maps.planes(run.model, axes, held)
    assert plane.value.shape == (72, 72)
    states = states_of(plane, axes, held)
    np.testing.assert_allclose((states[:, :2] ** 2).sum(axis=1), 1.0)
    # Lists leave out up to 1e-6 of a row, the planes do not.
    value, visits = run.model.value(states), run.model.visitation(states)
    np.testing.assert_allclose(
        plane.value.ravel(), value, atol=1e-5 * np.ptp(value), rtol=0
    )
    np.testing.assert_allclose(
        plane.visitation.ravel(), visits, atol=1e-5 * visits.max(), rtol=0
    )
    actions, _ = run.model.predict(states)
    np.testing.assert_allclose(plane.actions[0].ravel(), actions[:, 0], atol=1e-6)


def test_every_pair_of_four_columns_has_a_plane() -> None:
    run = corridor()
    axes, held = axes_and_held(run)
    planes = maps.planes(run.model, axes, held)
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert [(plane.x, plane.y) for plane in planes] == pairs
    plane = planes[1]
    states = states_of(plane, axes, held)
    assert (states[:, [1, 3]] == held[[1, 3]]).all()
    labels, _ = run.model.predict(states)
    np.testing.assert_array_equal(plane.actions[0].ravel(), labels)
    assert ((plane.actions[1] >= 0.5) & (plane.actions[1] <= 1.0)).all()


def test_one_dimensional_states_have_a_line() -> None:
    run = hostile()
    axes, held = axes_and_held(run)
    (line,) = maps.planes(run.model, axes, held)
    assert line.y is None
    assert line.value.shape == (1, maps.LINE)
    expected = run.model.value(line.xs[:, None])
    np.testing.assert_allclose(line.value[0], expected, rtol=1e-6)
    assert line.actions.shape == (2, 1, maps.LINE)


def test_parts_do_not_change_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    model = pendulum().model
    states = np.random.default_rng(0).normal(size=(300, 3))
    whole = maps.values_and_visits(model, states)
    monkeypatch.setattr(maps, "_ENTRIES", 1)  # the smallest parts
    in_parts = maps.values_and_visits(model, states)
    np.testing.assert_allclose(whole, in_parts, rtol=1e-12)


def test_the_grid_shrinks_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    run = corridor()
    axes, held = axes_and_held(run)
    monkeypatch.setattr(maps, "WORK", 6 * 160 * 30**2)
    assert maps.planes(run.model, axes, held)[0].value.shape == (30, 30)
    monkeypatch.setattr(maps, "WORK", 1)
    side = maps.COARSEST
    assert maps.planes(run.model, axes, held)[0].value.shape == (side, side)

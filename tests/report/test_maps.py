"""Planes hold what the policy itself says at their states."""

from __future__ import annotations

import numpy as np
import pytest

from nopg.report import maps
from nopg.report.evidence import Evidence
from nopg.report.maps import Coordinate, coordinates, held_state
from tests.report.policies import evidence_of


def axes_and_held(evidence: Evidence) -> tuple[tuple[Coordinate, ...], np.ndarray]:
    starts, widths = evidence.policy.initial_states, evidence.policy.bandwidths.state
    assert starts is not None
    axes = coordinates(evidence.data, starts, np.array(widths))
    return axes, held_state(axes, evidence.visited.states, evidence.visited.visits)


def points_of(axis: Coordinate, count: int) -> np.ndarray:
    return np.linspace(axis.low, axis.high, count)


def states_of(plane: maps.Plane, axes: tuple[Coordinate, ...], held: np.ndarray):  # type: ignore[no-untyped-def]
    assert plane.y is not None
    xs = points_of(axes[plane.x], plane.value.shape[1])
    ys = points_of(axes[plane.y], plane.value.shape[0])
    states = np.tile(held, (plane.value.size, 1))
    axes[plane.x].place(states, np.tile(xs, len(ys)))
    axes[plane.y].place(states, np.repeat(ys, len(xs)))
    return states


def test_one_plane_of_the_pendulum_is_value_and_policy() -> None:
    evidence = evidence_of("pendulum")
    axes, held = axes_and_held(evidence)
    assert [axis.name for axis in axes] == ["angle", "theta_dot"]
    (plane,) = maps.planes(evidence, axes, held)
    assert plane.value.shape == (72, 72)
    states = states_of(plane, axes, held)
    np.testing.assert_allclose((states[:, :2] ** 2).sum(axis=1), 1.0)
    value = evidence.policy.value(states)
    np.testing.assert_allclose(plane.value.ravel(), value, rtol=1e-9)
    actions, _ = evidence.policy.predict(states)
    np.testing.assert_allclose(plane.actions[0].ravel(), actions[:, 0], atol=1e-6)


def test_visits_are_shares_and_lie_where_the_policy_goes() -> None:
    evidence = evidence_of("pendulum")
    axes, held = axes_and_held(evidence)
    (plane,) = maps.planes(evidence, axes, held)
    angle, speed = (axis.of(evidence.visited.states) for axis in axes)
    # An axis is cut where hardly anything is; a blur loses a little at its ends.
    inside = (speed > axes[1].low) & (speed < axes[1].high)
    share = evidence.visited.visits[inside].sum()
    assert 0.9 * share < plane.visits.sum() <= share + 1e-9
    # It hangs down at the start: half a turn away there is less.
    hanging = np.cos(points_of(axes[0], 72)) < 0.0
    down = evidence.visited.visits[np.cos(angle) < 0.0].sum()
    assert plane.visits[:, hanging].sum() == pytest.approx(down, abs=0.1)


def test_every_pair_of_four_columns_has_a_plane() -> None:
    evidence = evidence_of("corridor")
    axes, held = axes_and_held(evidence)
    planes = maps.planes(evidence, axes, held)
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert [(plane.x, plane.y) for plane in planes] == pairs
    plane = planes[1]
    states = states_of(plane, axes, held)
    assert (states[:, [1, 3]] == held[[1, 3]]).all()
    labels, _ = evidence.policy.predict(states)
    np.testing.assert_array_equal(plane.actions[0].ravel(), labels)
    assert ((plane.actions[1] >= 0.5) & (plane.actions[1] <= 1.0)).all()


def test_one_dimensional_states_have_a_line() -> None:
    evidence = evidence_of("hostile")
    axes, held = axes_and_held(evidence)
    (line,) = maps.planes(evidence, axes, held)
    assert line.y is None
    assert line.value.shape == line.visits.shape == (1, maps.LINE)
    expected = evidence.policy.value(points_of(axes[0], maps.LINE)[:, None])
    np.testing.assert_allclose(line.value[0], expected, rtol=1e-6)
    assert line.actions.shape == (2, 1, maps.LINE)


def test_values_by_models_are_exact_on_a_coarser_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = evidence_of("slider")
    axes, held = axes_and_held(evidence)
    monkeypatch.setattr(maps, "MODEL_WORK", 1)  # the coarsest: five per side
    monkeypatch.setattr(maps, "FINEST", 21)  # every fifth point is of both grids
    (plane,) = maps.planes(evidence, axes, held)
    states = states_of(plane, axes, held).reshape(21, 21, 2)
    expected = evidence.policy.value(states[::5, ::5].reshape(-1, 2), by="model")
    np.testing.assert_allclose(plane.value[::5, ::5].ravel(), expected, rtol=1e-6)
    middle = (plane.value[0, 0] + plane.value[0, 5]) / 2.0
    between = (plane.value[0, 2] + plane.value[0, 3]) / 2.0
    assert between == pytest.approx(middle)


def test_the_grid_shrinks_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = evidence_of("corridor")
    axes, held = axes_and_held(evidence)
    samples = evidence.policy.estimator.policy_samples
    monkeypatch.setattr(maps, "WORK", 6 * 160 * samples * 30**2)
    assert maps.planes(evidence, axes, held)[0].value.shape == (30, 30)
    monkeypatch.setattr(maps, "WORK", 1)
    side = maps.COARSEST
    assert maps.planes(evidence, axes, held)[0].value.shape == (side, side)

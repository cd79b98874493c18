"""Support against brute force and against the dense equation."""

from __future__ import annotations

import numpy as np
import pytest

from nopg import BellmanEquation, Dataset
from nopg.report import Run
from nopg.report.support import (
    NearestSample,
    Support,
    support_along_visits,
    typical_actions,
)
from tests.report.runs import corridor, pendulum


def equation(run: Run) -> BellmanEquation:
    model = run.model
    return BellmanEquation(
        run.data,
        model.policy,
        model.setup.initial_states,
        gamma=model.config.estimator.gamma,
        bandwidths=model.bandwidths,
    )


@pytest.mark.parametrize("make", [pendulum, corridor])
def test_visits_and_effective_samples_are_those_of_the_dense_equation(make) -> None:  # type: ignore[no-untyped-def]
    run = make()
    found, dense = support_along_visits(run.model), equation(run)
    n, gamma = len(run.data), run.model.config.estimator.gamma
    live = ~run.data.terminations
    mu = dense.mu.detach().numpy()
    expected = np.append(
        gamma * mu * live, np.full(found.n_starts, 1.0 / found.n_starts)
    )
    # Everything visited after the start is gamma mu' P: the whole is the sum of mu.
    np.testing.assert_allclose(expected.sum(), mu.sum(), rtol=1e-6)
    np.testing.assert_allclose(found.visits, expected / expected.sum(), atol=1e-6)
    rows = dense.responsibilities(run.data.next_observations).detach().numpy()
    np.testing.assert_allclose(
        found.effective[:n], 1.0 / (rows**2).sum(axis=1), rtol=1e-4
    )


def test_distances_of_continuous_actions_by_brute_force() -> None:
    run = pendulum()
    states = np.random.default_rng(0).normal(size=(20, 3))
    actions = typical_actions(run.model, states)
    h, h_a = (np.array(getattr(run.model.bandwidths, k)) for k in ("state", "action"))
    ds = ((states[:, None] - run.data.observations[None]) / h) ** 2
    da = ((actions[:, None] - run.data.actions[None]) / h_a) ** 2
    expected = np.sqrt(ds.sum(-1) + da.sum(-1)).min(axis=1)
    found = NearestSample(run.model).distance(states, actions)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_distances_of_labels_count_the_same_label_only() -> None:
    run = corridor()
    data: Dataset = run.data
    h = np.array(run.model.bandwidths.state)
    states = data.observations[:10]
    other = 1 - data.actions[:10]
    nearest = NearestSample(run.model)
    assert (nearest.distance(states, data.actions[:10]) == 0.0).all()
    for state, label, found in zip(
        states, other, nearest.distance(states, other), strict=True
    ):
        rows = data.observations[data.actions == label]
        expected = np.linalg.norm((rows - state) / h, axis=1).min()
        assert found == pytest.approx(expected)
    assert np.isinf(nearest.distance(states, np.full(10, 7))).all()


def test_shares_and_worst_states_by_hand() -> None:
    support = Support(
        states=np.zeros((4, 1)),
        actions=np.zeros((4, 1)),
        visits=np.array([0.5, 0.3, 0.16, 0.04]),
        distance=np.array([0.5, 3.0, 2.5, 9.0]),
        effective=np.array([5.0, 1.0, 4.0, 1.5]),
        n_starts=1,
    )
    assert support.beyond == pytest.approx(0.5)
    assert support.thin == pytest.approx(0.34)
    assert support.quantile(support.distance, 0.4) == 0.5
    assert support.quantile(support.distance, 0.6) == 2.5
    assert support.worst(8).tolist() == [1, 2, 0]  # the fourth is hardly visited

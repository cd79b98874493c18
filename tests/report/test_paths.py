"""Predicted paths are draws of what the policy's rollouts say."""

from __future__ import annotations

import numpy as np
import pytest

from nopg import BellmanEquation, Dataset, FittedPolicy
from nopg.evaluation.rollouts import Rollouts
from nopg.report import evidence as paths
from nopg.report.evidence import (
    VisitedStates,
    horizon,
    logged_paths,
    predicted_paths,
    visited_states,
)
from tests.report.policies import POLICIES, corridor, evidence_of, pendulum, slider


def test_draws_of_the_kernels_have_the_mean_of_their_distribution() -> None:
    policy = corridor()
    rollouts = policy.rollouts(20)
    found = predicted_paths(rollouts, n_paths=4000)
    assert not found.is_path
    np.testing.assert_allclose(found.running[1:], rollouts.running)
    for step in (1, 5, 20):
        drawn = found.states[:, step]
        lasting = ~np.isnan(drawn[:, 0])
        share = rollouts.running[step - 1]
        assert lasting.mean() == pytest.approx(share, abs=2 / 4000)
        np.testing.assert_allclose(drawn[lasting].mean(axis=0), rollouts.mean[step - 1], atol=0.01)


def test_draws_of_the_kernels_are_logged_next_states_and_begin_at_the_starts() -> None:
    policy, found = corridor(), evidence_of("corridor").paths
    assert policy.data is not None
    assert policy.initial_states is not None
    logged = {tuple(state) for state in policy.data.next_observations}
    later = found.states[:, 1:].reshape(-1, 4)
    assert {tuple(state) for state in later[~np.isnan(later[:, 0])]} <= logged
    starts = {tuple(state) for state in found.states[:, 0]}
    assert starts == {tuple(state) for state in policy.initial_states}


def test_paths_of_the_models_are_followed_from_their_own_start() -> None:
    policy = slider()
    rollouts = policy.rollouts(15)
    found = predicted_paths(rollouts)
    n_starts = len(rollouts.initial)
    assert found.is_path
    assert found.states.shape == (2 * n_starts, 16, 2)  # once for each of two models
    np.testing.assert_array_equal(found.states[:n_starts, 0], rollouts.initial)
    np.testing.assert_array_equal(found.states[n_starts:, 0], rollouts.initial)
    np.testing.assert_array_equal(found.states[:, 1:], rollouts.states.transpose(1, 0, 2))
    # One step is short: a path that began elsewhere would leap.
    assert np.abs(found.states[:, 1] - found.states[:, 0]).max() < 0.3


def test_a_path_that_has_ended_is_not_drawn() -> None:
    states = np.arange(6.0).reshape(3, 2, 1)
    weights = np.array([[0.5, 0.5], [0.5, 0.1], [0.5, 0.0]])
    found = predicted_paths(Rollouts(states, weights, np.zeros((1, 1)), "model"))
    np.testing.assert_array_equal(found.states[:, :, 0], [[0, 0, 2, 4], [0, 1, np.nan, np.nan]])
    np.testing.assert_allclose(found.running, [1.0, 1.0, 0.6, 0.5])


def test_noisy_paths_begin_at_their_own_start() -> None:
    """Two models, two starts, three paths from each."""
    initial = np.array([[0.0], [100.0]])
    after = np.tile(np.repeat(initial, 3, axis=0), (2, 1)) + 1.0  # (12, 1)
    weights = np.full((1, 12), 1.0 / 12)
    found = predicted_paths(Rollouts(after[None].repeat(2, 0), weights, initial, "model"))
    np.testing.assert_array_equal(found.states[:, 1] - found.states[:, 0], 1.0)


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


def of(policy: FittedPolicy, rollouts: Rollouts) -> VisitedStates:
    assert policy.data is not None
    return visited_states(rollouts, policy.gamma, ~policy.data.terminations)


def equation(policy: FittedPolicy) -> BellmanEquation:
    return BellmanEquation(
        policy.data,  # type: ignore[arg-type]
        policy.policy,
        policy.initial_states,
        gamma=policy.gamma,
        bandwidths=policy.bandwidths,
        rows=policy.estimator.rows,
        neighbours=policy.estimator.neighbours,
    )


@pytest.mark.parametrize("name", ["pendulum", "corridor"])
def test_visits_by_kernels_are_those_of_the_dense_equation(name: str) -> None:
    policy = POLICIES[name]()
    assert policy.data is not None
    found = of(policy, policy.rollouts(400))  # long: nothing is missing
    mu = equation(policy).mu.detach().numpy()
    live = ~policy.data.terminations  # after an end nothing is visited
    logged = policy.gamma * mu * live / mu.sum()  # the next state of every sample
    for i in np.argsort(-logged)[:20]:
        here = (found.states == policy.data.next_observations[i]).all(axis=1)
        there = (policy.data.next_observations == found.states[here][0]).all(axis=1)
        expected = logged[there].sum()
        assert found.visits[here].sum() == pytest.approx(expected, rel=1e-4)


def test_visits_by_models_are_where_their_rollouts_are() -> None:
    policy = slider()
    rollouts = policy.rollouts(30)
    found = of(policy, rollouts)
    discounts = policy.gamma ** np.arange(31)
    means = np.vstack([rollouts.initial.mean(axis=0), rollouts.mean])
    running = np.append(1.0, rollouts.running)
    expected = np.average(means, axis=0, weights=discounts * running)
    mean = np.average(found.states, axis=0, weights=found.visits)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    assert found.visits.sum() == pytest.approx(1.0)


def test_of_many_places_a_choice_by_visits_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = pendulum()
    every = evidence_of("pendulum").visited
    monkeypatch.setattr(paths, "MOST_PLACES", 40)
    some = of(policy, policy.rollouts(90))
    assert len(some.states) <= 40
    assert some.visits.sum() == pytest.approx(1.0)
    mean = np.average(some.states, axis=0, weights=some.visits)
    expected = np.average(every.states, axis=0, weights=every.visits)
    np.testing.assert_allclose(mean, expected, atol=0.4)

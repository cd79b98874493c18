"""Visits against the dense equation and the rollouts they come from."""

from __future__ import annotations

import numpy as np
import pytest

from nopg import BellmanEquation, FittedPolicy
from nopg.report import support_map
from nopg.report.support_map import visited_states
from tests.report.policies import POLICIES, evidence_of, pendulum, slider


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
    found = visited_states(policy, policy.rollouts(400))  # long: nothing is missing
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
    found = visited_states(policy, rollouts)
    discounts = policy.gamma ** np.arange(31)
    means = np.vstack([rollouts.initial.mean(axis=0), rollouts.mean])
    running = np.append(1.0, rollouts.running)
    expected = np.average(means, axis=0, weights=discounts * running)
    mean = np.average(found.states, axis=0, weights=found.visits)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    assert found.visits.sum() == pytest.approx(1.0)


def test_of_many_places_a_choice_by_visits_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = pendulum()
    every = evidence_of("pendulum").visited
    monkeypatch.setattr(support_map, "MOST_PLACES", 40)
    some = visited_states(policy, policy.rollouts(90))
    assert len(some.states) <= 40
    assert some.visits.sum() == pytest.approx(1.0)
    mean = np.average(some.states, axis=0, weights=some.visits)
    expected = np.average(every.states, axis=0, weights=every.visits)
    np.testing.assert_allclose(mean, expected, atol=0.4)

"""Support against brute force, and visits against the dense equation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg import BellmanEquation, FittedPolicy
from nopg.report import support_map
from nopg.report.support_map import (
    VisitedStates,
    support_at,
    visited_states,
)
from tests.report.policies import POLICIES, corridor, evidence_of, pendulum, slider


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


def test_distances_of_continuous_actions_by_brute_force() -> None:
    policy = pendulum()
    data = policy.data
    assert data is not None
    states = np.random.default_rng(0).normal(size=(20, 3))
    actions = policy.policy.act(torch.tensor(states)).detach().numpy()
    h, h_a = (np.array(getattr(policy.bandwidths, k)) for k in ("state", "action"))
    ds = ((states[:, None] - data.observations[None]) / h) ** 2
    da = ((actions[:, None] - data.actions[None]) / h_a) ** 2
    expected = np.sqrt(ds.sum(-1) + da.sum(-1)).min(axis=1)
    np.testing.assert_allclose(support_at(policy, states), expected, rtol=1e-6)


def test_parts_do_not_change_the_support(monkeypatch: pytest.MonkeyPatch) -> None:
    states = np.random.default_rng(0).normal(size=(300, 3))
    whole = support_at(pendulum(), states)
    monkeypatch.setattr(support_map, "_ENTRIES", 1)  # the smallest parts
    np.testing.assert_allclose(support_at(pendulum(), states), whole, rtol=1e-9)


def test_starts_are_measured_with_and_without_the_action() -> None:
    policy, visited = corridor(), evidence_of("corridor").visited
    # The task starts in rows of the log, whatever the policy does there.
    np.testing.assert_allclose(visited.starts_alone, 0.0, atol=1e-12)
    assert policy.initial_states is not None
    with_action = support_at(policy, policy.initial_states)
    np.testing.assert_array_equal(visited.starts, with_action)
    assert (visited.starts >= 0.0).all()


def test_the_share_out_of_reach_by_hand() -> None:
    visited = VisitedStates(
        states=np.zeros((4, 1)),
        actions=np.zeros((4, 1)),
        visits=np.array([0.5, 0.3, 0.16, 0.04]),
        distance=np.array([0.5, 3.0, 2.0, 9.0]),
        starts=np.zeros(1),
        starts_alone=np.zeros(1),
    )
    assert visited.beyond == pytest.approx(0.34)

"""Plans against decision processes solved densely, and against Riccati's gains."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_are

from nopg.algorithms.search.planning import (
    LONGEST_HOLD,
    MAX_ACTIONS,
    N_LEVELS,
    N_PLACES,
    Outlook,
    Places,
    actions_to_try,
)
from nopg.dynamics.stepper import Array
from nopg.dynamics.transition_model import Step, TransitionModel

Move = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Known:
    """A system whose step is known, in the place of a learned one."""

    def __init__(
        self, move: Move, earn: Move, end: Move | None = None, lose: Move | None = None
    ) -> None:
        self.move, self.earn = move, earn
        self.end = end or (lambda s, a: torch.zeros(len(s)).double())
        self.lose = lose or (lambda s, a: torch.zeros(len(s)).double())

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> Step:
        reached = self.move(states, actions)
        ends, lost = self.end(reached, actions), self.lose(reached, actions)
        earned = self.earn(states, actions)
        return Step(reached, reached, earned, ends, lost, earned)

    def worst_value(self, gamma: float) -> float:
        return -3.0 / (1.0 - gamma)


def outlook(known: Known, states: Array, actions: Array) -> Outlook:
    model = cast(TransitionModel, known)
    return Outlook.of(model, states, actions, np.random.default_rng(0))


def dense_shares(places: Array, states: Array) -> Array:
    """Gaussian weights of the 2 d + 2 nearest places, by sorting all distances."""
    unit, d = places.std(axis=0), places.shape[1]
    between = np.linalg.norm((places[:, None] - places) / unit, axis=2)
    width = np.median(np.sort(between, axis=1)[:, min(len(places), d + 2) - 1])
    distance = np.linalg.norm((states[:, None] - places) / unit, axis=2)
    is_near = distance.argsort(axis=1).argsort(axis=1) < 2 * d + 2
    weights: Array = is_near * (np.exp(-0.5 * (distance / width) ** 2) + 1e-12)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def policy_iteration(rewards: Array, P: Array, far: float) -> Array:
    """Best value of every action by exact solves; rewards (n, A), P (n, A, n)."""
    n = len(rewards)
    rows, best = np.arange(n), np.zeros(n, dtype=int)
    while True:
        chain = np.eye(n) - far * P[rows, best]
        value = np.linalg.solve(chain, rewards[rows, best])
        by_action: Array = rewards + far * P @ value
        better = by_action.argmax(axis=1)
        gains = by_action[rows, better] > by_action[rows, best] + 1e-9
        if not gains.any():
            return by_action
        best = np.where(gains, better, best)


@pytest.mark.parametrize("hold", [1, 3])
def test_a_plan_is_the_best_policy_of_its_decision_process(hold: int) -> None:
    rng = np.random.default_rng(4)
    states = rng.uniform(-1, 1, size=(60, 2))
    pushes = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [0.3, 0.4]])
    known = Known(
        lambda s, a: 0.98 * s + 0.07 * a,
        lambda s, a: -s.square().sum(dim=1) - 0.1 * a[:, 0],
        lambda s, a: (0.3 * (s[:, 0] > 0.6)).double(),
        lambda s, a: (0.5 * (s[:, 1] < -0.5)).double(),
    )
    gamma = 0.9
    plan = outlook(known, states, pushes).plan(gamma, hold)

    n, worst = len(plan.states), -3.0 / (1.0 - gamma)
    rewards, P = np.zeros((n, 5)), np.zeros((n, 5, n))
    for k, push in enumerate(pushes):
        here, alive = plan.states, np.ones(n)
        for t in range(hold):
            earned = -(here**2).sum(axis=1) - 0.1 * push[0]
            here = 0.98 * here + 0.07 * push
            stays, lost = 1.0 - 0.3 * (here[:, 0] > 0.6), 0.5 * (here[:, 1] < -0.5)
            rewards[:, k] += gamma**t * alive * earned
            rewards[:, k] += gamma ** (t + 1) * alive * stays * lost * worst
            alive = alive * stays * (1.0 - lost)
        P[:, k] = alive[:, None] * dense_shares(plan.states, here)
    truth = policy_iteration(rewards, P, gamma**hold)
    value = truth.max(axis=1)
    # Value iteration stops at 1e-4 a sweep: actions may differ where they are as good.
    chosen = (plan.actions[:, None] == pushes).all(axis=2).argmax(axis=1)
    assert (value - truth[np.arange(n), chosen] <= 2e-3 * np.abs(value)).all()
    assert (chosen == truth.argmax(axis=1)).mean() > 0.9
    stakes = value - truth.min(axis=1)
    assert plan.stakes == pytest.approx(stakes / stakes.mean(), rel=0.05, abs=0.02)
    assert plan.stakes.mean() == pytest.approx(1.0)
    assert plan.hold == hold


def test_dense_places_give_the_gain_of_riccati() -> None:
    a, b, cost, gamma = 1.0, 0.5, 0.5, 0.9
    p = solve_discrete_are(
        *(np.array([[x]]) for x in (a * gamma**0.5, b * gamma**0.5, 1.0, cost))
    )[0, 0]
    gain = gamma * a * b * p / (cost + gamma * b * b * p)
    known = Known(
        lambda s, u: a * s + b * u,
        lambda s, u: -s[:, 0].square() - cost * u[:, 0].square(),
    )
    states = np.linspace(-1, 1, 801)[:, None]
    levels = np.linspace(-1.0, 1.0, N_LEVELS)[:, None]
    plan = outlook(known, states, levels).plan(gamma, hold=1)
    inside = np.abs(plan.states[:, 0]) < 0.7
    s, u = plan.states[inside, 0], plan.actions[inside, 0]
    # The value knows the levels only; its kinks move actions by part of a level.
    assert u == pytest.approx(-gain * s, abs=0.25 * (levels[1, 0] - levels[0, 0]))
    assert float(s @ u / (s @ s)) == pytest.approx(-gain, rel=0.02)


def test_between_levels_the_top_of_a_parabola_is_taken() -> None:
    known = Known(
        lambda s, u: s,
        lambda s, u: -(u[:, 0] - 0.37 * s[:, 0]).square(),
    )
    states = np.linspace(-4, 4, 30)[:, None]
    levels = np.linspace(-1.0, 1.0, N_LEVELS)[:, None]
    plan = outlook(known, states, levels).plan(0.0, hold=1)
    expected = np.clip(0.37 * plan.states, -1.0, 1.0)
    assert plan.actions == pytest.approx(expected, abs=1e-9)


def test_where_reward_is_straight_the_edge_is_taken() -> None:
    known = Known(lambda s, u: s, lambda s, u: u[:, 0] * s[:, 0].sign())
    states = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    levels = np.linspace(-3.0, 5.0, N_LEVELS)[:, None]
    plan = outlook(known, states, levels).plan(0.0, hold=1)
    assert plan.actions.tolist() == [[5.0 if s > 0 else -3.0] for [s] in plan.states]


@pytest.mark.parametrize(("pace", "hold"), [(0.6, 4), (1.5, 2), (0.01, LONGEST_HOLD)])
def test_actions_are_held_until_they_have_led_elsewhere(pace: float, hold: int) -> None:
    # On a line of places at distance 1 the third nearest is at 1: two of these.
    known = Known(lambda s, a: s + pace * a, lambda s, a: -s[:, 0].abs())
    states = np.arange(40.0)[:, None]
    plan = outlook(known, states, np.array([[-1.0], [1.0]])).plan(0.9)
    assert plan.hold == hold


def test_labels_are_planned_as_one_hot_rows() -> None:
    moves = torch.tensor([[-0.1], [0.0], [0.1]]).double()
    known = Known(lambda s, a: s + a @ moves, lambda s, a: -(s + a @ moves)[:, 0].abs())
    states = np.linspace(-1, 1, 41)[:, None]
    plan = outlook(known, states, np.eye(3)).plan(0.8, hold=1)
    labels = plan.actions.argmax(axis=1)
    far = np.abs(plan.states[:, 0]) > 0.2
    assert set(plan.actions.ravel()) == {0.0, 1.0}
    assert labels[far].tolist() == [0 if s > 0 else 2 for [s] in plan.states[far]]


def test_fewer_places_than_neighbours_are_enough() -> None:
    known = Known(lambda s, a: s + 0.1 * a, lambda s, a: -s[:, 0].square())
    two = np.array([[1.0, 0.0], [-1.0, 0.0]])
    plan = outlook(known, two, np.array([[-1.0, 0.0], [1.0, 0.0]])).plan(0.5)
    assert plan.actions[:, 0].tolist() == (-plan.states[:, 0]).tolist()
    shares = Places.of(two).shares(np.array([[1.0, 0.0], [0.0, 0.0]])).toarray()
    assert shares.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert shares[1] == pytest.approx([0.5, 0.5])


def test_many_states_are_planned_for_by_a_random_part() -> None:
    known = Known(lambda s, a: s, lambda s, a: s[:, 0])
    states = np.arange(N_PLACES + 50.0)[:, None]
    plan = outlook(known, states, np.eye(2)).plan(0.5, hold=1)
    assert len(np.unique(plan.states)) == N_PLACES
    assert set(plan.states.ravel()) <= set(states.ravel())


def test_one_dimension_is_tried_at_even_levels() -> None:
    tried = actions_to_try(np.array([[-2.0], [0.1], [6.0]]), np.random.default_rng(0))
    assert tried.tolist() == [[-2.0 + i] for i in range(N_LEVELS)]


def test_of_several_dimensions_actions_taken_are_tried() -> None:
    rng = np.random.default_rng(0)
    corners = np.array([[x, y] for x in (-1.0, 1.0) for y in (-1.0, 1.0)])
    tried = actions_to_try(np.repeat(corners, 9, axis=0), rng)
    assert sorted(tried.tolist()) == corners.tolist()
    taken = rng.uniform(-1, 1, size=(500, 2))
    tried = actions_to_try(taken, rng)
    assert tried.shape == (MAX_ACTIONS, 2)
    assert {tuple(row) for row in tried} <= {tuple(row) for row in taken}

"""Value iteration against dense solutions, and against Riccati's gains."""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import pendulum_grid
from reproduction.envs.swing_up import CartPoleSwingUp
from reproduction.tasks.swing_up import held_forces, swing_up_task
from scipy import sparse
from scipy.linalg import solve_discrete_are

from nopg.algorithms.search import planning
from nopg.algorithms.search.candidates import FoundPolicy, planned_candidates, replanned_candidates
from nopg.algorithms.search.planning import (
    MAX_ACTIONS,
    MAX_REPEAT,
    N_GUSTS,
    N_LEVELS,
    ActionOutcomes,
    Anchors,
    actions_to_try,
    is_sparse,
    iterated,
    states_along,
)
from nopg.data.dataset import Dataset
from nopg.dynamics.transition_model import PredictedStep, TransitionModel
from nopg.policies.arrays import Array, ArrayPolicies
from nopg.policies.build import PolicySpec
from nopg.randomness import Seed

Move = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Known:
    """A system whose step is known, instead of a learned model."""

    noise: object = None

    def __init__(
        self, move: Move, earn: Move, end: Move | None = None, leave: Move | None = None
    ) -> None:
        self.move, self.earn = move, earn
        self.end = end or (lambda s, a: torch.zeros(len(s)).double())
        self.leave = leave or (lambda s, a: torch.zeros(len(s)).double())
        self.arrays: Any = self

    def step(
        self, states: torch.Tensor, actions: torch.Tensor, draws: torch.Tensor | None = None
    ) -> PredictedStep[torch.Tensor]:
        reached = self.move(states, actions)
        if draws is not None:
            reached = reached + 0.3 * draws
        ends, out = self.end(reached, actions), self.leave(reached, actions)
        earned = self.earn(states, actions)
        return PredictedStep(reached, reached, earned, ends, out, earned)

    def follow(
        self, states: Array, actions: Array, draws: Array | None = None
    ) -> PredictedStep[Array]:
        here, steps = torch.from_numpy(states), []
        for t, action in enumerate(torch.from_numpy(actions)):
            gusts = None if draws is None else torch.from_numpy(draws[t])
            steps.append(self.step(here, action, gusts))
            here = steps[-1].next_states
        fields = zip(*steps, strict=True)
        return PredictedStep(*(torch.stack(field).numpy() for field in fields))

    def value_limits(self, gamma: float) -> tuple[float, float]:
        return -3.0 / (1.0 - gamma), 0.0


def outcomes(known: Known, states: Array, actions: Array) -> ActionOutcomes:
    model = cast(TransitionModel, known)
    return ActionOutcomes.of(model, states, actions, np.random.default_rng(0))


def dense_weights(anchors: Array, states: Array) -> Array:
    """Gaussian weights of the 2 d + 2 nearest anchors, by sorting all distances."""
    unit, d = anchors.std(axis=0), anchors.shape[1]
    between = np.linalg.norm((anchors[:, None] - anchors) / unit, axis=2)
    width = np.median(np.sort(between, axis=1)[:, min(len(anchors), d + 2) - 1])
    distance = np.linalg.norm((states[:, None] - anchors) / unit, axis=2)
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


@pytest.mark.parametrize("repeat", [1, 3])
def test_the_best_policy_of_the_decision_process_is_found(repeat: int) -> None:
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
    found = outcomes(known, states, pushes).value_iteration(gamma, repeat)

    n, worst = len(found.states), -3.0 / (1.0 - gamma)
    rewards, P = np.zeros((n, 5)), np.zeros((n, 5, n))
    for k, push in enumerate(pushes):
        here, alive = found.states, np.ones(n)
        for t in range(repeat):
            earned = -(here**2).sum(axis=1) - 0.1 * push[0]
            here = 0.98 * here + 0.07 * push
            stays, out = 1.0 - 0.3 * (here[:, 0] > 0.6), 0.5 * (here[:, 1] < -0.5)
            rewards[:, k] += gamma**t * alive * earned
            rewards[:, k] += gamma ** (t + 1) * alive * stays * out * worst
            alive = alive * stays * (1.0 - out)
        P[:, k] = alive[:, None] * dense_weights(found.states, here)
    truth = policy_iteration(rewards, P, gamma**repeat)
    value = truth.max(axis=1)
    # Sweeps stop at a change of 1e-4: actions may differ where they are as good.
    chosen = (found.actions[:, None] == pushes).all(axis=2).argmax(axis=1)
    assert (value - truth[np.arange(n), chosen] <= 2e-3 * np.abs(value)).all()
    assert (chosen == truth.argmax(axis=1)).mean() > 0.9
    advantages = value - truth.min(axis=1)
    assert found.advantage_weights == pytest.approx(
        advantages / advantages.mean(), rel=0.05, abs=0.02
    )
    assert found.advantage_weights.mean() == pytest.approx(1.0)
    assert found.action_repeat == repeat


def test_noise_is_averaged_over_what_it_leads_to() -> None:
    """A step from an edge at 0 ends badly if a gust carries it over."""
    known = Known(
        lambda s, a: s + a, lambda s, a: 2.5 - s[:, 0], lambda s, a: (s[:, 0] < 0.0).double()
    )
    known.noise = SimpleNamespace(lasting=np.ones(1))  # gusts of sd 0.3
    states, pushes = np.linspace(0.0, 2.0, 41)[:, None], np.array([[-0.4], [0.0]])
    found = outcomes(known, states, pushes)
    assert found.n_gusts == N_GUSTS
    reached = found.outcomes.reached[0]
    assert len(reached) == 41 * 2 * N_GUSTS
    starts = np.repeat(found.anchors.states, 2 * N_GUSTS, axis=0)
    acted = np.tile(np.repeat(pushes, N_GUSTS, axis=0), (41, 1))
    # All gusts of one anchor and action, and the same gusts at every other.
    gusts = (reached - starts - acted).reshape(-1, N_GUSTS)
    assert np.allclose(gusts, gusts[0], atol=1e-12)
    assert gusts[0].mean() == pytest.approx(0.0, abs=1e-12)
    gamma, far = 0.9, found.value_iteration(0.9, 1)
    n = len(far.states)
    rewards = np.repeat(2.5 - far.states, 2, axis=1)
    P = np.zeros((n, 2, n))
    for k, push in enumerate(pushes):
        for gust in gusts[0]:
            after = far.states + push + gust
            stays = (after[:, 0] >= 0.0)[:, None]
            P[:, k] += stays * dense_weights(far.states, after) / N_GUSTS
    truth = policy_iteration(rewards, P, gamma)
    chosen = (far.actions[:, None] == pushes).all(axis=2).argmax(axis=1)
    value = truth.max(axis=1)
    assert (value - truth[np.arange(n), chosen] <= 2e-3 * np.abs(value)).all()
    assert len(set(chosen)) == 2


def test_dense_anchors_give_the_gain_of_riccati() -> None:
    a, b, cost, gamma = 1.0, 0.5, 0.5, 0.9
    p = solve_discrete_are(*(np.array([[x]]) for x in (a * gamma**0.5, b * gamma**0.5, 1.0, cost)))[
        0, 0
    ]
    gain = gamma * a * b * p / (cost + gamma * b * b * p)
    known = Known(
        lambda s, u: a * s + b * u, lambda s, u: -s[:, 0].square() - cost * u[:, 0].square()
    )
    states = np.linspace(-1, 1, 801)[:, None]
    levels = np.linspace(-1.0, 1.0, N_LEVELS)[:, None]
    found = outcomes(known, states, levels).value_iteration(gamma, repeat=1)
    inside = np.abs(found.states[:, 0]) < 0.7
    s, u = found.states[inside, 0], found.actions[inside, 0]
    # The value knows the levels only; its kinks move actions by part of a level.
    assert u == pytest.approx(-gain * s, abs=0.25 * (levels[1, 0] - levels[0, 0]))
    assert float(s @ u / (s @ s)) == pytest.approx(-gain, rel=0.02)


def test_between_levels_the_top_of_a_parabola_is_taken() -> None:
    known = Known(lambda s, u: s, lambda s, u: -(u[:, 0] - 0.37 * s[:, 0]).square())
    states = np.linspace(-4, 4, 30)[:, None]
    levels = np.linspace(-1.0, 1.0, N_LEVELS)[:, None]
    found = outcomes(known, states, levels).value_iteration(0.0, repeat=1)
    expected = np.clip(0.37 * found.states, -1.0, 1.0)
    assert found.actions == pytest.approx(expected, abs=1e-9)


def test_where_reward_is_straight_the_edge_is_taken() -> None:
    known = Known(lambda s, u: s, lambda s, u: u[:, 0] * s[:, 0].sign())
    states = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    levels = np.linspace(-3.0, 5.0, N_LEVELS)[:, None]
    found = outcomes(known, states, levels).value_iteration(0.0, repeat=1)
    assert found.actions.tolist() == [[5.0 if s > 0 else -3.0] for [s] in found.states]


@pytest.mark.parametrize(("pace", "repeat"), [(0.6, 4), (1.5, 2), (0.01, MAX_REPEAT)])
def test_actions_are_repeated_until_they_have_led_elsewhere(pace: float, repeat: int) -> None:
    # On a line of anchors at distance 1 the third nearest is at 1: two of these.
    known = Known(lambda s, a: s + pace * a, lambda s, a: -s[:, 0].abs())
    states = np.arange(40.0)[:, None]
    found = outcomes(known, states, np.array([[-1.0], [1.0]])).value_iteration(0.9)
    assert found.action_repeat == repeat


def test_labels_are_planned_as_one_hot_rows() -> None:
    moves = torch.tensor([[-0.1], [0.0], [0.1]]).double()
    known = Known(lambda s, a: s + a @ moves, lambda s, a: -(s + a @ moves)[:, 0].abs())
    states = np.linspace(-1, 1, 41)[:, None]
    found = outcomes(known, states, np.eye(3)).value_iteration(0.8, repeat=1)
    labels = found.actions.argmax(axis=1)
    far = np.abs(found.states[:, 0]) > 0.2
    assert set(found.actions.ravel()) == {0.0, 1.0}
    assert labels[far].tolist() == [0 if s > 0 else 2 for [s] in found.states[far]]


def test_fewer_anchors_than_neighbours_are_enough() -> None:
    known = Known(lambda s, a: s + 0.1 * a, lambda s, a: -s[:, 0].square())
    two = np.array([[1.0, 0.0], [-1.0, 0.0]])
    found = outcomes(known, two, np.array([[-1.0, 0.0], [1.0, 0.0]])).value_iteration(0.5)
    assert found.actions[:, 0].tolist() == (-found.states[:, 0]).tolist()
    weights = Anchors.of(two).weights(np.array([[1.0, 0.0], [0.0, 0.0]])).toarray()
    assert weights.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert weights[1] == pytest.approx([0.5, 0.5])


class Walk:
    """A path that moves as it is told, and ends beyond 3."""

    def step(self, states: Array, actions: Array) -> PredictedStep[Array]:
        after, nothing = states + actions, np.zeros(len(states))
        is_over = (after[:, 0] > 3.0).astype(float)
        return PredictedStep(after, after, nothing, is_over, nothing, nothing)


class Up:
    """Always one up."""

    def act(self, states: Array) -> Array:
        return np.ones((len(states), 1))


def test_states_along_paths_are_those_of_the_policy_and_of_its_errors() -> None:
    walk: Any = type("Model", (), {"arrays": Walk()})()
    instead = np.array([[0.25], [-1.0]])
    rest = (np.zeros((2, 1)), instead, 0.5, np.random.default_rng(0))
    found = states_along(walk, Up(), *rest)
    assert set(found.ravel()) > {0.0, 1.0, 2.0, 3.0}  # as it goes
    assert found.max() <= 3.0  # what follows an end is nowhere
    share = float(np.isin(found, np.arange(4.0)).mean())
    assert 0.5 < share < 0.95  # and by errors elsewhere
    again = states_along(walk, Up(), *rest[:3], np.random.default_rng(0))
    np.testing.assert_array_equal(found, again)


def test_plans_along_paths_find_a_place_that_others_pass_by() -> None:
    """Only a narrow place earns, and logged states are farther apart than it is wide."""

    def pay(states: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return torch.where((states[:, 0] - 0.5).abs() > 0.1, -1.0, 0.0).double()

    def move(states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.cat([states[:, :1] + 0.15 * actions, states[:, 1:]], dim=1)

    known: Any = Known(move, pay)
    known.arrays = SimpleNamespace(step=lambda s, a: step_of(known, s, a), follow=known.follow)
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1.0, 1.0, (1000, 5)), rng.uniform(-1.0, 1.0, (1000, 1))
    data = Dataset(states, actions, states[:, 0], states, np.zeros(1000, dtype=bool))
    limit, starts = torch.ones(1).double(), rng.uniform(-1.0, 1.0, (5, 5))
    spec = PolicySpec(kind="deterministic", n_states=5, n_outputs=1, hidden=(50,))
    fresh = spec.build(torch.Generator().manual_seed(0), -limit, limit)

    def earned(found: FoundPolicy) -> float:
        here, total, actor = starts, 0.0, ArrayPolicies([found.policy])
        for t in range(100):
            done = step_of(known, here, actor.act(here))
            here, total = done.next_states, total + 0.95**t * float(done.rewards.mean())
        return total

    plans = planned_candidates(known, data, fresh, 0.95, 0, earned)
    best, value = max(plans, key=lambda pair: pair[1])
    given = (known, data, best.policy, fresh, starts, 0.95, rng, earned)
    sharper = max(value for _, value in replanned_candidates(*given))
    assert sharper > 0.9 * value


def step_of(known: Known, states: Array, actions: Array) -> PredictedStep[Array]:
    found = known.step(torch.from_numpy(states), torch.from_numpy(actions))
    return PredictedStep(*(field.numpy() for field in found))


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


def test_states_of_many_columns_are_sparse_and_those_of_few_are_not() -> None:
    task, rng = swing_up_task(), np.random.default_rng(0)
    assert is_sparse(task.dataset(1000, 0), rng)
    assert not is_sparse(Dataset(*pendulum_grid(15, 15, 2)), rng)


def test_columns_that_never_change_make_no_state_sparse() -> None:
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 4))
    rest: dict[str, Any] = {"actions": states[:, :1], "rewards": states[:, 0]}
    rest |= {"terminations": np.zeros(60, dtype=bool)}
    for n_fixed in (0, 3):
        wide = np.hstack([states, np.full((60, n_fixed), 3.3)])
        data = Dataset(observations=wide, next_observations=wide, **rest)
        assert not is_sparse(data, np.random.default_rng(0))
    wide = np.hstack([states, states[::-1]])
    data = Dataset(observations=wide, next_observations=wide, **rest)
    assert is_sparse(data, np.random.default_rng(0))


def test_labels_are_left_to_plans() -> None:
    rows = held_forces(CartPoleSwingUp(), 300, Seed(0))
    labels: Any = (rows.actions[:, 0] > 0.0).astype(np.int64)
    data = Dataset(*rows._replace(actions=labels))
    assert not is_sparse(data, np.random.default_rng(0))


@pytest.mark.parametrize("n_threads", [1, 3, 16])
def test_sweeps_in_c_agree_with_numpy_and_with_linear_algebra(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digits of C are the same on any number of threads."""
    rng, (n, n_actions) = np.random.default_rng(0), (1003, 3)
    weights = sparse.random(n * n_actions, n, 0.005, "csr", random_state=1)
    weights = weights.multiply(1.0 / np.maximum(weights.sum(axis=1), 1e-9)).tocsr()
    earned, ahead = rng.uniform(-1.0, 1.0, (2, n * n_actions))
    ahead = 0.9 * np.abs(ahead)

    def found() -> tuple[Array, Array]:
        value, by_action = np.full(n, -9.0), np.empty((n, n_actions))
        iterated(weights, earned, ahead, value, by_action)
        return value, by_action

    alone = found()
    monkeypatch.setattr(planning, "threads_for", lambda most: ctypes.c_int64(n_threads))
    ours = found()
    monkeypatch.setattr(planning, "compiled", lambda *_: None)
    monkeypatch.setattr(planning, "LEVEL", 1e-12)
    exact, _ = found()
    for mine, other in zip(ours, alone, strict=True):
        np.testing.assert_array_equal(mine, other)
    best = np.arange(n) * n_actions + ours[1].argmax(axis=1)
    system = np.eye(n) - ahead[best, None] * weights[best].toarray()
    np.testing.assert_allclose(np.linalg.solve(system, earned[best]), exact, atol=1e-3)
    np.testing.assert_allclose(ours[0], exact, atol=1e-2)
    monkeypatch.setattr(planning, "LEVEL", 1e-4)
    for mine, other in zip(ours, found(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)

"""Trajectory optimisation against the Riccati equation."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_are
from torch import Tensor

from nopg.algorithms.search import trajectories
from nopg.algorithms.search.trajectories import (
    Feedback,
    StatePenalty,
    Task,
    optimised,
    regulator,
    tracking,
)
from nopg.dynamics.curvature import derivatives
from nopg.dynamics.rewards import KnownReward
from nopg.dynamics.transition_model import TransitionModel

A = np.array([[1.0, 0.1], [0.2, 1.0]])  # falls over by itself
B = np.array([[0.0], [0.1]])
Q, R, GAMMA = np.diag([1.0, 0.1]), np.array([[0.05]]), 0.98


def cost(s: Tensor, a: Tensor, _: Tensor) -> Tensor:
    return -s[:, 0].square() - 0.1 * s[:, 1].square() - 0.05 * a[:, 0].square()


@pytest.fixture(scope="module")
def task() -> Task:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-2.0, 2.0, (400, 2)), rng.uniform(-5.0, 5.0, (400, 1))
    columns = [torch.from_numpy(x) for x in (s, a, np.zeros(400), s @ A.T + a @ B.T)]
    columns[2] = cost(columns[0], columns[1], columns[3])
    columns.append(torch.zeros(400).double())
    model = TransitionModel.fit(*columns, generator=rng, known_reward=KnownReward(cost, 2))
    return Task([model], np.array([[-5.0], [5.0]]), GAMMA)


def riccati() -> tuple[Any, Any]:
    """Cost to go and gains of the discounted problem."""
    a, b = GAMMA**0.5 * A, GAMMA**0.5 * B
    p = solve_discrete_are(a, b, Q, R)
    return p, np.linalg.solve(R + b.T @ p @ b, b.T @ p @ a)


def still(n_steps: int, n: int, at: Any = (0.0, 0.0)) -> Feedback:
    states = np.tile(np.array(at), (n_steps, n, 1))
    return Feedback(states, np.zeros((n_steps, n, 1)), np.zeros((n_steps, n, 1, 2)))


def test_the_regulator_has_the_gains_of_riccati(task: Task) -> None:
    assert regulator(task, still(400, 1))[0] == pytest.approx(-riccati()[1], rel=1e-3)


def test_gains_along_a_path_are_those_of_riccati_far_from_its_end(task: Task) -> None:
    path = still(400, 1, (0.5, 0.0))
    found = tracking(task, path)
    assert (found.states == path.states).all()
    assert (found.actions == path.actions).all()
    # Damped a little, as every change of a path is.
    assert found.gains[0, 0] == pytest.approx(-riccati()[1], rel=0.02)


def test_some_iterations_find_the_best_path_of_a_linear_system(task: Task) -> None:
    starts = np.array([[0.4, 0.0], [-0.3, 0.5]])
    # Paths begin away from the starts, at a place where nothing can stay.
    found = optimised(task, still(400, 2, (0.2, 0.1)), starts, 6)
    p, _ = riccati()
    best = -np.einsum("bi,ij,bj->b", starts, p, starts)
    assert task.returns(found, starts) == pytest.approx(best, rel=2e-3)


def test_paths_change_within_the_limits_of_their_actions(task: Task) -> None:
    starts = np.array([[1.2, 0.0]])
    found = optimised(task, still(150, 1), starts, 3)
    begun = task.returns(still(150, 1), starts)
    assert task.returns(found, starts) > begun
    change = np.abs(found.actions).max()
    assert 2.0 < change <= 5.0


def test_a_penalty_keeps_paths_within_limits_of_a_column(task: Task) -> None:
    """The best way home is fast; it is not to be."""
    starts = np.array([[0.6, 0.0]])
    low, high = np.array([-np.inf, -0.3]), np.full(2, np.inf)
    free = optimised(task, still(150, 1), starts, 4)
    assert task.follow(free, starts).states[..., 1].min() < -0.45
    penalty = StatePenalty(low, high, np.array([1.0, 0.1]), 10.0)
    paying = task._replace(penalty=penalty)
    slow = optimised(paying, free, starts, 12)
    made = task.follow(slow, starts)
    assert made.states[..., 1].min() > -0.31
    assert np.abs(made.states[-1]).max() < 0.05  # at home all the same


def test_slopes_of_a_penalty_are_those_of_its_cost(task: Task) -> None:
    rng = np.random.default_rng(3)
    states, actions = rng.normal(0.0, 2.0, (5, 2, 2)), np.zeros((5, 2, 1))
    penalty = StatePenalty(np.array([-1.0, 0.5]), np.ones(2), np.array([0.3, 2.0]), 0.7)
    plain = derivatives(task.models[0], states, actions)
    found = penalty.added_to(plain, states)
    for j in range(2):
        moved = 1e-5 * np.eye(2)[j]
        slope = (penalty.cost(states + moved) - penalty.cost(states - moved)) / 2e-5
        assert (plain.earning - found.earning)[..., j] == pytest.approx(slope, abs=1e-6)
        ends = penalty.cost(states + moved), penalty.cost(states - moved)
        bend = (ends[0] + ends[1] - 2.0 * penalty.cost(states)) / 1e-10
        taken = (plain.bending - found.bending)[..., j, j]
        assert taken == pytest.approx(bend, abs=1e-3)


def test_no_path_gets_worse(task: Task) -> None:
    starts = np.array([[0.4, 0.0], [1.5, 1.5]])
    rng = np.random.default_rng(5)
    begun = still(60, 2)._replace(actions=rng.uniform(-5.0, 5.0, (60, 2, 1)))
    before = task.returns(begun, starts)
    after = task.returns(optimised(task, begun, starts, 3), starts)
    assert (after >= before).all()
    assert after[0] > before[0]


def test_feedback_acts_within_its_limits_and_noise_is_not_meant(task: Task) -> None:
    rng = np.random.default_rng(6)
    some = Feedback(
        rng.uniform(-1.0, 1.0, (4, 3, 2)),
        rng.uniform(-5.0, 5.0, (4, 3, 1)),
        rng.normal(0.0, 3.0, (4, 3, 1, 2)),
    )
    starts, noise = rng.uniform(-1.0, 1.0, (3, 2)), np.full((4, 3, 1), 0.7)
    made = task.follow(some, starts, noise)
    here = starts[1]
    for t in range(4):
        assert made.states[t, 1] == pytest.approx(here)
        meant = some.actions[t, 1] + some.gains[t, 1] @ (here - some.states[t, 1])
        assert made.actions[t, 1] == pytest.approx(np.clip(meant, -5.0, 5.0))
        here = A @ here + B @ np.clip(meant + 0.7, -5.0, 5.0)


def test_an_action_that_never_changes_is_left_alone(task: Task) -> None:
    fixed = task._replace(limits=np.zeros((2, 1)))
    starts = np.array([[0.4, 0.0]])
    found = optimised(fixed, still(30, 1), starts, 2)
    assert np.isfinite(found.gains).all()
    assert (found.actions == 0.0).all()


@pytest.mark.parametrize("has_ends", [False, True])
def test_the_compiled_way_back_is_that_of_numpy(
    has_ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    s, a = rng.uniform(-1.0, 1.0, (500, 3)), rng.uniform(-1.0, 1.0, (500, 2))
    after = 0.8 * s + 0.1 * np.sin(s[:, ::-1]) + 0.1 * a @ rng.standard_normal((2, 3))
    ends = (after[:, 0] > 0.6) * float(has_ends)
    rewards = -np.square(s).sum(axis=1) - 0.1 * np.square(a).sum(axis=1) - ends
    columns = [torch.from_numpy(x) for x in (s, a, rewards, after, ends)]
    model = TransitionModel.fit(*columns, generator=rng)
    given = Task([model], np.array([[-0.3, -1.0], [0.3, 1.0]]), GAMMA)
    starts = rng.uniform(-0.8, 0.8, (5, 3))
    starts[0, 0] = 1.0
    push = 0.1 * rng.standard_normal((40, 5, 2))
    begun = Feedback(np.zeros((40, 5, 3)), push, 0.05 * rng.standard_normal((40, 5, 2, 3)))
    made = given.follow(begun, starts)
    assert bool((made.outcomes.terminated > 0.5).any()) == has_ends
    begun = Feedback(made.states, made.actions, begun.gains)
    damping = np.geomspace(1e-5, 1.0, 5)
    ours = trajectories._backward(given, begun, damping)
    alone = trajectories._backward(given, begun.of_paths(np.array([4, 1])), damping[[4, 1]])
    monkeypatch.setattr(trajectories, "compiled", lambda *_: None)
    theirs = trajectories._backward(given, begun, damping)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-7, atol=1e-9)
    reached = begun.actions + ours[0]
    assert (np.isclose(reached, given.limits[0]) | np.isclose(reached, given.limits[1])).any()
    if not has_ends:  # with ends the steps that none makes may differ
        for mine, own in zip(ours, alone, strict=True):
            np.testing.assert_allclose(own, mine[:, [4, 1]], rtol=1e-9, atol=1e-12)

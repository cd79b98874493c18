"""A switch that is seldom on, against a ball whose flight and whose landings are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import nopg
from nopg.data.dataset import Dataset
from nopg.dynamics.bounds import StateBounds
from nopg.dynamics.transition_model import TransitionModel

GRAVITY = 0.04  # speed lost a step

Columns = tuple[torch.Tensor, ...]


def flown(states: np.ndarray, push: np.ndarray) -> np.ndarray:
    """Height and speed after a step of free flight; in the air the switch is off."""
    y, v, _ = states.T
    v = v + 0.05 * push[:, 0] - GRAVITY
    return np.stack([y + 0.1 * v, v, np.zeros_like(v)], axis=1)


def paid(states: np.ndarray) -> np.ndarray:
    return np.asarray(-states[:, 0] - np.abs(states[:, 1]))


def drops(n: int = 60, seed: int = 0) -> Columns:
    """Balls with random pushes, all of which end in an impact: it stops them dead."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n):
        state = np.array([[rng.uniform(0.5, 1.0), rng.uniform(-0.3, 0.3), 0.0]])
        is_over = False
        while not is_over:
            push = rng.uniform(-1.0, 1.0, size=(1, 1))
            after, reward = flown(state, push), paid(state)
            is_over = bool(state[0, 2])  # a step after it has touched the ground
            if is_over:
                after, reward = np.array([[0.0, 0.0, 1.0]]), np.array([-100.0])
            elif after[0, 0] <= 0.0:
                after[0, 2], reward = 1.0, np.array([60.0])
            rows.append((state[0], push[0], reward[0], after[0], float(is_over)))
            state = after
    return tuple(torch.tensor(np.array(column)) for column in zip(*rows, strict=True))


def learned() -> TransitionModel:
    return TransitionModel.fit(*drops(), generator=np.random.default_rng(0))


def slow(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """States above the ground, slower there than any in the log, and pushes."""
    rng = np.random.default_rng(1)
    states = rng.uniform([0.1, -0.2, 0.0], [0.6, 0.2, 0.0], size=(n, 3))
    return states, rng.uniform(-1.0, 1.0, size=(n, 1))


def test_of_two_values_one_of_them_seldom_is_a_switch() -> None:
    states, push, _, after, _ = drops()
    bounds, _ = StateBounds.of(states, push, after)
    assert bounds.is_switch.tolist() == [False, False, True]
    assert torch.equal(bounds.are_switched(after), after[:, 2] == 1.0)
    assert torch.equal(bounds.switched_off(after)[:, :2], after[:, :2])
    assert not bounds.switched_off(after)[:, 2].any()
    states[:, 2], after[:, 2] = (states[:, 1] > -0.3).double(), (after[:, 1] > -0.3).double()
    assert not StateBounds.of(states, push, after)[0].is_switch.any()


def test_an_impact_does_not_bend_what_is_learned_of_the_flight() -> None:
    states, push = slow()
    step = learned().step(torch.tensor(states), torch.tensor(push))
    assert np.abs(step.next_states.numpy() - flown(states, push)).max() < 2e-3
    assert np.abs(step.continuing_rewards.numpy() - paid(states)).max() < 0.1


def test_a_slow_ball_does_not_break_where_others_came_to_rest() -> None:
    """They ended at rest on the ground: how they came there broke them."""
    model = learned()
    assert model.termination is not None
    states, _, _, _, ended = drops()
    fast = model.bounds.switched_off(states[ended.bool()])
    assert float(fast[:, 1].max()) < -0.2
    assert float(model.step(fast, torch.zeros(len(fast), 1).double()).terminated.median()) > 0.5
    resting = torch.tensor([[0.02, 0.0, 0.0], [0.05, -0.05, 0.0]]).double()
    assert float(model.step(resting, torch.ones(2, 1).double()).terminated.max()) < 0.1


def test_a_policy_makes_nothing_of_a_switch_that_models_know_nothing_of() -> None:
    states, push, rewards, after, ended = (column.numpy() for column in drops())
    data = Dataset(states, push, rewards, after, ended.astype(bool))
    quick: dict[str, Any] = {"n_updates": 2, "n_refining": 0, "gamma": 0.8, "progress": False}
    policy = nopg.learn(data, states[:5], **quick)
    off = np.array([[0.3, -0.1, 0.0], [0.1, 0.2, 0.0]])
    on = off + np.array([0.0, 0.0, 1.0])
    assert np.allclose(policy.predict(off)[0], policy.predict(on)[0], atol=1e-9)
    assert not np.array_equal(*policy.predict(off)[0])


def test_a_switch_that_is_seldom_on_at_ends_says_no_impact() -> None:
    states, actions, _, following, ends = drops()
    bounds, _ = StateBounds.of(states, actions, following)
    assert bounds.impact_step(following, ends) is not None
    seldom = bounds.switched_off(following)
    last = torch.nonzero(ends)[-1, 0]
    seldom[last] = following[last]
    assert bounds.are_switched(seldom).sum() == 1
    assert bounds.impact_step(seldom, ends) is None
    assert bounds.impact_step(following, torch.zeros_like(ends)) is None

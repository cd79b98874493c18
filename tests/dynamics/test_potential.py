"""Rewards that are differences of a potential, against ones whose potential is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg.dynamics.rewards import Potential
from nopg.dynamics.transition_model import TransitionModel

Columns = list[np.ndarray]


def distance(states: np.ndarray) -> np.ndarray:
    """To the middle of the plane, with a kink there."""
    return np.asarray(np.hypot(states[:, 0], states[:, 1]))


def steps(n: int = 2_500) -> Columns:
    """Of a mass that is pushed about; getting nearer to the middle pays, pushes cost."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (n, 2))
    pushes = rng.uniform(-1.0, 1.0, (n, 2))
    after = states + 0.1 * pushes
    rewards = distance(states) - distance(after) - 0.01 * np.square(pushes).sum(axis=1)
    return [states, pushes, rewards, after]


def found(columns: Columns) -> Potential | None:
    return Potential.fit(columns, np.random.default_rng(0))


def learned(columns: Columns, potential: bool) -> TransitionModel:
    ended = np.zeros(len(columns[0]))
    given = [torch.tensor(column) for column in (*columns, ended)]
    model = TransitionModel.fit(*given, generator=np.random.default_rng(0))
    assert model.potential is not None
    if potential:
        return model
    # The same, with rewards regressed as they are.
    inputs = torch.cat(given[:2], dim=1)
    targets = torch.cat([given[3] - given[0], given[2][:, None]], dim=1)
    process = type(model.process).fit(inputs, targets, np.random.default_rng(0))
    return replace(model, potential=None, process=process)


def test_differences_are_those_of_the_distance() -> None:
    states, _, _, after = columns = steps()
    potential = found(columns)
    assert potential is not None
    gained = distance(states) - distance(after)
    assert np.abs(potential.gained(states, after) - gained).mean() < 0.2 * np.abs(gained).mean()


def test_slopes_are_differences() -> None:
    states, *_ = columns = steps()
    potential = found(columns)
    assert potential is not None
    slopes, size = potential.slopes(torch.tensor(states[:20])).numpy(), 1e-5
    for j, moved in enumerate(size * np.eye(2)):
        above, below = potential(states[:20] + moved), potential(states[:20] - moved)
        assert slopes[:, j] == pytest.approx((above - below) / (2.0 * size), abs=1e-6)


@pytest.mark.parametrize("kind", ["cost", "cost of what is reached", "noise", "constant", "few"])
def test_other_rewards_have_no_potential(kind: str) -> None:
    states, pushes, _, after = steps(20 if kind == "few" else 2_500)
    paid = {
        "cost": -np.square(states).sum(axis=1),
        "cost of what is reached": -distance(after) - 0.1 * np.abs(pushes[:, 0]),
        "noise": np.random.default_rng(1).standard_normal(len(states)),
        "constant": np.ones(len(states)),
        "few": distance(states) - distance(after),
    }
    assert found([states, pushes, paid[kind], after]) is None


def test_kinks_in_every_column_of_a_swinging_load_are_found() -> None:
    """States tell half of these rewards: where a load swings, it is about to come nearer."""
    rng, n, n_steps = np.random.default_rng(0), 60, 50
    states = rng.uniform([-2.0, 0.0, -0.2, 0.0], [2.0, 0.0, 0.2, 0.0], (n, 4))
    rows, pushes = [], np.zeros(n)
    for _ in range(n_steps):
        pushes = np.where(rng.random(n) < 0.3, rng.uniform(-2.0, 2.0, n), pushes)
        x, v, angle, rate = states.T
        rate = rate - 0.1 * (9.8 * np.sin(angle) + pushes * np.cos(angle)) / 1.5
        after = np.stack([x + 0.1 * v, v + 0.1 * pushes, angle + 0.1 * rate, rate], axis=1)
        near = [np.abs(at) @ [10.0, 5.0, 10.0, 3.0] for at in (states, after)]
        rows.append((states, pushes[:, None], near[0] - near[1] - 0.02 * pushes**2, after))
        states = after
    columns = [np.stack(part, axis=1).reshape(n * n_steps, -1) for part in zip(*rows, strict=True)]
    assert found([columns[0], columns[1], columns[2].ravel(), columns[3]]) is not None


def test_four_rows_are_too_few_to_hold_some_out() -> None:
    assert found(steps(4)) is None


def test_one_column_has_no_pairs() -> None:
    states, pushes, rewards, after = steps()
    assert found([states[:, :1], pushes, rewards, after[:, :1]]) is None


def test_circles_earn_nothing() -> None:
    """What a regression pays around the kink adds up, differences do not."""
    columns, n = steps(700), 200
    angles = np.linspace(0.0, 20.0 * np.pi, n + 1)
    circle = 0.05 * np.stack([1.0 + np.cos(angles), np.sin(angles)], axis=1)  # through the middle
    pushes = np.diff(circle, axis=0) / 0.1
    true = -0.01 * np.square(pushes).sum()
    given = (torch.tensor(circle[:-1]), torch.tensor(pushes))
    with_potential, without = (
        float(learned(columns, potential).step(*given).rewards.sum()) for potential in (True, False)
    )
    assert abs(with_potential - true) < 0.2 * abs(without - true)


def test_rewards_seen_are_predicted_and_their_slopes_are_differences() -> None:
    states, pushes, rewards, _ = columns = steps()
    model, size = learned(columns, True), 1e-6
    s, a = (torch.tensor(x[:30]) for x in (states, pushes))
    step = model.step(s, a)
    assert np.abs(step.rewards.numpy() - rewards[:30]).mean() < 0.1 * np.abs(rewards).mean()
    by = model.jacobians(s, a, step)
    moving = by.next_states @ by.reached
    whole = by.rewards + (by.final_rewards[:, None] @ moving)[:, 0]
    for j in range(4):
        moved = torch.zeros(4).double()
        moved[j] = size
        above, below = (model.step(s + k * moved[:2], a + k * moved[2:]).rewards for k in (1, -1))
        assert torch.allclose(whole[:, j], (above - below) / (2.0 * size), atol=1e-4)


def test_what_is_left_out_is_regressed_less_the_potential() -> None:
    columns = steps(900)
    model = learned(columns, True)
    given = [torch.tensor(column) for column in (*columns, np.zeros(900))]
    assert model.potential is not None
    left = given[2].numpy() - model.potential.gained(*(given[i].numpy() for i in (0, 3)))
    assert model.targets(given)[:, -1].numpy() == pytest.approx(left)
    others = model.without_each(given, np.arange(900) % 3)
    for other in others:
        step = other.step(*given[:2])
        error = (step.rewards - given[2]).abs().mean()
        assert error < 0.15 * given[2].abs().mean()

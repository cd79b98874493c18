"""Derivatives of predicted steps against differences."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import pendulum_grid
from torch import Tensor

from nopg.dynamics import curvature
from nopg.dynamics.curvature import _downwards, derivatives, process_curvature, second_derivatives
from nopg.dynamics.rewards import KnownReward
from nopg.dynamics.transition_model import TransitionModel


@functools.cache
def learned(known: KnownReward | None = None) -> TransitionModel:
    rows = pendulum_grid(15, 15, 2)
    columns = [torch.tensor(np.asarray(c, dtype=np.float64)) for c in rows[:5]]
    generator = np.random.default_rng(0)
    return TransitionModel.fit(*columns, generator=generator, known_reward=known)


def places() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    angles = rng.uniform(-2.5, 2.5, (2, 3))
    speeds = rng.uniform(-4.0, 4.0, (2, 3))
    states = np.stack([np.cos(angles), np.sin(angles), speeds], axis=2)
    return states, rng.uniform(-1.5, 1.5, (2, 3, 1))


def test_the_curvature_of_a_process_is_that_of_differences() -> None:
    process = learned().process
    states, actions = places()
    x = torch.from_numpy(np.concatenate([states, actions], axis=2).reshape(-1, 4))
    found = process_curvature(process, x)
    size = 3e-4  # less, and rounding of large weights counts
    for j in range(4):
        moved = torch.zeros(4).double()
        moved[j] = size
        slopes = [process.jacobian(x + sign * moved)[:, -1] for sign in (1.0, -1.0)]
        difference = (slopes[0] - slopes[1]) / (2.0 * size)
        assert found[:, j].numpy() == pytest.approx(difference.numpy(), abs=1e-4)


@pytest.mark.parametrize("d", [1, 3, 22])
def test_what_bends_upwards_is_straightened(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(d)
    root = rng.standard_normal((300, d, d))
    matrices = torch.from_numpy(root + root.swapaxes(1, 2))
    matrices[:20] = -torch.from_numpy(root[:20] @ root[:20].swapaxes(1, 2))
    matrices[20, 0, 0] = np.nan
    found, before = _downwards(matrices.clone()), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert torch.equal(_downwards(matrices.clone()), found)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[:20], matrices[:20])
    values, vectors = np.linalg.eigh(matrices[21:].numpy())
    nearest = np.einsum("bij,bj,bkj->bik", vectors, np.minimum(values, 0.0), vectors)
    assert found[21:].numpy() == pytest.approx(nearest, abs=1e-12 * d)
    monkeypatch.setattr(curvature, "compiled", lambda *asked: None)
    torch.testing.assert_close(_downwards(matrices), found, rtol=1e-10, atol=1e-11)


def test_second_derivatives_are_those_of_values() -> None:
    model, (states, actions) = learned(), places()
    s, a = states[0], actions[0]
    found, rng = second_derivatives(model, s, a), np.random.default_rng(1)
    away = rng.standard_normal(4) * model.process.spread.numpy()[:4]
    size = 2e-2

    def step(share: float) -> Any:
        moved = np.concatenate([s, a], axis=1) + share * away
        return model.arrays.step(moved[:, :3], moved[:, 3:])

    low, middle, high = (step(share) for share in (-size, 0.0, size))
    for bent, name in ((found.earning, "rewards"), (found.moving, "next_states")):
        values = [getattr(one, name) for one in (low, middle, high)]
        along = np.einsum("b...jk,j,k->b...", bent, away, away)
        difference = (values[0] - 2.0 * values[1] + values[2]) / size**2
        assert along == pytest.approx(difference, rel=1e-2, abs=1e-4)


def test_a_linear_reward_does_not_bend() -> None:
    rows = [torch.from_numpy(np.random.default_rng(0).normal(size=(200, 2)))]
    s, a = rows[0][:, :1], rows[0][:, 1:]
    columns = (s, a, s[:, 0] + 2.0 * a[:, 0], 0.9 * s + 0.1 * a, torch.zeros(200))
    model = TransitionModel.fit(*columns, generator=np.random.default_rng(0))
    assert process_curvature(model.process, rows[0]).abs().max() == 0.0


def test_next_states_and_rewards_move_as_differences_say() -> None:
    model, (states, actions) = learned(), places()
    found = derivatives(model, states, actions)
    size = 1e-5
    for j in range(4):
        sides = []
        for sign in (1.0, -1.0):
            s, a = states.reshape(-1, 3).copy(), actions.reshape(-1, 1).copy()
            (s if j < 3 else a)[:, j % 3] += sign * size
            sides.append(model.arrays.step(s, a))
        moved = (sides[0].next_states - sides[1].next_states) / (2.0 * size)
        earned = (sides[0].rewards - sides[1].rewards) / (2.0 * size)
        assert found.moving[..., j].reshape(-1, 3) == pytest.approx(moved, abs=1e-4)
        assert found.earning[..., j].ravel() == pytest.approx(earned, abs=1e-3)
    assert np.linalg.eigvalsh(found.bending).max() < 1e-9


def test_a_known_reward_bends_with_the_next_state_it_depends_on() -> None:
    def reward(s: Tensor, a: Tensor, after: Tensor) -> Tensor:
        return -s[:, 2].square() - 0.5 * a[:, 0].square() - after[:, 2].square()

    model, (states, actions) = learned(KnownReward(reward, 3)), places()
    found = derivatives(model, states, actions)
    slope = found.moving[..., 2, :]  # of the next velocity
    expected = -2.0 * slope[..., :, None] * slope[..., None, :]
    expected = expected + np.diag([0.0, 0.0, -2.0, -1.0])
    assert found.bending == pytest.approx(expected, abs=1e-5)


def test_paths_have_no_derivatives_long_after_they_ended() -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1.0, 1.0, (400, 1)), rng.uniform(-0.2, 0.2, (400, 1))
    after = states + actions
    columns = (states, actions, -np.square(states[:, 0]), after, after[:, 0] > 0.9)
    given = [torch.tensor(np.asarray(c, dtype=np.float64)) for c in columns]
    model = TransitionModel.fit(*given, generator=np.random.default_rng(0))
    pushed = np.full((300, 2, 1), [[0.01], [0.0]])
    made = np.clip(np.cumsum(pushed, axis=0) - 0.1, -1.0, 0.99)  # one over the edge, one at rest
    found = derivatives(model, made, pushed, are_paths=True)
    whole = derivatives(model, made, pushed)
    n_made = (np.cumprod(whole.outcomes.survives, axis=0) > 1e-12).sum(axis=0)
    assert 80 <= n_made[0] <= 130
    last = 2 * (1 + int(n_made[0]))
    assert not found.moving[last + 1 :, 0].any()
    assert (found.outcomes.terminated[last + 1 :, 0] == 1.0).all()
    for name in ("moving", "earning", "bending", "ending", "leaving"):
        one, other = getattr(found, name), getattr(whole, name)
        np.testing.assert_array_equal(one[: last + 1], other[: last + 1])
        np.testing.assert_array_equal(one[:, 1:], other[:, 1:])

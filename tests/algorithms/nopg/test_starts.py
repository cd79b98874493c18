"""The search for a start: when it goes on, and when an ascent ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from reproduction.baselines.progress import acting
from reproduction.tasks.discrete import cart_pole_v1

import nopg
from nopg.algorithms.nopg import starts
from nopg.algorithms.nopg.starts import KINDS, N_DRAWS, ROUNDS, WINDOW, find_start
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.data.dataset import Dataset
from nopg.policies.families import Policy

DATA = grid_dataset(6, 6)


def searched(data: Dataset, n_updates: int) -> tuple[list[int], int]:
    """Numbers of the fresh policies that a search asked for, and its updates."""
    model, asked, updates = nopg.NOPG(hidden=(4,)), [], [0]
    fitted = model.prepare(data, BOTTOM)

    def fresh(number: int) -> Policy:
        asked.append(number)
        return nopg.NOPG(hidden=(4,), seed=number).prepare(data, BOTTOM).policy

    def advance() -> None:
        updates[0] += 1

    assert model.ground is not None
    find_start(fitted, model.ground, fresh, model.config, n_updates, advance)
    return asked, updates[0]


@pytest.mark.parametrize(("earned", "rounds"), [(0.0, 1), (-1e6, ROUNDS)])
def test_search_goes_on_where_paths_earn_less_than_j_says(
    monkeypatch: pytest.MonkeyPatch, earned: float, rounds: int
) -> None:
    monkeypatch.setattr(starts, "path_returns", lambda found, *_: [earned] * len(found))
    asked, updates = searched(DATA, 3)
    assert asked == list(range(1, rounds * len(KINDS)))
    along = 3 * ROUNDS if earned < 0.0 else 0  # in the end along mean paths
    assert updates == 3 * rounds * len(KINDS) + along


def test_an_ascent_ends_where_nothing_is_to_be_gained() -> None:
    arrays: Any = DATA.arrays() | {"rewards": 0.0 * DATA.rewards}
    flat = Dataset(**arrays, action_space=DATA.action_space)
    _, updates = searched(flat, 100)
    assert updates == len(KINDS) * (WINDOW + 1)


def windy(n: int, noise: float) -> Dataset:
    """A mass on a line without ends, pushed at random while the wind blows."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-2, 2, (n, 2)), rng.uniform(-3, 3, (n, 1))
    after = states + 0.1 * np.column_stack([states[:, 1], actions[:, 0]])
    after[:, 1] += noise * rng.standard_normal(n)
    rewards = -0.1 * (states**2).sum(axis=1)
    return Dataset(states, actions, rewards, after, np.zeros(n))


def test_in_noise_samples_are_drawn_anew_for_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds however much paths earn, then along paths, then parts of one more ascent."""
    monkeypatch.setattr(starts, "path_returns", lambda found, *_: [0.0] * len(found))
    model, updates = nopg.NOPG(hidden=(4,), bandwidths=GIVEN), [0]
    asked: list[int] = []
    data = windy(200, 0.25)
    fitted = model.prepare(data, [[1.0, 0.0]])
    ground = model.ground
    assert ground is not None
    assert ground.is_noisy

    def fresh(number: int) -> Policy:
        asked.append(number)
        return nopg.NOPG(hidden=(4,), bandwidths=GIVEN).prepare(data, [[1.0, 0.0]]).policy

    def advance() -> None:
        updates[0] += 1

    find_start(fitted, ground, fresh, model.config, 2 * N_DRAWS, advance)
    assert asked == list(range(1, 2 * len(KINDS)))
    assert updates[0] == 2 * N_DRAWS * (2 * len(KINDS) + ROUNDS + 1)


def test_along_drawn_paths_a_weak_regulator_becomes_a_good_one() -> None:
    """On the mass itself it comes close to Riccati's gain, from 300 steps in the wind."""
    from scipy.linalg import solve_discrete_are

    from nopg.bellman.path_gradient import PathGradient
    from nopg.policies.build import linear_policy

    model = nopg.NOPG(gamma=0.95, bandwidths=GIVEN)
    model.prepare(windy(300, 0.25), [[1.0, 0.0], [-1.0, 0.0]])
    assert model.ground is not None
    begin = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64).repeat(6, 1)
    along = PathGradient(model.ground.paths, begin, np.random.default_rng(0))
    weak: Policy = linear_policy([[-0.1, -0.1]])
    rewards = model.ground.data.rewards
    for _ in range(4):
        weak = starts._ascend_along(weak, along, rewards, 40, lambda: None)[0]
    a, b = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    small = np.array([[1e-6]])  # actions cost nothing, up to their limit in the data
    p = solve_discrete_are(a, b, 0.1 * np.eye(2), small)
    best = -np.linalg.solve(small + b.T @ p @ b, b.T @ p @ a)
    begun, raised, known = (
        windy_return(np.asarray(gain, dtype=float))
        for gain in ([[-0.1, -0.1]], next(weak.parameters()).detach().numpy(), best)
    )
    assert raised > begun + 0.5 * (known - begun)


def windy_return(gain: np.ndarray[Any, Any]) -> float:
    """What a gain earns on the mass that `windy` records, within the actions it has."""
    rng, states, total = np.random.default_rng(3), np.array([[1.0, 0.0]] * 200), 0.0
    for _ in range(100):
        total += -0.1 * float(np.square(states).sum(axis=1).mean())
        force = np.clip(states @ gain.T, -3.0, 3.0)[:, 0]
        push = np.column_stack([states[:, 1], force + 2.5 * rng.standard_normal(200)])
        states = states + 0.1 * push
    return total


def test_without_noise_samples_stay_as_they_are() -> None:
    model = nopg.NOPG(bandwidths=GIVEN)
    model.prepare(windy(200, 0.0), [[1.0, 0.0]])
    assert model.ground is not None
    assert model.ground.samples is model.ground.data


def test_paths_in_noise_tell_what_runs_away() -> None:
    """The regulator earns more than a push outward, by far."""
    from nopg.policies.build import linear_policy

    model = nopg.NOPG(bandwidths=GIVEN)
    fitted = model.prepare(windy(300, 0.25), [[1.0, 0.0], [-1.0, 0.0]])
    assert model.ground is not None
    policies = [linear_policy([[g, 1.5 * g]]) for g in (-2.0, 2.0)]
    holds, leaves = starts.path_returns(policies, fitted, model.ground)
    assert leaves < float(fitted.require_data().rewards.min())
    assert holds > 0.2 * leaves


GIVEN = nopg.Bandwidths([0.2, 0.3], [1.7])


@pytest.mark.slow
def test_labels_that_run_away_in_the_rows_stay_in_the_simulator() -> None:
    """J says 99.7 of 100 of policies that lose the cart within a hundred steps."""
    task, seed = cart_pole_v1(), 2
    model = nopg.NOPG("discrete", gamma=0.99, action_space=task.action_space, seed=seed)
    policy = model.fit(task.dataset(1000, seed), task.initial_observations(seed), progress=False)
    assert task.returns(acting(policy.policy), seed).mean() >= 450.0

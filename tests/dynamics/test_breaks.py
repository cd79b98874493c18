"""Breaks of the law of motion, on a mass whose motor pushes back beyond a limit."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics import breaks
from nopg.dynamics.ensemble import fit_ensemble
from tests.dynamics import reference

LIMIT = 1.0


def stepped(s: Any, a: Any, limit: float = LIMIT) -> Any:
    """The true law: a pendulum-like mass, and a limiter where it moves outward."""
    x, v = s.T
    is_limited = (np.abs(x) > limit) & (x * v > 0.0)
    push = np.where(is_limited, -4.0 * np.sign(x), a[:, 0])
    v = v + 0.05 * (push - np.sin(2.0 * x))
    return np.column_stack([x + 0.05 * v, v])


def log_of(limit: float, reward_beyond: float, n_episodes: int = 20) -> Dataset:
    """Forces held for a while; some of the steps are beyond the limit."""
    rng = np.random.default_rng(3)
    rows, names = [], []
    for episode in range(n_episodes):
        s, a = rng.uniform(-0.3, 0.3, (1, 2)), np.zeros((1, 1))
        for t in range(60):
            if t % 8 == 0:
                a = rng.uniform(-2.3, 2.3, (1, 1))
            after = stepped(s, a, limit)
            reward = reward_beyond if abs(s[0, 0]) > LIMIT else -float(s[0, 0] ** 2)
            rows.append((s[0], a[0], reward, after[0]))
            names.append(episode)
            s = after
    s, a, r, after = map(np.array, zip(*rows, strict=True))
    never = np.zeros(len(r), dtype=bool)
    return Dataset(s, a, r, after, never, never, np.array(names))


def error(model: Any) -> float:
    """Of speeds within the limit, with actions of chance, in those of a step."""
    rng = np.random.default_rng(0)
    s = np.column_stack([rng.uniform(-0.8, 0.8, 500), rng.uniform(-0.6, 0.6, 500)])
    a = rng.uniform(-1.2, 1.2, (500, 1))
    found = model.step(torch.from_numpy(s), torch.from_numpy(a)).next_states.numpy()
    return float(np.sqrt(np.mean((found - stepped(s, a))[:, 1] ** 2)) / 0.05)


@pytest.mark.parametrize("most", [breaks.MAX_ROWS, 500])
def test_a_limiter_does_not_spoil_what_is_known_of_the_rest(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only some of the rows are looked at."""
    monkeypatch.setattr(breaks, "MAX_ROWS", most)
    data = log_of(LIMIT, -2.0)
    beyond = np.abs(data.next_observations[:, 0]) > LIMIT
    assert 0.01 < beyond.mean() < 0.1
    for model in fit_ensemble(data, np.random.default_rng(0)):
        assert error(model) < 0.01  # 0.10 and 0.07 when learned from all rows
        ends = [float(model.bounds.low[0]), float(model.bounds.high[0])]
        assert 0.8 < -ends[0] < 1.05
        assert 0.8 < ends[1] < 1.05
        far = torch.tensor([[1.3, 0.0]], dtype=torch.float64)
        assert float(reference.out_of_support(model.bounds, far)) > 0.99


def is_whole(data: Dataset) -> bool:
    """Whether the bounds are around all the data."""
    bounds = fit_ensemble(data, np.random.default_rng(0))[0].bounds
    seen: Tensor = torch.tensor(data.next_observations).double()
    return not bool(bounds.are_left_out(seen).any())


def test_a_smooth_law_is_left_alone() -> None:
    assert is_whole(log_of(np.inf, -2.0))


def test_where_the_reward_lies_beyond_it_is_not_left_out() -> None:
    assert is_whole(log_of(LIMIT, 1.0, 8))

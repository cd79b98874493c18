"""Data, starts and evaluation of the tasks."""

import math
from pathlib import Path

import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.tasks.continuous import (
    cart_pole_task,
    mountain_car_task,
    pendulum_grid_task,
    pendulum_random_task,
)

import nopg
from nopg.errors import ConfigError, DataError


def run_up(observations: FloatArray) -> FloatArray:
    """Push along with the velocity, to the right at rest: 105 to 111 steps."""
    return np.where(observations[:, 1:] >= 0.0, 1.0, -1.0)


def test_grid_sizes_are_the_papers() -> None:
    task = pendulum_grid_task()
    assert len(task.dataset(450, 0)) == 450
    with pytest.raises(ConfigError, match="2 k"):
        task.dataset(451, 0)
    np.testing.assert_allclose(task.initial_observations(0), [[-1.0, 0.0, 0.0]], atol=1e-9)


def test_doing_nothing_earns_what_it_must() -> None:
    returns = pendulum_grid_task().returns(lambda s: np.zeros((len(s), 1)), 0)
    assert returns.tolist() == pytest.approx([-500 * math.pi**2])


def test_random_data_follow_from_the_seed_and_grow() -> None:
    task = pendulum_random_task()
    small, large = task.dataset(50, 3), task.dataset(80, 3)
    np.testing.assert_array_equal(small.observations, large.observations[:50])
    assert not np.array_equal(task.dataset(50, 4).actions, small.actions)
    raw = task.dataset(50, 3, clipped=False)
    np.testing.assert_allclose(np.clip(raw.actions, -2, 2), small.actions)
    assert np.abs(raw.actions).max() > 2.0


def test_cart_pole_is_evaluated_on_other_starts_than_it_learns_from() -> None:
    task = cart_pole_task()
    assert task.initial_observations(0).shape == (15, 3)
    falls = task.returns(lambda s: np.full((len(s), 1), 5.0), 0)
    assert falls.shape == (10,)
    assert falls.max() < 50.0


def test_demonstrations_are_whole_and_worth_minus_one_a_step() -> None:
    task = mountain_car_task()
    data = task.dataset(3, 0)
    assert data.n_episodes == 3
    assert int(data.terminations.sum()) == 3
    assert set(data.rewards.tolist()) == {-1.0}
    assert not np.array_equal(task.dataset(3, 1).observations, data.observations)
    returns = task.returns(run_up, 0)
    assert -112 < returns.mean() < -104
    with pytest.raises(ConfigError, match="as many demonstrations"):
        task.dataset(11, 0)


def test_recorded_demonstrations_lose_their_rewards(tmp_path: Path) -> None:
    states = np.array([[-0.5, 0.0], [-0.49, 0.01], [-0.5, 0.0], [-0.48, 0.02]])
    recorded = nopg.Dataset(
        states, np.full((4, 1), 1.002), np.arange(4.0), states, [0, 1, 0, 1],
        episodes=[0, 0, 1, 1],
    )  # fmt: skip
    recorded.save(tmp_path / "mine.npz")
    data = mountain_car_task(str(tmp_path / "mine.npz")).dataset(1, 0)
    assert data.rewards.tolist() == [-1.0, -1.0]
    assert data.actions.max() == 1.0
    nameless = nopg.Dataset(states, np.ones((4, 1)), np.ones(4), states, np.zeros(4))
    nameless.save(tmp_path / "other.npz")
    with pytest.raises(DataError, match="episodes"):
        mountain_car_task(str(tmp_path / "other.npz")).dataset(1, 0)

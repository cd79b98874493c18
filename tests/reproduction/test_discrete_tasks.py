"""Tasks with labelled actions: data that obey the simulator, evaluation by hand."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from reproduction.tasks.discrete import (
    DISCRETE_TASKS,
    DiscreteTask,
    cart_pole_v1,
    mountain_car_v0,
    reset_seeds,
)
from reproduction.tasks.discrete_operator import OPERATOR, demonstrations

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError

TASKS = [(cart_pole_v1, 120), (mountain_car_v0, 2)]


def lean(states: Any) -> Any:
    """Push to where the pole leans; it falls after some 40 steps."""
    return (states[:, 2] > 0.0).astype(float)


def along(states: Any) -> Any:
    """Push along with the velocity: out of the valley in some 120 steps."""
    return 2.0 * (states[:, 1] >= 0.0)


@pytest.mark.parametrize(("make", "size"), TASKS)
def test_every_row_is_a_step_of_the_simulator(make: Callable[[], DiscreteTask], size: int) -> None:
    task = make()
    data = task.dataset(size, 0)
    env: Any = gymnasium.make(task.name).unwrapped
    env.reset(seed=0)
    for i in range(0, len(data), 7):
        # The simulators keep their state in float64, the observation rounds it.
        env.state = np.array(data.observations[i])
        env.steps_beyond_terminated = None
        following, reward, is_over, _, _ = env.step(int(data.actions[i]))
        np.testing.assert_allclose(data.next_observations[i], following, atol=1e-6)
        assert data.rewards[i] == reward
        assert data.terminations[i] == is_over


def test_random_steps_are_as_many_as_asked_for_and_grow() -> None:
    task = cart_pole_v1()
    small, large = task.dataset(100, 3), task.dataset(150, 3)
    assert (len(small), len(large)) == (100, 150)
    np.testing.assert_array_equal(small.observations, large.observations[:100])
    assert set(np.unique(small.actions)) == {0, 1}
    assert small.truncations.sum() == 1
    assert small.truncations[-1]
    assert not np.array_equal(task.dataset(100, 4).actions, small.actions)


def lengths(data: Dataset) -> Any:
    assert data.episodes is not None
    return np.unique(data.episodes, return_counts=True)[1]


def test_the_operator_reaches_the_flag_slowly_and_hesitates() -> None:
    data = [mountain_car_v0().dataset(5, seed) for seed in range(6)]
    assert all(d.n_episodes == 5 and d.terminations.sum() == 5 for d in data)
    assert all(d.next_observations[d.terminations, 0].min() >= 0.5 for d in data)
    every = np.concatenate([lengths(d) for d in data])
    assert 150 < every.mean() < 300
    assert every.max() > 200  # recording is not cut where the task is
    # The wrong key is pressed at times, and nothing for a third of the time.
    labels = np.concatenate([d.actions.ravel() for d in data])
    assert 0.25 < np.mean(labels == 1) < 0.45
    assert OPERATOR.delay > 0
    with pytest.raises(ConfigError, match="at least one demonstration, got 0"):
        demonstrations(0, np.random.default_rng(0))


@pytest.mark.parametrize(("make", "act"), [(cart_pole_v1, lean), (mountain_car_v0, along)])
def test_returns_are_those_of_stepping_by_hand(
    make: Callable[[], DiscreteTask], act: Callable[[Any], Any]
) -> None:
    task = make()
    expected = []
    for seed in reset_seeds(5, "evaluation", task.n_episodes):
        env = gymnasium.make(task.name)
        observation, _ = env.reset(seed=seed)
        total, is_running = 0.0, True
        while is_running:
            label = int(act(np.asarray(observation, float)[None])[0])
            observation, reward, is_over, is_cut, _ = env.step(label)
            total += float(reward)
            is_running = not (is_over or is_cut)
        expected.append(total)
    assert task.returns(act, 5).tolist() == expected
    assert len(set(expected)) > 1


def test_the_registered_time_limit_holds() -> None:
    idle = mountain_car_v0().returns(lambda states: np.ones(len(states)), 0)
    assert idle.tolist() == [-200.0] * 10


@pytest.mark.parametrize("name", DISCRETE_TASKS)
def test_starts_are_not_those_of_the_evaluation(name: str) -> None:
    task = DISCRETE_TASKS[name]()
    starts = task.initial_observations(0)
    assert starts.shape == (15, len(task.observation_names))
    assert len(np.unique(starts, axis=0)) == 15
    evaluated = reset_seeds(0, "evaluation", 10)
    assert not set(evaluated) & set(reset_seeds(0, "initial-states", 15))
    assert task.action_space.n == {"CartPole-v1": 2}.get(name, 3)

"""Replay buffers and d3rlpy datasets hold and give back the same transitions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from nopg.data import Dataset, from_d3rlpy, from_sb3, to_d3rlpy, to_sb3
from nopg.errors import DataError


def sample(is_discrete: bool = False, **changes: Any) -> Dataset:
    """Three episodes of float32 values: ended, cut, and cut by the file's end."""
    rng = np.random.default_rng(0)
    lengths = [3, 4, 2]
    walks = [rng.normal(size=(n + 1, 2)).astype(np.float32) for n in lengths]
    n = sum(lengths)
    actions: Any = rng.uniform(-2, 2, (n, 1)).astype(np.float32)
    parts: dict[str, Any] = {
        "observations": np.vstack([walk[:-1] for walk in walks]),
        "actions": rng.integers(0, 3, n) if is_discrete else actions,
        "rewards": rng.normal(size=n).astype(np.float32),
        "next_observations": np.vstack([walk[1:] for walk in walks]),
        "terminations": np.array([0, 0, 1, 0, 0, 0, 0, 0, 0], bool),
        "truncations": np.array([0, 0, 0, 0, 0, 0, 1, 0, 1], bool),
        "episodes": np.repeat([0, 1, 2], lengths),
        "observation_space": Box(-np.inf, np.inf, (2,), np.float32),
        "action_space": Discrete(3) if is_discrete else Box(-2, 2, (1,), np.float32),
    }
    return Dataset(**(parts | changes))


def assert_same(found: Dataset, expected: Dataset, rtol: float = 0.0) -> None:
    for name in ("observations", "next_observations", "rewards", "actions"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=rtol, atol=rtol
        )
    np.testing.assert_array_equal(found.terminations, expected.terminations)
    np.testing.assert_array_equal(found.truncations, expected.truncations)
    assert found.episodes is not None
    np.testing.assert_array_equal(found.episodes, expected.episodes)


@pytest.mark.parametrize("is_discrete", [False, True])
def test_a_replay_buffer_and_back(is_discrete: bool) -> None:
    pytest.importorskip("stable_baselines3")
    data = sample(is_discrete)
    assert_same(from_sb3(to_sb3(data)), data, rtol=1e-6)
    # Without the rescaling to [-1, 1] nothing is rounded.
    exact = from_sb3(to_sb3(data, scaled_actions=False), scaled_actions=False)
    assert_same(exact, data)


def test_a_buffer_filled_by_its_own_library() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.buffers import ReplayBuffer

    space = Box(-2, 2, (1,), np.float32)
    buffer = ReplayBuffer(4, Box(-9, 9, (1,), np.float32), space, n_envs=1)
    for t in range(6):  # two more than fit: the oldest are gone
        info: list[dict[str, Any]] = [{"TimeLimit.truncated": t == 4}]
        state, following = np.array([[1.0 * t]]), np.array([[t + 1.0]])
        action, reward = np.array([[0.5]]), np.array([1.0 * t])
        buffer.add(state, following, action, reward, np.array([t in (3, 4)]), info)
    data = from_sb3(buffer)
    assert data.observations[:, 0].tolist() == [2, 3, 4, 5]
    assert data.next_observations[:, 0].tolist() == [3, 4, 5, 6]
    assert data.actions[:, 0].tolist() == [1.0] * 4  # 0.5 of [-2, 2]
    assert data.terminations.tolist() == [False, True, False, False]
    assert data.truncations.tolist() == [False, False, True, False]
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1, 2]


def test_a_buffer_that_saves_memory_has_lost_its_oldest_state() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.buffers import ReplayBuffer

    space = Box(-99, 99, (1,), np.float32)
    buffer = ReplayBuffer(
        *(4, space, space),
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    for t in range(6):
        state, zero = np.array([[1.0 * t]]), np.zeros(1)
        buffer.add(state, state + 1, state, zero, zero, [{}])
    data = from_sb3(buffer, scaled_actions=False)
    assert data.observations[:, 0].tolist() == [3, 4, 5]
    assert data.next_observations[:, 0].tolist() == [4, 5, 6]


def test_several_environments_are_read_one_after_another() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.buffers import ReplayBuffer

    space = Box(-99, 99, (1,), np.float32)
    buffer = ReplayBuffer(20, space, space, n_envs=2)
    for t in range(3):
        states = np.array([[1.0 * t], [10.0 + t]])
        zeros = np.zeros(2)
        buffer.add(states, states + 1, states, zeros, zeros, [{}, {}])
    data = from_sb3(buffer, scaled_actions=False)
    assert data.observations[:, 0].tolist() == [0, 1, 2, 10, 11, 12]
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 1, 1, 1]


def test_buffers_that_cannot_be_read_or_made() -> None:
    pytest.importorskip("stable_baselines3")
    with pytest.raises(DataError, match="ReplayBuffer is needed"):
        from_sb3({})
    with pytest.raises(DataError, match="both spaces"):
        to_sb3(sample(observation_space=None))


@pytest.fixture
def d3rlpy() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("d3rlpy")


@pytest.mark.parametrize("is_discrete", [False, True])
def test_d3rlpy_keeps_every_transition(d3rlpy: Any, is_discrete: bool) -> None:
    data = sample(is_discrete)
    made = to_d3rlpy(data)
    assert made.transition_count == len(data)
    # d3rlpy's own view of each transition must have our successors.
    picked = [
        made.transition_picker(episode, i)
        for episode in made.episodes
        for i in range(episode.transition_count)
    ]
    assert len(picked) == len(data)
    for row, transition in enumerate(picked):
        np.testing.assert_array_equal(transition.observation, data.observations[row])
        assert transition.terminal == data.terminations[row]
        if not data.terminations[row]:
            np.testing.assert_array_equal(
                transition.next_observation, data.next_observations[row]
            )
    back = from_d3rlpy(made)
    expected = data.next_observations.copy()
    ended = data.terminations
    expected[ended] = data.observations[ended]  # d3rlpy keeps no s' there
    assert_same(back, sample(is_discrete, next_observations=expected))


def test_d3rlpy_keeps_labels_never_seen(d3rlpy: Any) -> None:
    data = sample(True, action_space=Discrete(5))
    assert from_d3rlpy(to_d3rlpy(data)).action_space == Discrete(5)


def test_a_grid_becomes_two_step_episodes(d3rlpy: Any) -> None:
    data = sample(episodes=None, terminations=np.zeros(9), truncations=np.zeros(9))
    made = to_d3rlpy(data)
    assert made.transition_count == 9
    back = from_d3rlpy(made)
    np.testing.assert_array_equal(back.next_observations, data.next_observations)


def test_nothing_to_read() -> None:
    with pytest.raises(DataError, match="d3rlpy dataset"):
        from_d3rlpy(object())

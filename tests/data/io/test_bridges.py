"""Replay buffers and d3rlpy datasets give back the transitions put into them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from nopg.data import Dataset, from_d3rlpy, from_sb3
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
def test_a_replay_buffer_gives_back_the_rows(is_discrete: bool) -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.buffers import ReplayBuffer

    data = sample(is_discrete)
    spaces: Any = (data.observation_space, data.action_space)
    buffer = ReplayBuffer(len(data), *spaces)
    for i in range(len(data)):
        ended = data.terminations[i] | data.truncations[i]
        info: list[dict[str, Any]] = [{"TimeLimit.truncated": data.truncations[i]}]
        buffer.add(
            data.observations[i],
            data.next_observations[i],
            data.actions[i],
            *(data.rewards[i], ended, info),
        )
    assert_same(from_sb3(buffer, scaled_actions=False), data)


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
        *(4, space, space), optimize_memory_usage=True, handle_timeout_termination=False
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


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(DataError, match="ReplayBuffer is needed"):
        from_sb3({})


@pytest.fixture
def d3rlpy() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("d3rlpy")


def mdp_dataset(d3rlpy: Any, data: Dataset) -> Any:
    """The episodes of `data`, with a closing step unless they are terminated."""
    steps: list[tuple[Any, ...]] = []
    for i in range(len(data)):
        row = (data.actions[i], data.rewards[i])
        is_over, is_cut = data.terminations[i], data.truncations[i]
        steps.append((data.observations[i], *row, is_over, False))
        if is_cut:
            steps.append((data.next_observations[i], *row, False, True))
    observations, actions, *others = (np.array(part) for part in zip(*steps, strict=True))
    count = data.n_actions if data.is_discrete else None
    return d3rlpy.dataset.MDPDataset(
        observations.astype(np.float32),
        actions.reshape(len(steps), -1),
        *(part.astype(np.float32) for part in others),
        action_size=count,
    )


@pytest.mark.parametrize("is_discrete", [False, True])
def test_a_d3rlpy_dataset_gives_back_the_rows(d3rlpy: Any, is_discrete: bool) -> None:
    data = sample(is_discrete)
    expected = data.next_observations.copy()
    ended = data.terminations
    expected[ended] = data.observations[ended]  # d3rlpy keeps no s' there
    found = from_d3rlpy(mdp_dataset(d3rlpy, data))
    assert_same(found, sample(is_discrete, next_observations=expected))


def test_d3rlpy_keeps_labels_never_seen(d3rlpy: Any) -> None:
    data = sample(True, action_space=Discrete(5))
    assert from_d3rlpy(mdp_dataset(d3rlpy, data)).action_space == Discrete(5)


def test_nothing_to_read() -> None:
    with pytest.raises(DataError, match="d3rlpy dataset"):
        from_d3rlpy(object())

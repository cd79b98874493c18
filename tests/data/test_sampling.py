"""Thinning, merging and splitting keep whole rows and whole episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nopg.data import Dataset, merge, split_episodes, thin_by_coverage
from nopg.errors import ConfigError, DataError


def walk(n_episodes: int = 10, length: int = 20, offset: float = 0.0) -> Dataset:
    n = n_episodes * length
    rng = np.random.default_rng(n)
    states = rng.normal(size=(n, 2)) + offset
    return Dataset(
        states,
        rng.normal(size=(n, 1)),
        np.arange(n, dtype=float),
        states + 0.1,
        np.zeros(n, bool),
        np.arange(n) % length == length - 1,
        np.repeat(np.arange(n_episodes) * 3, length),
    )


def test_a_split_shares_no_episode_and_loses_no_row() -> None:
    data = walk()
    train, held_out = split_episodes(data, 0.3, seed=1)
    assert train.episodes is not None
    assert held_out.episodes is not None
    assert not set(train.episodes) & set(held_out.episodes)
    assert held_out.n_episodes == 3
    assert sorted([*train.rewards, *held_out.rewards]) == data.rewards.tolist()
    again, _ = split_episodes(data, 0.3, seed=1)
    np.testing.assert_array_equal(again.rewards, train.rewards)
    other, _ = split_episodes(data, 0.3, seed=2)
    assert not np.array_equal(other.rewards, train.rewards)
    with pytest.raises(ConfigError):
        split_episodes(walk(1), 0.5)


def test_coverage_keeps_the_rare_rows() -> None:
    rng = np.random.default_rng(0)
    crowd, rare = rng.normal(size=(500, 2)) * 0.01, np.array([[9.0, 9.0], [-9.0, 9.0]])
    states = np.vstack([crowd, rare])
    zeros = np.zeros(502)
    data = Dataset(states, zeros[:, None], np.arange(502.0), states, zeros.astype(bool))
    thin = thin_by_coverage(data, 10)
    assert len(thin) == 10
    assert {500.0, 501.0} <= set(thin.rewards)
    # A random choice of ten would miss both with a chance of 96 %.


def test_farthest_points_are_within_twice_the_best_radius() -> None:
    from nopg.data.coverage import farthest_points

    grid = np.array([[float(i)] for i in range(9)])
    rows, distances = farthest_points(grid, 3)
    radii = np.abs(grid[:, None, 0] - grid[rows][None, :, 0]).min(axis=1)
    np.testing.assert_array_equal(distances, radii)
    assert radii.max() <= 2 * 1.0  # {1, 4, 7} has radius 1
    everything, _ = farthest_points(np.zeros((5, 2)), 5)
    assert sorted(everything) == [0, 1, 2, 3, 4]  # duplicates are taken once each


def test_merged_files_keep_their_episodes_apart(tmp_path: Path) -> None:
    walk(2).save(tmp_path / "one.npz")
    walk(3).save(tmp_path / "two.npz")
    both = merge(tmp_path / "one.npz", tmp_path / "two.npz", walk(1))
    assert len(both) == 120
    assert both.n_episodes == 6
    np.testing.assert_array_equal(both.observations[40:100], walk(3).observations)


def test_unlike_datasets_do_not_merge() -> None:
    data = walk()
    other = Dataset(
        data.observations,
        data.actions,
        data.rewards,
        data.observations,
        data.terminations,
        observation_names=["p", "q"],
    )
    with pytest.raises(DataError, match="same observation_names"):
        merge(data, other)

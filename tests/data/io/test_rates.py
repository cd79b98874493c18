"""Rows on a grid against what was sampled, and actions held until the next."""

from __future__ import annotations

import numpy as np
import pytest

from nopg.data import from_table
from nopg.errors import DataError

EMPTY = np.nan


def test_lines_are_resampled_exactly_and_rewards_keep_their_sum() -> None:
    rng = np.random.default_rng(0)
    times = np.append(0.0, np.cumsum(rng.uniform(0.8, 1.2, 40)))
    rewards = rng.normal(size=41)
    data = from_table(
        {"t": times, "x": 3.0 * times, "u": np.floor(times), "reward": rewards}, resample=0.5
    )
    grid = 0.5 * np.arange(len(data))
    np.testing.assert_allclose(data.observations[:, 0], 3.0 * grid, rtol=1e-12)
    # The action in force is the last one recorded, or up to a quarter of a step later.
    held = [np.floor(times[times <= time + 0.125][-1]) for time in grid]
    np.testing.assert_array_equal(data.actions[:, 0], held)
    # Each reward is earned evenly until the next row; compare with a fine sum.
    fine = np.arange(0.0, grid[-1] + 0.5, 1e-4)
    row = np.searchsorted(times, fine, side="right") - 1
    rates = rewards[row] / np.diff(times)[row]
    summed = (rates * 1e-4).reshape(len(grid), -1).sum(axis=1)
    np.testing.assert_allclose(data.rewards, summed, atol=2e-3)
    assert data.sample_time == 0.5


def test_terminations_stay_at_the_end_of_their_episode() -> None:
    n = 9
    data = from_table(
        {
            "t": np.tile(np.arange(n), 2),
            "episode": np.repeat([0, 1], n),
            "x": np.arange(2.0 * n),
            "u": np.ones(2 * n) * 0.5,
            "reward": np.ones(2 * n),
            "done": np.tile(np.arange(n) == n - 1, 2),
        },
        resample=2.0,
    )
    assert data.terminations.sum() == 2
    assert data.episodes is not None
    assert data.episodes.tolist() == [0] * 5 + [1] * 5
    assert data.rewards.sum() == pytest.approx(18.0)


def test_actions_at_another_rate_are_held() -> None:
    columns = {
        "t": [0.0, 0.0, 1.0, 1.5, 2.0, 3.0, 4.0],
        "x": [EMPTY, 0.0, 1.0, EMPTY, 2.0, 3.0, 4.0],
        "u": [5.5, EMPTY, EMPTY, 6.5, EMPTY, EMPTY, EMPTY],
        "reward": [EMPTY, 0.0, 0.0, EMPTY, 0.0, 0.0, 0.0],
    }
    data = from_table(columns, missing="hold")
    np.testing.assert_array_equal(data.observations[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(data.actions[:, 0], [5.5, 5.5, 6.5, 6.5])
    assert data.sample_time == 1.0
    assert any("in 5 rows without one; left out: 2 rows" in n for n in data.notes)
    # A reward that is missing beside a state is nothing that could be held.
    with pytest.raises(DataError, match=r"1 row had empty .*counted from 1: 2\)"):
        from_table(columns | {"reward": [EMPTY, 0.0, EMPTY, EMPTY, 0.0, 0.0, 0.0]}, missing="hold")
    with pytest.raises(DataError, match="missing='hold'"):
        from_table(columns | {"t": np.arange(7.0)})


def test_rows_before_the_first_action_and_flags_without_a_state() -> None:
    data = from_table(
        {
            "x": [0.0, 1.0, 2.0, 3.0, EMPTY],
            "u": [EMPTY, 0.5, EMPTY, EMPTY, 1.5],
            "reward": [0.0, 0.0, 0.0, 0.0, EMPTY],
            "done": [False, False, False, False, True],
        },
        missing="hold",
    )
    np.testing.assert_array_equal(data.observations[:, 0], [1, 2, 3])
    assert data.terminations.tolist() == [False, False, True]
    assert any("1 row before the first action" in note for note in data.notes)


def test_clocks_that_count_from_1970_keep_their_actions() -> None:
    # Seconds since then are rounded to a quarter of a microsecond.
    times = 1.7e9 + 0.1 * np.arange(50)
    data = from_table(
        {"t": times, "x": np.arange(50.0), "u": np.arange(50) + 0.5, "reward": times}, resample=0.1
    )
    assert len(data) == 49
    np.testing.assert_array_equal(data.actions[:, 0], np.arange(49) + 0.5)
    np.testing.assert_allclose(data.observations[:, 0], np.arange(49), atol=1e-4)


def test_a_jittering_clock_keeps_every_action() -> None:
    rng = np.random.default_rng(0)
    times = np.arange(200) + rng.uniform(-0.1, 0.1, 200)
    times[0] = 0.0
    data = from_table(
        {"t": times, "x": times, "u": np.arange(200) + 0.5, "reward": times}, resample=1.0
    )
    np.testing.assert_array_equal(data.actions[:, 0], np.arange(len(data)) + 0.5)

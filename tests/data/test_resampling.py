"""Another sample time: what is on the grid, what is left out, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nopg
from nopg.errors import ConfigError, DataError


def log(
    lengths: tuple[int, ...] = (12, 9), *, terminates: bool = False
) -> nopg.Dataset:
    """Episodes at 0.1 s of a state 3 t, with the row's number as action."""
    parts = [np.arange(n + 1) for n in lengths]
    t = np.concatenate([part[:-1] for part in parts])
    is_last = np.concatenate([part[1:] == part[-1] for part in parts])
    never = np.zeros(len(t), dtype=bool)
    return nopg.Dataset(
        0.3 * t[:, None],
        t[:, None].astype(float),
        np.ones(len(t)),
        0.3 * (t[:, None] + 1),
        is_last if terminates else never,
        never if terminates else is_last,
        np.repeat(np.arange(len(lengths)), lengths),
        sample_time=0.1,
    )


@pytest.mark.parametrize("step", [0.3, 0.25, 0.1, 0.04])
def test_states_are_where_the_system_was_and_actions_the_last_ones(step: float) -> None:
    data = log((12,)).resample(step)
    times = step * np.arange(len(data))
    assert len(data) == int(1.2 / step + 1e-9)
    np.testing.assert_allclose(data.observations[:, 0], 3.0 * times)
    np.testing.assert_allclose(data.next_observations[:, 0], 3.0 * (times + step))
    np.testing.assert_array_equal(data.actions[:, 0], np.floor(10.0 * times + 1e-6))
    np.testing.assert_allclose(data.rewards, 10.0 * step)  # 1 in 0.1 s
    assert data.sample_time == step
    assert data.truncations.tolist() == [False] * (len(data) - 1) + [True]


def test_episodes_stay_apart_and_what_is_left_out_is_counted() -> None:
    data = log((12, 9)).resample(0.4)  # of the second episode 0.1 s is left
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_allclose(data.observations[:, 0], [0.0, 1.2, 2.4, 0.0, 1.2])
    assert "the time of 1 rows" in data.notes[-1]


def test_a_termination_is_kept_with_a_shorter_step() -> None:
    data = log((9,), terminates=True).resample(0.4)
    np.testing.assert_allclose(data.next_observations[:, 0], [1.2, 2.4, 2.7])
    np.testing.assert_allclose(data.rewards, [4.0, 4.0, 1.0])
    assert data.terminations.tolist() == [False, False, True]


def test_a_lost_row_starts_a_new_grid() -> None:
    data = log((12,)).subset(np.arange(12) != 5).resample(0.2)
    # Five rows before the gap and six after it.
    np.testing.assert_allclose(data.observations[:, 0], [0.0, 0.6, 1.8, 2.4, 3.0])


def test_what_cannot_be_resampled_is_refused() -> None:
    data = log()
    for step in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="must be a positive time"):
            data.resample(step)
    with pytest.raises(DataError, match="must know their sample time, they do not"):
        replace(data, sample_time=None).resample(0.2)
    with pytest.raises(DataError, match="call with_history last"):
        data.with_history(1).resample(0.2)
    with pytest.raises(DataError, match="Resampling needs rows"):
        replace(data, episodes=None).resample(0.2)
    with pytest.raises(DataError, match="ask for a shorter one"):
        data.resample(5.0)
    with pytest.raises(DataError, match="`sample_time` must be a positive time"):
        replace(data, sample_time=-0.1)


def test_policy_files_keep_the_sample_time(tmp_path: Path) -> None:
    policy = nopg.NOPG(gamma=0.5).fit(log(), n_updates=1, progress=False)
    policy.save(tmp_path / "policy.nopg")
    loaded = nopg.load(tmp_path / "policy.nopg")
    assert loaded.data is not None
    assert loaded.data.sample_time == 0.1

"""D4RL's layout, and tables in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset, from_table
from nopg.errors import DataError


def test_the_d4rl_layout_is_cut_at_terminals_and_timeouts(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "d4rl.hdf5", "w") as file:
        file["observations"] = np.arange(6.0, dtype=np.float32)[:, None]
        file["actions"] = np.arange(6.0, dtype=np.float32)[:, None] / 10
        file["rewards"] = np.arange(6.0, dtype=np.float32)
        file["terminals"] = np.array([0, 1, 0, 0, 0, 0], bool)
        file["timeouts"] = np.array([0, 0, 0, 1, 0, 0], bool)
        file["infos/qpos"] = np.zeros((6, 3))
    data = Dataset.load(tmp_path / "d4rl.hdf5")
    # 0-1 terminated, 2-3 timed out (3 has no successor), 4-5 cut by the file's end.
    assert data.observations[:, 0].tolist() == [0, 1, 2, 4]
    assert data.next_observations[:, 0].tolist() == [1, 1, 3, 5]
    assert data.terminations.tolist() == [False, True, False, False]
    assert data.truncations.tolist() == [False, False, True, True]
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1, 2]


def test_a_dictionary_of_columns() -> None:
    data = from_table(
        {"x": [1.0, 2.0, 3.0], "u": [0.5, 0.25, 0.125], "reward": [1, 2, 3]}, observations=["x"]
    )
    assert data.next_observations.tolist() == [[2.0], [3.0]]
    assert data.rewards.tolist() == [1.0, 2.0]


def test_a_pandas_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "run": ["a", "a", "b", "b"],
            "x": [1.0, 2.0, 3.0, 4.0],
            "a": [0, 1, 2, 0],
            "r": [1.0, 2.0, 3.0, 4.0],
            "done": [False, True, False, False],
        }
    )
    data = from_table(frame)
    assert data.is_discrete
    assert data.observations[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert data.terminations.tolist() == [False, True, False]


def test_unequal_columns_are_refused() -> None:
    with pytest.raises(DataError, match="one length"):
        from_table({"x": [1.0, 2.0], "u": [0.5], "reward": [1, 2]})


def test_missing_values_in_arrays_are_refused_or_dropped(tmp_path: Path) -> None:
    rows = np.arange(8.0).reshape(4, 2)
    rewards = np.array([1.0, np.nan, 3.0, 4.0])
    np.savez(
        tmp_path / "log.npz",
        observations=rows,
        actions=np.zeros((4, 1)),
        rewards=rewards,
        next_observations=rows + 2,
        terminations=np.zeros(4, bool),
    )
    with pytest.raises(DataError, match="missing='drop'"):
        Dataset.load(tmp_path / "log.npz")
    kept = Dataset.load(tmp_path / "log.npz", missing="drop")
    assert kept.rewards.tolist() == [1.0, 3.0, 4.0]
    assert kept.notes == ("Dropped: 1 row with empty cells.",)


def test_labels_asked_for_must_be_labels(tmp_path: Path) -> None:
    rows = np.arange(6.0).reshape(3, 2)
    parts: dict[str, Any] = {
        "observations": rows,
        "rewards": np.zeros(3),
        "next_observations": rows,
        "terminations": np.zeros(3, bool),
    }
    np.savez(tmp_path / "log.npz", actions=np.array([0.0, 2.0, 1.0]), **parts)
    assert Dataset.load(tmp_path / "log.npz", is_discrete=True).n_actions == 3
    np.savez(tmp_path / "log.npz", actions=np.array([0.0, 0.5, 1.0]), **parts)
    with pytest.raises(DataError, match="one column of labels"):
        Dataset.load(tmp_path / "log.npz", is_discrete=True)

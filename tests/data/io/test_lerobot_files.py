"""LeRobot folders: frames of episodes become transitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.errors import DataError


def written(folder: Path, with_reward: bool = True) -> Path:
    """Two episodes of 4 and 3 frames at 10 Hz, as LeRobot 2 lays them out."""
    import pyarrow
    from pyarrow import parquet

    joints = {"motors": ["shoulder", "elbow"]}
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [2], "names": joints},
        "action": {"dtype": "float32", "shape": [2], "names": joints},
        "observation.images.top": {"dtype": "video", "shape": [480, 640, 3]},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    }
    if with_reward:
        features["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}
        features["next.done"] = {"dtype": "bool", "shape": [1], "names": None}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps({"features": features}))
    for episode, length in enumerate((4, 3)):
        t = np.arange(length)
        columns: dict[str, Any] = {
            "observation.state": [[10.0 * episode + i, -float(i)] for i in t],
            "action": [[float(i), 0.5] for i in t],
            "timestamp": t * 0.1,
            "episode_index": np.full(length, episode),
            "next.reward": t * 1.0,
            "next.done": t == length - 1,
        }
        file = folder / "data" / "chunk-000" / f"episode_{episode:06d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table({n: columns[n] for n in columns if n in features}), file)
    return folder


def test_frames_become_transitions(tmp_path: Path) -> None:
    data = Dataset.load(written(tmp_path / "arm"))
    names = ("observation.state.shoulder", "observation.state.elbow")
    assert data.observation_names == names
    assert data.action_names == ("action.shoulder", "action.elbow")
    np.testing.assert_array_equal(data.observations[:, 0], [0, 1, 2, 10, 11])
    np.testing.assert_array_equal(data.next_observations[:, 0], [1, 2, 3, 11, 12])
    np.testing.assert_array_equal(data.actions[:, 0], [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(data.rewards, [0, 1, 2, 0, 1])
    assert not data.terminations.any()
    assert data.sample_time == pytest.approx(0.1)
    assert any("observation.images.top" in note for note in data.notes)


def test_a_reward_of_ones_own_and_a_goal(tmp_path: Path) -> None:
    folder = written(tmp_path / "arm")
    data = Dataset.load(folder, reward=lambda s, a, s_next: -s[:, 0], termination="next.done")
    assert data.rewards.tolist() == [0, -1, -2, -3, -10, -11, -12]
    assert data.terminations.sum() == 2
    without = written(tmp_path / "plain", with_reward=False)
    with pytest.raises(DataError, match="reward"):
        Dataset.load(without)


def test_broken_and_linked_folders_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "arm")
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(folder, max_bytes=50)
    file = sorted(folder.rglob("*.parquet"))[0]
    good = file.read_bytes()
    elsewhere = tmp_path / "other.parquet"
    elsewhere.write_bytes(good)
    file.unlink()
    file.symlink_to(elsewhere)
    with pytest.raises(DataError, match="a link"):
        Dataset.load(folder)
    file.unlink()
    file.write_bytes(good[:-20])
    with pytest.raises(DataError, match="must be a LeRobot data set"):
        Dataset.load(folder)
    (folder / "meta" / "info.json").write_text("[" * 10**6)
    with pytest.raises(DataError, match="nested too deeply"):
        Dataset.load(folder)

"""D4RL's layout, the authors' object arrays, and tables in memory."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def object_rows(lengths: list[int]) -> list[list[list[object]]]:
    return [
        [
            [
                np.array([e, t], float),
                np.array([t / 10]),
                -float(t),
                np.array([e, t + 1], float),
                t == length - 1,
            ]
            for t in range(length)
        ]
        for e, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("lengths", [[3, 5, 2], [4, 4]])
def test_the_authors_object_arrays(tmp_path: Path, lengths: list[int]) -> None:
    trajectories = []
    for rows in object_rows(lengths):
        array = np.empty((len(rows), 5), dtype=object)
        for t, row in enumerate(rows):
            for i, value in enumerate(row):
                array[t, i] = value
        trajectories.append(array)
    if len(set(lengths)) == 1:
        outer = np.stack(trajectories)  # numpy swallows equal lengths into one array
    else:
        outer = np.empty(len(lengths), dtype=object)
        outer[:] = trajectories
    np.save(tmp_path / "demo.npy", outer, allow_pickle=True)
    data = Dataset.load(tmp_path / "demo.npy")
    expected = [(e, t) for e, length in enumerate(lengths) for t in range(length)]
    assert data.observations.tolist() == [[e, t] for e, t in expected]
    assert data.next_observations.tolist() == [[e, t + 1] for e, t in expected]
    assert data.actions[:, 0].tolist() == [t / 10 for _, t in expected]
    assert data.rewards.tolist() == [-float(t) for _, t in expected]
    assert data.terminations.sum() == len(lengths)
    assert data.n_episodes == len(lengths)
    limited = Dataset.load(tmp_path / "demo.npy", time_limit=lengths[0])
    assert limited.terminations.sum() == sum(n != lengths[0] for n in lengths)


def test_object_arrays_of_dictionaries(tmp_path: Path) -> None:
    outer = np.empty(2, dtype=object)
    for e in range(2):
        outer[e] = {
            "observations": np.full((3, 2), e, float),
            "actions": np.array([0, 1, 0]),
            "rewards": np.ones(3),
            "next_observations": np.full((3, 2), e + 1, float),
            "terminals": np.array([False, False, True]),
        }
    np.save(tmp_path / "dicts.npy", outer, allow_pickle=True)
    data = Dataset.load(tmp_path / "dicts.npy")
    assert data.is_discrete
    assert data.observations[:, 0].tolist() == [0, 0, 0, 1, 1, 1]
    assert data.terminations.tolist() == [False, False, True] * 2


def test_other_object_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.npy"
    for content in (
        np.arange(3.0),
        np.array([None, "text"], dtype=object),
        np.array([[1, 2], [3, 4]], dtype=object),
    ):
        np.save(path, content, allow_pickle=True)
        with pytest.raises(DataError, match="object array of trajectories"):
            Dataset.load(path)


def test_a_dictionary_of_columns() -> None:
    data = from_table(
        {"x": [1.0, 2.0, 3.0], "u": [0.5, 0.25, 0.125], "reward": [1, 2, 3]},
        observations=["x"],
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


@given(at=st.integers(0, 2000), garbage=st.binary(min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_no_damage_to_an_object_array_escapes(at: int, garbage: bytes) -> None:
    outer = np.empty(2, dtype=object)
    outer[:] = [np.array(rows, dtype=object) for rows in object_rows([2, 3])]
    stream = io.BytesIO()
    np.save(stream, outer, allow_pickle=True)
    content = stream.getvalue()
    at %= len(content)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(DataError):
        path = Path(folder, "demo.npy")
        path.write_bytes(content[:at] + garbage + content[at + len(garbage) :])
        Dataset.load(path)

"""Minari datasets made with the real package read with every row aligned."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from nopg.data import Dataset
from nopg.errors import DataError
from tests.data.strategies import assert_identical

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")
from minari.data_collector.episode_buffer import EpisodeBuffer  # noqa: E402


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
    return tmp_path / "root"


def create(*arguments: Any, **options: Any) -> Any:
    """Minari's own writer, without its warnings about authors and permalinks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return minari.create_dataset_from_buffers(*arguments, **options)


def make(name: str, lengths: list[int], **options: Any) -> Any:
    """Episodes whose numbers tell where they belong: state 100 e + t, and so on."""
    buffers = [
        EpisodeBuffer(
            observations=np.array([[100.0 * e + t, -t] for t in range(length + 1)]),
            actions=np.array([[e + t / 10] for t in range(length)]),
            rewards=np.array([1000.0 * e + t for t in range(length)]),
            terminations=np.array([t == length - 1 and e % 2 == 0 for t in range(length)]),
            truncations=np.array([t == length - 1 and e % 2 == 1 for t in range(length)]),
            infos={},
        )
        for e, length in enumerate(lengths)
    ]
    return create(
        name,
        buffers,
        observation_space=Box(-np.inf, np.inf, (2,), np.float64),
        action_space=Box(-10, 10, (1,), np.float64),
        **options,
    )


@pytest.mark.parametrize("lengths", [[3, 7, 2], [4]])
def test_every_row_is_aligned(lengths: list[int]) -> None:
    make("lab/arm-v0", lengths)
    data = Dataset.load("lab/arm-v0")
    expected = [(e, t) for e, length in enumerate(lengths) for t in range(length)]
    assert len(data) == len(expected)
    for row, (e, t) in enumerate(expected):
        assert data.observations[row].tolist() == [100.0 * e + t, -t]
        assert data.next_observations[row].tolist() == [100.0 * e + t + 1, -t - 1]
        assert data.actions[row].tolist() == [e + t / 10]
        assert data.rewards[row] == 1000.0 * e + t
        is_last = t == lengths[e] - 1
        assert data.terminations[row] == (is_last and e % 2 == 0)
        assert data.truncations[row] == (is_last and e % 2 == 1)
    assert data.episodes is not None
    assert data.episodes.tolist() == [e for e, _ in expected]
    assert data.action_space == Box(-10, 10, (1,), np.float64)


def test_a_folder_and_an_id_read_alike(own_root: Path) -> None:
    make("lab/arm-v0", [3, 5])
    by_folder = Dataset.load(own_root / "lab" / "arm-v0")
    assert_identical(Dataset.load("lab/arm-v0"), by_folder)


@pytest.mark.parametrize("is_dictionary", [False, True])
def test_labels_start_at_zero_and_dictionaries_are_refused(is_dictionary: bool) -> None:
    observations: Any = np.array([[10.0, 1.0], [30.0, 2.0], [50.0, 3.0]])
    space: Any = Box(-99, 99, (2,), np.float64)
    if is_dictionary:
        observations, space = {"angle": observations}, Dict(angle=space)
    buffer = EpisodeBuffer(
        observations=observations,
        actions=np.array([5, 6]),
        rewards=np.zeros(2),
        terminations=np.zeros(2, bool),
        truncations=np.array([False, True]),
        infos={},
    )
    create("labels-v0", [buffer], observation_space=space, action_space=Discrete(2, start=5))
    if is_dictionary:
        with pytest.raises(DataError, match="FlattenObservation"):
            Dataset.load("labels-v0")
        return
    data = Dataset.load("labels-v0")
    assert data.observations.tolist() == [[10.0, 1.0], [30.0, 2.0]]
    assert data.actions.tolist() == [0, 1]


def test_a_folder_that_would_run_an_environment_is_refused(own_root: Path) -> None:
    make("lab/arm-v0", [3])
    path = own_root / "lab" / "arm-v0" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    del metadata["action_space"]
    path.write_text(json.dumps(metadata))
    with pytest.raises(DataError, match="spaces are not stored"):
        Dataset.load("lab/arm-v0")


def test_absent_and_damaged_datasets_say_so(own_root: Path) -> None:
    with pytest.raises(DataError, match="found none"):
        Dataset.load("lab/none-v0")
    make("lab/arm-v0", [3])
    stored = own_root / "lab" / "arm-v0" / "data" / "main_data.hdf5"
    stored.write_bytes(stored.read_bytes()[:100])
    with pytest.raises(DataError, match="reading it failed"):
        Dataset.load("lab/arm-v0")
    with pytest.raises(DataError, match="reading it failed"):
        Dataset.load(own_root)


def stored_file(root: Path) -> Path:
    make("lab/arm-v0", [3])
    return root / "lab" / "arm-v0" / "data" / "main_data.hdf5"


@pytest.mark.parametrize("kind", ["external link", "soft link", "raw", "virtual"])
def test_a_folder_that_leads_to_other_files_is_refused(
    own_root: Path, tmp_path: Path, kind: str
) -> None:
    path = stored_file(own_root)
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as other:
        other["private"] = np.full((4, 2), 42.0)
    with h5py.File(path, "r+") as file:
        episode = file["episode_0"]
        del episode["observations"]
        if kind == "external link":
            episode["observations"] = h5py.ExternalLink(str(secret), "private")
        elif kind == "soft link":
            episode["observations"] = h5py.SoftLink("/episode_0/actions")
        elif kind == "raw":
            outside = [(str(secret), 0, 64)]
            episode.create_dataset("observations", (4, 2), "f8", external=outside)
        else:
            layout = h5py.VirtualLayout((4, 2), "f8")
            layout[:] = h5py.VirtualSource(str(secret), "private", (4, 2))
            episode.create_virtual_dataset("observations", layout)
    with pytest.raises(DataError, match="leads out"):
        Dataset.load("lab/arm-v0")


def test_what_the_file_unpacks_to_counts_whatever_the_metadata_say(own_root: Path) -> None:
    path = stored_file(own_root)
    with h5py.File(path, "r+") as file:
        del file["episode_0"]["observations"]
        file["episode_0"].create_dataset("observations", (2**30, 2), "f8", chunks=True)
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load("lab/arm-v0")

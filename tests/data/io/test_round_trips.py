"""Every format gives back what was put in, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nopg.data import Dataset
from nopg.errors import DataError
from tests.data.strategies import assert_identical, datasets
from tests.data.written_files import load_again, save

SUFFIXES = [".npz", ".csv", ".csv.gz", ".tsv", ".parquet", ".h5"]
RELAXED = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@RELAXED
@given(data=datasets())
def test_a_file_gives_back_the_dataset(data: Dataset, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"data{suffix}"
    save(data, path)
    assert_identical(load_again(path, data), data, is_ours=suffix == ".npz")


def test_a_label_never_seen_is_kept_with_spaces_and_notes(tmp_path: Path) -> None:
    rows = np.arange(8.0).reshape(4, 2)
    data = Dataset(
        rows,
        [0, 1, 0, 1],
        [0.0, 1.0, 2.0, 3.0],
        rows + 2,
        [0, 0, 0, 1],
        episodes=[0, 0, 0, 0],
        observation_space=Box(-10.0, 10.0, (2,), np.float32),
        action_space=Discrete(3),
        notes=("Measured on Monday.",),
    )
    data.save(tmp_path / "log.npz")
    again = Dataset.load(tmp_path / "log.npz")
    assert again.n_actions == 3
    assert_identical(again, data)


@pytest.mark.parametrize("suffix", SUFFIXES)
@RELAXED
@given(data=datasets(), garbage=st.binary(max_size=200), cut=st.floats(0, 1))
def test_no_damage_to_a_file_escapes_as_another_error(
    data: Dataset, garbage: bytes, cut: float, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"data{suffix}"
    save(data, path)
    content = path.read_bytes()
    at = int(cut * len(content))
    for damaged in (content[:at], content[:at] + garbage + content[at + len(garbage) :]):
        path.write_bytes(damaged)
        said = "It was read."
        try:
            assert len(load_again(path, data)) >= 2
        except DataError as error:  # and no other
            said = str(error)
        assert "\n" not in said
        assert said.endswith((".", "?"))

"""Parquet files made by other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.errors import DataError

pa: Any = pytest.importorskip("pyarrow")


def write(folder: Path, **columns: Any) -> Path:
    from pyarrow import parquet

    parquet.write_table(pa.table(columns), folder / "log.parquet")
    return folder / "log.parquet"


def test_text_categories_booleans_and_small_types(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        run=pa.array(["a", "a", "b", "b"]).dictionary_encode(),
        x=pa.array([1.5, 2.5, 3.5, 4.5], pa.float32()),
        a=pa.array([0, 1, 2, 0], pa.uint8()),
        r=pa.array([1, 2, 3, 4], pa.int16()),
        done=pa.array([False, True, None, False]),
        comment=pa.array(["=1+1", "", None, "x"]),
    )
    data = Dataset.load(path)
    assert data.observations[:, 0].tolist() == [1.5, 2.5, 3.5]
    assert data.actions.tolist() == [0, 1, 2]
    assert data.terminations.tolist() == [False, True, False]
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1]


def test_missing_values_are_dropped_when_told(tmp_path: Path) -> None:
    path = write(tmp_path, x=[1.0, None, 3.0, 4.0, 5.0], u=[0.5] * 5, r=[0.0] * 5)
    with pytest.raises(DataError, match="2 rows had empty"):
        Dataset.load(path)
    assert len(Dataset.load(path, missing="drop")) == 2


def test_columns_that_cannot_serve(tmp_path: Path) -> None:
    lists = [[1.0], [2.0]]
    for bad in (
        {"x": lists, "u": [0.5, 0.5], "r": [0.0, 0.0]},
        {"x": ["fast", "slow"], "u": [0.5, 0.5], "r": [0.0, 0.0]},
        {"x": [1.0, 2.0], "u": [0.5, 0.5], "r": [0.0, 0.0], "done": [0.5, 7.0]},
        {"x": [1.0, 2.0], "u": [0.5, 0.5], "r": [0.0, 0.0], "episode": [1, None]},
        {"x": [1.0, 2.0], "u": [0.5, 0.5], "r": [0.0, 0.0], "episode": [1.5, 2.5]},
    ):
        with pytest.raises(DataError):
            Dataset.load(write(tmp_path, **bad), observations=["x"])


def test_the_declared_size_is_checked_first(tmp_path: Path) -> None:
    path = write(tmp_path, x=np.zeros(100_000), u=np.zeros(100_000), r=np.zeros(100_000))
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(path, max_bytes=1_000_000)

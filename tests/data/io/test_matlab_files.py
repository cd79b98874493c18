"""MATLAB files become tables; bombs and other versions are refused."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from nopg.data import Dataset
from nopg.errors import DataError


def written(path: Path, **variables: Any) -> Path:
    savemat(path, variables, do_compression=True)
    return path


@pytest.mark.parametrize("is_struct", [False, True])
def test_vectors_matrices_and_structures_are_columns(
    tmp_path: Path, is_struct: bool
) -> None:
    t = np.arange(6) * 0.1
    x = np.column_stack([np.sin(t), np.cos(t)])
    log = {"t": t, "x": x, "u": t[:, None] * 2, "r": -t, "Ts": 0.1}
    variables = {"log": log} if is_struct else log
    before = "log." if is_struct else ""
    path = written(tmp_path / "log.mat", **variables)
    data = Dataset.load(
        path,
        observations=[f"{before}x_0", f"{before}x_1"],
        actions=[f"{before}u"],
        reward=f"{before}r",
        time=f"{before}t",
    )
    np.testing.assert_array_equal(data.observations, x[:-1])
    np.testing.assert_array_equal(data.next_observations, x[1:])
    np.testing.assert_array_equal(data.actions[:, 0], 2 * t[:-1])
    assert data.sample_time == pytest.approx(0.1)
    assert any(f"{before}Ts" in note for note in data.notes)


def test_usual_names_are_found(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.mat", x=np.arange(4.0), u=np.ones(4) / 2, r=np.ones(4)
    )
    assert Dataset.load(path).observation_names == ("x",)


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="vectors of numbers"):
        Dataset.load(written(tmp_path / "a.mat", name="only text"))
    (tmp_path / "b.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(300))
    with pytest.raises(DataError, match=r"must be a \.mat file"):
        Dataset.load(tmp_path / "b.mat")
    newest = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n"
    (tmp_path / "c.mat").write_bytes(newest + bytes(400))
    with pytest.raises(DataError, match="-v7"):
        Dataset.load(tmp_path / "c.mat")
    with pytest.raises(DataError, match="must end in"):
        Dataset(np.eye(2), np.eye(2), [0, 0], np.eye(2), [0, 0]).save(
            tmp_path / "d.mat"
        )


def test_an_element_that_does_not_end_is_refused(tmp_path: Path) -> None:
    """64 KB that were 64 MB."""
    path = written(tmp_path / "log.mat", x=np.arange(4.0), u=np.ones(4), r=np.ones(4))
    packed = zlib.compress(bytes(2**26), 9)
    with path.open("ab") as stream:
        stream.write(struct.pack("<II", 15, len(packed)) + packed)
    assert path.stat().st_size < 2**17
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(path, max_bytes=2**24)

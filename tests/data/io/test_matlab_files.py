"""MATLAB files become tables; bombs and other versions are refused."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from nopg.data import Dataset
from nopg.data.io.matlab_files import matlab_table
from nopg.data.io.options import ReadOptions
from nopg.errors import DataError


def written(path: Path, **variables: Any) -> Path:
    savemat(path, variables, do_compression=True)
    return path


@pytest.mark.parametrize("is_struct", [False, True])
def test_vectors_matrices_and_structures_are_columns(tmp_path: Path, is_struct: bool) -> None:
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
    path = written(tmp_path / "log.mat", x=np.arange(4.0), u=np.ones(4) / 2, r=np.ones(4))
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
        Dataset(np.eye(2), np.eye(2), [0, 0], np.eye(2), [0, 0]).save(tmp_path / "d.mat")


def test_an_element_that_does_not_end_is_refused(tmp_path: Path) -> None:
    """64 KB that were 64 MB."""
    path = written(tmp_path / "log.mat", x=np.arange(4.0), u=np.ones(4), r=np.ones(4))
    packed = zlib.compress(bytes(2**26), 9)
    with path.open("ab") as stream:
        stream.write(struct.pack("<II", 15, len(packed)) + packed)
    assert path.stat().st_size < 2**17
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(path, max_bytes=2**24)


def element(kind: int, content: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def matrix(name: str, shape: list[int], kind: int, content: bytes, order: str) -> bytes:
    """A variable of class double, laid out by hand as the format's description says."""
    parts = element(6, struct.pack(f"{order}II", 6, 0), order)
    parts += element(5, struct.pack(f"{order}{len(shape)}i", *shape), order)
    parts += element(1, name.encode(), order) + element(kind, content, order)
    return element(14, parts, order)


def header(order: str) -> bytes:
    return b"MATLAB 5.0".ljust(124) + {"<": b"\0\1IM", ">": b"\1\0MI"}[order]


@pytest.mark.parametrize("order", ["<", ">"])
def test_either_byte_order_and_narrow_integers(tmp_path: Path, order: str) -> None:
    """MATLAB stores whole numbers of class double in as few bytes as they need."""
    body = matrix("x", [4, 1], 9, struct.pack(f"{order}4d", 0.5, 1, 2, 3), order)
    body += matrix("u", [1, 4], 2, bytes([7, 8, 9, 250]), order)
    body += matrix("r", [4, 1], 3, struct.pack(f"{order}4h", -1, 2, -300, 4), order)
    (tmp_path / "log.mat").write_bytes(header(order) + body)
    data = Dataset.load(tmp_path / "log.mat")
    assert data.observations[:, 0].tolist() == [0.5, 1, 2]
    assert data.actions[:, 0].tolist() == [7, 8, 9]
    assert data.rewards.tolist() == [-1, 2, -300]


@pytest.mark.parametrize("is_packed", [False, True])
def test_numbers_are_those_that_scipy_reads(tmp_path: Path, is_packed: bool) -> None:
    rng = np.random.default_rng(0)
    kinds = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
    log: dict[str, Any] = {
        f"v{k[:1].replace('?', 'b')}{k[1:]}": rng.integers(0, 100, (9, 2)).astype(k) for k in kinds
    }
    log |= {"deep": {"er": {"x": rng.normal(size=9)}}, "label": "a text", "z": [1j] * 9}
    path = tmp_path / "log.mat"
    savemat(path, log, do_compression=is_packed)
    table = matlab_table(path, ReadOptions())
    read = loadmat(path)
    for name in (key for key in log if key.startswith("v")):
        for i in range(2):
            found = next(iter(table.chunks([f"{name}_{i}"])))[f"{name}_{i}"]
            np.testing.assert_array_equal(found, read[name][:, i])
    found = next(iter(table.chunks(["deep.er.x"])))["deep.er.x"]
    np.testing.assert_array_equal(found, log["deep"]["er"]["x"])
    assert "label" in table.notes[0]
    assert "z" in table.notes[0]


def test_lengths_are_not_believed(tmp_path: Path) -> None:
    """Each made SciPy reserve gigabytes or end the process."""
    numbers = struct.pack("<4d", 1, 2, 3, 4)
    good = matrix("x", [4, 1], 9, numbers, "<")
    bad = [
        matrix("x", [2**31 - 1, 2**31 - 1], 9, numbers, "<"),
        matrix("x", [-1, 4], 9, numbers, "<"),
        good.replace(struct.pack("<II", 9, 32), struct.pack("<II", 9, 2**31)),
        struct.pack("<II", 14, 2**32 - 1) + good[8:],
        good.replace(struct.pack("<II", 1, 1), struct.pack("<II", 1, 2**30)),
        good.replace(struct.pack("<II", 9, 32), struct.pack("<II", 77, 32)),
    ]
    for content in bad:
        (tmp_path / "log.mat").write_bytes(header("<") + content)
        with pytest.raises(DataError, match=r"must be a \.mat file"):
            Dataset.load(tmp_path / "log.mat")

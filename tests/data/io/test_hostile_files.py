"""Files made to hurt: bombs, links, forged sizes, code. One sentence each."""

from __future__ import annotations

import io
import os
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.errors import DataError, MissingExtraError


def arrays(n: int = 4) -> dict[str, Any]:
    return {
        "observations": np.arange(2.0 * n).reshape(n, 2),
        "actions": np.arange(1.0 * n)[:, None],
        "rewards": np.arange(1.0 * n),
        "next_observations": np.arange(2.0 * n).reshape(n, 2) + 1,
        "terminations": np.zeros(n, bool),
    }


def npy_header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def npz_with(path: Path, name: str, content: bytes) -> Path:
    np.savez(path, **{k: v for k, v in arrays().items() if k != name})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", content)
    return path


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    rows = 2**23  # 64 MiB of zeros in 64 KiB
    np.savez(path, **{k: v for k, v in arrays().items() if k != "rewards"})
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("rewards.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy_header((rows,)))
        for _ in range(64):
            member.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(DataError, match="must unpack to at most 10,000,000 bytes"):
        Dataset.load(path, max_bytes=10_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


def test_a_header_that_declares_more_than_it_has(tmp_path: Path) -> None:
    content = npy_header((2**40,)) + bytes(32)
    path = npz_with(tmp_path / "lie.npz", "rewards", content)
    with pytest.raises(DataError, match="declares 8,796,093,022"):
        Dataset.load(path)


class Evil:
    """Would create a file if anything unpickled it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


def test_objects_in_npz_never_run(tmp_path: Path) -> None:
    target = tmp_path / "executed"
    evil = np.array([Evil(target), Evil(target)], dtype=object)
    np.savez(tmp_path / "evil.npz", **(arrays() | {"rewards": evil}))
    with pytest.raises(DataError, match="Python objects"):
        Dataset.load(tmp_path / "evil.npz")
    assert not target.exists()
    with np.load(tmp_path / "evil.npz", allow_pickle=True) as stored:
        assert len(stored["rewards"]) == 2  # the trap does work
    assert target.exists()


def test_an_object_array_is_refused_with_advice(tmp_path: Path) -> None:
    rows = np.array([[1.0, None]], dtype=object)
    np.save(tmp_path / "demo.npy", rows, allow_pickle=True)
    with pytest.raises(DataError, match=r"numpy\.savez"):
        Dataset.load(tmp_path / "demo.npy")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="must be a file"):
        Dataset.load(tmp_path / "pipe.csv")


def test_hdf5_links_out_of_the_file_are_not_followed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["rewards"] = np.zeros(4)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        for name, array in arrays().items():
            if name != "rewards":
                file[name] = array
        file["rewards"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "rewards")
    with pytest.raises(DataError, match="'rewards' leads out"):
        Dataset.load(tmp_path / "link.h5")


def test_hdf5_arrays_kept_in_other_files_are_not_read(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret").write_bytes(bytes(32))
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "rewards", (4,))
    for kind in ("raw", "virtual", "soft"):
        with h5py.File(tmp_path / f"{kind}.h5", "w") as file:
            for name, array in arrays().items():
                if name != "rewards":
                    file[name] = array
            if kind == "raw":
                outside = [(str(tmp_path / "secret"), 0, 32)]
                file.create_dataset("rewards", (4,), "f8", external=outside)
            elif kind == "virtual":
                file.create_virtual_dataset("rewards", layout)
            else:
                file["rewards"] = h5py.SoftLink("/observations")
        with pytest.raises(DataError, match="'rewards' leads out"):
            Dataset.load(tmp_path / f"{kind}.h5")


def test_hdf5_chunks_larger_than_their_array_count(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "chunk.h5", "w") as file:
        for name, array in arrays().items():
            if name != "rewards":
                file[name] = array
        file.create_dataset(
            "rewards", (4,), "f8", maxshape=(None,), chunks=(2**22,), compression="gzip"
        )
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(tmp_path / "chunk.h5", max_bytes=2**20)


def test_hdf5_that_declares_too_much_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "big.h5", "w") as file:
        for name, array in arrays().items():
            if name != "rewards":
                file[name] = array
        file.create_dataset("rewards", shape=(2**40,), dtype="f8", chunks=(1024,))
    with pytest.raises(DataError, match="must unpack to at most"):
        Dataset.load(tmp_path / "big.h5")


def test_hdf5_text_and_ragged_arrays_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "text.h5", "w") as file:
        for name, array in arrays().items():
            file[name] = array if name != "rewards" else ["a", "b", "c", "d"]
    with pytest.raises(DataError, match="lacks rewards"):
        Dataset.load(tmp_path / "text.h5")


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet", ".csv.gz"])
def test_files_of_another_kind_say_so(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"data{suffix}"
    for content in (b"", b"PK\x03\x04", b"not this format at all", bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(DataError):
            Dataset.load(path)


def test_an_unknown_suffix_lists_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "data.xlsx"
    path.write_bytes(b"x")
    with pytest.raises(DataError, match=r"\.csv"):
        Dataset.load(path)
    with pytest.raises(DataError, match=r"\.npz"):
        Dataset(**arrays()).save(path)
    with pytest.raises(DataError, match="Minari datasets are read"):
        Dataset.load(path)


def test_wrong_types_in_an_archive(tmp_path: Path) -> None:
    for name, value in {
        "observations": np.array(["a", "b", "c", "d"]),
        "actions": np.zeros((4, 2, 2)),
        "rewards": np.zeros(3),
        "terminations": np.full(4, 7),
        "next_observations": np.zeros((4, 9)),
    }.items():
        np.savez(tmp_path / "bad.npz", **(arrays() | {name: value}))
        with pytest.raises(DataError):
            Dataset.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", **arrays(), metadata=np.array('{"observation_names": 3}'))
    with pytest.raises(DataError, match="written by Dataset"):
        Dataset.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("suffix", "module", "extra"), [(".parquet", "pyarrow", "data"), (".h5", "h5py", "data")]
)
def test_a_missing_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, module: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / f"data{suffix}").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=rf"nopg\[{extra}\]"):
        Dataset.load(tmp_path / f"data{suffix}")

"""Files made to hurt: bombs, links, forged sizes, code. One sentence each."""

from __future__ import annotations

import io
import pickle
import struct
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


def test_objects_in_npz_and_npy_never_run(tmp_path: Path) -> None:
    target = tmp_path / "executed"
    evil = np.array([Evil(target), Evil(target)], dtype=object)
    np.savez(tmp_path / "evil.npz", **(arrays() | {"rewards": evil}))
    with pytest.raises(DataError, match="Python objects"):
        Dataset.load(tmp_path / "evil.npz")
    np.save(tmp_path / "evil.npy", evil, allow_pickle=True)
    with pytest.raises(DataError, match="must hold only numbers"):
        Dataset.load(tmp_path / "evil.npy")
    assert not target.exists()
    np.load(tmp_path / "evil.npy", allow_pickle=True)  # the trap does work
    assert target.exists()


def raw_npy(path: Path, pickled: bytes) -> Path:
    path.write_bytes(npy_header((1,), "|O") + pickled)
    return path


PICKLES = {
    "os.system": b"cos\nsystem\n(S'true'\ntR.",
    "an instance": b"ios\nsystem\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"Pabc\n.",
    "a huge memo": b"\x80\x02Kr\xff\xff\xff\x7f.",
    "a huge bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
    "no end": b"\x80\x02]",
    "an empty stack": b"\x80\x02a.",
    "a builtin": b"c__builtin__\neval\n(S'1'\ntR.",
    "a class attribute": b"cnumpy\nndarray\n}S'x'\nK\x01sb.",
    "a nested getattr": b"cbuiltins\ngetattr\n(cnumpy\ndtype\nS'x'\ntR.",
}


@pytest.mark.parametrize("what", PICKLES)
def test_pickles_that_ask_for_more_than_data(tmp_path: Path, what: str) -> None:
    path = raw_npy(tmp_path / "evil.npy", PICKLES[what])
    with pytest.raises(DataError) as error:
        Dataset.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_plain_pickles_of_every_protocol_are_understood(
    tmp_path: Path, protocol: int
) -> None:
    rows = np.empty((3, 5), dtype=object)
    for t in range(3):
        s, s2 = np.array([t, 0.5]), np.array([t + 1, 0.5])
        rows[t] = [s, np.array([0.25]), np.float64(-t), s2, t == 2]
    outer = np.empty(1, dtype=object)
    outer[0] = rows
    pickled = pickle.dumps(outer, protocol=protocol)
    data = Dataset.load(raw_npy(tmp_path / "plain.npy", pickled))
    assert data.observations.tolist() == [[0, 0.5], [1, 0.5], [2, 0.5]]
    assert data.rewards.tolist() == [0.0, -1.0, -2.0]
    assert data.terminations.tolist() == [False, False, True]


def test_hdf5_links_out_of_the_file_are_not_followed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["rewards"] = np.zeros(4)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        for name, array in arrays().items():
            if name != "rewards":
                file[name] = array
        file["rewards"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "rewards")
    with pytest.raises(DataError, match="lacks rewards"):
        Dataset.load(tmp_path / "link.h5")


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


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet", ".npy", ".csv.gz"])
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
    with pytest.raises(DataError, match=r"\.csv"):
        Dataset(**arrays()).save(path)


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
    np.savez(
        tmp_path / "bad.npz", **arrays(), about=np.array('{"observation_names": 3}')
    )
    with pytest.raises(DataError, match="written by Dataset"):
        Dataset.load(tmp_path / "bad.npz")


def test_old_numpy_pickles_are_understood(tmp_path: Path) -> None:
    rows = np.empty((2, 5), dtype=object)
    for t in range(2):
        rows[t] = [np.array([1.5]), np.array([2.5]), 3.5, np.array([4.5]), np.bool_(t)]
    outer = np.empty(1, dtype=object)
    outer[0] = rows
    pickled = pickle.dumps(outer, protocol=2)
    old = pickled.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert old != pickled
    data = Dataset.load(raw_npy(tmp_path / "old.npy", old))
    assert data.next_observations.tolist() == [[4.5], [4.5]]
    assert data.terminations.tolist() == [False, True]


@pytest.mark.parametrize(
    ("suffix", "module", "extra"),
    [(".parquet", "pyarrow", "data"), (".h5", "h5py", "data")],
)
def test_a_missing_package_names_its_extra(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    module: str,
    extra: str,
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / f"data{suffix}").write_bytes(b"")
    with pytest.raises(MissingExtraError, match=rf"nopg\[{extra}\]"):
        Dataset.load(tmp_path / f"data{suffix}")

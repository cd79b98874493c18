"""Small files that would fill the memory, each read by a child that has little."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from nopg.data import Dataset
from nopg.errors import DataError
from tests.data.io.test_hostile_files import arrays

CAP = 2**30
"""Bytes of address space that a child has beyond what its imports take."""
CHILD = """
import resource, sys
import h5py, pyarrow.parquet, pyarrow.dataset, minari
from nopg.data import Dataset
from nopg.errors import DataError
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    print("read", len(Dataset.load(sys.argv[1], max_bytes=2**28)))
except DataError as error:
    print("refused", error)
"""


def read_by_a_child(path: Path) -> str:
    """What a process with a capped memory says of a file."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs Linux")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(path), str(CAP)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.strip()


def test_a_text_named_in_every_row_of_a_parquet_file(tmp_path: Path) -> None:
    """80 KB that were 4 GB: one word of 64 KB in 65,536 rows."""
    import pyarrow
    from pyarrow import parquet

    n = 65_536
    word = pyarrow.array(["a" * 2**16])
    episode = pyarrow.DictionaryArray.from_arrays(np.zeros(n, np.int32), word)
    x, zero = np.arange(n) / n, np.zeros(n)
    table = pyarrow.table({"x": x, "u": x, "r": zero, "episode": episode})
    path = tmp_path / "log.parquet"
    parquet.write_table(table.select(["u", "r", "episode", "x"]), path)
    assert path.stat().st_size < 2**21
    assert read_by_a_child(path).startswith("read 65535")


def test_a_parquet_column_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "log.parquet"
    n = 1500
    episode = [f"{i:04d}" + "a" * 200_000 for i in range(n)]
    table = pyarrow.table(
        {"x": np.zeros(n), "u": np.zeros(n), "r": np.zeros(n), "episode": episode}
    )
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 2**21
    assert "must unpack to at most" in read_by_a_child(path)


def _bomb(n_megabytes: int) -> bytes:
    packing = zlib.compressobj(9)
    first = packing.compress(bytes(2**20)) + packing.flush(zlib.Z_FULL_FLUSH)
    again = packing.compress(bytes(2**20)) + packing.flush(zlib.Z_FULL_FLUSH)
    return first + again * n_megabytes  # a megabyte that stands for itself


@pytest.mark.parametrize("n_filters", [1, 2])
def test_a_chunk_of_hdf5_that_does_not_end(tmp_path: Path, n_filters: int) -> None:
    """1.5 MB that were 1.5 GB: the library unpacks all before it looks at the size."""
    import h5py

    path = tmp_path / "log.h5"
    with h5py.File(path, "w") as file:
        for name, array in arrays().items():
            if name != "rewards":
                file.create_dataset(name, data=array)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        for _ in range(n_filters):
            plist.set_deflate(9)
        kind, space = h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4,))
        made = h5py.h5d.create(file.id, b"rewards", kind, space, plist)
        packed = _bomb(1500) if n_filters == 1 else zlib.compress(_bomb(1500))
        made.write_direct_chunk((0,), packed)
    assert path.stat().st_size < 2**22
    said = read_by_a_child(path)
    assert ("it goes on" if n_filters == 1 else "must have gzip or lzf alone") in said


def test_honest_chunks_are_read(tmp_path: Path) -> None:
    """Zeros pack as well as a bomb does."""
    import h5py

    n = 300_000
    big = {name: np.zeros((n, *a.shape[1:]), a.dtype) for name, a in arrays().items()}
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name, array in big.items():
            shuffled = {"shuffle": True, "fletcher32": True, "compression": "gzip"}
            file.create_dataset(name, data=array, chunks=array.shape, **shuffled)
    assert len(Dataset.load(tmp_path / "log.h5")) == n


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from tests.data.io.test_minari_files import make

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    make("lab/arm-v0", [3, 5])
    return tmp_path / "lab" / "arm-v0" / "data"


def test_minari_rows_outside_hdf5_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.data.io.test_minari_files import make

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    make("lab/arm-v0", [3, 5], data_format="arrow")
    with pytest.raises(DataError, match="kept as arrow, only HDF5 is read"):
        Dataset.load("lab/arm-v0")


@pytest.mark.parametrize("steps", [-5, 10**12])
def test_minari_totals_are_not_believed(arm: Path, steps: int) -> None:
    about = json.loads((arm / "metadata.json").read_text())
    (arm / "metadata.json").write_text(json.dumps(about | {"total_steps": steps}))
    if steps < 0:
        # Whatever it declares, what is there is counted.
        with pytest.raises(DataError, match="must unpack to at most 500 bytes"):
            Dataset.load(arm, max_bytes=500)
    else:
        with pytest.raises(DataError, match="must unpack to at most"):
            Dataset.load(arm)


def test_minari_folders_lead_nowhere_else(arm: Path, tmp_path: Path) -> None:
    file = next(arm.rglob("*.hdf5"))
    elsewhere = tmp_path / "secret.hdf5"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    with pytest.raises(DataError, match="without links"):
        Dataset.load(arm)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(DataError, match="no ordinary file"):
        Dataset.load(arm)


def test_memory_is_capped_in_these_tests(tmp_path: Path) -> None:
    assert resource.RLIMIT_AS is not None
    data = Dataset(**arrays())
    data.save(tmp_path / "log.npz")
    assert read_by_a_child(tmp_path / "log.npz") == "read 4"


@pytest.mark.parametrize("does_footer_lie", [False, True])
def test_lists_of_parquet_that_say_one_number_a_billion_times(
    tmp_path: Path, does_footer_lie: bool
) -> None:
    """A few KB that were 400 MB: equal numbers of a list are stored as one and a count.

    Where the footer tells of fewer, the pages are unpacked all the same.
    """
    import pyarrow
    from pyarrow import parquet

    n, folder = 2**24, tmp_path / "arm"
    (folder / "meta").mkdir(parents=True)
    (folder / "data").mkdir()
    names = ["observation.state", "action", "next.reward"]
    features = {name: {"dtype": "float64", "shape": [1]} for name in names}
    (folder / "meta" / "info.json").write_text(json.dumps({"features": features}))
    lists = pyarrow.ListArray.from_arrays([0, n], pyarrow.array(np.zeros(n)))
    table = pyarrow.table({"observation.state": lists, "action": [0.5], "r": [0.0]})
    table = table.rename_columns(names)
    path = folder / "data" / "e.parquet"
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(3):
            writer.write_table(table)
    content = path.read_bytes()
    assert len(content) < 2**18
    if does_footer_lie:
        start = content.rindex(b"observation.state")
        path.write_bytes(content[:start] + content[start:].replace(varint(n), b"\x82\x80\x80\0"))
        assert path.read_bytes() != content
    assert "must unpack to at most" in read_by_a_child(folder)


def varint(number: int) -> bytes:
    """How Thrift writes a number of four bytes, folded."""
    folded = 2 * number
    return bytes([(folded >> 7 * i & 127) | (128 if i < 3 else 0) for i in range(4)])

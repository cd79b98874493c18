"""Finds the reader or writer for a file by its name; each lives in its own module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nopg.data.io.reading import Reading
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

SUFFIXES = (".npz", ".csv", ".csv.gz", ".tsv", ".parquet", ".h5", ".hdf5", ".npy")
"""The file names that `load` understands."""


def load(source: str | Path, reading: Reading) -> Dataset:
    """Read a file, a Minari folder or a local Minari dataset by its id.

    Raises:
        DataError: If the source is missing, damaged or of an unknown kind.
    """
    path = Path(source)
    name = path.name.lower()
    if path.is_dir() or (not path.exists() and not _has_known_suffix(name)):
        from nopg.data.io.minari_files import is_minari_id, read_minari

        if path.is_dir() or is_minari_id(str(source)):
            return read_minari(source, reading)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")):
        return _load_table(path, name, reading)
    if name.endswith(".npz"):
        from nopg.data.io.npz import read_npz

        return read_npz(path, reading)
    if name.endswith((".h5", ".hdf5")):
        from nopg.data.io.hdf5_files import read_hdf5

        return read_hdf5(path, reading)
    if name.endswith(".npy"):
        from nopg.data.io.object_npy import read_object_npy

        return read_object_npy(path, reading)
    raise _unknown(source)


def _load_table(path: Path, name: str, reading: Reading) -> Dataset:
    from nopg.data.io.tables import TableSource, dataset_from

    source: TableSource
    if name.endswith(".parquet"):
        from nopg.data.io.parquet_files import ParquetTable

        source = ParquetTable(path, reading)
    else:
        from nopg.data.io.csv_files import CsvFile

        source = CsvFile(path, reading)
    return dataset_from(source, reading)


def save(dataset: Dataset, path: str | Path) -> None:
    """Write `dataset` in the format that the name of `path` asks for.

    Raises:
        DataError: If the name asks for no known format.
    """
    target = Path(path)
    name = target.name.lower()
    if name.endswith(".npz"):
        from nopg.data.io.npz import write_npz

        write_npz(dataset, target)
    elif name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        from nopg.data.io.csv_files import write_csv

        write_csv(dataset, target)
    elif name.endswith(".parquet"):
        from nopg.data.io.parquet_files import write_parquet

        write_parquet(dataset, target)
    elif name.endswith((".h5", ".hdf5")):
        from nopg.data.io.hdf5_files import write_hdf5

        write_hdf5(dataset, target)
    else:
        from nopg.data.io.minari_files import is_minari_id
        from nopg.data.io.minari_writer import write_minari

        if not is_minari_id(str(path)):
            raise _unknown(path)
        write_minari(dataset, str(path))


def _has_known_suffix(name: str) -> bool:
    return name.endswith((*SUFFIXES, ".tsv.gz"))


def _unknown(source: str | Path) -> DataError:
    return DataError(
        f"`{source}` must be a file ending in {', '.join(SUFFIXES)}, or a Minari "
        "dataset by folder or by an id such as lab/arm-v0; it is none of these."
    )

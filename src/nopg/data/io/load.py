"""Finds the reader or writer for a file by its name; each lives in its own module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nopg.data.io.csv_files import CsvFile, write_csv
from nopg.data.io.hdf5_files import read_hdf5, write_hdf5
from nopg.data.io.minari_files import is_minari_id, read_minari, write_minari
from nopg.data.io.npz import read_npz, write_npz
from nopg.data.io.options import ReadOptions
from nopg.data.io.parquet_files import ParquetFile, write_parquet
from nopg.data.io.tables import TableSource, table_arguments
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
HDF5 = (".h5", ".hdf5")
SUFFIXES = (".npz", *TEXT, ".parquet", *HDF5)
"""The file names that `load` understands."""


def load(source: str | Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from a file, a Minari folder or a Minari id.

    Raises:
        DataError: If the source is missing, damaged or of an unknown kind.
    """
    path = Path(source)
    name = path.name.lower()
    if path.is_dir() or (is_minari_id(str(source)) and not path.exists()):
        return read_minari(source, options)
    if not name.endswith(SUFFIXES):
        raise _unknown(source)
    if not path.is_file():
        found = "something else" if path.exists() else "no such file"
        raise DataError(f"`{path}` must be a file, found {found}; check the path.")
    if name.endswith(".npz"):
        return read_npz(path, options)
    if name.endswith(HDF5):
        return read_hdf5(path, options)
    is_text = name.endswith(TEXT)
    table: TableSource = (CsvFile if is_text else ParquetFile)(path, options)
    return table_arguments(table, options)


def save(table: TransitionTable, path: str | Path) -> None:
    """Write `table` in the format that the name of `path` asks for.

    Raises:
        DataError: If the name asks for no known format.
    """
    target = Path(path)
    name = target.name.lower()
    if name.endswith(".npz"):
        write_npz(table, target)
    elif name.endswith(TEXT):
        write_csv(table, target)
    elif name.endswith(".parquet"):
        write_parquet(table, target)
    elif name.endswith(HDF5):
        write_hdf5(table, target)
    elif is_minari_id(str(path)):
        write_minari(table, str(path))
    else:
        raise _unknown(path)


def _unknown(source: str | Path) -> DataError:
    advice = "it is none of these"
    if Path(source).suffix.lower() == ".npy":
        advice = "save the arrays by name with numpy.savez instead of numpy.save"
    return DataError(
        f"`{source}` must be a file ending in {', '.join(SUFFIXES)}, or a Minari "
        f"dataset by folder or by an id such as lab/arm-v0; {advice}."
    )

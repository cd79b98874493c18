"""Finds the reader for a file by its name; each lives in its own module."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nopg.data.io.array_files import read_hdf5, read_npz
from nopg.data.io.csv_files import CsvFile
from nopg.data.io.lerobot_files import INFO, read_lerobot
from nopg.data.io.matlab_files import matlab_table
from nopg.data.io.mcap_files import McapFile
from nopg.data.io.minari_files import MINARI_ID, read_minari
from nopg.data.io.options import ReadOptions
from nopg.data.io.parquet_files import ParquetFile
from nopg.data.io.tables import TableSource, table_arguments
from nopg.errors import DataError

Reader = Callable[[Path, ReadOptions], dict[str, Any]]


def _table(source: Callable[[Path, ReadOptions], TableSource]) -> Reader:
    return lambda path, options: table_arguments(source(path, options), options)


READERS: dict[str, Reader] = {
    ".npz": read_npz,
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _table(CsvFile)),
    ".parquet": _table(ParquetFile),
    **dict.fromkeys((".h5", ".hdf5"), read_hdf5),
    ".mat": _table(matlab_table),
    ".mcap": _table(McapFile),
}  # by how the name of a file ends


def load(source: str | Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from a file, a folder or a Minari id."""
    path = Path(source)
    if (path / INFO).is_file():
        return read_lerobot(path, options)
    if path.is_dir() or (MINARI_ID.fullmatch(str(source)) and not path.exists()):
        return read_minari(source, options)
    read = next((r for end, r in READERS.items() if path.name.lower().endswith(end)), None)
    if read is None:
        advice = "rename or convert it (Minari datasets are read by folder or id)"
        if path.suffix.lower() == ".npy":
            advice = "save the arrays by name with numpy.savez instead of numpy.save"
        raise DataError(f"A data file must end in {', '.join(READERS)}, got `{path}`; {advice}.")
    if not path.is_file():
        found = "something else" if path.exists() else "no such file"
        raise DataError(f"`{path}` must be a file, found {found}; check the path.")
    return read(path, options)

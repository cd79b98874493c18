"""Finds the reader or writer for a file by its name; each lives in its own module."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nopg.data.io.array_files import read_hdf5, read_npz, write_hdf5, write_npz
from nopg.data.io.csv_files import CsvFile, write_csv
from nopg.data.io.lerobot_files import INFO, read_lerobot
from nopg.data.io.matlab_files import matlab_table
from nopg.data.io.mcap_files import McapFile
from nopg.data.io.minari_files import is_minari_id, read_minari
from nopg.data.io.options import ReadOptions
from nopg.data.io.parquet_files import ParquetFile, write_parquet
from nopg.data.io.tables import TableSource, table_arguments
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError

Reader = Callable[[Path, ReadOptions], dict[str, Any]]
Writer = Callable[[TransitionTable, Path], None]
_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def _table(source: Callable[[Path, ReadOptions], TableSource]) -> Reader:
    return lambda path, options: table_arguments(source(path, options), options)


READ_ONLY: dict[str, Reader] = {".mat": _table(matlab_table), ".mcap": _table(McapFile)}
"""How to read a file that others write."""
FORMATS: dict[str, tuple[Reader, Writer]] = {
    ".npz": (read_npz, write_npz),
    **dict.fromkeys(_TEXT, (_table(CsvFile), write_csv)),
    ".parquet": (_table(ParquetFile), write_parquet),
    **dict.fromkeys((".h5", ".hdf5"), (read_hdf5, write_hdf5)),
}
"""How to read and write a file, by how its name ends."""


def load(source: str | Path, options: ReadOptions) -> dict[str, Any]:
    """The arguments of `Dataset` from a file, a folder or a Minari id."""
    path = Path(source)
    if (path / INFO).is_file():
        return read_lerobot(path, options)
    if path.is_dir() or (is_minari_id(str(source)) and not path.exists()):
        return read_minari(source, options)
    other = READ_ONLY.get(path.suffix.lower())
    read = _format(path)[0] if other is None else other
    if not path.is_file():
        found = "something else" if path.exists() else "no such file"
        raise DataError(f"`{path}` must be a file, found {found}; check the path.")
    return read(path, options)


def save(table: TransitionTable, path: str | Path) -> None:
    """Write `table` in the format that the name of `path` asks for."""
    _, write = _format(Path(path))
    write(table, Path(path))


def _format(path: Path) -> tuple[Reader, Writer]:
    for suffix, found in FORMATS.items():
        if path.name.lower().endswith(suffix):
            return found
    advice = "rename or convert it (Minari datasets are read by folder or id)"
    if path.suffix.lower() == ".npy":
        advice = "save the arrays by name with numpy.savez instead of numpy.save"
    known = ", ".join((*FORMATS, *READ_ONLY))
    raise DataError(
        f"The name of a data file must end in {known}, got `{path}`; {advice}."
    )

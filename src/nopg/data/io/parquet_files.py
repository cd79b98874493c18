"""Parquet files, through pyarrow.

pandas reads Parquet through pyarrow as well, and polars brings a reader of its
own size; pyarrow alone streams a file batch by batch without either. A million
rows of eight columns (50 MB) take 0.4 s and under 200 MiB beyond the arrays.
Names, spaces and notes live in the file's own metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nopg.data.extras import require_extra
from nopg.data.files import write_atomically
from nopg.data.io.about import parse_about
from nopg.data.io.cells import cells_for
from nopg.data.io.flat import as_columns, table_about
from nopg.data.io.progress import bar
from nopg.data.io.reading import Reading
from nopg.data.io.tables import Kind, Table
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

_ROWS_AT_ONCE = 65_536
_KEY = b"nopg"


class ParquetTable:
    """A Parquet file with flat columns.

    Args:
        path: The file.
        reading: Limits and whether to show progress.

    Raises:
        DataError: If it cannot be opened as Parquet.
    """

    def __init__(self, path: Path, reading: Reading) -> None:
        types = require_extra("pyarrow.types", "data")
        self._path, self._reading = path, reading
        with self._open() as file:
            schema = file.schema_arrow
            self._n_rows = int(file.metadata.num_rows)
        self.names = tuple(str(name) for name in schema.names)
        self.numeric = frozenset(
            str(field.name)
            for field in schema
            if types.is_integer(field.type) or types.is_floating(field.type)
        )
        self.about = parse_about((schema.metadata or {}).get(_KEY))

    def read(self, kinds: Mapping[str, Kind]) -> Table:
        """The columns named in `kinds`, a batch of rows at a time."""
        self._reading.require_size(8 * self._n_rows * len(kinds), self._path)
        chunks: dict[str, list[Any]] = {name: [] for name in kinds}
        with self._open() as file, bar(self._path, self._reading.progress) as progress:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(kinds)):
                for name in kinds:
                    chunks[name].append(batch.column(name))
                progress.update(progress.total * batch.num_rows // max(self._n_rows, 1))
            progress.update(progress.total - progress.n)
            whole = {field.name for field in file.schema_arrow if _is_whole(field.type)}
            columns, notes = {}, []
            for name, kind in kinds.items():
                columns[name], note = _convert(name, kind, chunks.pop(name))
                notes += [note] if note else []
        return Table(columns, frozenset(whole & set(kinds)), tuple(notes))

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """The open file; whatever arrow finds wrong becomes one sentence."""
        arrow = require_extra("pyarrow", "data")
        parquet = require_extra("pyarrow.parquet", "data")
        try:
            with parquet.ParquetFile(self._path) as file:
                yield file
        except FileNotFoundError:
            raise DataError(
                f"`{self._path}` must exist, found no such file; check the path."
            ) from None
        except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"`{self._path}` must be a Parquet file with flat columns of numbers, "
                f"reading it failed ({_first_line(error)}); write it again."
            ) from None


def _is_whole(kind: Any) -> bool:
    return bool(require_extra("pyarrow.types", "data").is_integer(kind))


def _convert(name: str, kind: Kind, chunks: list[Any]) -> tuple[NDArray[Any], str]:
    """One column as numbers, flags or labels, and a sentence if it was renumbered."""
    types = require_extra("pyarrow.types", "data")
    if chunks and types.is_dictionary(chunks[0].type):
        chunks = [chunk.dictionary_decode() for chunk in chunks]
    if kind == "label" and any(chunk.null_count for chunk in chunks):
        raise DataError(
            f"Column {name!r} must hold an episode in every row, some are empty; fill "
            "them or choose another column."
        )
    arrow_type = chunks[0].type if chunks else None
    is_number = arrow_type is None or (
        types.is_integer(arrow_type) or types.is_floating(arrow_type)
    )
    if arrow_type is not None and (
        types.is_string(arrow_type) or (types.is_large_string(arrow_type))
    ):
        cells, before = cells_for(kind, name), 0
        for chunk in chunks:
            cells.add([text or "" for text in chunk.to_pylist()], before)
            before += len(chunk)
        return cells.array(), cells.note
    if not (is_number or types.is_boolean(arrow_type)):
        raise DataError(
            f"Column {name!r} must hold numbers, it holds {arrow_type}; choose other "
            "columns."
        )
    wanted = "int64" if kind == "label" else "float64"
    parts = [
        np.asarray(
            chunk.cast("int64" if types.is_boolean(arrow_type) else arrow_type)
            .cast(wanted)
            .to_numpy(zero_copy_only=False)
        )
        for chunk in chunks
    ]
    values = np.concatenate(parts) if parts else np.empty(0)
    return (_as_flags(name, values), "") if kind == "flag" else (values, "")


def _as_flags(name: str, values: NDArray[Any]) -> NDArray[Any]:
    known = np.nan_to_num(values)
    if not np.isin(known, (0.0, 1.0)).all():
        raise DataError(
            f"Column {name!r} must hold true or false (or 1 and 0), it holds other "
            "numbers; choose another column."
        )
    return np.asarray(known, dtype=bool)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def write_parquet(dataset: Dataset, path: Path) -> None:
    """Write every column under its name, and the rest into the file's metadata."""
    arrow = require_extra("pyarrow", "data")
    parquet = require_extra("pyarrow.parquet", "data")
    table = arrow.table(as_columns(dataset))
    about = json.dumps(table_about(dataset)).encode()
    table = table.replace_schema_metadata({_KEY: about})

    def write(stream: BinaryIO) -> None:
        parquet.write_table(table, stream)

    write_atomically(path, write)

"""Tables in memory: a dictionary of columns, or a pandas or polars data frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.data.io.cells import cells_for
from nopg.data.io.reading import Reading
from nopg.data.io.tables import Kind, Table, dataset_from
from nopg.errors import DataError


class MemoryTable:
    """Columns that are already arrays, whatever holds them."""

    about: dict[str, Any] | None = None

    def __init__(self, table: Any) -> None:
        names = getattr(table, "columns", None)
        names = list(table) if names is None else list(names)
        self._columns = {str(name): np.asarray(table[name]) for name in names}
        self.names = tuple(self._columns)
        self.numeric = frozenset(
            name for name, column in self._columns.items() if column.dtype.kind in "iuf"
        )
        lengths = {name: column.shape for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1 or any(len(s) != 1 for s in lengths.values()):
            raise DataError(
                f"The columns of a table must be vectors of one length, got {lengths}; "
                "pass one name a column."
            )

    def read(self, kinds: Mapping[str, Kind]) -> Table:
        """The columns named in `kinds`, each converted to its kind."""
        arrays, notes = {}, []
        for name, kind in kinds.items():
            arrays[name], note = _converted(name, kind, self._columns[name])
            notes += [note] if note else []
        whole = {name for name in kinds if self._columns[name].dtype.kind in "iu"}
        return Table(arrays, frozenset(whole), tuple(notes))


def _converted(name: str, kind: Kind, column: NDArray[Any]) -> tuple[NDArray[Any], str]:
    if column.dtype.kind in "biuf" and kind == "number":
        return column.astype(np.float64), ""
    if column.dtype.kind in "iu" and kind == "label":
        return column.astype(np.int64), ""
    cells = cells_for(kind, name)
    cells.add([str(value) for value in column.tolist()], 0)
    return cells.array(), cells.note


def from_table(table: Any, **reading: Any) -> Dataset:
    """Transitions from a data frame or a dictionary of columns.

    Args:
        table: A pandas or polars data frame, or a mapping from names to vectors.
        reading: The column names and options of `Dataset.load`.

    Raises:
        DataError: If columns are missing or do not hold what their part needs.
    """
    settings = Reading(**reading)
    return dataset_from(MemoryTable(table), settings)

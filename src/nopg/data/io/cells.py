"""Text cells become numbers, flags or labels; what is neither is named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.io.tables import Kind
from nopg.errors import DataError

_EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none"})
_FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0", *_EMPTY), False),
}


class Cells(ABC):
    """One column under construction, a chunk of text cells at a time."""

    is_whole = False
    note = ""

    def __init__(self, name: str) -> None:
        self._name = name
        self._chunks: list[NDArray[Any]] = []

    @abstractmethod
    def add(self, cells: Sequence[str], before: int) -> None:
        """Convert one chunk; `before` rows came earlier."""

    def array(self) -> NDArray[Any]:
        """The whole column, (m,)."""
        chunks, self._chunks = self._chunks, []
        return np.concatenate(chunks) if chunks else np.empty(0)

    def refuse(self, cell: str, row: int, what: str) -> DataError:
        """The error that names the cell, its row (from 1) and its column."""
        shown = cell if len(cell) <= 30 else cell[:27] + "..."
        return DataError(
            f"Column {self._name!r} must hold {what}, row {row} has {shown!r}; correct "
            "the cell or choose other columns."
        )


class Numbers(Cells):
    """Numbers; empty cells become NaN."""

    is_whole = True

    def add(self, cells: Sequence[str], before: int) -> None:
        """Convert a chunk, quickly if it is clean."""
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            values = np.array(
                [self._number(c, before + i) for i, c in enumerate(cells)]
            )
        # Python reads "1_000" as a number; nobody's logger writes that.
        if "_" in "".join(cells):
            row = next(i for i, cell in enumerate(cells) if "_" in cell)
            raise self.refuse(cells[row], before + row + 1, "numbers")
        known = values[~np.isnan(values)]
        if self.is_whole and (known == np.round(known)).all():
            signs = str.maketrans("", "", "+-")
            self.is_whole = all(
                cell.strip().translate(signs).isdigit()
                or cell.strip().lower() in _EMPTY
                for cell in cells
            )
        else:
            self.is_whole = False
        self._chunks.append(values)

    def _number(self, cell: str, row: int) -> float:
        if cell.strip().lower() in _EMPTY:
            return float("nan")
        try:
            return float(cell)
        except ValueError:
            raise self.refuse(cell, row + 1, "numbers") from None


class Flags(Cells):
    """True and false, in the spellings loggers use; empty cells are false."""

    def add(self, cells: Sequence[str], before: int) -> None:
        """Convert a chunk of spellings."""
        meaning = {cell: _FLAGS.get(cell.strip().lower()) for cell in set(cells)}
        for row, cell in enumerate(cells if None in meaning.values() else ()):
            if meaning[cell] is None:
                raise self.refuse(cell, before + row + 1, "true or false")
        self._chunks.append(np.array([meaning[cell] for cell in cells], dtype=bool))


class Labels(Cells):
    """Names of episodes: whole numbers stay, other text is numbered as it appears."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._numbers: dict[str, int] = {}

    def add(self, cells: Sequence[str], before: int) -> None:
        """Number each cell by the first appearance of its text."""
        numbers = self._numbers
        if any(not cell.strip() for cell in set(cells)):
            row = [cell.strip() for cell in cells].index("")
            raise self.refuse("", before + row + 1, "an episode in every row")
        for cell in dict.fromkeys(cells):
            numbers.setdefault(cell.strip(), len(numbers))
        code = {cell: numbers[cell.strip()] for cell in set(cells)}
        self._chunks.append(np.array([code[cell] for cell in cells], dtype=np.int64))

    def array(self) -> NDArray[Any]:
        """Integer ids, (m,)."""
        codes = super().array().astype(np.int64)
        try:
            ids = np.array([_whole(text) for text in self._numbers], dtype=np.int64)
        except ValueError:
            self.note = (
                f"The {len(self._numbers)} different texts in column {self._name!r} "
                "were numbered 0, 1, 2, ... in order of appearance."
            )
            return codes
        return ids[codes] if len(ids) else codes


def _whole(text: str) -> int:
    """The integer that `text` writes, also as `3.0`; ValueError if it is none."""
    try:
        value = int(text)
    except ValueError:
        number = float(text)
        if not abs(number) < 2**53 or number != round(number):
            raise ValueError(text) from None
        value = int(number)
    if "_" in text or not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return value


def cells_for(kind: Kind, name: str) -> Cells:
    """An empty column of the given kind."""
    if kind == "number":
        return Numbers(name)
    return Flags(name) if kind == "flag" else Labels(name)

"""Cells of a table become numbers, flags or labels; what is neither is named."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nopg.data.validation import IntArray
from nopg.errors import DataError

Kind = Literal["number", "flag", "label", "time"]
_WHAT = {
    "number": "numbers",
    "flag": "true or false (or 1 and 0)",
    "label": "an episode in every row",
    "time": "numbers, or dates and times as 2024-01-31T12:00:00.5",
}
_EMPTY = frozenset({"", "na", "n/a", "nan", "nat", "null", "none"})
_FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0", *_EMPTY), False),
}


class TableColumn:
    """A column as it is read: numbers with NaN for empty cells, flags or labels."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.is_whole = kind == "number"  # whether every number so far was written as whole
        self._name, self._kind = name, kind
        self._chunks: list[NDArray[Any]] = []
        self._n_rows = 0

    def add(self, cells: Sequence[Any]) -> None:
        """Convert the cells of the next rows, quickly if they are numbers already."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
            converted = self._from_array(cells)
        elif isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            seconds = cells.astype("datetime64[ns]").astype(np.int64) / 1e9
            converted = np.where(np.isnat(cells), np.nan, seconds)
        else:
            texts = ["" if c is None else str(c).strip() for c in cells]
            of = {"flag": self._flags, "label": self._labels}
            converted = of.get(self._kind, self._numbers)(texts)
        self._chunks.append(converted)
        self._n_rows += len(cells)

    def array(self) -> tuple[NDArray[Any], tuple[str, ...]]:
        """The whole column, (m,), and a sentence if texts were numbered."""
        column: NDArray[Any] = np.concatenate(self._chunks or [np.empty(0)])
        if column.dtype != object:
            return column, ()
        ids, are_numbers = _numbered(column.tolist())
        note = (
            f"The {len(np.unique(ids))} different texts in column {self._name!r} were "
            "numbered 0, 1, 2, ... in order of appearance."
        )
        return ids, () if are_numbers else (note,)

    def _from_array(self, cells: NDArray[Any]) -> NDArray[Any]:
        if self._kind in ("number", "time"):
            self.is_whole = self.is_whole and cells.dtype.kind in "iu"
            return cells.astype(np.float64)
        given: NDArray[Any] = np.nan_to_num(cells) if self._kind == "flag" else cells
        with np.errstate(invalid="ignore"):
            converted = given.astype(bool if self._kind == "flag" else np.int64)
        if not (converted == given).all():
            row = int(np.argmin(converted == given))
            raise self._refusal(str(cells[row]), row)
        return converted

    def _numbers(self, texts: list[str]) -> NDArray[Any]:
        """Numbers as they are, dates as seconds since 1970, NaN for empty cells."""
        one = self._time if self._kind == "time" else self._number
        try:
            values = np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            values = np.array([one(text, i) for i, text in enumerate(texts)])
        # Python reads "1_000" as a number; nobody's logger writes that.
        if "_" in "".join(texts):
            row = next(i for i, text in enumerate(texts) if "_" in text)
            raise self._refusal(texts[row], row)
        digits = (text.lstrip("+-").isdigit() or text.lower() in _EMPTY for text in texts)
        self.is_whole = self.is_whole and all(digits)
        return values

    def _number(self, text: str, row: int) -> float:
        try:
            return float("nan" if text.lower() in _EMPTY else text)
        except ValueError:
            raise self._refusal(text, row) from None

    def _time(self, text: str, row: int) -> float:
        try:
            date = datetime.fromisoformat(text)
            # A clock without a zone never jumps, so it is taken for UTC.
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            return self._number(text, row)

    def _flags(self, texts: list[str]) -> NDArray[Any]:
        meaning = {text: _FLAGS.get(text.lower()) for text in set(texts)}
        if None in meaning.values():
            row = next(i for i, text in enumerate(texts) if meaning[text] is None)
            raise self._refusal(texts[row], row)
        return np.array([meaning[text] for text in texts], dtype=bool)

    def _labels(self, texts: list[str]) -> NDArray[Any]:
        if "" in texts:
            raise self._refusal("", texts.index(""))
        return np.array(texts, dtype=object)

    def _refusal(self, cell: str, row: int) -> DataError:
        shown = cell if len(cell) <= 30 else cell[:27] + "..."
        instead = " or pass time=''" if self._kind == "time" else ""
        return DataError(
            f"Column {self._name!r} must hold {_WHAT[self._kind]}, row {self._n_rows + row + 1} "
            f"has {shown!r}; correct the cell or choose other columns{instead}."
        )


def _numbered(labels: list[str]) -> tuple[IntArray, bool]:
    """An integer per label: its own if all are written so, else as they appear."""
    distinct = list(dict.fromkeys(labels))
    try:
        ids = np.array([int(text) for text in distinct], dtype=np.int64)
    except (ValueError, OverflowError):
        ids = np.empty(0, dtype=np.int64)
    are_numbers = len(np.unique(ids)) == len(distinct)  # "1" and "01" are two labels
    number = dict(zip(distinct, ids.tolist() if are_numbers else range(len(distinct)), strict=True))
    return np.array([number[text] for text in labels], dtype=np.int64), are_numbers

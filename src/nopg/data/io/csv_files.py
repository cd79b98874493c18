"""CSV files, with the standard library alone: 6 s for a million rows of 8 columns."""

import csv
import gzip
import io
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nopg.data.files import open_plain, reading
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import TableSource
from nopg.errors import DataError

_LONGEST_LINE = 2**20
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # a decimal comma


class CsvFile(TableSource):
    """A CSV file whose first line names its columns."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path, self._options = path, options
        with self._rows() as rows:
            header, first = next(rows, None), next(rows, [])
            seen = itertools.chain(first, *itertools.islice(rows, 100))
            commas = sum(1 for cell in seen if _COMMA.fullmatch(cell.strip()))
        found = "," if commas and self._delimiter != "," else "."
        self._has_commas = (options.decimal or found) == ","
        if self._has_commas:
            self.notes = ("Decimal commas were read.",)
        if header is None:
            raise DataError(f"`{path}` must hold a table, it is empty; check the file.")
        self.names = tuple(name.strip() for name in header)
        if all(_is_number(name) for name in self.names):
            raise DataError(
                f"The first line of `{path}` must name the columns, it holds numbers; add names."
            )
        cells = itertools.zip_longest(self.names, self._pointed(first), fillvalue="")
        self.numeric = frozenset(n for n, cell in cells if _is_number(cell) or not cell.strip())

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """The cells of the columns `names`, some rows at a time."""
        n_rows, width = 0, len(self.names)
        with self._rows() as rows:
            next(rows)
            while chunk := list(itertools.islice(rows, 20_000)):
                for found in map(len, chunk):
                    n_rows += 1
                    if found != width:
                        raise DataError(
                            f"Every row of `{self._path}` must have {width} cells as its header "
                            f"does, row {n_rows} has {found}; repair it."
                        )
                self._options.require_size(8 * n_rows * len(names), self._path)
                by_name = dict(zip(self.names, zip(*chunk, strict=True), strict=True))
                yield {name: self._pointed(by_name[name]) for name in names}

    def _pointed(self, cells: Sequence[str]) -> Sequence[str]:
        return [cell.replace(",", ".") for cell in cells] if self._has_commas else cells

    @contextmanager
    def _rows(self) -> Iterator[Iterator[list[str]]]:
        """The rows that are not blank; damage becomes one sentence."""
        with (
            reading(self._path, "a CSV file in UTF-8", "save it again as CSV"),
            open_plain(self._path, follow=True) as raw,
        ):
            stream: Any = gzip.GzipFile(fileobj=raw) if self._path.suffix.lower() == ".gz" else raw
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            header, self._delimiter = text.readline(_LONGEST_LINE), "\t"
            if not self._path.name.lower().endswith((".tsv", ".tsv.gz")):
                self._delimiter = max((",", ";", "\t", "|"), key=header.count)
            text.seek(0)
            lines = _lines(text, self._path, 4 * self._options.max_bytes)
            yield filter(None, csv.reader(lines, delimiter=self._delimiter))
            text.detach()


def _lines(text: io.TextIOWrapper, path: Path, most: int) -> Iterator[str]:
    """Lines of bounded length and sum, so that no file can fill the memory."""
    total = 0
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith("\n"):
            raise DataError(
                f"Lines of `{path}` must have under {_LONGEST_LINE:,} characters; is this a CSV?"
            )
        total += len(line)
        if total > most:
            raise DataError(
                f"`{path}` must unpack to at most {most:,} characters; raise `max_bytes` if it may."
            )
        yield line


def _is_number(cell: str) -> bool:
    try:
        return not math.isnan(float(cell))
    except ValueError:
        return False

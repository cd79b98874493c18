"""Parquet files, through pyarrow.

A page of thirty bytes may stand for a billion equal values, and pyarrow unpacks it. So headers of
columns and of pages, which need not agree, are read here first.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nopg.data.files import open_plain, reading
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import TableSource
from nopg.errors import require_extra


class ParquetFile(TableSource):
    """A Parquet file with flat columns."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        types = require_extra("pyarrow.types", "data")
        self._path, self._options = path, options
        with self._open() as file:
            schema = file.schema_arrow
        self.names = tuple(str(name) for name in schema.names)
        numeric = (f for f in schema if types.is_integer(f.type) or types.is_floating(f.type))
        self.numeric = frozenset(str(field.name) for field in numeric)

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """The cells of the columns `names`, a batch of rows at a time."""
        with self._open([name for name in names if name not in self.numeric]) as file:
            with open_plain(self._path, follow=True) as stream:
                self._options.require_size(unpacked_bytes(stream, names), self._path)
            for batch in file.iter_batches(65_536, columns=list(names)):
                yield {name: _cells(batch.column(name)) for name in names}

    @contextmanager
    def _open(self, texts: Sequence[str] = ()) -> Iterator[Any]:
        """The open file; whatever arrow finds wrong becomes one sentence."""
        parquet = require_extra("pyarrow.parquet", "data")
        with (
            reading(self._path, "a Parquet file with flat columns of numbers", "write it again"),
            parquet.ParquetFile(self._path, read_dictionary=list(texts)) as file,
        ):
            yield file


def _cells(column: Any) -> Any:
    """An array of numbers where arrow has one, else Python objects."""
    if not hasattr(column, "dictionary"):
        return column.to_numpy(zero_copy_only=False)
    words = [*column.dictionary.to_pylist(), None]
    indices = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
    return np.array(words, dtype=object)[indices]  # each word once, named often


_STRUCT, _LONGEST_HEADER = 12, 2**16  # Thrift's code, and longest header of a page
_SOUND = re.compile(rb"(?i)(?!parquet-mr)|parquet-mr version (1\.[3-9]|1\.\d\d|[2-9])")
"""Writers whose columns end where they say: those of others are read on a little."""


def unpacked_bytes(stream: BinaryIO, columns: Sequence[str]) -> int:
    """The most that the values of some columns take, in an open Parquet file."""
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(0, size - 8))
    if not 0 < (length := int.from_bytes(stream.read(4), "little")) <= size - 12:
        raise ValueError("it has no footer")
    stream.seek(size - 8 - length)
    footer = _Thrift(stream.read(length)).value(_STRUCT)
    if not _SOUND.match(writer := footer.get(6, b"")):
        raise ValueError(f"{writer[:40]!r} wrote it, whose columns have no clear end")
    total = 0
    for group in footer[4]:
        for column in (each[3] for each in group[1]):
            if column[3][0].decode() in columns:
                start = min(at for at in (column[9], column.get(11, 0)) if at > 0)
                total += _pages(stream, start, start + column[7])
    return total


def _pages(stream: BinaryIO, at: int, end: int) -> int:
    """Bytes of the pages of one column."""
    total = 0
    while at < end:
        stream.seek(at)
        header = _Thrift(stream.read(_LONGEST_HEADER))
        page = header.value(_STRUCT)
        counts = [page[kind][1] for kind in (5, 7, 8) if kind in page]
        if min(page[2], page[3], *counts) < 0:
            raise ValueError("a page has a negative length")
        total += max(page[2], *(8 * count for count in counts))
        at += header.at + page[3]
    return int(total)


class _Thrift:
    """Values in Thrift's compact protocol; structures by numbers of fields."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def value(self, kind: int) -> Any:
        """The next value, of a kind that the one before it told."""
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            folded = self._number()
            return (folded >> 1) ^ -(folded & 1)
        if kind in (3, 7, 8):
            length = {3: 1, 7: 8}.get(kind) or self._number()
            self.at += length
            return self._content[self.at - length : self.at]
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            inner = 3 if head & 15 in (1, 2) else head & 15  # in lists they are bytes
            return [self.value(inner) for _ in range(count)]
        if kind != _STRUCT:
            raise ValueError(f"a header has a value of kind {kind}")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.value(4)
            fields[number] = self.value(head & 15)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _number(self) -> int:
        found = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise ValueError("a number in a header does not end")

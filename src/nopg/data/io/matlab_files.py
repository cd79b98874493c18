"""MATLAB's .mat files up to version 7, through SciPy.

Every vector of numbers is a column, every matrix one column per column, and so are the
fields of a structure (`log.speed`). What has another length than the log is left out.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.files import open_plain, reading
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import MemoryTable
from nopg.errors import DataError

_HEADER, _PACKED, _PIECE = 128, 15, 2**20
"""Bytes before the first element, the type of packed ones, bytes unpacked at once."""


def matlab_table(path: Path, options: ReadOptions) -> MemoryTable:
    """The numbers of a .mat file as a table."""
    from scipy.io import loadmat

    advice = "save it again with save('log.mat', '-v7')"
    with reading(path, "a .mat file of MATLAB's version 7 or older", advice):
        _require_size(path, options)
        found = loadmat(path, struct_as_record=True, squeeze_me=False)
    columns = dict(_columns(found))
    lengths = Counter(len(column) for column in columns.values())
    if not lengths:
        raise DataError(f"`{path}` must hold vectors of numbers, it holds none.")
    length = max(lengths, key=lambda n: (lengths[n], n))
    others = [name for name, column in columns.items() if len(column) != length]
    note = f"Left out: {', '.join(others)}, not of {length} rows."
    kept = {name: c for name, c in columns.items() if len(c) == length}
    return MemoryTable(kept, (note,) if others else ())


def _columns(found: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
    """Vectors by name; matrices and structures taken apart."""
    for name, value in found.items():
        if name.startswith("__") or not isinstance(value, np.ndarray):
            continue
        if value.dtype.names and value.size == 1:
            fields = {field: value[field].reshape(-1)[0] for field in value.dtype.names}
            yield from _columns(fields, f"{inside}{name}.")
        elif value.dtype.kind in "biuf" and value.ndim == 2 and value.size:
            matrix: NDArray[Any] = value.T if value.shape[0] == 1 else value
            for i, column in enumerate(matrix.T):
                ending = "" if matrix.shape[1] == 1 else f"_{i}"
                yield f"{inside}{name}{ending}", np.ascontiguousarray(column)


def _require_size(path: Path, options: ReadOptions) -> None:
    """Refuse a file whose elements unpack to more than allowed, piece by piece."""
    total = 0
    with open_plain(path, options.max_bytes, follow=True) as stream:
        start = stream.read(_HEADER)
        order = ">" if start[126:128] == b"MI" else "<"
        while len(tag := stream.read(8)) == 8 and start[126:128] in (b"MI", b"IM"):
            kind, size = struct.unpack(f"{order}II", tag)
            if kind != _PACKED:
                total += size
                stream.seek(size, 1)
                continue
            unpacking, packed = zlib.decompressobj(), stream.read(size)
            while packed and not unpacking.eof:
                total += len(unpacking.decompress(packed, _PIECE))
                packed = unpacking.unconsumed_tail
                options.require_size(total, path)

"""MATLAB's .mat files of version 5 to 7: elements of a type, a length and bytes.

SciPy's reader believes lengths: damaged files make it reserve any memory, and end the process.
"""

import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.files import open_plain, reading
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import MemoryTable
from nopg.errors import DataError

_HEADER = 128  # bytes before the first element
_MATRIX, _PACKED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8",
            12: "i8", 13: "u8"}  # fmt: skip
_STRUCTURE, _COMPLEX = 2, 0x800
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4",
            14: "i8", 15: "u8"}  # fmt: skip
"""Classes of matrices, and the flag of one with imaginary parts."""
Matrices = Iterator[tuple[str, NDArray[Any] | None]]  # with their names; None: not of numbers


def matlab_table(path: Path, options: ReadOptions) -> MemoryTable:
    """The numbers of a .mat file as a table."""
    advice = "save it again with save('log.mat', '-v7')"
    with (
        reading(path, "a .mat file of MATLAB's version 5 to 7", advice),
        open_plain(path, options.max_bytes, follow=True) as stream,
    ):
        found = list(_variables(memoryview(stream.read()), path, options))
    columns = {n: column for n, matrix in found for n, column in _columns(n, matrix)}
    if not (lengths := Counter(len(column) for column in columns.values())):
        raise DataError(f"`{path}` must hold vectors of numbers, it holds none; save some.")
    length = max(lengths, key=lambda n: (lengths[n], n))
    others = [name for name, column in columns.items() if len(column) != length]
    others += [name for name, matrix in found if matrix is None]
    note = f"Left out: {', '.join(others)}, not numbers of {length} rows."
    kept = {name: c for name, c in columns.items() if len(c) == length}
    return MemoryTable(kept, (note,) if others else ())


def _columns(name: str, matrix: NDArray[Any] | None) -> Iterator[tuple[str, Any]]:
    if matrix is not None:
        upright = matrix.T if matrix.shape[0] == 1 else matrix
        for i, column in enumerate(upright.T):
            yield name if upright.shape[1] == 1 else f"{name}_{i}", column


def _variables(content: memoryview, path: Path, options: ReadOptions) -> Matrices:
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(bytes(content[_HEADER - 4 : _HEADER]))
    if order is None:
        raise ValueError("it does not begin as such files do")
    total = len(content)
    for kind, body in _elements(content[_HEADER:], order):
        if kind == _PACKED:
            most = options.max_bytes - total + 1  # one too many is refused below
            body = memoryview(zlib.decompressobj().decompress(body, most))
            total += len(body)
            options.require_size(total, path)
            kind, body = next(_elements(body, order))
        if kind == _MATRIX:
            for name, matrix in _matrices(body, order):
                total += 0 if matrix is None else matrix.nbytes
                options.require_size(total, path)
                yield name, matrix


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of one element after the other."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start, after = at + 8, at + 8 + size + (0 if kind == _PACKED else -size % 8)
        if kind >> 16:  # up to four bytes are in the tag itself
            kind, size, start, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        if start + size > min(after, len(content)):
            raise ValueError("an element is longer than what it is in")
        yield kind, content[start : start + size]
        at = after


def _matrices(body: memoryview, order: str, inside: str = "", field: str | None = None) -> Matrices:
    """Name and numbers of a matrix; a structure has many, other things have none."""
    parts = _elements(body, order)
    (_, flags), (_, sizes), (_, name) = islice(parts, 3)
    called = inside + (bytes(name).decode("ascii") if field is None else field)
    what = struct.unpack_from(f"{order}I", flags)[0]
    shape = tuple(np.frombuffer(sizes, f"{order}i4").tolist())
    if min(shape, default=-1) < 0:
        raise ValueError(f"{called!r} has the sizes {shape}")
    if what & 0xFF == _STRUCTURE and math.prod(shape) == 1:
        (_, width), (_, names) = islice(parts, 2)
        step = max(1, struct.unpack_from(f"{order}i", width)[0])
        starts = range(0, len(names), step)
        fields = [bytes(names[i : i + step]).split(b"\0")[0].decode() for i in starts]
        for own, (_, inner) in zip(fields, parts, strict=False):
            yield from _matrices(inner, order, f"{called}.", own)
    elif what & 0xFF in _CLASSES and not what & _COMPLEX and len(shape) == 2:
        kind, stored = next(parts)
        if (values := np.frombuffer(stored, order + _NUMBERS[kind])).size:
            yield called, values.reshape(shape, order="F").astype(_CLASSES[what & 0xFF])
    elif called:  # what has no name is MATLAB's own
        yield called, None

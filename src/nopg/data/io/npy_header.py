"""The header of an npy stream: what an array is before any of it is read."""

from __future__ import annotations

import math
import tokenize
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy

# What numpy's parser raises on headers that were cut or forged.
_DAMAGE = (
    *(ValueError, TypeError, SyntaxError, KeyError, AttributeError, EOFError),
    *(tokenize.TokenError, MemoryError, RecursionError, OverflowError),
)


@dataclass(frozen=True)
class NpyHeader:
    """Shape, type and layout of the array that follows."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool

    @property
    def n_bytes(self) -> int:
        """Bytes of the array itself."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(stream: Any) -> NpyHeader:
    """Read up to where the array begins.

    Raises:
        ValueError: If there is no such header.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy tells of files from Python 2
            version = npy.read_magic(stream)
            is_first = version == (1, 0)
            read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
            shape, is_fortran, dtype = read(stream)
    except _DAMAGE as error:
        raise ValueError(f"no readable array header: {str(error)[:100]}") from None
    return NpyHeader(tuple(shape), dtype, bool(is_fortran))

"""How numpy stores arrays in a pickle, redone without numpy's own functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NUMERIC = frozenset("biuf")


class Refused(Exception):
    """The pickle asks for something that is not plain data."""


@dataclass
class PlainArray:
    """A numpy array as stored: either numbers or a flat list of items."""

    shape: tuple[int, ...] = ()
    numbers: NDArray[Any] | None = None
    items: list[Any] | None = None


@dataclass(frozen=True)
class Name:
    """Something the file names; it is compared, never looked up."""

    module: str
    name: str


@dataclass
class Kind:
    """The dtype of an array under construction."""

    code: str
    order: str = "="


def call(function: Name, arguments: tuple[Any, ...]) -> Any:
    """The few calls by which numpy stores arrays, dtypes, scalars and bytes."""
    module = function.module.replace("numpy._core", "numpy.core")
    known = (module, function.name)
    if known == ("numpy.core.multiarray", "_reconstruct"):
        return PlainArray()
    if known == ("numpy", "dtype"):
        return Kind(str(arguments[0]))
    if known == ("numpy.core.multiarray", "scalar"):
        kind, raw = arguments
        return _decode(kind, raw, ())[()]
    if known == ("_codecs", "encode") and arguments[1] in ("latin1", "latin-1"):
        return arguments[0].encode("latin1")
    raise Refused(f"a call of {function.module}.{function.name}"[:80])


def fill(array: PlainArray, state: Any) -> None:
    """The state of an array: version, shape, dtype, column order, content."""
    _, shape, kind, is_fortran, content = state
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ValueError("a shape that is none")
    array.shape = tuple(shape)
    if not isinstance(kind, Kind):
        raise Refused("an array without a dtype")
    if isinstance(content, list) and kind.code in ("O", "O8"):
        if len(content) != int(np.prod(shape, dtype=object)):
            raise ValueError("an object array of the wrong length")
        if is_fortran and len(shape) > 1:
            raise Refused("an object array in column order")
        array.items = content
        return
    array.numbers = _decode(kind, content, array.shape, "F" if is_fortran else "C")


def _decode(
    kind: Any, raw: Any, shape: tuple[int, ...], order: Any = "C"
) -> NDArray[Any]:
    """Bytes as numbers; the sizes must agree before an array is made."""
    if not isinstance(kind, Kind) or kind.code[:1] not in _NUMERIC:
        raise Refused("an array of something that is no number")
    if isinstance(raw, str):
        raw = raw.encode("latin1")
    if not isinstance(raw, bytes):
        raise Refused("an array without bytes")
    order_code = kind.order if kind.order in ("<", ">") else "="
    dtype = np.dtype(order_code + kind.code)
    if len(raw) != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError("an array of the wrong size")
    return np.frombuffer(raw, dtype=dtype).reshape(shape, order=order).astype(dtype)

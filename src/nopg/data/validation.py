"""Turns what a person passes into clean arrays, or says in one sentence why not."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import DataError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
HUGE = 1e150  # squares of larger numbers are infinite: nothing can be learned from them
RewardFunction = Callable[[FloatArray, Any, FloatArray], Any]
"""Takes states (n, d_s), actions and successors (n, d_s); gives rewards (n,)."""


def as_matrix(name: str, values: Any, *, is_finite: bool = True) -> FloatArray:
    """A float64 matrix (n, d); a vector becomes one column, texts are refused."""
    array = _numeric(name, values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(f"`{name}` must be a matrix (n, d), got shape {array.shape}; reshape it.")
    if is_finite:
        _require_finite(name, array)
    return np.ascontiguousarray(array)


def as_vector(name: str, values: Any) -> FloatArray:
    """A finite float64 vector (n,); one column (n, 1) is flattened."""
    array = _vector(name, _numeric(name, values), "number")
    _require_finite(name, array)
    return np.ascontiguousarray(array)


def as_states(name: str, values: Any, width: int, names: Sequence[str] = ()) -> FloatArray:
    """States that a person asks about, (m, d_s); one may be a plain vector."""
    try:
        rows = np.atleast_2d(np.asarray(values, dtype=np.float64).copy())
    except (TypeError, ValueError, OverflowError):
        rows = np.empty((0, 0))
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] != width:
        called = f" ({', '.join(names)})" if names else ""
        raise DataError(
            f"`{name}` must be numbers, one row per state with {width} columns{called} like the "
            f"observations, got {rows.shape if rows.size else type(values).__name__}; reshape them."
        )
    _require_finite(name, rows)
    return rows


def as_actions(values: Any) -> FloatArray | IntArray:
    """Labels (n,) of integers, or a float matrix (n, d_a): the dtype decides."""
    if (array := _rectangular(values)).dtype.kind not in "biu":
        return as_matrix("actions", values)
    array = _flattened(array).astype(np.int64)
    if array.ndim != 1:
        raise DataError(
            "Integer `actions` are read as labels of one discrete action and must have shape (n,), "
            f"got {array.shape}; for continuous actions pass actions.astype(float)."
        )
    if array.size and array.min() < 0:
        raise DataError(
            f"Discrete `actions` must be labels 0, 1, 2, ..., got {array.min()}; "
            "renumber them, or pass actions.astype(float) if they are continuous."
        )
    return array


def as_flags(name: str, values: Any, length: int) -> BoolArray:
    """A boolean vector (n,) from booleans or zeros and ones; None is all False."""
    if values is None:
        return np.zeros(length, dtype=bool)
    array = _vector(name, _rectangular(values), "flag")
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise DataError(
            f"`{name}` must hold only true and false (or 1 and 0), got values of type "
            f"{array.dtype}; convert them with `{name} = {name}.astype(bool)`."
        )
    return array.astype(bool)


def as_episodes(values: Any) -> IntArray | None:
    """Integer episode ids (n,), or None when the order of rows means nothing."""
    if values is None:
        return None
    array = _vector("episodes", _rectangular(values), "integer id")
    is_whole = array.dtype.kind in "iub"
    if array.dtype.kind == "f":  # beyond 2^53 a float no longer counts; infinity, NaN fail this too
        is_whole = bool(np.all((array == np.round(array)) & (np.abs(array) < 2**53)))
    if not is_whole:
        raise DataError(f"`episodes` must be integer ids, one per transition, got {array.dtype}.")
    return array.astype(np.int64)


def one_per_row(what: str, values: Any, n: int) -> FloatArray:
    """What a function of the caller gave for `n` rows, (n,)."""
    array = _flattened(np.asarray(values))
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise DataError(
            f"{what} must give one number per row, ({n},), got {array.dtype} {array.shape}; "
            "it is called once with all rows: take whole columns, s[:, 0] or s['x'], and not s[0]."
        )
    return array.astype(np.float64)


def require_same_length(arrays: dict[str, Any]) -> None:
    """Refuse arrays of different lengths and list them; None is no array."""
    lengths = {name: len(array) for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise DataError(f"All arrays must have one row per transition, got {found}; pair them.")


def _rectangular(values: Any) -> NDArray[Any]:
    """The values as an array; ragged lists become an object array, refused later."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.empty(0, dtype=object)


def _flattened(array: NDArray[Any]) -> NDArray[Any]:
    """One column (n, 1) as a vector (n,); anything else as it is."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _vector(name: str, array: NDArray[Any], what: str) -> NDArray[Any]:
    array = _flattened(array)
    if array.ndim != 1:
        raise DataError(f"`{name}` must be a vector, one {what} per transition, got {array.shape}.")
    return array


def _numeric(name: str, values: Any) -> FloatArray:
    if (array := _rectangular(values)).dtype.kind not in "biuf":
        raise DataError(
            f"`{name}` must be numbers in a rectangular array, got {array.dtype}; look for texts."
        )
    return array.astype(np.float64)


def _require_finite(name: str, array: FloatArray) -> None:
    if not (bad := ~(np.abs(array) < HUGE)).any():
        return
    rows = np.unique(np.nonzero(bad)[0])
    where = f"row{'s' if len(rows) > 1 else ''} {preview(rows)}"
    if array.ndim == 2:
        where += f", column {preview(np.unique(np.nonzero(bad)[1]))}"
    raise DataError(
        f"`{name}` must be finite and below {HUGE:.0e}, found NaN, infinity or more in "
        f"{int(bad.sum())} places ({where}); drop or repair these rows."
    )


def counted(number: int, noun: str) -> str:
    """A number and its noun, which takes an s unless there is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def preview(numbers: Sequence[Any] | NDArray[Any], limit: int = 5) -> str:
    """The first few of many numbers or names, and how many more there are."""
    shown = ", ".join(str(number) for number in numbers[:limit])
    more = len(numbers) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def angle_pairs(states: Any) -> list[tuple[int, int]]:
    """Pairs i < j of columns of an array or tensor that move along the unit circle."""
    pairs: list[tuple[int, int]] = []
    for i, j in combinations(range(states.shape[1]), 2):
        if any({i, j} & {*pair} for pair in pairs):
            continue
        x, y = states[:, i], states[:, j]
        moves = bool((x != x[0]).any()) and bool((y != y[0]).any())
        if moves and float(abs(x * x + y * y - 1.0).max()) < 1e-4:  # single precision is closer
            pairs.append((i, j))
    return pairs

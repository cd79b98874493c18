"""Trajectories kept as a numpy object array (`.npy`), read without unpickling.

Such a file is a pickle behind a numpy header: the usual way to read it runs
whatever it says. Here `plain_pickle` rebuilds numbers, text, lists and
arrays and refuses the rest.

The layout is that of the paper's authors: an array of trajectories, each an array
of rows (s, a, r, s', done), where s, a and s' are arrays and r and done numbers.
Trajectories of equal length may be one array of shape (trajectories, T, 5), and a
trajectory may also be a dictionary of arrays named like the `Dataset` arguments.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.data.io.arrays import dataset_from_arrays, wanted
from nopg.data.io.npy_header import read_npy_header
from nopg.data.io.plain_arrays import PlainArray
from nopg.data.io.plain_pickle import read_plain_pickle
from nopg.data.io.reading import Reading
from nopg.errors import DataError

_FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations")


def read_object_npy(path: Path, reading: Reading) -> Dataset:
    """Read trajectories from an object array.

    Raises:
        DataError: If the file holds anything but plain numbers in this layout.
    """
    trajectories = _trajectories(path, reading)
    parts = [_arrays(trajectory, path) for trajectory in trajectories]
    names = set.intersection(*(set(part) for part in parts)) if parts else set()
    try:
        arrays = {
            name: np.concatenate([part[name] for part in parts]) for name in names
        }
    except ValueError:
        raise _unlike(path, "trajectories of different widths") from None
    lengths = [len(part["observations"]) for part in parts if "observations" in part]
    if "episodes" not in arrays and len(lengths) == len(parts):
        arrays["episodes"] = np.repeat(np.arange(len(parts)), lengths)
    data = dataset_from_arrays(arrays, None, reading, path)
    note = (
        f"Read {len(parts)} trajectories; every `done` was taken as a termination "
        "unless a time limit was given."
    )
    return replace(data, notes=(note, *data.notes))


def _trajectories(path: Path, reading: Reading) -> list[Any]:
    try:
        size = path.stat().st_size
        reading.require_size(size, path)
        content = io.BytesIO(path.read_bytes())
        dtype = read_npy_header(content).dtype
    except FileNotFoundError:
        raise DataError(
            f"`{path}` must exist, found no such file; check the path."
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise _unlike(path, str(error)[:200]) from None
    if not dtype.hasobject:
        raise _unlike(path, f"one array of {dtype}")
    outer = read_plain_pickle(content, path)
    if not isinstance(outer, PlainArray):
        raise _unlike(path, type(outer).__name__)
    return _split(outer, path)


def _split(outer: PlainArray, path: Path) -> list[Any]:
    """The trajectories of the outer array, which may have swallowed their axes."""
    items, shape = outer.items, outer.shape
    if items is None:
        raise _unlike(path, "an array of numbers")
    if len(shape) == 1:
        return list(items)
    if len(shape) == 3 and shape[2] == len(_FIELDS):
        length = shape[1] * shape[2]
        return [
            PlainArray(shape[1:], items=items[i : i + length], numbers=None)
            for i in range(0, len(items), length)
        ]
    raise _unlike(path, f"an array of shape {shape}")


def _arrays(trajectory: Any, path: Path) -> dict[str, NDArray[Any]]:
    """One trajectory as arrays by name."""
    if isinstance(trajectory, dict):
        entries = {name: _numbers(value) for name, value in trajectory.items()}
        named = wanted([name for name in entries if isinstance(name, str)])
        return {array: entries[name] for name, array in named.items()}
    rows = list(_rows(trajectory, path))
    columns = zip(*rows, strict=True)
    try:
        return {
            name: np.array([_numbers(value) for value in column])
            for name, column in zip(_FIELDS, columns, strict=True)
        }
    except ValueError:
        raise _unlike(path, "rows of different shapes") from None


def _rows(trajectory: Any, path: Path) -> Iterator[list[Any]]:
    if isinstance(trajectory, PlainArray) and trajectory.items is not None:
        width = trajectory.shape[-1] if len(trajectory.shape) == 2 else 0
        items = trajectory.items
        trajectory = [
            items[i : i + width] for i in range(0, len(items) if width else 0, width)
        ]
    if not isinstance(trajectory, list) or not trajectory:
        raise _unlike(path, "a trajectory that is no list of rows")
    for row in trajectory:
        if not isinstance(row, (list, tuple)) or len(row) != len(_FIELDS):
            raise _unlike(path, "a row that is not (s, a, r, s', done)")
        yield list(row)


def _numbers(value: Any) -> NDArray[Any]:
    if isinstance(value, PlainArray):
        if value.numbers is None:
            raise DataError(
                "Arrays inside a trajectory must hold numbers, found Python objects; "
                "save them as plain float arrays."
            )
        return value.numbers
    return np.asarray(value)


def _unlike(path: Path, found: str) -> DataError:
    return DataError(
        f"`{path}` must be an object array of trajectories with rows (s, a, r, s', "
        f"done), found {found}; save your data with Dataset.save instead."
    )

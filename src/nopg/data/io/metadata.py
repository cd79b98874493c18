"""What a file keeps beside its arrays, as JSON; the digest that tells data apart."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

from nopg.data.history import HistoryLayout
from nopg.data.transitions import ARRAYS, TransitionTable
from nopg.errors import DataError


def space_to_json(space: Space[Any] | None) -> dict[str, Any] | None:
    """Describe a Box or Discrete space by numbers and text alone."""
    if space is None:
        return None
    if isinstance(space, Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, Box):
        return {
            "kind": "box",
            "low": [repr(float(bound)) for bound in space.low.ravel()],
            "high": [repr(float(bound)) for bound in space.high.ravel()],
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    raise DataError(f"A space must be a Box or Discrete to be saved, got {space}; flatten it.")


_DTYPES = frozenset(np.dtype(code).name for code in "?bhilqBHILQefdg")


def space_from_json(description: dict[str, Any] | None) -> Space[Any] | None:
    """Rebuild what `space_to_json` described; of a damaged one any error may come."""
    if description is None:
        return None
    if description["kind"] == "discrete":
        return Discrete(int(description["n"]), start=int(description["start"]))
    name = str(description["dtype"])
    if name not in _DTYPES:  # numpy would read whole structures from a text
        raise TypeError(f"{name[:20]!r} is no dtype of numbers")
    dtype, shape = np.dtype(name), tuple(int(length) for length in description["shape"])
    bounds = ([float(bound) for bound in description[side]] for side in ("low", "high"))
    low, high = (np.array(side, dtype=dtype).reshape(shape) for side in bounds)
    return Box(low, high, dtype=dtype.type)


_TEXTS = ("observation_names", "action_names", "notes")
_SPACES = ("observation_space", "action_space")


def described(table: TransitionTable) -> dict[str, Any]:
    """Names, spaces and notes by text and numbers alone."""
    history = None if table.history is None else asdict(table.history)
    texts = {name: list(getattr(table, name)) for name in _TEXTS}
    spaces = {name: space_to_json(getattr(table, name)) for name in _SPACES}
    return {"sample_time": table.sample_time, "history": history, **texts, **spaces}


def from_described(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Dataset` that `described` gave; errors as above."""
    texts: dict[str, Any] = {name: stored[name] for name in _TEXTS}
    for found in texts.values():
        if not (isinstance(found, list) and all(isinstance(s, str) for s in found)):
            raise TypeError("a list of texts is something else")
    step = stored.get("sample_time")  # files of older versions have none
    texts["sample_time"] = None if step is None else float(step)
    texts["history"] = HistoryLayout.from_json(stored.get("history"))
    return texts | {name: space_from_json(stored[name]) for name in _SPACES}


def fingerprint(dataset: TransitionTable) -> str:
    """A digest of every array; no update depends on names, notes and spaces."""
    total = hashlib.sha256()
    for name in ARRAYS:
        if (array := getattr(dataset, name)) is None:
            total.update(f"{name} none\n".encode())
            continue
        # Little-endian, so that every machine finds the same digits.
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        total.update(f"{name} {plain.dtype.str} {plain.shape}\n".encode())
        total.update(plain.tobytes())
    return total.hexdigest()

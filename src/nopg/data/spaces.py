"""Gymnasium spaces as plain JSON, so that files can hold them without pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.errors import DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def space_to_json(space: Space[Any] | None) -> dict[str, Any] | None:
    """Describe a Box or Discrete space by numbers and text alone."""
    if space is None:
        return None
    from gymnasium.spaces import Box, Discrete

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
    raise DataError(
        f"A space must be a Box or a Discrete one to be saved, got {space}; flatten it "
        "with gymnasium.spaces.utils.flatten_space."
    )


_DTYPES = frozenset(np.dtype(code).name for code in "?bhilqBHILQefdg")
# What numpy and Gymnasium raise on bounds, shapes and sizes that make no space.
_DAMAGE = (KeyError, TypeError, ValueError, AssertionError, OverflowError)


def space_from_json(description: dict[str, Any] | None) -> Space[Any] | None:
    """Rebuild what `space_to_json` described."""
    if description is None:
        return None
    from gymnasium.spaces import Box, Discrete

    try:
        if description["kind"] == "discrete":
            return Discrete(int(description["n"]), start=int(description["start"]))
        name = str(description["dtype"])
        if name not in _DTYPES:  # numpy would read whole structures from a text
            raise TypeError(f"{name[:20]!r} is no dtype of numbers")
        dtype = np.dtype(name)
        shape = tuple(int(length) for length in description["shape"])
        low, high = (
            np.array([float(bound) for bound in description[side]], dtype=dtype)
            for side in ("low", "high")
        )
        return Box(low.reshape(shape), high.reshape(shape), dtype=dtype.type)
    except _DAMAGE as error:
        raise DataError(
            f"A stored space must have kind, bounds, shape and dtype, reading it "
            f"failed ({error}); write the file again."
        ) from error

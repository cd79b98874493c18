"""From named arrays, as npz and HDF5 files hold them, to transitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.alignment import align, apply_time_limit
from nopg.data.dataset import Dataset
from nopg.data.io.about import dataset_arguments
from nopg.data.io.reading import Reading
from nopg.data.rewards import rewards_from
from nopg.data.validation import (
    as_actions,
    as_episodes,
    as_flags,
    as_matrix,
    require_same_length,
)
from nopg.errors import DataError

ARRAYS = (
    *("observations", "actions", "rewards", "next_observations"),
    *("terminations", "truncations", "episodes"),
)
"""The arrays of a dataset, in the order of its arguments."""

ALIASES = {"terminals": "terminations", "timeouts": "truncations"}
"""Other names for them, as D4RL writes them."""


def wanted(names: Mapping[str, Any] | list[str]) -> dict[str, str]:
    """The entries of a file that are worth reading, and the array each one is."""
    found = {name: ALIASES.get(name, name) for name in names}
    return {name: array for name, array in found.items() if array in ARRAYS}


def dataset_from_arrays(
    arrays: Mapping[str, NDArray[Any]],
    about: dict[str, Any] | None,
    reading: Reading,
    where: object,
) -> Dataset:
    """Check the arrays of a file and add the successors if it stores none.

    Args:
        arrays: By the names in `ARRAYS`.
        about: What the file says of itself, if it was written by `Dataset.save`.
        reading: What the caller asked for.
        where: The file, for messages.

    Raises:
        DataError: If an array is missing or they do not fit each other.
    """
    needed = ["observations", "actions", "terminations"]
    needed += [] if callable(reading.reward) else ["rewards"]
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise DataError(
            f"`{where}` must hold the arrays {', '.join(needed)}; it lacks "
            f"{', '.join(missing)} and has {', '.join(sorted(arrays)) or 'nothing'}."
        )
    parts: dict[str, Any] = {name: arrays.get(name) for name in ARRAYS}
    notes = _add_successors(parts, reading)
    if callable(reading.reward):
        parts["rewards"] = rewards_from(
            reading.reward,
            as_matrix("observations", parts["observations"]),
            as_actions(parts["actions"]),
            as_matrix("next_observations", parts["next_observations"]),
        )
    if reading.is_discrete is not None:
        kind = np.int64 if reading.is_discrete else np.float64
        parts["actions"] = as_actions(np.asarray(parts["actions"]).astype(kind))
    arguments = dataset_arguments(about)
    arguments["notes"] = (*arguments.get("notes", ()), *notes)
    for space in ("observation_space", "action_space"):
        if getattr(reading, space) is not None:
            arguments[space] = getattr(reading, space)
    return Dataset(**parts, **arguments)


def _add_successors(parts: dict[str, Any], reading: Reading) -> tuple[str, ...]:
    """Fill in s' from the following rows where the file has none; apply the limit."""
    if parts["next_observations"] is not None and reading.time_limit is None:
        return ()
    states = as_matrix("observations", parts["observations"])
    terminated = as_flags("terminations", parts["terminations"], len(states))
    truncated = as_flags("truncations", parts["truncations"], len(states))
    episodes = as_episodes(parts["episodes"])
    lengths = {name: len(array) for name, array in parts.items() if array is not None}
    require_same_length(lengths)
    if parts["next_observations"] is not None:
        parts["terminations"], parts["truncations"], notes = apply_time_limit(
            episodes, terminated, truncated, reading.time_limit
        )
        return notes
    aligned = align(
        states, episodes, terminated, truncated, time_limit=reading.time_limit
    )
    for name in ("observations", "actions", "rewards"):
        if parts[name] is not None:
            parts[name] = np.asarray(parts[name])[aligned.rows]
    parts["next_observations"] = aligned.next_observations
    parts["terminations"] = aligned.terminations
    parts["truncations"] = aligned.truncations
    parts["episodes"] = aligned.episodes
    return aligned.notes

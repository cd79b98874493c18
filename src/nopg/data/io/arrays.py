"""From named arrays, as every reader hands them over, to the arguments of `Dataset`."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data import validation
from nopg.data.alignment import align, apply_time_limit
from nopg.data.files import parse_json, reading
from nopg.data.io.metadata import from_described
from nopg.data.io.options import ReadOptions
from nopg.data.transitions import ARRAYS
from nopg.data.validation import IntArray, as_matrix, counted, one_per_row, preview
from nopg.errors import DataError

ALIASES = {"terminals": "terminations", "timeouts": "truncations"}  # of D4RL


def wanted(names: Iterable[str]) -> dict[str, str]:
    """The entries of a file worth reading, and the array each one is."""
    found = {name: ALIASES.get(name, name) for name in names}
    return {name: array for name, array in found.items() if array in ARRAYS}


def file_arguments(
    arrays: Mapping[str, NDArray[Any]], metadata: str | None, options: ReadOptions, where: object
) -> dict[str, Any]:
    """The arguments of `Dataset` from a file of arrays and, if it is ours, its JSON."""
    needed = ["observations", "actions", "terminations"]
    needed += [] if callable(options.reward) else ["rewards"]
    if missing := [name for name in needed if name not in arrays]:
        raise DataError(
            f"`{where}` must hold the arrays {', '.join(needed)}; it lacks "
            f"{', '.join(missing)} and has {', '.join(sorted(arrays)) or 'nothing'}."
        )
    stated = None
    if metadata is not None:
        what = "a data file whose names and spaces were written by Dataset.save"
        with reading(where, what, "write the file again"):
            stated = from_described(parse_json(metadata))
    return dataset_arguments(arrays, options, stated)


def dataset_arguments(
    arrays: Mapping[str, NDArray[Any]],  # by the names in `ARRAYS`; NaN is missing
    options: ReadOptions,  # what the caller asked for
    metadata: Mapping[str, Any] | None = None,  # what the source states
) -> dict[str, Any]:
    """The arguments of `Dataset`: rows with their successors, names and notes."""
    parts: dict[str, Any] = {name: arrays.get(name) for name in ARRAYS}
    validation.require_same_length(parts)
    parts["observations"] = as_matrix("observations", parts["observations"], is_finite=False)
    parts["episodes"] = validation.as_episodes(parts["episodes"])
    for flags in ("terminations", "truncations"):
        parts[flags] = validation.as_flags(flags, parts[flags], len(parts["observations"]))
    rows, notes = _successors(parts, options)
    said = _drop_missing(parts, rows, options)
    if options.is_discrete is not None:
        parts["actions"] = _of_kind(parts["actions"], options.is_discrete)
    if callable(options.reward):
        said += ("The rewards are a function of (s, a, s').",)
        values = options.reward(*(parts[name] for name in (*ARRAYS[:2], "next_observations")))
        parts["rewards"] = one_per_row("A reward function", values, len(parts["observations"]))
    spaces = {name: getattr(options, name) for name in ("observation_space", "action_space")}
    stated = {**(metadata or {}), **{n: s for n, s in spaces.items() if s is not None}}
    return parts | stated | {"notes": (*stated.get("notes", ()), *notes, *said)}


def _successors(parts: dict[str, Any], options: ReadOptions) -> tuple[IntArray, tuple[str, ...]]:
    """Fill in s' from the following rows where there is none; apply the time limit."""
    states, episodes = parts["observations"], parts["episodes"]
    flags = parts["terminations"], parts["truncations"]
    if parts["next_observations"] is not None:
        limited = apply_time_limit(episodes, *flags, options.time_limit)
        parts["terminations"], parts["truncations"], notes = limited
        return np.arange(len(states)), notes
    # Rows without any action in which nothing was earned.
    actions = as_matrix("actions", parts["actions"], is_finite=False)
    empty = np.asarray(np.isnan(actions).all(axis=1))
    if parts["rewards"] is not None:
        earned = np.nan_to_num(as_matrix("rewards", parts["rewards"], is_finite=False))
        empty &= (earned == 0.0).all(axis=1)
    rows, aligned, notes = align(states, episodes, *flags, empty, options.time_limit)
    for name in ("observations", "actions", "rewards"):
        if parts[name] is not None:
            parts[name] = np.asarray(parts[name])[rows]
    parts.update(aligned)
    return rows, notes


def _drop_missing(parts: dict[str, Any], rows: IntArray, options: ReadOptions) -> tuple[str, ...]:
    empty = np.zeros(len(rows), dtype=bool)
    for name in ("observations", "actions", "rewards", "next_observations"):
        if parts[name] is not None:
            empty |= np.isnan(as_matrix(name, parts[name], is_finite=False)).any(axis=1)
    if not empty.any():
        return ()
    found = counted(int(empty.sum()), "row")
    if options.missing != "drop":
        raise DataError(
            f"Every cell must hold a number, {found} had empty or NaN cells (counted from 1: "
            f"{preview(rows[empty] + 1)}); repair them, leave them out with missing='drop', or "
            "hold actions that were logged at another rate with missing='hold'."
        )
    for name, array in parts.items():
        parts[name] = None if array is None else np.asarray(array)[~empty]
    return (f"Dropped: {found} with empty cells.",)


def _of_kind(actions: Any, is_discrete: bool) -> NDArray[Any]:
    values = as_matrix("actions", actions)
    if not is_discrete:
        return values
    if values.shape[1] != 1 or not (values == np.round(values)).all():
        raise DataError(
            "A discrete action must be one column of labels 0, 1, 2, ..., got "
            f"{counted(values.shape[1], 'column')} or fractions; pass is_discrete=False."
        )
    return values[:, 0].astype(np.int64)

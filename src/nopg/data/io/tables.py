"""From a table with named columns to transitions, whatever the table is kept in.

A reader (CSV, Parquet, memory) only has to be a `TableSource`: tell its column
names, then hand over the columns asked for. All that concerns transitions, what
is s', which rows are dropped, which action is discrete, happens here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from nopg.data.alignment import align, apply_time_limit
from nopg.data.dataset import Dataset
from nopg.data.io.about import dataset_arguments
from nopg.data.io.columns import Roles, settle_roles
from nopg.data.io.reading import Reading
from nopg.data.rewards import rewards_from
from nopg.data.validation import BoolArray, FloatArray, IntArray, counted, preview
from nopg.errors import DataError

Kind = Literal["number", "flag", "label"]


@dataclass(frozen=True)
class Table:
    """Columns as read: numbers with NaN for empty cells, flags, integer labels."""

    columns: dict[str, NDArray[Any]]
    """Each column, (m,)."""
    whole: frozenset[str]
    """Columns written as whole numbers throughout."""
    notes: tuple[str, ...] = ()
    """What the reader had to assume."""


class TableSource(Protocol):
    """Anything with named columns."""

    names: tuple[str, ...]
    numeric: frozenset[str]
    about: dict[str, Any] | None

    def read(self, kinds: Mapping[str, Kind]) -> Table:
        """The columns named in `kinds`, each converted to its kind."""


def dataset_from(source: TableSource, reading: Reading) -> Dataset:
    """Read the columns that play a part and turn them into transitions.

    Raises:
        DataError: If columns are missing or do not hold what their part needs.
    """
    told = _told_by_file(source, reading)
    roles = settle_roles(source.names, source.numeric, told)
    kinds: dict[str, Kind] = dict.fromkeys(roles.numbers, "number")
    for name in (roles.termination, roles.truncation):
        kinds |= {} if name is None else {name: "flag"}
    kinds |= {} if roles.episode is None else {roles.episode: "label"}
    table = source.read(kinds)
    arrays, notes = _transitions(table, roles, reading)
    arrays["actions"], said = _actions(arrays["actions"], table, roles, told)
    if roles.reward is None:
        notes = (*notes, "The rewards are a function of (s, a, s').")
        arrays["rewards"] = rewards_from(
            reading.reward,
            *(
                arrays[part]
                for part in ("observations", "actions", "next_observations")
            ),
        )
    arguments: dict[str, Any] = {
        "observation_names": roles.observations,
        "action_names": roles.actions,
        "notes": (*roles.guesses, *table.notes, *notes, *said),
    }
    if told is not reading:  # our own file: it says all this itself
        arguments = dataset_arguments(source.about)
        arguments["notes"] = (*arguments["notes"], *notes)
    for space in ("observation_space", "action_space"):
        if getattr(reading, space) is not None:
            arguments[space] = getattr(reading, space)
    return Dataset(**arrays, **arguments)


def _told_by_file(source: TableSource, reading: Reading) -> Reading:
    """Take the columns from the file's own description when the caller names none."""
    columns = (source.about or {}).get("columns")
    if columns is None or reading.observations or reading.actions:
        return reading
    try:
        named = {part: columns[part] for part in COLUMN_PARTS}
        named["is_discrete"] = (source.about or {})["is_discrete"]
        unsaid = {k: v for k, v in named.items() if getattr(reading, k) is None}
        return replace(reading, **unsaid)
    except (KeyError, TypeError) as error:
        raise DataError(
            "The file's own description must name its columns, reading it failed "
            f"({error!r}); name the columns yourself or write the file again."
        ) from None


COLUMN_PARTS = (
    *("observations", "actions", "reward", "next_observations"),
    *("episode", "termination", "truncation"),
)
"""The parts a table written by `Dataset.save` names, as `Reading` calls them."""


def _stack(table: Table, names: tuple[str, ...]) -> FloatArray:
    return np.column_stack([table.columns[name] for name in names])


def _transitions(
    table: Table, roles: Roles, reading: Reading
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arrays of a `Dataset` and the sentences on how they were made."""
    states, actions = _stack(table, roles.observations), _stack(table, roles.actions)
    m = len(states)
    terminated, truncated = (
        np.zeros(m, dtype=bool) if name is None else table.columns[name]
        for name in (roles.termination, roles.truncation)
    )
    episodes = None if roles.episode is None else table.columns[roles.episode]
    given = None if roles.reward is None else table.columns[roles.reward]
    rows: IntArray = np.arange(m)
    if roles.next_observations is None:
        aligned = align(
            states,
            episodes,
            terminated,
            truncated,
            is_closing=_closing(actions, given, episodes),
            time_limit=reading.time_limit,
        )
        rows, following = aligned.rows, aligned.next_observations
        terminated, truncated = aligned.terminations, aligned.truncations
        episodes, notes = aligned.episodes, aligned.notes
    else:
        following = _stack(table, roles.next_observations)
        terminated, truncated, notes = apply_time_limit(
            episodes, terminated, truncated, reading.time_limit
        )
    arrays: dict[str, Any] = {
        "observations": states[rows],
        "actions": actions[rows],
        "next_observations": following,
        "terminations": terminated,
        "truncations": truncated,
        "episodes": episodes,
    }
    arrays |= {} if given is None else {"rewards": given[rows]}
    kept, said = _without_missing(arrays, rows, reading)
    return kept, (*notes, *said)


def _closing(
    actions: FloatArray, rewards: FloatArray | None, episodes: IntArray | None
) -> BoolArray:
    """Rows without any action that are the last of their episode, (m,)."""
    empty = np.isnan(actions).all(axis=1)
    if rewards is not None:
        empty &= np.isnan(rewards) | (rewards == 0.0)
    ids = np.zeros(len(actions), dtype=np.int64) if episodes is None else episodes
    last = np.zeros(len(actions), dtype=bool)
    reversed_first = np.unique(ids[::-1], return_index=True)[1]
    last[len(actions) - 1 - reversed_first] = True
    return np.asarray(empty & last)


def _without_missing(
    arrays: dict[str, Any], rows: IntArray, reading: Reading
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Refuse or drop transitions with empty cells, as the caller asked."""
    empty = np.zeros(len(rows), dtype=bool)
    for part in ("observations", "actions", "rewards", "next_observations"):
        if part in arrays:
            column = np.isnan(arrays[part])
            empty |= column if column.ndim == 1 else column.any(axis=1)
    if not empty.any():
        return arrays, ()
    if reading.missing == "error":
        raise DataError(
            f"Every cell must hold a number, {counted(int(empty.sum()), 'row')} had "
            f"empty or NaN cells (counted from 1: {preview(rows[empty] + 1)}); repair "
            "them or pass missing='drop'."
        )
    kept = {
        name: None if array is None else array[~empty] for name, array in arrays.items()
    }
    return kept, (f"Dropped: {counted(int(empty.sum()), 'row')} with empty cells.",)


def _actions(
    actions: FloatArray, table: Table, roles: Roles, reading: Reading
) -> tuple[FloatArray | IntArray, tuple[str, ...]]:
    """Labels where the action is discrete, else the numbers as they are."""
    is_label = (
        len(roles.actions) == 1
        and roles.actions[0] in table.whole
        and bool((actions >= 0).all())
    )
    wanted = is_label if reading.is_discrete is None else reading.is_discrete
    if not wanted:
        return actions, ()
    whole = np.isfinite(actions).all() and bool((actions == np.round(actions)).all())
    if not whole or len(roles.actions) != 1:
        raise DataError(
            "A discrete action must be one column of labels 0, 1, 2, ..., got "
            f"{len(roles.actions)} columns with fractions or gaps; pass "
            "is_discrete=False."
        )
    said: tuple[str, ...] = ()
    if reading.is_discrete is None:
        said = (
            f"The action {roles.actions[0]} is written in whole numbers without a sign "
            "and was taken as a discrete label; pass is_discrete=False if it is not.",
        )
    return actions[:, 0].astype(np.int64), said

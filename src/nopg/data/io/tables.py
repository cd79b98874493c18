"""From a table with named columns to transitions, whatever the table is kept in.

A reader (CSV, Parquet, memory) only has to be a `TableSource`: tell its column
names, then hand over the cells of the columns asked for, some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nopg.data.io.arrays import dataset_arguments
from nopg.data.io.cells import Kind, read_columns
from nopg.data.io.columns import ColumnRoles, settle_roles
from nopg.data.io.options import ReadOptions
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError


class TableSource(Protocol):
    """Anything with named columns."""

    names: tuple[str, ...]
    """All columns, in order."""
    numeric: frozenset[str]
    """Those that hold numbers."""
    metadata: dict[str, Any] | None
    """Names, spaces and notes, if `Dataset.save` wrote the table."""

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """The cells of these columns, some rows at a time."""


def table_arguments(source: TableSource, options: ReadOptions) -> dict[str, Any]:
    """Read the columns that play a part; the arguments of `Dataset`.

    Raises:
        DataError: If columns are missing or do not hold what their part needs.
    """
    own = _own_columns(source, options)
    roles = settle_roles(source.names, source.numeric, replace(options, **own))
    kinds = _kinds(roles)
    columns = read_columns(kinds, source.chunks(list(kinds)))
    arrays: dict[str, NDArray[Any]] = {}
    for part in ("observations", "actions", "next_observations"):
        if names := getattr(roles, part):
            arrays[part] = np.column_stack([columns.arrays[name] for name in names])
    for part in ("reward", "termination", "truncation", "episode"):
        if name := getattr(roles, part):
            arrays[f"{part}s"] = columns.arrays[name]
    metadata: dict[str, Any] = {
        "observation_names": roles.observations,
        "action_names": roles.actions,
        "notes": (*roles.notes, *columns.notes),
    }
    if own and source.metadata is not None:  # our own file: it says all this itself
        metadata = source.metadata
    is_discrete = own.get("is_discrete", options.is_discrete)
    if is_discrete is None and _are_labels(roles, columns.whole, arrays["actions"]):
        is_discrete = True
        metadata["notes"] += (
            f"The action {roles.actions[0]} is written in whole numbers without a sign "
            "and was taken as a discrete label; pass is_discrete=False if it is not.",
        )
    settled = replace(options, is_discrete=bool(is_discrete))
    return dataset_arguments(arrays, settled, metadata)


def _are_labels(
    roles: ColumnRoles, whole: frozenset[str], actions: NDArray[Any]
) -> bool:
    is_whole = len(roles.actions) == 1 and roles.actions[0] in whole
    return is_whole and not bool((actions < 0).any())


def _kinds(roles: ColumnRoles) -> dict[str, Kind]:
    numbers = [*roles.observations, *roles.actions, *(roles.next_observations or ())]
    numbers += [] if roles.reward is None else [roles.reward]
    kinds: dict[str, Kind] = dict.fromkeys(numbers, "number")
    for name in (roles.termination, roles.truncation):
        kinds |= {} if name is None else {name: "flag"}
    return kinds | ({} if roles.episode is None else {roles.episode: "label"})


def _own_columns(source: TableSource, options: ReadOptions) -> dict[str, Any]:
    """Options that a table of ours states itself, where the caller says nothing."""
    stored = source.metadata
    if stored is None or options.observations or options.actions:
        return {}
    own: dict[str, Any] = {
        "observations": stored["observation_names"],
        "actions": stored["action_names"],
        "next_observations": [f"next_{name}" for name in stored["observation_names"]],
        **{name: name for name in ("reward", "termination", "truncation")},
    }
    if not set(ReadOptions(**own).columns()) <= set(source.names):
        return {}  # it was left behind by another file of this name
    own |= {"is_discrete": stored["is_discrete"]}
    own |= {"episode": "episode"} if "episode" in source.names else {}
    return {part: said for part, said in own.items() if getattr(options, part) is None}


def as_columns(table: TransitionTable) -> dict[str, NDArray[Any]]:
    """Every column in the order s, a, r, s', flags, episode, as `_own_columns` reads.

    Raises:
        DataError: If two columns would have the same name.
    """
    actions = table.actions.reshape(len(table), -1)
    following = [f"next_{name}" for name in table.observation_names]
    columns: list[tuple[str, Any]] = [
        *zip(table.observation_names, table.observations.T, strict=True),
        *zip(table.action_names, actions.T, strict=True),
        ("reward", table.rewards),
        *zip(following, table.next_observations.T, strict=True),
        ("termination", table.terminations),
        ("truncation", table.truncations),
    ]
    if table.episodes is not None:
        columns.append(("episode", table.episodes))
    names = [name for name, _ in columns]
    bad = sorted({n for n in names if names.count(n) > 1 or n.strip() != n})
    if bad:
        raise DataError(
            f"Columns of a table must have distinct names without spaces at their "
            f"ends, {bad} do not; rename them or save as .npz."
        )
    return dict(columns)

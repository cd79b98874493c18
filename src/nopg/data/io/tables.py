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
from nopg.data.io.columns import settle_columns
from nopg.data.io.options import ReadOptions
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("observations", "actions", "next_observations"), "number"),
    **{"reward": "number", "termination": "flag", "truncation": "flag"},
    "episode": "label",
}


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
    settled, notes = settle_columns(
        source.names, source.numeric, replace(options, **own)
    )
    parts = {part: getattr(settled, part) for part in _KINDS}
    columns_of = {
        part: [columns] if isinstance(columns, str) else columns
        for part, columns in parts.items()
        if columns is not None and not callable(columns)
    }
    kinds = {name: _KINDS[part] for part, names in columns_of.items() for name in names}
    table = read_columns(kinds, source.chunks(list(kinds)))
    arrays: dict[str, NDArray[Any]] = {}
    for part, names in columns_of.items():
        values = [table.arrays[name] for name in names]
        if part.endswith("s"):
            arrays[part] = np.column_stack(values)
        else:
            arrays[f"{part}s"] = values[0]
    metadata: dict[str, Any] = {
        "observation_names": settled.observations,
        "action_names": settled.actions,
        "notes": (*notes, *table.notes),
    }
    if own and source.metadata is not None:  # our own file: it says all this itself
        metadata = source.metadata
    if settled.is_discrete is None:
        action, *others = columns_of["actions"]
        is_label = not others and action in table.whole
        is_label = is_label and not (arrays["actions"] < 0).any()
        settled = replace(settled, is_discrete=is_label)
        if is_label:
            metadata["notes"] += (
                f"The action {action} is written in whole numbers without a sign and "
                "was taken as a discrete label; pass is_discrete=False if it is not.",
            )
    return dataset_arguments(arrays, settled, metadata)


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
    columns += [] if table.episodes is None else [("episode", table.episodes)]
    names = [name for name, _ in columns]
    bad = sorted({n for n in names if names.count(n) > 1 or n.strip() != n})
    if bad:
        raise DataError(
            f"Columns of a table must have distinct names without spaces at their "
            f"ends, {bad} do not; rename them or save as .npz."
        )
    return dict(columns)

"""Which column of a table is what: as the caller says, else by its usual name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

from nopg.data.io.options import ReadOptions
from nopg.errors import DataError

USUAL = {
    "reward": ("reward", "rewards", "r"),
    "episode": ("episode", "episode_id", "ep", "run", "trial"),
    "termination": ("termination", "terminated", "terminal", "done"),
    "truncation": ("truncation", "truncated", "timeout"),
}
"""Names by which a column is found when the caller names none, in any case."""
_CLOCK = ("", "t", "time", "timestamp", "step", "index")
_ACTION = re.compile(r"(action|a|u)(_?\d+)?")


def settle_columns(
    names: Sequence[str], numeric: frozenset[str], options: ReadOptions
) -> tuple[ReadOptions, tuple[str, ...]]:
    """Give every part its column: as `options` say, else by its usual name.

    What else holds numbers and is no clock is the state; where some columns have a
    successor `next_...`, those alone.

    Args:
        names: All columns of the table, in order.
        numeric: Those that hold numbers.
        options: What the caller named.

    Returns:
        The options with every column named, and sentences on what was found by name
        and what is left out.

    Raises:
        DataError: If a named column is absent or a needed one is not found.
    """
    _require_present(names, options)
    given = set(options.columns())
    free = [name for name in names if name not in given]
    found: dict[str, Sequence[str] | str] = {}
    for part, usual in USUAL.items():
        hits = [name for name in free if name.lower() in usual]
        if hits and getattr(options, part) is None:
            found[part] = hits[0]
    taken = {*_CLOCK, *(name for usual in USUAL.values() for name in usual)}
    free = [name for name in free if name in numeric and name.lower() not in taken]
    if options.actions is None:
        found["actions"] = [n for n in free if _ACTION.fullmatch(n.lower())]
        free = [name for name in free if name not in found["actions"]]
    if options.observations is None:
        rest = [n for n in free if n.removeprefix("next_") not in {*names} - {n}]
        found["observations"] = [n for n in rest if f"next_{n}" in free] or rest
    following = [f"next_{n}" for n in options.observations or found["observations"]]
    if options.next_observations is None and following and {*following} <= {*names}:
        found["next_observations"] = following
    settled = replace(options, **{part: c for part, c in found.items() if c})  # type: ignore[arg-type]
    _require_settled(names, settled)
    listed = [
        f"{part} = {columns if isinstance(columns, str) else ', '.join(columns)}"
        for part, columns in found.items()
    ]
    unused = [name for name in names if name not in set(settled.columns())]
    notes = [f"Found by name: {'; '.join(sorted(listed))}."] if listed else []
    notes += [f"Columns left out: {_shown(unused)}."] if unused else []
    return settled, tuple(notes)


def _require_present(names: Sequence[str], options: ReadOptions) -> None:
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise DataError(
            f"Every column must have its own name, {_shown(repeated)} occur more than "
            "once; rename them in the file."
        )
    absent = [name for name in options.columns() if name not in names]
    if absent:
        lower = {name.lower(): name for name in names}
        close = [
            lower[match]
            for name in absent
            for match in difflib.get_close_matches(name.lower(), list(lower), n=1)
        ]
        hint = f"; did you mean {_shown(close)}?" if close else "."
        raise DataError(
            f"The columns you name must be in the table, {_shown(absent)} are not; it "
            f"has {_shown(names)}{hint}"
        )


def _require_settled(names: Sequence[str], settled: ReadOptions) -> None:
    needed = ("observations", "actions", "reward")
    asked = [f"`{part}`" for part in needed if not getattr(settled, part)]
    if asked:
        raise DataError(
            f"The table must have states, actions and rewards, its columns are "
            f"{_shown(names)}; say which are which with {' and '.join(asked)}."
        )
    n_states, following = len(settled.observations or ()), settled.next_observations
    if following is not None and len(following) != n_states:
        raise DataError(
            "There must be as many `next_observations` as `observations`, got "
            f"{len(following)} and {n_states}; keep their order."
        )


def _shown(names: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(repr(name)[:40] for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown

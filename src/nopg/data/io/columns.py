"""Which column of a table is what: as the caller says, else by its usual name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nopg.data.io.options import ReadOptions
from nopg.errors import DataError

USUAL = {
    "reward": ("reward", "rewards", "r"),
    "episode": ("episode", "episode_id", "ep", "run", "trial"),
    "termination": ("termination", "terminated", "terminal", "done"),
    "truncation": ("truncation", "truncated", "timeout"),
}
"""Names by which a column is found when the caller names none, in any case."""
_ACTION = re.compile(r"(action|a|u)(_?\d+)?")
_CLOCK = ("", "t", "time", "timestamp", "step", "index")


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """The columns that were settled on."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    next_observations: tuple[str, ...] | None
    reward: str | None
    episode: str | None
    termination: str | None
    truncation: str | None
    notes: tuple[str, ...] = field(default=())
    """What was found by name, and what is left out."""


def settle_roles(
    names: Sequence[str], numeric: frozenset[str], options: ReadOptions
) -> ColumnRoles:
    """Give every part its column: as `options` say, else by its usual name.

    What else holds numbers and is no clock is the state; where some columns have a
    successor `next_...`, those alone.

    Args:
        names: All columns of the table, in order.
        numeric: Those that hold numbers.
        options: What the caller named.

    Raises:
        DataError: If a named column is absent or a needed one is not found.
    """
    _require_present(names, options)
    given = set(options.columns())
    free = [name for name in names if name not in given]
    single: dict[str, str | None] = {}
    for part, usual in USUAL.items():
        stated = getattr(options, part)
        hits = [name for name in free if stated is None and name.lower() in usual]
        single[part] = stated if isinstance(stated, str) else next(iter(hits), None)
    taken = {"", *_CLOCK, *(name for usual in USUAL.values() for name in usual)}
    free = [name for name in free if name in numeric and name.lower() not in taken]
    actions = options.actions or [n for n in free if _ACTION.fullmatch(n.lower())]
    states = options.observations
    if states is None:
        rest = [n for n in free if n not in actions and not _is_successor(n, names)]
        states = [n for n in rest if f"next_{n}" in free] or rest
    following = options.next_observations
    if following is None and states and all(f"next_{n}" in names for n in states):
        following = [f"next_{name}" for name in states]
    _require_settled(states, actions, following, single["reward"], names, options)
    parts: dict[str, Any] = {
        "observations": tuple(states),
        "actions": tuple(actions),
        "next_observations": None if following is None else tuple(following),
        **single,
    }
    return ColumnRoles(**parts, notes=_notes(parts, names, options))


def _is_successor(name: str, names: Sequence[str]) -> bool:
    return name.startswith("next_") and name.removeprefix("next_") in names


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


def _require_settled(
    states: Sequence[str],
    actions: Sequence[str],
    following: Sequence[str] | None,
    reward: str | None,
    names: Sequence[str],
    options: ReadOptions,
) -> None:
    asked = [] if states else ["`observations=[...]`"]
    asked += [] if actions else ["`actions=[...]`"]
    asked += [] if reward or options.reward else ["`reward=...`"]
    if asked:
        raise DataError(
            f"The table must have states, actions and rewards, its columns are "
            f"{_shown(names)}; say which are which with {' and '.join(asked)}."
        )
    if following is not None and len(following) != len(states):
        raise DataError(
            "There must be as many `next_observations` as `observations`, got "
            f"{len(following)} and {len(states)}; keep their order."
        )


def _notes(
    parts: dict[str, Any], names: Sequence[str], options: ReadOptions
) -> tuple[str, ...]:
    """A sentence on every part the caller did not name, and one on what is unused."""
    used: set[str] = set()
    found = []
    for part, columns in parts.items():
        listed = [columns] if isinstance(columns, str) else list(columns or ())
        used.update(listed)
        if listed and getattr(options, part) is None:
            found.append(f"{part} = {', '.join(listed)}")
    unused = [name for name in names if name not in used]
    notes = [f"Found by name: {'; '.join(found)}."] if found else []
    notes += [f"Columns left out: {_shown(unused)}."] if unused else []
    return tuple(notes)


def _shown(names: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(repr(name)[:40] for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown

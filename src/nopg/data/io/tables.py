"""From a table with named columns to transitions, whatever the table is kept in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from nopg.data.io.arrays import dataset_arguments
from nopg.data.io.cells import Kind, TableColumn
from nopg.data.io.clock import Arrays, follow_clock, hold_actions
from nopg.data.io.options import ReadOptions
from nopg.data.validation import preview
from nopg.errors import DataError, did_you_mean

_KINDS: dict[str, Kind] = {"termination": "flag", "truncation": "flag"}
_KINDS |= {"episode": "label", "time": "time"}  # of parts whose columns are not numbers
USUAL = {
    "reward": ("reward", "rewards", "r"),
    "episode": ("episode", "episode_id", "ep", "run", "trial"),
    "termination": ("termination", "terminated", "terminal", "done"),
    "truncation": ("truncation", "truncated", "timeout"),
    "time": ("time", "timestamp", "t"),
}  # names by which a column is found, in any case
_ACTION = re.compile(r"(action|a|u)(_?\d+)?")


class TableSource(Protocol):
    """Anything with named columns."""

    names: tuple[str, ...]  # all columns, in order
    numeric: frozenset[str]  # those that hold numbers
    notes: tuple[str, ...] = ()  # how the cells were read

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """The cells of these columns, some rows at a time."""


class MemoryTable(TableSource):
    """Columns that are already arrays, whatever holds them."""

    def __init__(self, table: Any, notes: tuple[str, ...] = ()) -> None:
        self.notes = notes
        self._columns = {str(n): np.asarray(table[n]) for n in getattr(table, "columns", table)}
        self.names = tuple(self._columns)
        self.numeric = frozenset(n for n, c in self._columns.items() if c.dtype.kind in "iuf")
        lengths = {name: column.shape for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1 or any(len(s) != 1 for s in lengths.values()):
            raise DataError(f"The columns of a table must be vectors of one length, got {lengths}.")

    def chunks(self, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """All rows at once."""
        yield {name: self._columns[name] for name in names}


def table_arguments(source: TableSource, options: ReadOptions) -> dict[str, Any]:
    """Read the columns that play a part; the arguments of `Dataset`."""
    settled, notes = settle_columns(source.names, source.numeric, options)
    columns_of = settled.parts()
    kinds = {n: _KINDS.get(part, "number") for part, names in columns_of.items() for n in names}
    table = {name: TableColumn(name, kind) for name, kind in kinds.items()}
    for chunk in source.chunks(list(kinds)):
        for name, column in table.items():
            column.add(chunk[name])
    arrays: Arrays = {}
    for part, names in columns_of.items():
        values, said = zip(*(table[name].array() for name in names), strict=True)
        arrays[f"{part.removesuffix('s')}s"] = np.column_stack(values)
        notes += sum(said, ())
    arrays, sample_time, timed = _in_time(arrays, settled)
    notes += (*source.notes, *timed)
    if settled.is_discrete is None:
        action, *others = columns_of["actions"]
        is_label = not others and table[action].is_whole and not (arrays["actions"] < 0).any()
        settled = replace(settled, is_discrete=is_label)
        if is_label:
            notes += (
                f"The action {action} is written in whole numbers without a sign and "
                "was taken as a discrete label; pass is_discrete=False if it is not.",
            )
    called = {"observation_names": settled.observations, "action_names": settled.actions}
    return dataset_arguments(arrays, settled, called | {"sample_time": sample_time, "notes": notes})


def _in_time(arrays: Arrays, options: ReadOptions) -> tuple[Arrays, float | None, tuple[str, ...]]:
    """Fill in held actions and follow the clock, where the table has one."""
    asked = [n for n in ("gap", "resample") if getattr(options, n) is not None]
    asked += ["repeated"] if options.repeated == "drop" else []
    clock = arrays.pop("times", None)
    if asked and (clock is None or "next_observations" in arrays):
        raise DataError(f"`{asked[0]}` needs a column of times and no s'; name it with `time`.")
    notes: tuple[str, ...] = ()
    if options.missing == "hold":
        arrays, kept, notes = hold_actions(arrays)
        clock = None if clock is None else clock[kept]
    if clock is None or "next_observations" in arrays:
        return arrays, None, notes
    arrays, sample_time, said = follow_clock(arrays, clock[:, 0], options)
    return arrays, sample_time, (*notes, *said)


def settle_columns(
    names: Sequence[str], numeric: frozenset[str], options: ReadOptions
) -> tuple[ReadOptions, tuple[str, ...]]:
    """Give every part its column: as `options` say, else by its usual name."""
    if repeated := sorted({name for name in names if list(names).count(name) > 1}):
        raise DataError(f"Every column must have its own name, rename one of {_shown(repeated)}.")
    if absent := [name for name in options.columns() if name not in names]:
        raise DataError(
            f"The columns you name must be in the table, {_shown(absent)} are not; it "
            f"has {_shown(names)}{did_you_mean(absent, names)}"
        )
    # Other numbers, but clocks, are the state; where some columns have a `next_...`, those alone.
    free = [name for name in names if name not in set(options.columns())]
    found: dict[str, Sequence[str] | str] = {}
    for part, usual in USUAL.items():
        hits = [name for name in free if name.lower() in usual]
        if hits and getattr(options, part) is None:
            found[part] = hits[0]
    taken = {"", "step", "index", *(name for usual in USUAL.values() for name in usual)}
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
    needed = ("observations", "actions", "reward")
    if asked := [f"`{part}`" for part in needed if not getattr(settled, part)]:
        raise DataError(
            f"The table must have states, actions and rewards, its columns are {_shown(names)}; "
            f"say which are which with {' and '.join(asked)}."
        )
    listed = [f"{p} = {', '.join(c)}" for p, c in settled.parts().items() if p in found]
    unused = [name for name in names if name not in set(settled.columns())]
    notes = [f"Found by name: {'; '.join(sorted(listed))}."] if listed else []
    notes += [f"Columns left out: {_shown(unused)}."] if unused else []
    return settled, tuple(notes)


def _shown(names: Sequence[str]) -> str:
    return preview([repr(name)[:40] for name in names], 12)

"""A data set at another sample time, each run on its own grid: `data.resample(0.1)`."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from nopg.data.past import in_runs
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, IntArray
from nopg.errors import ConfigError, DataError

Table = TypeVar("Table", bound=TransitionTable)
_ROUNDING = 1e-6  # share of a step that is lost to rounding: 0.3 is three times 0.1


def resample(table: Table, sample_time: float) -> Table:
    """The table with one row every `sample_time`, see `Dataset.resample`."""
    if not np.isfinite(sample_time) or sample_time <= 0.0:
        raise ConfigError(
            f"`sample_time` must be a positive time, got {sample_time!r}; pass the "
            "time from one row to the next."
        )
    if table.sample_time is None or table.history is not None:
        found = "they do not" if table.history is None else "and not add a history yet"
        raise DataError(
            f"Data to be resampled must know their sample time, {found}; load them "
            "with a time column or pass `sample_time`, and call with_history last."
        )
    order, age = in_runs(table, "Resampling")
    ratio, parts, n_left = sample_time / table.sample_time, [], 0.0
    for rows in np.split(order, np.flatnonzero(age == 0)[1:]):
        whole = int(len(rows) / ratio + _ROUNDING)
        if table.terminations[rows[-1]] and len(rows) / ratio - whole > _ROUNDING:
            whole += 1  # a shorter step, for an end must not be lost
        n_left += max(0.0, len(rows) - whole * ratio)
        grid: FloatArray = ratio * np.arange(whole + 1, dtype=np.float64)
        parts.append(_on_grid(table, rows, grid))
    columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    if len(columns["rewards"]) < 2:
        raise DataError(
            f"Episodes must be longer than a sample time of {sample_time:g}, there are "
            f"{len(table)} rows every {table.sample_time:g}; ask for a shorter one."
        )
    return table.with_note(
        f"Resampled from one row every {table.sample_time:g} to one every "
        f"{sample_time:g}: states on a line between rows, actions as the last one "
        f"before, rewards summed; left out: the time of {n_left:.4g} rows at the ends "
        "of runs, less than a step each.",
        **columns,
        sample_time=float(sample_time),
    )


def _on_grid(
    table: TransitionTable, rows: IntArray, grid: FloatArray
) -> dict[str, Any]:
    """One run at times `grid`, (T + 1,), in rows from its first on."""
    last = table.next_observations[rows[-1:]]
    path = np.concatenate([table.observations[rows], last])
    clock, earned = np.arange(len(path)), np.cumsum(table.rewards[rows])
    states = np.column_stack([np.interp(grid, clock, column) for column in path.T])
    held = rows[(grid[:-1] + _ROUNDING).astype(np.int64)]
    is_last = np.arange(len(held)) == len(held) - 1
    assert table.episodes is not None
    return {
        "observations": states[:-1],
        "next_observations": states[1:],
        "actions": table.actions[held],
        "rewards": np.diff(np.interp(grid, clock, np.append(0.0, earned))),
        "episodes": table.episodes[held],
        "terminations": table.terminations[rows[-1]] & is_last,
        "truncations": table.truncations[rows[-1]] & is_last,
    }

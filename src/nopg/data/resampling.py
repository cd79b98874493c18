"""A data set at another sample time: `data.resample(0.1)`.

Runs of rows that follow each other are laid on a grid from their first row on: states
on a line between rows, actions as the last one before, rewards summed over each step,
as if a row earned its own evenly.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from nopg.data.past import in_runs
from nopg.data.transitions import TransitionTable
from nopg.data.validation import counted
from nopg.errors import ConfigError, DataError

Table = TypeVar("Table", bound=TransitionTable)
_ROUNDING = 1e-6
"""Share of a step that is lost to rounding: 0.3 is three times 0.1."""


def resample(table: Table, sample_time: float) -> Table:
    """The table with one row every `sample_time`.

    A run that ends between two times of the grid loses what is left, less than a step;
    unless it terminates there: the last step is then a shorter one.

    Args:
        table: Transitions in episodes, with a sample time.
        sample_time: The one that is wanted.

    Raises:
        ConfigError: If it is no time.
        DataError: If the data have no sample time, no episodes, or a history.
    """
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
    ratio = sample_time / table.sample_time
    parts, n_left = [], 0.0
    for rows in np.split(order, np.flatnonzero(age == 0)[1:]):
        n_steps = len(rows) / ratio
        whole = int(n_steps + _ROUNDING)
        if table.terminations[rows[-1]] and n_steps - whole > _ROUNDING:
            whole += 1
        n_left += max(0.0, len(rows) - whole * ratio)
        if whole:
            parts.append(_on_grid(table, rows, ratio * np.arange(whole + 1)))
    if sum(len(part["rewards"]) for part in parts) < 2:
        raise DataError(
            f"Episodes must be longer than a sample time of {sample_time:g}, of "
            f"{counted(len(table), 'row')} every {table.sample_time:g} none or one is "
            "left; ask for a shorter one."
        )
    columns = {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}
    return table.with_note(
        f"Resampled from one row every {table.sample_time:g} to one every "
        f"{sample_time:g}: states on a line between rows, actions as the last one "
        f"before, rewards summed; left out: the time of {n_left:.4g} rows at the ends "
        "of runs, less than a step each.",
        **columns,
        sample_time=float(sample_time),
    )


def _on_grid(
    table: TransitionTable, rows: np.ndarray, grid: np.ndarray
) -> dict[str, np.ndarray]:
    """One run at times `grid`, (T + 1,), in rows from its first on."""
    path = np.concatenate(
        [table.observations[rows], table.next_observations[rows[-1:]]]
    )
    clock = np.arange(len(path))
    states = np.column_stack([np.interp(grid, clock, column) for column in path.T])
    earned = np.append(0.0, np.cumsum(table.rewards[rows]))
    held = rows[(grid[:-1] + _ROUNDING).astype(np.int64)]
    is_last = np.arange(len(held)) == len(held) - 1
    ends = {
        name: getattr(table, name)[rows[-1]] & is_last
        for name in ("terminations", "truncations")
    }
    assert table.episodes is not None
    return ends | {
        "observations": states[:-1],
        "next_observations": states[1:],
        "actions": table.actions[held],
        "rewards": np.diff(np.interp(grid, clock, earned)),
        "episodes": table.episodes[held],
    }

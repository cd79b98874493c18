"""Rows at another rate: actions held until the next, everything on one grid."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.validation import BoolArray, FloatArray, IntArray, counted

Arrays = dict[str, NDArray[Any]]  # columns (n, d) by the names of `Dataset`
LATE = 0.25  # steps by which a row may be late and still count at a time of the grid


def hold_actions(arrays: Arrays) -> tuple[Arrays, BoolArray, tuple[str, ...]]:
    """Give rows without an action the last one of their episode; rows in file order.

    A row without a state is left out, and so are rows before the first action.
    """
    n = len(arrays["actions"])
    ids = numbered(arrays["episodes"][:, 0]) if "episodes" in arrays else np.zeros(n)
    has_action = np.asarray(~np.isnan(arrays["actions"]).any(axis=1))
    has_state = np.asarray(~np.isnan(arrays["observations"]).any(axis=1))
    source = np.full(n, -1)
    order = np.argsort(ids, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(ids[order])) + 1):
        source[rows] = np.maximum.accumulate(np.where(has_action[rows], rows, -1))
    kept = has_state & (source >= 0)
    held = arrays | {"actions": arrays["actions"][source]}
    latest = np.maximum.accumulate(np.where(kept, np.arange(n), -1))
    for flag in {"terminations", "truncations"} & set(arrays):
        lost = np.flatnonzero(arrays[flag][:, 0] & ~kept & (latest >= 0))
        held[flag] = arrays[flag].copy()
        held[flag][latest[lost]] = True  # what ended did so after the last state
    counts = [
        int(which.sum())
        for which in (kept & ~has_action, ~has_state, ~kept & has_state)
    ]
    note = (
        f"Held: the last action before, in {counted(counts[0], 'row')} without one; "
        f"left out: {counted(counts[1], 'row')} without a state and "
        f"{counted(counts[2], 'row')} before the first action."
    )
    return {name: array[kept] for name, array in held.items()}, kept, (note,)


def resampled(
    arrays: Arrays, times: FloatArray, is_cut: BoolArray, step: float
) -> tuple[Arrays, str]:
    """Stretches of rows, cut at `is_cut` (n - 1,) and flags, on a grid of their own."""
    ended = sum(arrays[n][:, 0] for n in ("terminations", "truncations") if n in arrays)
    is_end: BoolArray = np.append(is_cut, True) | (ended > 0)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in arrays}
    first = 0
    for last in np.flatnonzero(is_end):
        rows = slice(first, last + 1)
        clock = times[rows] - times[first]
        own = float(np.median(np.diff(clock))) if len(clock) > 1 else step
        # Clocks jitter: a row that is a little late is still the row of its time.
        n_steps = int(clock[-1] / step + 1e-3) + 1
        grid: FloatArray = step * np.arange(n_steps, dtype=np.float64)
        late = LATE * min(own, step)
        before = np.searchsorted(clock, grid + late, side="right") - 1
        for name, array in arrays.items():
            values = array[rows]
            if name == "observations":
                values = np.column_stack([np.interp(grid, clock, c) for c in values.T])
            elif name == "rewards":
                values = _summed(values[:, 0], np.append(clock, clock[-1] + own), grid)
            elif name in ("terminations", "truncations"):
                values = np.append(np.zeros(n_steps - 1), values[-1])[:, None] > 0
            else:
                values = values[before]
            parts[name].append(values)
        first = int(last) + 1
    note = (
        f"Resampled to one row every {step:g}: states on a line between rows, actions "
        "as the last one before (or a quarter of a step later, for clocks jitter), "
        "rewards so that they keep their sum."
    )
    return {name: np.concatenate(values) for name, values in parts.items()}, note


def _summed(rewards: FloatArray, ends: FloatArray, grid: FloatArray) -> FloatArray:
    """What is earned in each step of the grid; the last keeps what is left, (T, 1)."""
    closing = np.append(rewards[:-1], np.nan_to_num(rewards[-1]))  # may be empty
    total = np.append(0.0, np.cumsum(closing))
    earned = np.interp(np.append(grid, np.inf), ends, total)
    return np.asarray(np.diff(earned))[:, None]


def numbered(ids: NDArray[Any]) -> IntArray:
    """The ids as 0, 1, 2, ... in order of appearance, (n,)."""
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes.reshape(-1)])

"""What a column of times says of the rows: sample time, jitter, gaps, other rates.

1. Times must not run backwards. Without an episode column, a clock's restart begins an episode.
2. A row that repeats the one before, time included, is kept unless asked otherwise.
3. An interval far longer than the others is a gap and ends the episode.
4. On request the rows are laid on a regular grid: states on a line between rows,
   actions as the last one before, rewards so that they keep their sum.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.io.options import ReadOptions
from nopg.data.validation import BoolArray, FloatArray, IntArray, counted, preview
from nopg.errors import DataError, warn

Arrays = dict[str, NDArray[Any]]  # columns (n, d) by the names of `Dataset`
_GAP, _JITTERS = 1.5, 10.0  # a gap is longer than so many sample times, and jitters
LATE = 0.25  # steps by which a row may be late and still count at a time of the grid


def follow_clock(
    arrays: Arrays, times: FloatArray, options: ReadOptions
) -> tuple[Arrays, float | None, tuple[str, ...]]:
    """Rows in the order of their clock, the sample time if there is one, and notes."""
    arrays, times, ids = _in_order(arrays, times)
    arrays, times, ids, notes = _without_repeats(arrays, times, ids, options)
    passed = _passed(times, ids)
    if not (is_known := np.isfinite(passed) & (passed > 0)).any():
        return arrays, None, notes  # single rows: no time passes
    steps, longest = _sample_times(passed, options)  # (n - 1,) each
    is_gap = np.isfinite(passed) & (passed > longest)
    is_cut, n_restarts = np.isinf(passed) | is_gap, 0
    if "episodes" not in arrays:  # alignment numbers what lies between such rows
        ended = arrays.get("truncations", np.zeros((len(times), 1), dtype=bool))
        arrays["truncations"] = ended | np.append(is_cut, False)[:, None]
        n_restarts = int(ids[-1])
    elif is_gap.any():
        arrays["episodes"] = np.append(0, np.cumsum(is_cut))[:, None]
    step, is_regular = float(np.median(steps)), is_known & ~is_gap
    jitter = float(np.std(passed[is_regular] / steps[is_regular]))
    notes += _said(step, jitter, int(is_gap.sum()), n_restarts)
    if options.resample is None:
        if jitter > 0.2:  # of a sample time
            warn(
                f"Rows should be evenly spaced, their intervals vary by {jitter:.0%}, "
                f"and what one step does with them; resample={step:.3g} evens it out."
            )
        return arrays, step, notes
    n_cells = sum(array.shape[1] for array in arrays.values())
    n_rows = len(times) + passed[is_regular].sum() / options.resample
    options.require_size(int(8 * n_cells * n_rows), "the grid of times")
    arrays, note = resampled(arrays, times, is_cut, options.resample)
    return arrays, options.resample, (*notes, note)


def _in_order(arrays: Arrays, times: FloatArray) -> tuple[Arrays, FloatArray, IntArray]:
    """Rows, times and numbers of the episodes, one episode after the other."""
    if (bad := ~np.isfinite(times)).any():
        raise DataError(
            f"Every row must have a time, rows (counted from 1) {preview(np.flatnonzero(bad) + 1)} "
            "have none; repair them, or pass time='' to read without a clock."
        )
    given = arrays.get("episodes")
    ids = _restarts(times) if given is None else numbered(given[:, 0])
    order = np.argsort(ids, kind="stable")
    times, ids = times[order], ids[order]
    if (is_back := _passed(times, ids) < 0).any():
        raise DataError(
            "Times must not run backwards within an episode, they do at rows (counted "
            f"from 1) {preview(order[1:][is_back] + 1)}; sort the rows, or name the "
            "column that tells the episodes apart with `episode`."
        )
    return {name: array[order] for name, array in arrays.items()}, times, ids


def _restarts(times: FloatArray) -> IntArray:
    """An episode for each row, a new one where the clock is back at its start, (n,)."""
    starts = [0]
    for row in np.flatnonzero(np.diff(times) < 0) + 1:
        if times[row] <= times[starts[-1]]:
            starts.append(int(row))
    return np.searchsorted(starts, np.arange(len(times)), side="right") - 1


def _passed(times: FloatArray, ids: IntArray) -> FloatArray:
    """Time from each row to the next, infinite after an episode's last, (n - 1,)."""
    return np.where(ids[1:] == ids[:-1], np.diff(times), np.inf)


def _without_repeats(
    arrays: Arrays, times: FloatArray, ids: IntArray, options: ReadOptions
) -> tuple[Arrays, FloatArray, IntArray, tuple[str, ...]]:
    shared = _passed(times, ids) == 0
    same = shared.copy()
    for array in arrays.values():
        now, before = array[1:].astype(float), array[:-1].astype(float)
        same &= ((now == before) | (np.isnan(now) & np.isnan(before))).all(axis=1)
    if (other := shared & ~same).any():
        raise DataError(
            "Rows of one time must be the same, rows (counted from 1) "
            f"{preview(np.flatnonzero(other) + 2)} differ from the row before; pass missing='hold' "
            "if states and actions were logged apart, or time='' if the clock is too coarse to use."
        )
    found = counted(int(same.sum()), "row")
    if same.any() and options.repeated == "keep":
        warn(f"There must be one row per time, {found} repeat one; kept, unless repeated='drop'.")
    if not same.any() or options.repeated == "keep":
        return arrays, times, ids, ()
    kept = np.append(True, ~same)
    arrays = {name: array[kept] for name, array in arrays.items()}
    note = f"Dropped: {found} that repeat the one before, time included."
    return arrays, times[kept], ids[kept], (note,)


def _sample_times(passed: FloatArray, options: ReadOptions) -> tuple[FloatArray, FloatArray]:
    """The sample time and the longest interval that is no gap, each (n - 1,)."""
    steps, longest = np.empty(len(passed)), np.empty(len(passed))
    every = passed[np.isfinite(passed) & (passed > 0)]
    for rows in np.split(np.arange(len(passed)), np.flatnonzero(np.isinf(passed)) + 1):
        own = passed[rows][np.isfinite(passed[rows]) & (passed[rows] > 0)]
        own = own if len(own) >= 3 else every
        step = float(np.median(own))
        jitter = 1.4826 * float(np.median(np.abs(own - step)))
        steps[rows], longest[rows] = step, max(_GAP * step, step + _JITTERS * jitter)
    if options.gap is not None:
        longest[:] = options.gap
    if options.resample is None and steps.max() > 1.5 * steps.min():
        raise DataError(
            f"All episodes must have one sample time, found {steps.min():.3g} to "
            f"{steps.max():.3g}; bring them to one with resample={steps.max():.3g}."
        )
    return steps, longest


def _said(step: float, jitter: float, n_gaps: int, n_restarts: int) -> tuple[str, ...]:
    notes = [f"Sample time {step:.4g}, jitter {jitter:.1%}: deviation of the intervals."]
    if n_gaps:
        notes.append(
            f"Gaps: {counted(n_gaps, 'interval')} far longer than the sample time; the episode "
            "ends before, and a new one begins after."
        )
    if n_restarts:
        notes.append(f"No episode column: the clock starts again {counted(n_restarts, 'time')}.")
    return tuple(notes)


def hold_actions(arrays: Arrays) -> tuple[Arrays, BoolArray, tuple[str, ...]]:
    """Give rows without an action the last one of their episode; rows in file order."""
    # A row without a state is left out, and so are rows before the first action.
    n = len(arrays["actions"])
    ids = numbered(arrays["episodes"][:, 0]) if "episodes" in arrays else np.zeros(n)
    parts = arrays["actions"], arrays["observations"]
    has_action, has_state = (np.asarray(~np.isnan(part).any(axis=1)) for part in parts)
    source, order = np.full(n, -1), np.argsort(ids, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(ids[order])) + 1):
        source[rows] = np.maximum.accumulate(np.where(has_action[rows], rows, -1))
    kept = has_state & (source >= 0)
    held = arrays | {"actions": arrays["actions"][source]}
    latest = np.maximum.accumulate(np.where(kept, np.arange(n), -1))
    for flag in {"terminations", "truncations"} & set(arrays):
        lost = np.flatnonzero(arrays[flag][:, 0] & ~kept & (latest >= 0))
        held[flag] = arrays[flag].copy()
        held[flag][latest[lost]] = True  # what ended did so after the last state
    counts = [int(which.sum()) for which in (kept & ~has_action, ~has_state, ~kept & has_state)]
    note = (
        f"Held: the last action before, in {counted(counts[0], 'row')} without one; "
        f"left out: {counted(counts[1], 'row')} without a state and "
        f"{counted(counts[2], 'row')} before the first action."
    )
    return {name: array[kept] for name, array in held.items()}, kept, (note,)


def resampled(arrays: Arrays, times: FloatArray, cut: BoolArray, step: float) -> tuple[Arrays, str]:
    """Stretches of rows, cut at `cut` (n - 1,) and flags, on a grid of their own."""
    ended = sum(arrays[n][:, 0] for n in ("terminations", "truncations") if n in arrays)
    is_end: BoolArray = np.append(cut, True) | (ended > 0)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in arrays}
    for rows in np.split(np.arange(len(times)), np.flatnonzero(is_end[:-1]) + 1):
        clock = times[rows] - times[rows[0]]
        own = float(np.median(np.diff(clock))) if len(clock) > 1 else step
        # Clocks jitter: a row that is a little late is still the row of its time.
        n_steps = int(clock[-1] / step + 1e-3) + 1
        grid: FloatArray = step * np.arange(n_steps, dtype=np.float64)
        before = np.searchsorted(clock, grid + LATE * min(own, step), side="right") - 1
        for name, array in arrays.items():
            values = array[rows]
            if name == "observations":
                values = np.column_stack([np.interp(grid, clock, c) for c in values.T])
            elif name == "rewards":
                # What is earned in each step of the grid; the last keeps what is left.
                paid = np.append(values[:-1], np.nan_to_num(values[-1]))
                sums, ends = np.append(0.0, np.cumsum(paid)), np.append(clock, clock[-1] + own)
                values = np.diff(np.interp(np.append(grid, np.inf), ends, sums))[:, None]
            elif name in ("terminations", "truncations"):
                values = np.append(np.zeros(n_steps - 1), values[-1])[:, None] > 0
            else:
                values = values[before]
            parts[name].append(values)
    note = (
        f"Resampled to one row every {step:g}: states on a line between rows, actions "
        "as the last one before (or a quarter of a step later, for clocks jitter), "
        "rewards so that they keep their sum."
    )
    return {name: np.concatenate(values) for name, values in parts.items()}, note


def numbered(ids: NDArray[Any]) -> IntArray:
    """The ids as 0, 1, 2, ... in order of appearance, (n,)."""
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes.reshape(-1)])

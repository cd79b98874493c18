"""Past actions and observations of every row of a log: `data.with_history(5)`."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nopg.data.history import HistoryLayout
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, IntArray, counted
from nopg.errors import DataError, require_count

Table = TypeVar("Table", bound=TransitionTable)


def with_history(table: Table, observations: int, actions: int) -> Table:
    """The table with past observations and actions as columns of the state."""
    require_count("observations", observations, 0)
    require_count("actions", actions, 0)
    if table.history is not None:
        raise DataError("A history is added once, these data have one; start from others.")
    if observations == actions == 0:
        return table
    order, age = in_runs(table, "A history", max(observations, actions))
    counts = (table.observations.shape[1], int(observations), int(actions))
    layout = HistoryLayout(*counts, _possible(table, 0.0), table.is_discrete)
    if actions and not table.is_discrete:
        layout = replace(layout, before=_before(table, layout, order, age))
    states = _states(table, layout, order, age)
    filled = "; before each first step the first observation is repeated"
    if actions:
        numbers = ", ".join(f"{value:.4g}" for value in layout.before)
        filled += f" and the action counts as {'none' if table.is_discrete else numbers}"
    return table.with_note(
        f"Added {counted(int(observations), 'past observation')} and "
        f"{counted(int(actions), 'past action')} to the state, in "
        f"{counted(int((age == 0).sum()), 'run')} of rows that follow each other{filled}.",
        observations=states,
        next_observations=layout.join(table.next_observations, layout.after(states, table.actions)),
        observation_names=_names(table, layout),
        observation_space=None,
        history=layout,
    )


def known_states(table: TransitionTable) -> FloatArray:
    """The first state of each run of rows whose whole past is known, (R, width)."""
    layout = table.history
    assert layout is not None
    steps = max(layout.observations, layout.actions)
    order, age = in_runs(table, "A history", steps)
    return np.asarray(table.observations[order[age == steps]])


def in_runs(table: TransitionTable, what: str, steps: int = 0) -> tuple[IntArray, IntArray]:
    """Rows in time order, and how many of its own run precede each, (n,) both."""
    if table.episodes is None:
        raise DataError(f"{what} needs rows in time order with episode ids; pass `episodes`.")
    if (sizes := np.unique(table.episodes, return_counts=True)[1]).min() < steps:
        raise DataError(
            f"A history of {counted(steps, 'step')} must not be longer than the shortest episode, "
            f"which has {counted(int(sizes.min()), 'row')}; ask for fewer, or leave it out."
        )
    order, is_first = table.run_starts
    if is_first.all():
        raise DataError(f"{what} needs rows in time order, none follows another; sort them.")
    place = np.arange(len(order))
    return order, place - np.maximum.accumulate(np.where(is_first, place, 0))


def _states(
    table: TransitionTable, layout: HistoryLayout, order: IntArray, age: IntArray
) -> FloatArray:
    """Every row with its past, in the order of the table, (n, width)."""
    place = np.arange(len(order))
    seen, taken = table.observations[order], table.actions[order]
    taken = np.eye(len(layout.before))[taken] if layout.is_discrete else taken
    columns: list[NDArray[Any]] = [seen]
    for lag in range(1, layout.observations + 1):
        later, earlier = (place - np.minimum(step, age) for step in (lag - 1, lag))
        columns.append(seen[later] - seen[earlier])
    for lag in range(1, layout.actions + 1):
        known = (age >= lag)[:, None]
        columns.append(np.where(known, taken[place - lag * (age >= lag)], layout.before))
    return np.concatenate(columns, axis=1)[np.argsort(order)]


def _before(
    table: TransitionTable, layout: HistoryLayout, order: IntArray, age: IntArray
) -> tuple[float, ...]:
    """The constant action that best explains how episodes begin, (d_a,)."""
    # A linear model of the rows whose past is known says what each past action does; what it leaves
    # of the first rows is explained by least squares.
    d_a, k = len(layout.before), layout.actions
    states = _states(table, replace(layout, before=(0.0,) * d_a), order, age)[order]
    inputs = np.column_stack([states, table.actions[order], np.ones(len(states))])
    moved = (table.next_observations - table.observations)[order]
    is_first, is_known = age < k, age >= k
    if is_known.sum() <= 2 * inputs.shape[1]:
        return layout.before
    weights = np.linalg.lstsq(inputs[is_known], moved[is_known], rcond=1e-9)[0]
    left = moved - inputs @ weights  # (n, d_o)
    spread = left[is_known].std(axis=0)
    unit = np.where(spread > 0.0, spread, 1.0)
    by_lag = weights[layout.width - k * d_a : layout.width].reshape(k, d_a, -1)
    # What is missing of a row of age t are the lags from t + 1 on.
    missing = by_lag[::-1].cumsum(axis=0)[::-1][age[is_first]] / unit  # (m, d_a, d_o)
    design = missing.transpose(0, 2, 1).reshape(-1, d_a)
    if np.linalg.matrix_rank(design) < d_a:
        return layout.before
    wanted = (left[is_first] / unit).reshape(-1)
    found = np.linalg.lstsq(design, wanted, rcond=None)[0]
    variance = np.mean((wanted - design @ found) ** 2)
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * variance)
    return _possible(table, np.where(np.abs(found) > 2.0 * error + 1e-9, found, 0.0))


def _possible(table: TransitionTable, action: Any) -> tuple[float, ...]:
    """The possible action nearest to `action`; of labels none, which is all 0."""
    if table.is_discrete:
        return (0.0,) * table.n_actions
    low = getattr(table.action_space, "low", table.actions.min(axis=0))
    high = getattr(table.action_space, "high", table.actions.max(axis=0))
    return tuple(np.clip(action, low, high).astype(np.float64).tolist())


def _names(table: TransitionTable, layout: HistoryLayout) -> tuple[str, ...]:
    """`level`, `level-level[t-1]`, `pump[t-1]`; of labels `a[t-1]=2`."""
    ends = [f"={i}" for i in range(len(layout.before))] if layout.is_discrete else [""]
    found = list(table.observation_names)
    for lag in range(1, layout.observations + 1):
        now = f"[t-{lag - 1}]" if lag > 1 else ""
        found += [f"{name}{now}-{name}[t-{lag}]" for name in table.observation_names]
    for lag in range(1, layout.actions + 1):
        found += [f"{name}[t-{lag}]{end}" for name in table.action_names for end in ends]
    return tuple(found)

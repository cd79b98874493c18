"""What the columns tell: repeats, outliers, angles, actions never tried, rewards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.data.diagnostics.description import Diagnostic
from nopg.data.transitions import TransitionTable
from nopg.data.validation import BoolArray, FloatArray, counted

if TYPE_CHECKING:
    from gymnasium.spaces import Space

_FEW_LEVELS = 5
_FAR = 10.0
"""An outlier lies this many robust standard deviations from the median."""


def column_diagnostics(table: TransitionTable) -> Iterator[Diagnostic]:
    """Diagnostics that look at rows one by one, whatever their order."""
    yield from _duplicates(table)
    yield from _constants(table)
    yield from _outliers(table)
    yield from _wrapped_angles(table)
    yield from _rewards(table)


def _duplicates(table: TransitionTable) -> Iterator[Diagnostic]:
    rows = np.hstack([table.observations, table.actions.reshape(len(table), -1)])
    repeated = len(rows) - len(np.unique(rows, axis=0))
    if repeated:
        share = repeated / len(table)
        yield Diagnostic(
            "duplicates",
            "warning" if share > 0.05 else "note",
            f"Repeated (s, a): {counted(repeated, 'row')} ({share:.1%}).",
            "Repeated rows weigh as much as they are often, and they pull automatic "
            "bandwidths towards zero; drop them if they are copies of one measurement.",
        )


def _constants(table: TransitionTable) -> Iterator[Diagnostic]:
    spread = np.ptp(table.observations, axis=0)
    names = [n for n, s in zip(table.observation_names, spread, strict=True) if s == 0]
    if names:
        yield Diagnostic(
            "constant_columns",
            "warning",
            f"The state {' and '.join(names)} never changes.",
            "A constant column has no bandwidth and says nothing about the value; "
            "leave it out with nopg.data.select.",
        )


def _outliers(table: TransitionTable) -> Iterator[Diagnostic]:
    # States only: a reward may well be a thousand once, at the goal.
    columns = zip(table.observation_names, table.observations.T, strict=True)
    counts = {name: int(_is_far(values).sum()) for name, values in columns}
    shown = ", ".join(f"{count} in {name}" for name, count in counts.items() if count)
    if shown:
        yield Diagnostic(
            "outliers",
            "warning",
            f"Values over {_FAR:g} robust deviations from the median: {shown}.",
            "Such rows stretch the bandwidth of their column and stand alone; check "
            "whether the sensor failed there, and drop those rows if it did.",
        )


def _is_far(values: FloatArray) -> BoolArray:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    # 1.349 is the width between the quartiles of a standard normal; where half the
    # values are equal the quartiles say nothing and the deviation has to do.
    scale = (high - low) / 1.349 or float(values.std())
    return np.asarray((np.abs(values - middle) > _FAR * scale) & (scale > 0))


def _wrapped_angles(table: TransitionTable) -> Iterator[Diagnostic]:
    steps = np.abs(table.next_observations - table.observations)
    span = np.ptp(np.vstack([table.observations, table.next_observations]), axis=0)
    for name, step, width in zip(table.observation_names, steps.T, span, strict=True):
        for turn, unit in ((2 * np.pi, "radians"), (360.0, "degrees")):
            wraps = int((np.abs(step - turn) < 0.25 * turn).sum())
            # Wrapping means whole turns in one step while most steps are small.
            is_circle = width <= 1.001 * turn and np.median(step) < 0.1 * turn
            if wraps and is_circle:
                yield Diagnostic(
                    "wrapped_angle",
                    "warning",
                    f"{name} jumps by a whole turn in {counted(wraps, 'step')}: an "
                    f"angle in {unit} that wraps around.",
                    "The kernel takes both ends of the circle for far apart; replace "
                    "the angle by its sine and cosine with "
                    "nopg.data.angle_to_sine_cosine.",
                )


def _rewards(table: TransitionTable) -> Iterator[Diagnostic]:
    values, counts = np.unique(table.rewards, return_counts=True)
    rare = len(table) - int(counts.max())
    if len(values) == 1:
        yield Diagnostic(
            "constant_reward",
            "note" if table.terminations.any() else "warning",
            f"The reward is {values[0]:g} in every row.",
            "Only terminations can then tell good from bad; without them every policy "
            "is worth the same. Compute a reward with nopg.data.with_rewards.",
        )
    elif rare < 0.05 * len(table):
        yield Diagnostic(
            "sparse_reward",
            "warning" if rare < 10 else "note",
            f"The reward is {values[counts.argmax()]:g} in all but {rare} rows.",
            "The value is carried from these few rows through the data, so the path "
            "to them must be covered; a reward that grows on the way helps.",
        )


def action_diagnostics(
    table: TransitionTable, space: Space[Any] | None
) -> Iterator[Diagnostic]:
    """Diagnostics of discrete labels, or of each continuous action."""
    if table.is_discrete:
        yield from _labels(table)
        return
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    for i, name in enumerate(table.action_names):
        values: FloatArray = table.actions[:, i].astype(np.float64)
        bounds = None
        if low is not None and high is not None:
            bounds = float(low[i]), float(high[i])
            yield from _outside(name, values, *bounds)
        yield from _levels(name, values, bounds)


def _labels(table: TransitionTable) -> Iterator[Diagnostic]:
    counts = np.bincount(table.actions, minlength=table.n_actions)
    untried = [str(label) for label in np.nonzero(counts == 0)[0]]
    if untried:
        yield Diagnostic(
            "untried_actions",
            "warning",
            f"The actions {', '.join(untried[:10])} occur in no row.",
            "Nothing is known about them; the learner can only avoid them. Record some "
            "rows with each, or renumber the labels without them.",
        )


def _outside(
    name: str, values: FloatArray, low: float, high: float
) -> Iterator[Diagnostic]:
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        yield Diagnostic(
            "actions_out_of_bounds",
            "warning",
            f"{outside:,} rows have {name} outside [{low:g}, {high:g}]; the data span "
            f"{values.min():g} to {values.max():g}.",
            "If the system clipped them, the log holds what was asked for and not what "
            "was done: clip the column so that both agree.",
        )


def _levels(
    name: str, values: FloatArray, bounds: tuple[float, float] | None
) -> Iterator[Diagnostic]:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        yield Diagnostic(
            "constant_action",
            "warning",
            f"The action {name} is {distinct[0]:g} in every row.",
            "The data never show what another action does, so no policy can be told "
            "from another; record with varied actions.",
        )
        return
    if len(distinct) <= _FEW_LEVELS:
        yield Diagnostic(
            "few_action_levels",
            "note",
            f"The action {name} takes only the values "
            f"{', '.join(f'{value:g}' for value in distinct)}.",
            "Actions between them are interpolated, not observed; make it a discrete "
            "label if nothing lies between.",
        )
        return
    low, high = bounds if bounds is not None else (values.min(), values.max())
    share = float(((values <= low) | (values >= high)).mean())
    if share > max(0.05, 4.0 / len(values)):
        yield Diagnostic(
            "saturated_actions",
            "note",
            f"{share:.0%} of the rows have {name} at {low:g} or {high:g}.",
            "The controller wanted more than it got there; the log must hold the "
            "action as applied, and the policy the same limits.",
        )
    inner, often = distinct[1:-1], counts[1:-1]
    if often.max() > 0.2 * len(values):
        yield Diagnostic(
            "frequent_action",
            "note",
            f"{often.max() / len(values):.0%} of the rows have {name} at exactly "
            f"{inner[often.argmax()]:g}.",
            "Equal values pull an automatic bandwidth towards zero, until each action "
            "stands alone; widen its bandwidth if learning stalls.",
        )

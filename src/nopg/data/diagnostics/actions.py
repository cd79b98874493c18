"""What the actions tell: bounds, saturation, few levels, labels never tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.data.diagnostics.description import Diagnostic
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray

if TYPE_CHECKING:
    from gymnasium.spaces import Space

_FEW_LEVELS = 5


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

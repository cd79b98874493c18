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


def action_findings(
    dataset: TransitionTable, space: Space[Any] | None
) -> Iterator[Diagnostic]:
    """Findings on discrete labels, or on each continuous action."""
    if dataset.is_discrete:
        yield from _labels(dataset)
        return
    low = getattr(space, "low", None)
    high = getattr(space, "high", None)
    for i, name in enumerate(dataset.action_names):
        values: FloatArray = dataset.actions[:, i].astype(np.float64)
        bounds = (
            None if low is None or high is None else (float(low[i]), float(high[i]))
        )
        yield from _continuous(name, values, bounds)


def _labels(dataset: TransitionTable) -> Iterator[Diagnostic]:
    counts = np.bincount(dataset.actions, minlength=dataset.n_actions)
    untried = [str(label) for label in np.nonzero(counts == 0)[0]]
    if untried:
        shown = ", ".join(untried[:10])
        yield Diagnostic(
            name="untried_actions",
            level="warning",
            what=f"The actions {shown} occur in no row.",
            meaning="Nothing is known about them; the learner can only avoid them. "
            "Record some rows with each, or renumber the labels without them.",
        )
    else:
        yield Diagnostic(
            name="action_counts",
            level="note",
            what=f"The rarest of {len(counts)} actions occurs {counts.min():,} times, "
            f"the most frequent {counts.max():,} times.",
            meaning="Each action is judged by its own rows only.",
        )


def _continuous(
    name: str, values: FloatArray, bounds: tuple[float, float] | None
) -> Iterator[Diagnostic]:
    if bounds is not None:
        outside = int(((values < bounds[0]) | (values > bounds[1])).sum())
        if outside:
            yield Diagnostic(
                name="actions_out_of_bounds",
                level="warning",
                what=f"{outside:,} rows have {name} outside [{bounds[0]:g}, "
                f"{bounds[1]:g}]; the data span {values.min():g} to {values.max():g}.",
                meaning="If the system clipped them, the log holds what was asked for "
                "and not what was done: clip the column so that both agree.",
            )
    distinct = np.unique(values)
    if len(distinct) == 1:
        yield Diagnostic(
            name="constant_action",
            level="warning",
            what=f"The action {name} is {distinct[0]:g} in every row.",
            meaning="The data never show what another action does, so no policy can be "
            "told from another; record with varied actions.",
        )
        return
    if len(distinct) <= _FEW_LEVELS:
        shown = ", ".join(f"{value:g}" for value in distinct)
        yield Diagnostic(
            name="few_action_levels",
            level="note",
            what=f"The action {name} takes only the values {shown}.",
            meaning="Actions between them are interpolated, not observed; make it a "
            "discrete label if nothing lies between.",
        )
        return
    yield from _saturation(name, values, bounds)
    yield from _favourite(name, values)


def _saturation(
    name: str, values: FloatArray, bounds: tuple[float, float] | None
) -> Iterator[Diagnostic]:
    low, high = bounds if bounds is not None else (values.min(), values.max())
    share = float(((values <= low) | (values >= high)).mean())
    if share > max(0.05, 4.0 / len(values)):
        yield Diagnostic(
            name="saturated_actions",
            level="note",
            what=f"{share:.0%} of the rows have {name} at {low:g} or {high:g}.",
            meaning="The controller wanted more than it got there; the log must hold "
            "the action as applied, and the policy the same limits.",
        )


def _favourite(name: str, values: FloatArray) -> Iterator[Diagnostic]:
    inner = values[(values > values.min()) & (values < values.max())]
    distinct, counts = np.unique(inner, return_counts=True)
    if len(counts) and counts.max() > 0.2 * len(values):
        share = counts.max() / len(values)
        yield Diagnostic(
            name="frequent_action",
            level="note",
            what=f"{share:.0%} of the rows have {name} at exactly "
            f"{distinct[counts.argmax()]:g}.",
            meaning="Equal values pull an automatic bandwidth towards zero, until each "
            "action stands alone; widen its bandwidth if learning stalls.",
        )

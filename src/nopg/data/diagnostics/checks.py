"""What stands out in a log: jumps, repeats, outliers, actions never tried, rewards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, IntArray, counted

if TYPE_CHECKING:
    from gymnasium.spaces import Space

_FEW_LEVELS = 5
_FAR = 10.0  # an outlier lies this many robust standard deviations from the median


@dataclass(frozen=True)
class Diagnostic:
    """One thing about the data that matters for learning."""

    name: str  # a short fixed name, for programs
    what: str  # what was found, with its numbers
    meaning: str  # what it means for learning and what to do
    # A warning asks for a decision; a note is only worth knowing.
    level: Literal["note", "warning"] = "warning"


def all_diagnostics(
    table: TransitionTable, space: Space[Any] | None, weights: FloatArray
) -> list[Diagnostic]:
    """Whatever stands out at first sight, without learning anything.

    `weights` (m,) are those of the other rows around some rows, in kernels.
    """
    found = [*_duplicates(table), *_states(table), *_rewards(table)]
    if table.episodes is not None:
        found += [*_jumps(table, table.episodes), *_time_limit(table, table.episodes)]
    if table.is_discrete:
        found += _labels(table)
    else:
        low, high = getattr(space, "low", None), getattr(space, "high", None)
        for i, name in enumerate(table.action_names):
            bounds = None
            if low is not None and high is not None:
                bounds = float(low[i]), float(high[i])
            found += _action(name, table.actions[:, i].astype(np.float64), bounds)
    return [*found, *_isolated(weights)]


def _jumps(table: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    order = np.argsort(episodes, kind="stable")
    # Where the task or the recording ended, the next row is a new start.
    goes_on = ~(table.terminations | table.truncations)[order[:-1]]
    goes_on &= episodes[order[:-1]] == episodes[order[1:]]
    now, then = order[:-1][goes_on], order[1:][goes_on]
    std = table.observations.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    reached = table.next_observations[now] / scale
    gap = np.abs(reached - table.observations[then] / scale).max(axis=1, initial=0.0)
    n_jumps = int((gap > 1e-6).sum())
    if n_jumps == 0:
        return
    yield Diagnostic(
        "jumps",
        f"In {n_jumps:,} of {len(gap):,} steps s' differs from the next row's state, "
        f"by up to {gap.max():.3g} standard deviations.",
        "Rows were left out, the columns are shifted against each other, or episodes "
        "were run together; single missing rows do no harm, a shift spoils all that "
        "is learnt.",
    )
    moved = np.abs(reached - table.observations[now] / scale).max(axis=1, initial=0.0)
    if n_jumps > 0.5 * len(gap) and (moved < 1e-6).mean() > 0.9:
        yield Diagnostic(
            "shifted_rows",
            "In most rows s' equals the row's own s.",
            "s' was stored one row too late; take it from the following row by loading "
            "without `next_observations`.",
        )


def _time_limit(table: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    lengths = np.unique(episodes, return_counts=True)[1]
    longest = int(lengths.max())
    last = np.argsort(episodes, kind="stable")[np.cumsum(lengths) - 1]
    is_longest = lengths == longest
    count = int((is_longest & table.terminations[last]).sum())
    if count >= 2 and longest > 1 and count == int(is_longest.sum()):
        yield Diagnostic(
            "hidden_time_limit",
            f"{count} episodes are terminated after exactly {longest} steps, and none "
            "is longer.",
            "That looks like a time limit and not like the end of the task; a false "
            f"termination makes the value there zero. Load with time_limit={longest} "
            "if so.",
        )


def _duplicates(table: TransitionTable) -> Iterator[Diagnostic]:
    rows = np.hstack([table.observations, table.actions.reshape(len(table), -1)])
    repeated = len(rows) - len(np.unique(rows, axis=0))
    if repeated:
        share = repeated / len(table)
        yield Diagnostic(
            "duplicates",
            f"Repeated (s, a): {counted(repeated, 'row')} ({share:.1%}).",
            "Repeated rows weigh as much as they are often, and they pull automatic "
            "bandwidths towards zero; drop them if they are copies of one measurement.",
            level="warning" if share > 0.05 else "note",
        )


def _states(table: TransitionTable) -> Iterator[Diagnostic]:
    columns = list(zip(table.observation_names, table.observations.T, strict=True))
    constant = [name for name, values in columns if np.ptp(values) == 0]
    if constant:
        yield Diagnostic(
            "constant_columns",
            f"The state {' and '.join(constant)} never changes.",
            "A constant column has no bandwidth and says nothing about the value; "
            "leave it out with nopg.data.select.",
        )
    # Not of rewards: one may well be a thousand once, at the goal.
    far = [f"{n} in {name}" for name, values in columns if (n := _count_far(values))]
    if far:
        yield Diagnostic(
            "outliers",
            f"Over {_FAR:g} robust deviations from the median: {', '.join(far)}.",
            "Such rows stretch the bandwidth of their column and stand alone; check "
            "whether the sensor failed there, and drop those rows if it did.",
        )
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
                    f"{name} jumps by a whole turn in {counted(wraps, 'step')}: an "
                    f"angle in {unit} that wraps around.",
                    "The kernel takes both ends of the circle for far apart; replace "
                    "the angle by its sine and cosine with "
                    "nopg.data.angle_to_sine_cosine.",
                )


def _count_far(values: FloatArray) -> int:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    # 1.349 is the width between the quartiles of a standard normal; where half the
    # values are equal the quartiles say nothing and the deviation has to do.
    scale = (high - low) / 1.349 or float(values.std())
    return int((np.abs(values - middle) > _FAR * scale).sum()) if scale > 0 else 0


def _rewards(table: TransitionTable) -> Iterator[Diagnostic]:
    values, counts = np.unique(table.rewards, return_counts=True)
    rare = len(table) - int(counts.max())
    if len(values) == 1:
        yield Diagnostic(
            "constant_reward",
            f"The reward is {values[0]:g} in every row.",
            "Only terminations can then tell good from bad; without them every policy "
            "is worth the same. Compute a reward with nopg.data.with_rewards.",
            level="note" if table.terminations.any() else "warning",
        )
    elif rare < 0.05 * len(table):
        yield Diagnostic(
            "sparse_reward",
            f"The reward is {values[counts.argmax()]:g} in all but {rare} rows.",
            "The value is carried from these few rows through the data, so the path "
            "to them must be covered; a reward that grows on the way helps.",
            level="warning" if rare < 10 else "note",
        )


def _labels(table: TransitionTable) -> Iterator[Diagnostic]:
    counts = np.bincount(table.actions, minlength=table.n_actions)
    untried = [str(label) for label in np.nonzero(counts == 0)[0]]
    if untried:
        yield Diagnostic(
            "untried_actions",
            f"The actions {', '.join(untried[:10])} occur in no row.",
            "Nothing is known about them; the learner can only avoid them. Record some "
            "rows with each, or renumber the labels without them.",
        )


def _action(
    name: str, values: FloatArray, bounds: tuple[float, float] | None
) -> Iterator[Diagnostic]:
    low, high = bounds or (float(values.min()), float(values.max()))
    if outside := int(((values < low) | (values > high)).sum()):
        yield Diagnostic(
            "actions_out_of_bounds",
            f"{outside:,} rows have {name} outside [{low:g}, {high:g}]; the data span "
            f"{values.min():g} to {values.max():g}.",
            "If the system clipped them, the log holds what was asked for and not what "
            "was done: clip the column so that both agree.",
        )
    distinct = np.unique(values)
    share = float(((values <= low) | (values >= high)).mean())
    if len(distinct) == 1:
        yield Diagnostic(
            "constant_action",
            f"The action {name} is {distinct[0]:g} in every row.",
            "The data never show what another action does, so no policy can be told "
            "from another; record with varied actions.",
        )
    elif len(distinct) <= _FEW_LEVELS:
        yield Diagnostic(
            "few_action_levels",
            f"The action {name} takes only the values "
            f"{', '.join(f'{value:g}' for value in distinct)}.",
            "Actions between them are interpolated, not observed; make it a discrete "
            "label if nothing lies between.",
            level="note",
        )
    elif share > max(0.05, 4.0 / len(values)):
        yield Diagnostic(
            "saturated_actions",
            f"{share:.0%} of the rows have {name} at {low:g} or {high:g}.",
            "The controller wanted more than it got there; the log must hold the "
            "action as applied, and the policy the same limits.",
            level="note",
        )


def _isolated(weights: FloatArray) -> Iterator[Diagnostic]:
    alone = float((weights < 1.0).mean())
    if alone > 0.5:
        yield Diagnostic(
            "isolated_rows",
            f"{alone:.0%} of the rows have less than one neighbour.",
            "Most values rest on single samples, so noise in them is learnt as truth; "
            "record more data, drop irrelevant columns or widen the bandwidths.",
        )

"""What the columns tell: repeats, constants, outliers, wrapped angles, rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.description import Diagnostic
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, counted

_FAR = 10.0
"""An outlier lies this many robust standard deviations from the median."""


def column_findings(dataset: TransitionTable) -> Iterator[Diagnostic]:
    """Findings that look at rows one by one, whatever their order."""
    yield from _duplicates(dataset)
    yield from _constants(dataset)
    yield from _outliers(dataset)
    yield from _angles(dataset)
    yield from _rewards(dataset)


def _duplicates(dataset: TransitionTable) -> Iterator[Diagnostic]:
    actions = dataset.actions.reshape(len(dataset), -1)
    pairs = np.hstack([dataset.observations, actions])
    repeated = len(pairs) - len(np.unique(pairs, axis=0))
    if repeated:
        share = repeated / len(dataset)
        yield Diagnostic(
            name="duplicates",
            level="warning" if share > 0.05 else "note",
            what=f"Repeated (s, a): {counted(repeated, 'row')} ({share:.1%}).",
            meaning="Repeated rows weigh as much as they are often, and they pull "
            "automatic bandwidths towards zero; drop them if they are copies of one "
            "measurement.",
        )


def _constants(dataset: TransitionTable) -> Iterator[Diagnostic]:
    spread = np.ptp(dataset.observations, axis=0)
    names = [
        n for n, s in zip(dataset.observation_names, spread, strict=True) if s == 0
    ]
    if names:
        yield Diagnostic(
            name="constant_columns",
            level="warning",
            what=f"The state {_listed(names)} never changes.",
            meaning="A constant column has no bandwidth and says nothing about the "
            "value; leave it out with nopg.data.select.",
        )


def _outliers(dataset: TransitionTable) -> Iterator[Diagnostic]:
    # States only: a reward may well be a thousand once, at the goal.
    columns = zip(dataset.observation_names, dataset.observations.T, strict=True)
    counts = {name: int(_is_far(values).sum()) for name, values in columns}
    far = {name: count for name, count in counts.items() if count}
    if far:
        shown = ", ".join(f"{count} in {name}" for name, count in far.items())
        yield Diagnostic(
            name="outliers",
            level="warning",
            what=f"Values over {_FAR:g} robust deviations from the median: {shown}.",
            meaning="Such rows stretch the bandwidth of their column and stand alone; "
            "check whether the sensor failed there, and drop those rows if it did.",
        )


def _is_far(values: FloatArray) -> FloatArray:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    # 1.349 is the width between the quartiles of a standard normal; where half the
    # values are equal the quartiles say nothing and the deviation has to do.
    scale = (high - low) / 1.349 or float(values.std())
    return np.asarray(
        np.abs(values - middle) > _FAR * scale if scale > 0 else values < values
    )


def _angles(dataset: TransitionTable) -> Iterator[Diagnostic]:
    steps = dataset.next_observations - dataset.observations
    span = np.ptp(np.vstack([dataset.observations, dataset.next_observations]), axis=0)
    for name, step, width in zip(dataset.observation_names, steps.T, span, strict=True):
        for turn, unit in ((2 * np.pi, "radians"), (360.0, "degrees")):
            wraps = int((np.abs(np.abs(step) - turn) < 0.25 * turn).sum())
            # Wrapping means whole turns in one step while most steps are small.
            is_circle = width <= 1.001 * turn and np.median(np.abs(step)) < 0.1 * turn
            if wraps and is_circle:
                yield Diagnostic(
                    name="wrapped_angle",
                    level="warning",
                    what=f"{name} jumps by a whole turn in {counted(wraps, 'step')}: "
                    f"an angle in {unit} that wraps around.",
                    meaning="The kernel takes both ends of the circle for far apart; "
                    "replace the angle by its sine and cosine with "
                    "nopg.data.angle_to_sine_cosine.",
                )


def _rewards(dataset: TransitionTable) -> Iterator[Diagnostic]:
    values, counts = np.unique(dataset.rewards, return_counts=True)
    if len(values) == 1:
        yield Diagnostic(
            name="constant_reward",
            level="note" if dataset.terminations.any() else "warning",
            what=f"The reward is {values[0]:g} in every row.",
            meaning="Only terminations can then tell good from bad; without them every "
            "policy is worth the same. Compute a reward with nopg.data.with_rewards.",
        )
        return
    common = int(counts.max())
    if common > 0.95 * len(dataset):
        rare = len(dataset) - common
        yield Diagnostic(
            name="sparse_reward",
            level="warning" if rare < 10 else "note",
            what=f"The reward is {values[counts.argmax()]:g} in all but {rare} rows.",
            meaning="The value is carried from these few rows through the data, so the "
            "path to them must be covered; a reward that grows on the way helps.",
        )
    else:
        yield Diagnostic(
            name="reward_spread",
            level="note",
            what=f"The reward lies between {values[0]:.4g} and {values[-1]:.4g} with "
            f"{len(values):,} different values.",
            meaning="There is a signal to learn from in every part of the data.",
        )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]

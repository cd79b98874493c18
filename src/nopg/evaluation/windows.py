"""Parts of recordings that can be predicted from their first state and actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.data.past import run_starts
from nopg.dynamics.transition_model import regression_actions
from nopg.policies.arrays import Array

HELD_OUT = 5
"""One in so many episodes, or rows, is held out."""
N_WHOLE, N_PARTS, N_PAIRS = 8, 32, 100
"""Episodes that are replayed from first to last, other parts, and single steps, at
most."""
LONGEST = 300
"""Steps of a window, at most."""
EPISODES, BLOCKS, PAIRS = "episodes", "blocks", "pairs"

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """B parts of recordings of at most T steps."""

    starts: Array  # first states, (B, d_s)
    # What was done, as a regression takes it, (T, B, d_a); NaN at the end.
    actions: Array
    truth: Array  # states that followed, (T, B, d_s); NaN after a window's last
    rewards: Array  # what was earned, (T, B); 0 after a window's last
    lengths: Rows  # steps of each, (B,)
    # Which start where a recording starts and end where it ends, (B,).
    is_whole: NDArray[np.bool_]
    terminates: NDArray[np.bool_]  # which end the task for good, (B,)

    @classmethod
    def of(cls, data: Dataset, rows: NDArray[np.bool_], n_steps: int) -> Windows:
        """Some whole runs of the rows, and parts of up to `n_steps` spread over all."""
        runs = consecutive(data, rows)
        long = [run for run in runs if len(run) > 1]
        whole = [run[:LONGEST] for run in _spread(long, N_WHOLE)]
        longest = max(len(run) for run in runs)
        wanted = min(n_steps, -(-longest // 2))  # short parts say nothing of later
        places = [(r, i) for r in runs for i in range(len(r)) if len(r) - i >= wanted]
        parts = [r[i : i + n_steps] for r, i in _spread(places, N_PARTS)]
        every = [run[i : i + 1] for run in runs for i in range(len(run))]
        return cls.from_rows(data, whole + parts + _spread(every, N_PAIRS), len(whole))

    @classmethod
    def from_rows(cls, data: Dataset, chosen: list[Rows], n_whole: int) -> Windows:
        """Windows of rows that follow each other; the first `n_whole` are whole."""
        actions = regression_actions(data).numpy()
        lengths = np.array([len(rows) for rows in chosen])
        n_steps, d_s = int(lengths.max()), data.observations.shape[1]
        acted = np.full((n_steps, len(chosen), actions.shape[1]), np.nan)
        truth = np.full((n_steps, len(chosen), d_s), np.nan)
        rewards = np.zeros((n_steps, len(chosen)))
        for b, rows in enumerate(chosen):
            acted[: len(rows), b] = actions[rows]
            truth[: len(rows), b] = data.next_observations[rows]
            rewards[: len(rows), b] = data.rewards[rows]
        first = np.array([rows[0] for rows in chosen])
        last = np.array([rows[-1] for rows in chosen])
        return cls(
            np.array(data.observations[first]),
            acted,
            truth,
            rewards,
            lengths,
            np.arange(len(chosen)) < n_whole,
            np.array(data.terminations[last]),
        )

    def returns(self, gamma: float) -> Array:
        """Discounted sum of the rewards of each, (B,)."""
        return np.asarray(gamma ** np.arange(len(self.rewards)) @ self.rewards)


def consecutive(data: Dataset, rows: NDArray[np.bool_]) -> list[Rows]:
    """Runs of rows that follow each other, in time order; single rows at the least."""
    order, is_first = run_starts(data)
    places = np.nonzero(rows[order])[0]
    is_cut = is_first[places[1:]] | (np.diff(places) > 1)
    return np.split(order[places], np.nonzero(is_cut)[0] + 1)


def held_out_rows(
    data: Dataset, generator: np.random.Generator
) -> tuple[str, NDArray[np.bool_]]:
    """What to hold out, in a word, and which rows that are, (n,).

    Whole episodes where there are two or more of several steps; parts of a single one;
    else rows around a few places.
    """
    every = np.ones(len(data), dtype=bool)
    runs = consecutive(data, every)
    long = [run for run in runs if len(run) > 1]
    held_out = np.zeros(len(data), dtype=bool)
    if not long or sum(map(len, long)) < len(data) // 2:
        # Neighbours together: on a grid single rows say nothing of what lies between.
        inputs = np.column_stack([data.observations, regression_actions(data).numpy()])
        spread = inputs.std(axis=0)
        inputs = inputs / np.where(spread > 0.0, spread, 1.0)
        for row in generator.permutation(len(data))[:HELD_OUT]:
            distance = np.square(inputs - inputs[row]).sum(axis=1)
            held_out[np.argsort(distance)[: -(-len(data) // HELD_OUT**2)]] = True
        return PAIRS, held_out
    assert data.episodes is not None  # rows without any are single
    if len(np.unique(data.episodes)) < 2:
        # Two of ten parts, neither first nor last: a model is for what lies between.
        run = max(long, key=len)
        parts = np.array_split(run, 2 * HELD_OUT)
        held_out[np.concatenate([parts[HELD_OUT // 2], parts[-1 - HELD_OUT // 2]])] = (
            True
        )
        return BLOCKS, held_out
    return EPISODES, np.isin(data.episodes, _fifth(data.episodes, generator))


def _fifth(episodes: NDArray[Any], generator: np.random.Generator) -> list[Any]:
    """Names of episodes that make up a fifth of the rows, or the shortest one.

    Rows count, not episodes: without the one long recording among many short ones a
    model has next to nothing to learn from.
    """
    names, counts = np.unique(episodes, return_counts=True)
    left, chosen = len(episodes) / HELD_OUT, []
    for i in generator.permutation(len(names)):
        if counts[i] <= left:
            left -= counts[i]
            chosen.append(names[i])
    return chosen or [names[counts.argmin()]]


def _spread(every: list[Any], most: int) -> list[Any]:
    """At most so many of a list, evenly spread over it."""
    return every[:: max(1, -(-len(every) // most))]

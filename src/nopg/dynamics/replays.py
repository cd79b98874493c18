"""Replays: parts of a log, predicted from their first state with their own actions.

A model can be right for one step and wrong for ten: its errors add up, carry it off the paths that
the log has seen, and there it is a guess that a search exploits. So models are compared by what
they predict many steps ahead: while they are fitted by `Replays`, of one length; when they are done
by `Windows` of recordings that were held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.transition_model import TransitionModel, regression_actions
from nopg.policies.arrays import Array

Names = NDArray[Any]  # of the episode that each row belongs to, (n,)
HORIZONS = (10, 50)  # steps after which predictions are compared, if there are so many
MAX_REPLAYS = 100  # replays at most, spread over the log
N_PATHS = 8  # noisy paths that a replay is the mean of
HELD_OUT = 5  # one in so many episodes, or rows, is held out
N_WHOLE, N_PARTS, N_PAIRS = 10, 40, 100  # whole episodes, parts, single steps at most
ENOUGH_ROWS = 4_000  # rows held out, from which on no more of them are
LONGEST = 300  # steps of a window, at most
EPISODES, BLOCKS, PAIRS = "episodes", "blocks", "pairs"

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Replays(NamedTuple):
    """Parts of episodes, to be predicted from their first state and their actions."""

    states: Array  # (B, T + 1, d_s)
    actions: Array  # (B, T, d_a)

    @classmethod
    def of(cls, columns: Sequence[Tensor], episodes: Names) -> Self | None:
        """As long ones as there are, of `model_columns` in order; None if too short."""
        states, actions, _, following = (column.numpy() for column in columns[:4])
        n = len(states)
        follows = np.zeros(n, dtype=bool)
        follows[1:] = (following[:-1] == states[1:]).all(axis=1)
        follows[1:] &= episodes[1:] == episodes[:-1]
        breaks = np.cumsum(~follows)  # the same number in rows without a break
        for n_steps in reversed(HORIZONS):
            first = np.arange(max(0, n - n_steps + 1))
            first = first[breaks[first] == breaks[first + n_steps - 1]]
            if len(first):
                first = first[:: -(-len(first) // MAX_REPLAYS)]
                rows = first[:, None] + np.arange(n_steps)
                path = [states[rows], following[rows[:, -1:]]]
                return cls(np.concatenate(path, axis=1), actions[rows])
        return None

    def paths(self, model: TransitionModel, n_paths: int = N_PATHS) -> Array:
        """Predicted states after each step of noisy paths, (T, P, B, d_s)."""
        n_steps, (n_replays, _, d_s) = self.actions.shape[1], self.states.shape
        generator = np.random.default_rng(0)
        draws = noise_draws(n_steps, n_paths * n_replays, d_s, generator, model.noise)
        starts = np.tile(self.states[:, 0], (n_paths, 1))
        acted = np.tile(self.actions.swapaxes(0, 1), (1, n_paths, 1))
        found = model.arrays.follow(starts, acted, draws).next_states
        return found.reshape(n_steps, n_paths, n_replays, d_s)

    def misses(self, paths: Array) -> Array:
        """What the mean over the paths misses after each step, (T, B, d_s)."""
        # Of noisy paths: a model that only holds on the log's own is carried off them.
        return np.asarray(paths.mean(axis=1) - self.states[:, 1:].swapaxes(0, 1))

    def error(self, model: TransitionModel, deviation: Array, least: float = 1e-12) -> float:
        """Size of what is missed in deviations, (d_s,), over replays, a step and the horizons."""
        # A geometric mean: late errors are large for every model, and so are those of an episode
        # that is like no other. Where none holds for long, what is right for a step still counts.
        missed = self.misses(self.paths(model))[..., : len(deviation)] / deviation
        sizes = np.sqrt(np.square(missed).mean(axis=2))  # (T, B)
        at = [0, *(h - 1 for h in HORIZONS if h <= self.actions.shape[1])]
        return float(np.exp(np.log(np.maximum(sizes[at], least)).mean()))

    def noise_ratio(self, model: TransitionModel) -> Array:
        """What replays miss over what noise explains after some steps, by column."""
        paths, last = self.paths(model), HORIZONS[0] - 1
        missed = np.square(self.misses(paths)[last]).mean(axis=0)
        expected = paths[last].var(axis=0).mean(axis=0)
        return np.asarray(np.sqrt(missed / np.maximum(expected, 1e-300)))


@dataclass(frozen=True)
class Windows:
    """B parts of recordings of at most T steps."""

    starts: Array  # first states, (B, d_s)
    actions: Array  # what was done, as a regression takes it, (T, B, d_a); NaN at the end
    truth: Array  # states that followed, (T, B, d_s); NaN after a window's last
    rewards: Array  # what was earned, (T, B); 0 after a window's last
    lengths: Rows  # steps of each, (B,)
    is_whole: Mask  # which start where a recording starts and end where it ends, (B,)
    terminates: Mask  # which end the task for good, (B,)

    @classmethod
    def of(cls, data: Dataset, rows: Mask, n_steps: int, n_folds: int = 1) -> Self:
        """Some whole runs of the rows, and parts of up to `n_steps` spread over all."""
        # Of several folds each has its share of them.
        most = [-(-number // n_folds) for number in (N_WHOLE, N_PARTS, N_PAIRS)]
        runs = consecutive(data, rows)
        whole = [run[:LONGEST] for run in _spread([run for run in runs if len(run) > 1], most[0])]
        longest = max(len(run) for run in runs)
        wanted = min(n_steps, -(-longest // 2))  # short parts say nothing of later
        places = [(r, i) for r in runs for i in range(len(r)) if len(r) - i >= wanted]
        parts = [r[i : i + n_steps] for r, i in _spread(places, most[1])]
        parts += _spread([run[i : i + 1] for run in runs for i in range(len(run))], most[2])
        return cls.from_rows(data, whole + parts, len(whole))

    @classmethod
    def from_rows(cls, data: Dataset, chosen: list[Rows], n_whole: int) -> Self:
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
        return cls(
            np.array(data.observations[np.array([rows[0] for rows in chosen])]),
            acted,
            truth,
            rewards,
            lengths,
            np.arange(len(chosen)) < n_whole,
            np.array(data.terminations[np.array([rows[-1] for rows in chosen])]),
        )

    def returns(self, gamma: float) -> Array:
        """Discounted sum of the rewards of each, (B,)."""
        return np.asarray(gamma ** np.arange(len(self.rewards)) @ self.rewards)


def consecutive(data: Dataset, rows: Mask) -> list[Rows]:
    """Runs of rows that follow each other, in time order; single rows at the least."""
    order, is_first = data.run_starts
    places = np.nonzero(rows[order])[0]
    return np.split(order[places], np.nonzero(is_first[places[1:]] | (np.diff(places) > 1))[0] + 1)


def held_out_folds(data: Dataset, generator: np.random.Generator) -> tuple[str, list[Mask]]:
    """What to hold out, in a word, and which rows in turn, (n,) each."""
    # Whole episodes, if two have several steps; parts of a single one; else rows around few places.
    long = [run for run in consecutive(data, np.ones(len(data), dtype=bool)) if len(run) > 1]
    held_out = np.zeros(len(data), dtype=bool)
    if not long or sum(map(len, long)) < len(data) // 2:
        # Neighbours together: on a grid single rows say nothing of what lies between.
        inputs = np.column_stack([data.observations, regression_actions(data).numpy()])
        spread = inputs.std(axis=0)
        inputs = inputs / np.where(spread > 0.0, spread, 1.0)
        for row in generator.permutation(len(data))[:HELD_OUT]:
            distance = np.square(inputs - inputs[row]).sum(axis=1)
            held_out[np.argsort(distance)[: -(-len(data) // HELD_OUT**2)]] = True
        return PAIRS, [held_out]
    assert data.episodes is not None  # rows without any are single
    folds = _episode_folds(data.episodes, generator)
    if folds:
        return EPISODES, folds[: max(2, -(-ENOUGH_ROWS // int(folds[0].sum())))]
    # Two of ten parts, neither first nor last: a model is for what lies between.
    parts = np.array_split(max(long, key=len), 2 * HELD_OUT)
    for k in range(1, HELD_OUT - 1):
        rows = np.concatenate([parts[k], parts[k + HELD_OUT]])
        if len(rows):
            folds.append(np.isin(np.arange(len(data)), rows))
    return BLOCKS, folds


def _episode_folds(episodes: Names, generator: np.random.Generator) -> list[Mask]:
    """Rows of episodes that are held out in turn, about a fifth at a time."""
    # Rows count, not episodes: without the one long recording among many short ones a model has
    # next to nothing to learn from, so that it is never held out.
    names, which, counts = np.unique(episodes, return_inverse=True, return_counts=True)
    fold, sizes = np.full(len(names), -1), np.zeros(HELD_OUT)
    for i in generator.permutation(len(names)):
        if 2 * counts[i] <= len(episodes):
            fold[i] = sizes.argmin()
            sizes[fold[i]] += counts[i]
    return [fold[which] == k for k in range(HELD_OUT) if sizes[k]]


def _spread(every: list[Any], most: int) -> list[Any]:
    """At most so many of a list, evenly spread over it."""
    return every[:: max(1, -(-len(every) // most))]

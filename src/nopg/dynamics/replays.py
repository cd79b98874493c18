"""Replays: parts of a log, predicted from their first state with their own actions.

A model can be right for one step and wrong for ten: its errors add up, carry it off the
paths that the log has seen, and there it is a guess that a search exploits. So models
are compared by what they predict many steps ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nopg.dynamics.hyperparameters import HyperparameterLimits
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array

Names = NDArray[Any]
"""Of the episode that each row belongs to, (n,)."""
HORIZONS = (10, 50)
"""Steps after which predictions are compared: the second where episodes are so long."""
MAX_REPLAYS = 100
"""Replays at most, spread over the log."""
N_PATHS = 8
"""Noisy paths that a replay is the mean of."""


class Replays(NamedTuple):
    """Parts of episodes, to be predicted from their first state and their actions."""

    states: Array  # (B, T + 1, d_s)
    actions: Array  # (B, T, d_a)

    @classmethod
    def of(cls, columns: Sequence[Tensor], episodes: Names) -> Replays | None:
        """As long ones as there are; None if no episode is long enough for any.

        Args:
            columns: States, actions, rewards and next states of n rows, those of an
                episode in order.
            episodes: Names of the episodes, (n,).
        """
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
        draws = noise_draws(n_steps, n_paths * n_replays, d_s, generator)
        here, found = np.tile(self.states[:, 0], (n_paths, 1)), []
        steps = ArrayTransitionModel(model)
        for t in range(n_steps):
            actions = np.tile(self.actions[:, t], (n_paths, 1))
            here = steps.step(here, actions, draws[t]).next_states
            found.append(here.reshape(n_paths, n_replays, d_s))
        return np.stack(found)

    def misses(self, paths: Array) -> Array:
        """What the mean over the paths misses after each step, (T, B, d_s).

        Of noisy paths: a model that only holds on the log's own is carried off them.
        """
        return np.asarray(paths.mean(axis=1) - self.states[:, 1:].swapaxes(0, 1))

    def error(self, model: TransitionModel, deviation: Array) -> float:
        """Size of what is missed in deviations, (d_s,), over replays and horizons.

        A geometric mean: late errors are large for every model, and so are those of an
        episode that is like no other.
        """
        missed = self.misses(self.paths(model))[..., : len(deviation)] / deviation
        sizes = np.sqrt(np.square(missed).mean(axis=2))  # (T, B)
        at = [h - 1 for h in self.horizons]
        return float(np.exp(np.log(np.maximum(sizes[at], 1e-12)).mean()))

    def noise_ratio(self, model: TransitionModel) -> Array:
        """What replays miss over what noise explains after some steps, by column."""
        paths, last = self.paths(model), HORIZONS[0] - 1
        missed = np.square(self.misses(paths)[last]).mean(axis=0)
        expected = paths[last].var(axis=0).mean(axis=0)
        return np.asarray(np.sqrt(missed / np.maximum(expected, 1e-300)))

    @property
    def horizons(self) -> tuple[int, ...]:
        """Steps after which predictions are compared."""
        return tuple(h for h in HORIZONS if h <= self.actions.shape[1])


def refitted(model: TransitionModel, columns: Sequence[Tensor]) -> TransitionModel:
    """The model with its hyperparameters, of other rows."""
    generator, n_present = np.random.default_rng(0), model.process.linear.shape[1] - 1
    is_linear = bool((model.process.curved >= n_present).all())
    limits = HyperparameterLimits(is_linear=is_linear, is_fixed=True)
    return TransitionModel.fit(
        *columns, generator=generator, like=model, limits=limits, history=model.history
    )

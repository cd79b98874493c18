"""Bands that hold: noisy paths, widened as replays of left-out episodes ask for.

Noisy paths scatter for the noise of each step, and miss what a sensor adds at the end,
what differs between episodes and what the model has not learned. How much that is after
so many steps can be measured: each episode is left out in turn and replayed, and the
scatter is multiplied by what would have held 90% of what was recorded (split conformal
prediction, by step and column).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.ensemble import refitted
from nopg.dynamics.replays import Names, Replays
from nopg.dynamics.transition_model import TransitionModel
from nopg.policies.arrays import Array

LEVEL = 0.9
"""Share that bands are made to hold."""
N_FOLDS = 5
"""Groups of episodes that are left out in turn."""
N_PATHS = 16


class Calibration(NamedTuple):
    """How noisy paths are spread about their mean, by step."""

    factors: Array  # (T, d), by which deviations are multiplied; d <= d_s

    @classmethod
    def of(
        cls, model: TransitionModel, columns: Sequence[Tensor], episodes: Names | None
    ) -> Calibration | None:
        """Of a noisy model and what it was learned from; None if nothing can be told.

        Args:
            model: Of all the data; its hyperparameters are kept.
            columns: States, actions, rewards, next states and terminations.
            episodes: Names of the episodes, (n,), None if rows are in no order.
        """
        if model.noise is None or episodes is None:
            return None
        names, scores = np.unique(episodes), []
        for fold in range(N_FOLDS if len(names) > 1 else 0):
            is_out = np.isin(episodes, names[fold::N_FOLDS])
            rows = torch.from_numpy(is_out)
            replays = Replays.of([column[rows] for column in columns], episodes[is_out])
            if replays is not None:
                other = refitted(model, [column[~rows] for column in columns])
                scores.append(_score(replays, other))
        if not scores:
            return None
        n_steps = min(len(score) for score in scores)
        every = np.concatenate([score[:n_steps] for score in scores], axis=1)
        n_present = model.process.linear.shape[1] - 1
        return cls(np.quantile(every[..., :n_present], LEVEL, axis=1))

    def widened(self, paths: Array) -> Array:
        """Paths (T, P, ..., d_s) with their deviations from the mean of all P."""
        n_steps, d = len(paths), self.factors.shape[1]
        factors = np.ones((n_steps, paths.shape[-1]))
        known = np.minimum(np.arange(n_steps), len(self.factors) - 1)
        factors[:, :d] = self.factors[known]
        factors = factors.reshape(n_steps, *[1] * (paths.ndim - 2), -1)
        mean = paths.mean(axis=1, keepdims=True)
        return np.asarray(mean + factors * (paths - mean))


def _score(replays: Replays, model: TransitionModel) -> Array:
    """What is missed over the half-width of a band, (T, B, d_s)."""
    paths = replays.paths(model, N_PATHS)
    missed = np.abs(replays.misses(paths))
    spread = np.abs(paths - paths.mean(axis=1, keepdims=True))
    widths = np.quantile(spread, LEVEL, axis=1)
    return np.asarray(missed / np.maximum(widths, 1e-300))

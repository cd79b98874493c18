"""Predicted paths: states drawn from where the policy is predicted to be.

Learned models predict paths, one from each start. The kernels predict a distribution
over the logged next states at every step; a draw from it is a cloud of states and no
path, so that its mean is what can be drawn as a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nopg.data.validation import FloatArray
from nopg.evaluation.rollouts import Rollouts

N_PATHS, N_LINES = 40, 6
"""States drawn at each step, and lines drawn over the maps, at most."""
LONGEST = 300
"""Steps looked ahead at most; fewer where the discount makes the rest worthless."""


@dataclass(frozen=True)
class PredictedPaths:
    """States at every step, from the start; not a number once a path has ended.

    Attributes:
        states: Drawn states, (k, T + 1, d_s).
        lines: Paths to draw as lines, (l, T + 1, d_s).
        running: Probability that the task goes on after each step, (T + 1,).
        is_path: Whether a row of `states` is one path, or a draw at every step.
    """

    states: FloatArray
    lines: FloatArray
    running: FloatArray
    is_path: bool

    @property
    def horizon(self) -> int:
        """Steps looked ahead, T."""
        return len(self.running) - 1


def horizon(gamma: float) -> int:
    """Steps until a reward counts a hundredth, at least 10 and at most `LONGEST`."""
    if gamma <= 0.0:
        return 10
    return int(np.clip(math.ceil(math.log(0.01) / math.log(gamma)), 10, LONGEST))


def predicted_paths(rollouts: Rollouts, n_paths: int = N_PATHS) -> PredictedPaths:
    """Draw states from rollouts, as many of each place as it has probability.

    Args:
        rollouts: Weighted places at every step.
        n_paths: States to draw at every step.
    """
    is_path = len(rollouts.states) > 1
    n_places = rollouts.states.shape[1]
    if is_path:
        n_paths = min(n_paths, n_places)
    shares = (np.arange(n_paths) + 0.5) / n_paths
    shape = (n_paths, len(rollouts.weights) + 1, rollouts.states.shape[2])
    states = np.full(shape, np.nan)
    at_start = (shares * len(rollouts.initial)).astype(np.int64)
    states[:, 0] = rollouts.initial[at_start]
    if is_path:  # the starts are in the same order, once for each model
        chosen = (shares * n_places).astype(np.int64)
        states[:, 0] = rollouts.initial[chosen % len(rollouts.initial)]
        lasting = rollouts.weights[:, chosen] > 0.5 / n_places  # (T, k)
        states[:, 1:] = np.where(
            lasting[..., None], rollouts.states[:, chosen], np.nan
        ).transpose(1, 0, 2)
        lines = states[np.linspace(0, n_paths - 1, min(N_LINES, n_paths)).astype(int)]
    else:
        for step, weights in enumerate(rollouts.weights, start=1):
            reached = np.cumsum(weights)
            drawn = np.searchsorted(reached, shares)
            goes_on = drawn < n_places
            states[goes_on, step] = rollouts.states[0, drawn[goes_on]]
        start = rollouts.initial.mean(axis=0)
        lines = np.vstack([start, rollouts.mean])[None]
    running = np.append(1.0, rollouts.running)
    return PredictedPaths(states, lines, running, is_path)

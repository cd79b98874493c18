"""Paths that a policy is rolled out on: one from each state, or several in gusts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nopg.dynamics.noise import noise_draws
from nopg.dynamics.transition_model import TransitionModel
from nopg.policies.arrays import Array

N_PATHS, LEAST_PATHS = 256, 8
"""Noisy paths in all, shared among the states asked about; and of each at least."""


@dataclass(frozen=True)
class NoisyPaths:
    """Paths from some states: one each, or several that meet drawn gusts."""

    starts: Array  # where each starts, state by state, (m G, d_s)
    # Standard normal draws of each step of each path, (T, m G, d_s).
    draws: Array | None
    group: int  # paths of each state, G

    @classmethod
    def of(
        cls, model: TransitionModel, states: Array, n_steps: int, group: int = 0
    ) -> NoisyPaths:
        """One path from each of m states; of a noisy system `group`, or enough."""
        if model.noise is None:
            return cls(states, None, 1)
        m, d_s = states.shape
        group = group or max(LEAST_PATHS, -(-N_PATHS // m))
        draws = noise_draws(n_steps, m * group, d_s, np.random.default_rng(0))
        return cls(np.repeat(states, group, axis=0), draws, group)

    def repeated(self, levels: Array) -> NoisyPaths:
        """All paths S times one after the other, gusts times `levels`, (S, d_s)."""
        draws = self.draws
        if draws is not None:
            draws = np.concatenate([draws * level for level in levels], axis=1)
        return NoisyPaths(np.tile(self.starts, (len(levels), 1)), draws, self.group)

    def means(self, found: Array) -> Array:
        """Over the paths of each state, (..., m G) to (..., m)."""
        return np.asarray(found.reshape(*found.shape[:-1], -1, self.group).mean(-1))

    def standard_errors(self, found: Array) -> Array:
        """Of these means, (m G,) to (m,); 0 without noise."""
        spread = found.reshape(-1, self.group).std(axis=1)
        return np.asarray(spread / math.sqrt(self.group))

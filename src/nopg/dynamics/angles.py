"""Angles in disguise: pairs of columns that are a cosine and a sine.

Data of such a pair lie on a circle, and off it a regression knows nothing: its small
errors add up step by step until a path has left the circle for good. So predictions
are put back on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

ON_CIRCLE = 1e-4
"""Largest deviation of x^2 + y^2 from 1; single precision is closer."""


@dataclass(frozen=True)
class Angles:
    """Which columns of a state belong together.

    Attributes:
        first: One column of each pair.
        second: The other.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]

    @classmethod
    def of(cls, states: Tensor) -> Angles:
        """Pairs among the columns of n states, (n, d_s); each column is in one only."""
        squares = states.square()
        pairs: dict[int, int] = {}
        for i, j in combinations(range(states.shape[1]), 2):
            is_free = not {i, j} & {*pairs, *pairs.values()}
            moves = float(states[:, i].std()) > 0.0 and float(states[:, j].std()) > 0.0
            off = float((squares[:, i] + squares[:, j] - 1.0).abs().max())
            if is_free and moves and off < ON_CIRCLE:
                pairs[i] = j
        return cls(tuple(pairs), tuple(pairs.values()))

    def settle(self, states: Tensor) -> Tensor:
        """The states with every pair back on its circle."""
        for i, j in zip(self.first, self.second, strict=True):
            radius = torch.hypot(states[:, i], states[:, j]).clamp_min(1e-9)
            factors = torch.ones_like(states)
            factors[:, i] = factors[:, j] = 1.0 / radius
            states = states * factors
        return states

    def settle_array(self, states: np.ndarray) -> np.ndarray:
        """The same of an array, (m, d_s)."""
        if not self.first:
            return states
        settled = states.copy()
        for i, j in zip(self.first, self.second, strict=True):
            x, y = states[:, i], states[:, j]
            radius = np.maximum(np.sqrt(x * x + y * y), 1e-9)
            settled[:, i] = x / radius
            settled[:, j] = y / radius
        return settled

    def slopes(self, states: Tensor) -> Tensor:
        """d settle / d states, (m, d_s, d_s): across the radius nothing moves.

        (1 - u u') / radius for the unit vector u of each pair.
        """
        slopes = torch.eye(states.shape[1]).to(states).repeat(len(states), 1, 1)
        for i, j in zip(self.first, self.second, strict=True):
            x, y = states[:, i], states[:, j]
            radius = (x.square() + y.square()).sqrt().clamp_min(1e-9)
            x, y = x / radius, y / radius
            slopes[:, i, i] = y.square() / radius
            slopes[:, j, j] = x.square() / radius
            slopes[:, i, j] = slopes[:, j, i] = -x * y / radius
        return slopes


NO_ANGLES = Angles((), ())

"""How far an answer may be off: deviations of drawn models, and errors beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from nopg.policies.arrays import Array


@dataclass(frozen=True)
class Spread:
    """How far m answers may be off, for lack of data and for lack of paths."""

    deviations: Array  # answers in drawn models less the answers themselves, (S, m)
    scale: float  # what replay of held-out data found bands to be too narrow by
    errors: Array  # standard errors of other kinds, (m,)

    @property
    def std(self) -> Array:
        """Standard deviation for lack of data, (m,)."""
        return np.asarray(self.scale * np.sqrt(np.square(self.deviations).mean(axis=0)))

    def ends(self, value: Array, level: float) -> tuple[Array, Array]:
        """Lower and upper end, of Student's distribution with a side each."""
        width = stdtrit(len(self.deviations) - 1, 0.5 + 0.5 * level)
        below, above = self._sides
        return value - width * below, value + width * above

    def probability_below(self, value: Array, limit: float) -> Array:
        """How likely the truth lies below a limit, (m,)."""
        below, above = self._sides
        std = np.maximum(np.where(value > limit, below, above), 1e-300)
        return np.asarray(stdtr(len(self.deviations) - 1, (limit - value) / std))

    @property
    def _sides(self) -> tuple[Array, Array]:
        """Standard deviations downwards and upwards, (m,) each.

        Deviations to one side count on that side; those to the other count half of
        themselves there, since a few draws may all lie on one side by chance.
        """
        found = []
        for sign in (-1.0, 1.0):
            ours = np.where(sign * self.deviations > 0.0, 1.0, 0.5)
            square = np.square(self.scale * ours * self.deviations).mean(axis=0)
            share = np.square(ours).mean(axis=0)
            found.append(np.sqrt(square / share + np.square(self.errors)))
        return found[0], found[1]

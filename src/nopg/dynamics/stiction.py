"""Stiction: where a machine stands still, whatever a smooth law says of it.

Dry friction holds a joint or a valve under forces that would move it otherwise, and a smooth
regression falls within many steps where the machine stands. So where half of the rows that are most
like a state and an action hardly moved, the mean does not move. Steps that are hardly any are those
with which held-out episodes are replayed best, see `ensemble.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nopg.policies.arrays import Array

N_NEAR, N_ROWS = 10, 4_000  # rows like a state and an action, of so many at most
AWAY = 1e9  # deviations from which on it is the same how far
SIZES = (0.01, 0.02, 0.05, 0.1, 0.2)  # steps that may be hardly any, in deviations of the states


@dataclass(frozen=True)
class Stiction:
    """Rows of a log, and which of them hardly moved."""

    size: float  # steps that are hardly any, in deviations of the states
    unit: Array  # deviation of each input, (d,)
    rows: Any  # inputs over it, a tree of n
    stands: NDArray[np.bool_]  # (n,)

    @classmethod
    def of(cls, columns: Sequence[Tensor], n_present: int, size: float) -> Self:
        """Of states, actions, rewards and next states, whose first columns are the present."""
        from scipy.spatial import cKDTree

        states, actions, _, reached = (column.numpy() for column in columns[:4])
        inputs = np.concatenate([states, actions], axis=1)
        unit = np.where(inputs.std(axis=0) > 1e-12, inputs.std(axis=0), 1.0)
        step = np.abs((reached - states) / unit[: states.shape[1]])[:, :n_present].max(axis=1)
        every = -(-len(step) // N_ROWS)  # rounded up
        return cls(size, unit, cKDTree((inputs / unit)[::every]), (step < size)[::every])

    def moves(self, inputs: Array) -> Array:
        """1 of inputs (m, d) that move, 0 of those that stand, (m, 1)."""
        # Paths that run off are told by what they earn: here they only have to be somewhere.
        places = np.clip(np.nan_to_num(inputs / self.unit), -AWAY, AWAY)
        near = self.rows.query(places, range(1, min(N_NEAR, self.rows.n) + 1))[1]
        return np.asarray(self.stands[near].mean(axis=1, keepdims=True) < 0.5, dtype=np.float64)

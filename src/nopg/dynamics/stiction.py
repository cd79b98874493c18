"""Stiction: where a machine stands still, whatever a smooth law says of it.

Dry friction holds a joint or a valve under forces that would move it otherwise. A smooth regression
takes them for forces that act a little, and falls within many steps where the machine stands. So
where half of the rows that are most like a state and an action hardly moved, the mean does not
move. Steps that are hardly any are those with which held-out episodes are replayed best, see
`ensemble.py`; a log in which nothing ever stands is left alone.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nopg.policies.arrays import Array

N_NEAR, N_ROWS, BATCH = 10, 4_000, 500
"""Rows like a state and an action, of so many at most, and inputs that are looked up at once."""
SIZES = (0.01, 0.02, 0.05, 0.1, 0.2)  # steps that may be hardly any, in deviations of the states
SEEN = 0.01  # share of the steps of a log that move nothing at all, from which on any are tried


@dataclass(frozen=True)
class Stiction:
    """Rows of a log, and which of them hardly moved."""

    size: float  # steps that are hardly any, in deviations of the states
    unit: Array  # deviation of each input, (d,)
    rows: Array  # inputs over it, (n, d)
    stands: NDArray[np.bool_]  # (n,)

    @classmethod
    def of(cls, inputs: Tensor, moved: Tensor, size: float) -> Self:
        """Rows with inputs (n, d), which moved by (n, d_s) of the present."""
        unit = inputs.numpy().std(axis=0)
        unit = np.where(unit > 1e-12, unit, 1.0)
        step = np.abs(moved.numpy() / unit[: moved.shape[1]]).max(axis=1)
        every = -(-len(step) // N_ROWS)  # rounded up
        return cls(size, unit, (inputs.numpy() / unit)[::every], (step < size)[::every])

    def moves(self, inputs: Array) -> Array:
        """1 of inputs (m, d) that move, 0 of those that stand, (m, 1)."""
        parts = np.array_split(inputs / self.unit, -(-len(inputs) // BATCH) or 1)
        return np.concatenate([self._moves(part) for part in parts])

    def _moves(self, inputs: Array) -> Array:
        # The square of an input is the same for all rows: it does not change their order.
        far = 0.5 * np.square(self.rows).sum(axis=1) - inputs @ self.rows.T
        near = np.argpartition(far, min(N_NEAR, far.shape[1]) - 1, axis=1)[:, :N_NEAR]
        return np.asarray(self.stands[near].mean(axis=1, keepdims=True) < 0.5, dtype=np.float64)


def stands_at_times(moved: Tensor) -> bool:
    """Whether a log has steps, (n, d_s), that move nothing at all."""
    return float((moved == 0.0).all(dim=1).double().mean()) >= SEEN

"""A coarse twin of I - gamma P, inverted once, that speeds up solves with the fine one.

Rows of P at nearby next states are nearly the same, so P x hardly varies within a
cell of next states: all that a product leaves behind lives in the space of functions
that are constant on cells. With Z the (n, C) indicator of the cells and R = D^-1 Z'
the mean over each,

    M = I + Z ((I - gamma R P Z)^-1 - I) R

is (I - gamma P)^-1 on that space and the identity beside it. R P Z has rows that sum
to at most one, so the small matrix is strictly diagonally dominant: it can always be
inverted, and M too. M' serves the transposed system. A solver that asks for A M y = b
and takes x = M y finds the same x in a third of the products, and its residual is
checked like any other; an M of a former P is nearly as good as one of this P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.linalg.operators import LinearOperator

N_CELLS, MORE_CELLS, MANY = 256, 512, 30_000
"""Cells, and cells from so many samples on: their inverse stays worth few products."""
WORTHWHILE = 512
"""Samples from which it pays: below, calling it costs more than it saves."""


@dataclass(frozen=True)
class Cells:
    """Samples in groups that are close together.

    Attributes:
        cell: Group of each sample, (n,).
        sizes: Samples in each group, (C,).
    """

    cell: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, points: Tensor, n_cells: int | None = None) -> Cells:
        """Halve the points across their widest dimension, again and again.

        Args:
            points: In units in which distances count, (n, d).
            n_cells: How many groups, a power of two; fewer when points are few.
        """
        if n_cells is None:
            n_cells = N_CELLS if len(points) < MANY else MORE_CELLS
        array = points.cpu().numpy()
        parts = [np.arange(len(array))]
        while 2 * len(parts) <= min(n_cells, len(array)):
            parts = [half for part in parts for half in _halves(array, part)]
        cell = np.empty(len(array), dtype=np.int64)
        for number, part in enumerate(parts):
            cell[part] = number
        sizes = np.array([len(part) for part in parts])
        return cls(
            torch.from_numpy(cell).to(points.device),
            torch.from_numpy(sizes).to(points.device),
        )


def _halves(points: NDArray[Any], part: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    some = points[part]
    widest = np.ptp(some, axis=0).argmax()
    # Stable: cells of equal points do not depend on the sorting algorithm.
    ranked = part[np.argsort(some[:, widest], kind="stable")]
    return np.array_split(ranked, 2)


@dataclass(frozen=True)
class CoarseCorrection:
    """M of one P, and its transpose.

    Attributes:
        cells: Which sample is in which cell.
        core: ((I - gamma R P Z)^-1 - I) D^-1, so that M = I + Z core Z', (C, C).
    """

    cells: Cells
    core: Tensor

    @classmethod
    def of(
        cls, transition: LinearOperator, gamma: float, cells: Cells
    ) -> CoarseCorrection | None:
        """M for this P; None if P is of a kind that cannot be summed over cells."""
        count = len(cells.sizes)
        sums = transition.block_sums(cells.cell, cells.cell, count)
        if sums is None:
            return None
        sizes = cells.sizes.to(sums)
        means = sums * (gamma / sizes[:, None])  # gamma R P Z
        # In single precision: it need not be exact, and takes half the time.
        one = torch.eye(count, device=sums.device)
        inverse = torch.linalg.inv(one - means.float())
        return cls(cells, (inverse - one).to(sums) / sizes)

    def apply(self, x: Tensor) -> Tensor:
        """M x, (n,) -> (n,)."""
        return self._spread(x, torch.mv(self.core, self._sums(x)))

    def apply_transpose(self, y: Tensor) -> Tensor:
        """M' y, (n,) -> (n,)."""
        return self._spread(y, torch.mv(self.core.T, self._sums(y)))

    def _sums(self, x: Tensor) -> Tensor:
        """Z' x, (n,) -> (C,)."""
        return x.new_zeros(len(self.core)).index_add_(0, self.cells.cell, x)

    def _spread(self, x: Tensor, by_cell: Tensor) -> Tensor:
        """x + Z w, (n,)."""
        return by_cell.index_select(0, self.cells.cell).add_(x)

"""The coarse space of many samples: functions that are constant on cells of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.linalg.coarse import CoarseSpace, discounted_inverse
from nopg.linalg.operators import LinearOperator

N_CELLS, MORE_CELLS, MANY = 256, 512, 30_000
"""Cells, and cells from so many samples on: their inverse stays worth few products."""


@dataclass(frozen=True)
class Cells(CoarseSpace):
    """Samples in groups that are close together.

    Z is the indicator of the cells and R = D^-1 Z' the mean over each. R P Z has
    rows that sum to at most one, so I - gamma R P Z is strictly diagonally dominant
    and can always be inverted.

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

    @property
    def core_shape(self) -> tuple[int, int]:
        """A number for each two cells."""
        return len(self.sizes), len(self.sizes)

    def core(self, transition: LinearOperator, gamma: float) -> Tensor | None:
        """((I - gamma R P Z)^-1 - I) D^-1, so that M = I + Z core Z'.

        None if P cannot be summed over cells.
        """
        sums = transition.block_sums(self.cell, self.cell, len(self.sizes))
        if sums is None:
            return None
        steps = sums / self.sizes.to(sums)[:, None]  # R P Z
        inverse = discounted_inverse(steps, gamma)
        return None if inverse is None else inverse.div_(self.sizes)

    def apply(self, core: Tensor, x: Tensor) -> Tensor:
        """M x = x + Z core Z' x."""
        return self._spread(x, torch.mv(core, self._sums(x)))

    def apply_transpose(self, core: Tensor, y: Tensor) -> Tensor:
        """M' y = y + Z core' Z' y."""
        return self._spread(y, torch.mv(core.T, self._sums(y)))

    def _sums(self, x: Tensor) -> Tensor:
        """Z' x, (n,) -> (C,)."""
        return x.new_zeros(len(self.sizes)).index_add_(0, self.cell, x)

    def _spread(self, x: Tensor, w: Tensor) -> Tensor:
        """x + Z w, (n,)."""
        return w.index_select(0, self.cell).add_(x)


def _halves(points: NDArray[Any], part: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    some = points[part]
    widest = np.ptp(some, axis=0).argmax()
    # Stable: cells of equal points do not depend on the sorting algorithm.
    ranked = part[np.argsort(some[:, widest], kind="stable")]
    return np.array_split(ranked, 2)

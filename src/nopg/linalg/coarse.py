"""A coarse twin of I - gamma P, inverted once, that speeds up solves with the fine one.

Rows of P at nearby next states are nearly the same, so P x is a smooth function of
the next state: all that a product leaves behind is, nearly, constant on small cells of
next states. With Z (n, C) the indicator of the cells and R = D^-1 Z' their means,

    M = I + Z ((I - gamma R P Z)^-1 - I) R

is (I - gamma P)^-1 on functions of the cells and the identity beside them. M' serves
the transposed system. A solver that asks for A M y = b and takes x = M y finds the same
x in a third of the products, and its residual is checked like any other; an M of a
former P is nearly as good as one of this P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.linalg.operators import LinearOperator

PRECISION = torch.float32
"""Of M and all it is applied to: it need not be exact, and is read at every product."""
N_CELLS, MORE_CELLS, MANY = 256, 512, 30_000
"""Cells, and cells from so many samples on: their inverse stays worth few products."""


@dataclass(frozen=True)
class CoarseCells:
    """Groups of samples that are close together."""

    cell: Tensor  # group of each sample, (n,)
    sizes: Tensor  # samples in each group, (C,)

    @classmethod
    def of(cls, points: Tensor, n_cells: int | None = None) -> CoarseCells:
        """Halve points (n, d) across their widest dimension, again and again.

        There are `n_cells` groups, a power of two; fewer when points are few.
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
        sizes = torch.tensor([len(part) for part in parts])
        return cls(torch.from_numpy(cell).to(points.device), sizes.to(points.device))


def _halves(points: NDArray[Any], part: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    some = points[part]
    widest = np.ptp(some, axis=0).argmax()
    # Stable: cells of equal points do not depend on the sorting algorithm.
    ranked = part[np.argsort(some[:, widest], kind="stable")]
    return np.array_split(ranked, 2)


@dataclass(frozen=True)
class CoarseCorrection:
    """M of one P, and its transpose."""

    cells: CoarseCells
    core: Tensor  # ((I - gamma R P Z)^-1 - I) D^-1, so that M = I + Z core Z', (C, C)

    @classmethod
    def of(
        cls, transition: LinearOperator, gamma: float, cells: CoarseCells
    ) -> CoarseCorrection | None:
        """M for this P; None if P cannot be summed over cells.

        R P Z has rows that sum to at most one, so that I - gamma R P Z is strictly
        diagonally dominant and can always be inverted.
        """
        count = len(cells.sizes)
        sums = transition.block_sums(cells.cell, cells.cell, count)
        if sums is None:
            return None
        steps = (sums / cells.sizes.to(sums)[:, None]).to(PRECISION)  # R P Z
        one = torch.eye(count, dtype=PRECISION, device=steps.device)
        inverse: Tensor
        inverse, info = torch.linalg.inv_ex(one - gamma * steps)
        if int(info) != 0 or not bool(torch.isfinite(inverse).all()):
            return None  # P was no number somewhere
        return cls(cells, (inverse - one).div_(cells.sizes))

    def apply(self, x: Tensor) -> Tensor:
        """M x = x + Z core Z' x, (n,) -> (n,)."""
        return self._corrected(x, self.core)

    def apply_transpose(self, y: Tensor) -> Tensor:
        """M' y = y + Z core' Z' y, (n,) -> (n,)."""
        return self._corrected(y, self.core.T)

    def _corrected(self, x: Tensor, core: Tensor) -> Tensor:
        cell = self.cells.cell
        sums = x.new_zeros(len(core)).index_add_(0, cell, x)  # Z' x, (C,)
        return torch.mv(core, sums).index_select(0, cell).add_(x)

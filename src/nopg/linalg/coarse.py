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

PRECISION = torch.float32
"""Of M and all it is applied to: it need not be exact, and is read at every product."""
MOST_CELLS, WORTH = 512, 24
"""Cells at most, and products with P that their inverse may cost."""
PER_ENTRY = 5.0
"""Multiplications of an inverse that take as long as one entry of a product: the former
come in vectors, the latter are gathered."""


@dataclass(frozen=True)
class CoarseCells:
    """Groups of samples that are close together."""

    cost: float  # of an inverse over them, in products with P
    cell: Tensor  # group of each sample, (n,) int32
    members: Tensor  # samples group after group, (n,) int32
    sizes: Tensor  # samples in each group, (C,)
    starts: Tensor  # where each group begins among the members, (C + 1,) int32

    @classmethod
    def of(cls, points: Tensor, n_entries: int) -> CoarseCells:
        """Halve points (n, d) across their widest dimension, again and again.

        There are as many groups, a power of two, as P with its entries is worth; fewer
        when points are few.
        """
        n_cells = min(MOST_CELLS, (PER_ENTRY * WORTH * n_entries) ** (1.0 / 3.0))
        array = points.numpy()
        parts = [np.arange(len(array))]
        while 2 * len(parts) <= min(n_cells, len(array)):
            parts = [half for part in parts for half in _halves(array, part)]
        cell = np.empty(len(array), dtype=np.int32)
        for number, part in enumerate(parts):
            part.sort()  # so that memory is read forwards
            cell[part] = number
        members = np.concatenate(parts).astype(np.int32)
        sizes = np.array([len(part) for part in parts])
        starts = np.concatenate([[0], sizes.cumsum()]).astype(np.int32)
        tensors = [torch.from_numpy(x) for x in (cell, members, sizes, starts)]
        return cls(1.0 + len(parts) ** 3 / (PER_ENTRY * n_entries), *tensors)


def _halves(points: NDArray[Any], part: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    some = points[part]
    widest = np.ptp(some, axis=0).argmax()
    # Stable: cells of equal points do not depend on the sorting algorithm.
    ranked = part[np.argsort(some[:, widest], kind="stable")]
    return np.array_split(ranked, 2)


@dataclass(frozen=True)
class CoarseCorrection:
    """M of one P."""

    cells: CoarseCells
    core: Tensor  # ((I - gamma R P Z)^-1 - I) D^-1, so that M = I + Z core Z', (C, C)

    @classmethod
    def of(
        cls, sums: Tensor, gamma: float, cells: CoarseCells
    ) -> CoarseCorrection | None:
        """M for a P whose entries are summed over cells, Z' P Z, (C, C).

        R P Z has rows that sum to at most one, so that I - gamma R P Z is strictly
        diagonally dominant and can always be inverted; None if P was no number.
        """
        steps = (sums / cells.sizes[:, None]).to(PRECISION)  # R P Z
        one = torch.eye(len(sums), dtype=PRECISION)
        inverse: Tensor
        inverse, info = torch.linalg.inv_ex(one - gamma * steps)
        if int(info) != 0 or not bool(torch.isfinite(inverse).all()):
            return None
        return cls(cells, (inverse - one).div_(cells.sizes).contiguous())

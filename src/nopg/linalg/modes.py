"""The coarse space of few samples: the smooth functions that kernel rows leave behind.

If a product with P left nothing else behind, P = U U' P, then

    (I - gamma P)^-1 = I + gamma U (I - gamma U' P U)^-1 U' P

exactly, and the right side is the M used here: what it lacks is what P leaves beside
the space, whatever it is applied to. An M that saw x through U' x alone would take P
of the rest for zero: a fifth to a quarter more products.

Half as many of them do more than cells, since they have no steps; but each is a
number a sample, so that a product with all of them costs as much as two or three with
P. It pays where calls cost more than arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.linalg.cells import Cells
from nopg.linalg.coarse import PRECISION, CoarseSpace, discounted_inverse
from nopg.linalg.operators import LinearOperator

N_MODES = 128
"""How many functions: with 96 solves need a sixth more products, with 192 a tenth
fewer, at half as much work again."""


@dataclass(frozen=True)
class Modes(CoarseSpace):
    """An orthonormal basis U: Z = U and R = U'.

    Attributes:
        columns: U, (n, C).
        rows: U', (C, n), stored as well: the faster way to read it.
    """

    columns: Tensor
    rows: Tensor

    @classmethod
    def of(cls, smoother: LinearOperator, cells: Cells, count: int = N_MODES) -> Modes:
        """The functions that a smoother passes on best.

        The rows of every policy are those of the state kernel, weighted by how near
        the actions are. So the leading left singular vectors of the state kernel
        serve all of them, and need be found once.

        Args:
            smoother: The rows of the state kernel alone, S, (n, n).
            cells: Functions to choose among are S applied to their indicators.
            count: How many functions, at most as many as there are cells.
        """
        indicator = torch.nn.functional.one_hot(cells.cell, len(cells.sizes))
        weights = cells.sizes.double().rsqrt()
        some = smoother.matmat(indicator * weights).double()  # (n, cells)
        squares, turn = torch.linalg.eigh(some.T @ some)  # smallest first
        is_there = squares > 1e-10 * squares[-1]
        count = min(count, int(is_there.sum()))
        columns = some @ (turn[:, -count:] * squares[-count:].rsqrt())
        columns = columns.to(PRECISION).contiguous()
        return cls(columns, columns.T.contiguous())

    def captured(self, smoother: LinearOperator) -> float:
        """Which part of the rows' square sum lies among these functions, 0 to 1."""
        S = smoother.dense().to(PRECISION)
        return float((self.rows @ S).square().sum() / S.square().sum())

    @property
    def core_shape(self) -> tuple[int, int]:
        """A number for each function and sample."""
        return len(self.rows), len(self.columns)

    def core(self, transition: LinearOperator, gamma: float) -> Tensor | None:
        """gamma (I - gamma U' P U)^-1 U' P, so that M = I + U core.

        None in the rare case that there is no inverse: P can be larger than one in
        the sense in which U is orthonormal.
        """
        listened = (transition.single() or transition).rmatmat(self.columns)
        seen = listened.to(PRECISION).T  # U' P, (C, n)
        inverse = discounted_inverse(seen @ self.columns, gamma)
        if inverse is None:
            return None
        return torch.addmm(seen, inverse, seen, beta=gamma, alpha=gamma).contiguous()

    def apply(self, core: Tensor, x: Tensor) -> Tensor:
        """M x = x + U core x."""
        return torch.addmv(x, self.columns, torch.mv(core, x))

    def apply_transpose(self, core: Tensor, y: Tensor) -> Tensor:
        """M' y = y + core' U' y."""
        return torch.addmv(y, core.T, torch.mv(self.rows, y))

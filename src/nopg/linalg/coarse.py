"""A coarse twin of I - gamma P, inverted once, that speeds up solves with the fine one.

Rows of P at nearby next states are nearly the same, so P x is a smooth function of
the next state: all that a product leaves behind lives, nearly, in a small space of
such functions. With Z (n, C) a basis of that space and R Z = I,

    M = I + Z ((I - gamma R P Z)^-1 - I) R

is (I - gamma P)^-1 on that space and the identity beside it. M' serves the transposed
system. A solver that asks for A M y = b and takes x = M y finds the same x in a third
of the products, and its residual is checked like any other; an M of a former P is
nearly as good as one of this P. Which space: `Modes` where samples are few,
`CoarseCells` where they are many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.linalg.operators import LinearOperator

PRECISION = torch.float32
"""Of M and all it is applied to: it need not be exact, and is read at every product."""
N_MODES = 128
"""How many functions: with 96 solves need a sixth more products, with 192 a tenth
fewer, at half as much work again."""
N_CELLS, MORE_CELLS, MANY = 256, 512, 30_000
"""Cells, and cells from so many samples on: their inverse stays worth few products."""


class CoarseSpace(ABC):
    """Functions of the samples that C numbers describe: Z w.

    A space keeps what M needs of one P as a matrix of its own kind, `core`.
    """

    @property
    @abstractmethod
    def core_shape(self) -> tuple[int, int]:
        """Rows and columns of a core."""

    @abstractmethod
    def core(self, transition: LinearOperator, gamma: float) -> Tensor | None:
        """What M of this P is made of; None if there is no M."""

    @abstractmethod
    def apply(self, core: Tensor, x: Tensor) -> Tensor:
        """M x, (n,) -> (n,)."""

    @abstractmethod
    def apply_transpose(self, core: Tensor, y: Tensor) -> Tensor:
        """M' y, (n,) -> (n,)."""


def discounted_inverse(steps: Tensor, gamma: float) -> Tensor | None:
    """(I - gamma S)^-1 - I in the small precision; None if that is singular.

    Args:
        steps: S = R P Z, (C, C).
        gamma: Discount factor.
    """
    one = torch.eye(len(steps), dtype=PRECISION, device=steps.device)
    inverse: Tensor
    inverse, info = torch.linalg.inv_ex(one - gamma * steps.to(PRECISION))
    if int(info) != 0 or not bool(torch.isfinite(inverse).all()):
        return None
    return inverse - one


@dataclass(frozen=True)
class CoarseCells(CoarseSpace):
    """The space of many samples: functions that are constant on cells of them.

    Cells are groups of samples that are close together. Z is their indicator and
    R = D^-1 Z' the mean over each. R P Z has rows that sum to at most one, so that
    I - gamma R P Z is strictly diagonally dominant and can always be inverted.

    Attributes:
        cell: Group of each sample, (n,).
        sizes: Samples in each group, (C,).
    """

    cell: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, points: Tensor, n_cells: int | None = None) -> CoarseCells:
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
        """One number per pair of cells."""
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


@dataclass(frozen=True)
class Modes(CoarseSpace):
    """The space of few samples: an orthonormal basis U, so that Z = U and R = U'.

    If a product with P left nothing else behind, P = U U' P, then

        (I - gamma P)^-1 = I + gamma U (I - gamma U' P U)^-1 U' P

    exactly, and the right side is the M used here: what it lacks is what P leaves
    beside the space, whatever it is applied to. An M that saw x through U' x alone
    would take P of the rest for zero: a fifth to a quarter more products.

    Half as many modes do more than cells, since they have no steps; but each is one
    number per sample, so that a product with all of them costs as much as two or three
    with P. It pays where calls cost more than arithmetic.

    Attributes:
        columns: U, (n, C).
        rows: U', (C, n), stored as well: the faster way to read it.
    """

    columns: Tensor
    rows: Tensor

    @classmethod
    def of(
        cls, smoother: LinearOperator, cells: CoarseCells, count: int = N_MODES
    ) -> Modes:
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
        """One number per function and sample."""
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


@dataclass(frozen=True)
class CoarseCorrection:
    """M of one P, and its transpose.

    Attributes:
        space: The functions M is made for.
        core: What M is made of, in the space's own form.
    """

    space: CoarseSpace
    core: Tensor

    @classmethod
    def of(
        cls, transition: LinearOperator, gamma: float, space: CoarseSpace
    ) -> CoarseCorrection | None:
        """M for this P; None if P has none in this space."""
        core = space.core(transition, gamma)
        return None if core is None else cls(space, core)

    @classmethod
    def kept(cls, core: Tensor, space: CoarseSpace) -> CoarseCorrection | None:
        """The one a `core` was kept of; None if that was made for another space."""
        if tuple(core.shape) != space.core_shape:
            return None
        return cls(space, core.to(PRECISION))

    def apply(self, x: Tensor) -> Tensor:
        """M x, (n,) -> (n,)."""
        return self.space.apply(self.core, x)

    def apply_transpose(self, y: Tensor) -> Tensor:
        """M' y, (n,) -> (n,)."""
        return self.space.apply_transpose(self.core, y)


def _halves(points: NDArray[Any], part: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    some = points[part]
    widest = np.ptp(some, axis=0).argmax()
    # Stable: cells of equal points do not depend on the sorting algorithm.
    ranked = part[np.argsort(some[:, widest], kind="stable")]
    return np.array_split(ranked, 2)

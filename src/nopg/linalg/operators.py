"""What a linear map is, dense rows, and rows averaged in groups: P of Theorem 1.

An operator knows `matvec` (x -> A x), `rmatvec` (y -> A' y) and its dense twin.
How to invert one is the solvers' business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class LinearOperator(ABC):
    """A real matrix that is only ever multiplied."""

    @abstractmethod
    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""

    @abstractmethod
    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""

    def row_mean(self) -> Tensor:
        """Mean of the rows, (n,)."""
        return self.dense().mean(dim=0)

    def single(self) -> LinearOperator | None:
        """A in single precision, where entries are at hand: half the bytes."""
        return None

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        """x - gamma A x, fused where the layout allows it; A is square."""
        return x - gamma * self.matvec(x)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        """y - gamma A' y, likewise."""
        return y - gamma * self.rmatvec(y)

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        """Entries summed over cells of rows, (m,), and of columns, (n,).

        The sums are (count, count); None for a map that is only ever multiplied.
        """
        return None


@dataclass(frozen=True)
class DenseRows(LinearOperator):
    """Every entry stored."""

    matrix: Tensor

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        return self.matrix @ x

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return y @ self.matrix

    def single(self) -> LinearOperator:
        """A in single precision."""
        return DenseRows(self.matrix.float())

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self.matrix

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        """Entries summed over cells of rows and of columns, (count, count)."""
        n = self.matrix.shape[1]
        by_row = self.matrix.new_zeros((count, n)).index_add_(0, row_cells, self.matrix)
        return by_row.new_zeros((count, count)).index_add_(1, column_cells, by_row)


@dataclass(frozen=True)
class AveragedRows(LinearOperator):
    """Rows averaged in consecutive groups, some of them set to zero.

    This is P of Theorem 1: `rows` holds one row for each of N_phi next states of
    a sample, their mean is the integral over phi, and the row of a terminal
    sample is zero.
    """

    rows: LinearOperator
    group: int
    continuation: Tensor | None  # (n,): 1 keeps a row, 0 clears it; None keeps all

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        return self.averaged(self.rows.matvec(x))

    def averaged(self, y: Tensor) -> Tensor:
        """What comes of numbers for each single row, (m * group, ...) -> (m, ...)."""
        if self.group > 1:
            y = y.view(-1, self.group, *y.shape[1:]).mean(dim=1)
        if self.continuation is None:
            return y
        return y * self.continuation.view(-1, *[1] * (y.ndim - 1))

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self.rows.rmatvec(self.spread(y))

    def single(self) -> LinearOperator | None:
        """A in single precision, if the rows can be."""
        rows = self.rows.single()
        live = None if self.continuation is None else self.continuation.float()
        return None if rows is None else AveragedRows(rows, self.group, live)

    def spread(self, y: Tensor) -> Tensor:
        """What each single row contributes to y' A: its group's share, (m * group,)."""
        y = y if self.continuation is None else y * self.continuation
        return y if self.group == 1 else (y / self.group).repeat_interleave(self.group)

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        rows = self.rows.dense()
        grouped = rows.view(-1, self.group, rows.shape[1]).mean(dim=1)
        live = self.continuation
        return grouped if live is None else grouped * live[:, None]

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        """Entries summed over cells of rows and of columns, (count, count)."""
        if self.continuation is not None:  # cleared rows get a cell that is left out
            row_cells = torch.where(self.continuation > 0, row_cells, count)
        spread = row_cells.repeat_interleave(self.group)
        sums = self.rows.block_sums(spread, column_cells, count + 1)
        return None if sums is None else sums[:count, :count] / self.group

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        """x - gamma A x; the rows' own fused product if they are A itself."""
        if self.group == 1 and self.continuation is None:
            return self.rows.discounted(x, gamma)
        return super().discounted(x, gamma)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        """y - gamma A' y, likewise."""
        if self.group == 1 and self.continuation is None:
            return self.rows.discounted_transpose(y, gamma)
        return super().discounted_transpose(y, gamma)

"""What a linear map is, dense rows, and rows averaged in groups: P of Theorem 1.

An operator knows `matvec` (x -> A x), `rmatvec` (y -> A' y) and its dense twin.
How to invert one is the solvers' business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

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

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self.matrix


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

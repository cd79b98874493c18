"""What a linear map is: dense rows, or sparse rows with a fixed pattern.

An operator knows `matvec` (x -> A x), `rmatvec` (y -> A' y) and its dense twin.
How to invert one is the solvers' business.
"""

from __future__ import annotations

import warnings
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

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        """x - gamma A x, fused where the layout allows it; A is square."""
        return x - gamma * self.matvec(x)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        """y - gamma A' y, likewise."""
        return y - gamma * self.rmatvec(y)


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
class Pattern:
    """Where the entries of sparse rows are; their values come and go.

    Rows are stored in the order they were listed ("stacked"), which need not be
    their natural order: `order` maps a stacked row to its natural number. The
    transpose is stored as rows too, since a scattering product is many times
    slower than a gathering one, and it is reached by one permutation of values.
    """

    shape: tuple[int, int]
    order: Tensor  # (m,) natural number of each stacked row
    position: Tensor  # (m,) stacked place of each natural row
    is_natural: bool  # whether the two orders agree
    row_starts: Tensor  # (m + 1,) int32
    columns: Tensor  # (nnz,) int32
    transpose_starts: Tensor  # (n + 1,) int32
    transpose_columns: Tensor  # (nnz,) int32, natural row numbers
    transpose_source: Tensor  # (nnz,) which stored value each transposed one is

    @classmethod
    def stack(
        cls, rows: list[Tensor], columns: list[Tensor], n_columns: int
    ) -> Pattern:
        """A pattern from blocks of equally long rows.

        Args:
            rows: Natural row numbers of each block, (m_b,) each.
            columns: Entries of each block, (m_b, k_b) each.
            n_columns: Width of the matrix.
        """
        order = torch.cat(rows)
        lengths = torch.cat([c.new_full((len(c),), c.shape[1]) for c in columns]).long()
        zero = lengths.new_zeros(1)
        row_starts = torch.cat([zero, lengths.cumsum(0)])
        flat = torch.cat([c.reshape(-1) for c in columns])
        row_of_entry = torch.repeat_interleave(order, lengths)
        # Stable: entries of one transposed row stay in stored order, so memory is
        # read forwards, and results do not depend on the sorting algorithm.
        source = torch.argsort(flat.long() * len(order) + row_of_entry, stable=True)
        counts = torch.bincount(flat.long(), minlength=n_columns)
        return cls(
            shape=(len(order), n_columns),
            order=order,
            position=torch.argsort(order),
            is_natural=bool((order[1:] > order[:-1]).all()),
            row_starts=row_starts.to(torch.int32),
            columns=flat.to(torch.int32),
            transpose_starts=torch.cat([zero, counts.cumsum(0)]).to(torch.int32),
            transpose_columns=row_of_entry[source].to(torch.int32),
            transpose_source=source,
        )


class SparseRows(LinearOperator):
    """A pattern with values: P as it is kept during training.

    Index arrays are int32: half the bytes, and the fast path of the sparse
    kernels torch calls.
    """

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern = pattern
        self.values = values
        m, n = pattern.shape
        self._rows = _csr(pattern.row_starts, pattern.columns, values, (m, n))
        self._transpose: Tensor | None = None

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        stacked = self._rows @ x
        return stacked if self.pattern.is_natural else stacked[self.pattern.position]

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self._transposed() @ y

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        """x - gamma A x in one pass."""
        if not self.pattern.is_natural:
            return super().discounted(x, gamma)
        return torch.addmv(x, self._rows, x, alpha=-gamma)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        """y - gamma A' y in one pass."""
        return torch.addmv(y, self._transposed(), y, alpha=-gamma)

    def _transposed(self) -> Tensor:
        if self._transpose is None:
            p = self.pattern
            self._transpose = _csr(
                p.transpose_starts,
                p.transpose_columns,
                self.values[p.transpose_source],
                (p.shape[1], p.shape[0]),
            )
        return self._transpose

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self._rows.to_dense()[self.pattern.position]


def _csr(
    starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]
) -> Tensor:
    with warnings.catch_warnings():
        # torch calls its CSR layout "beta"; products with vectors are what we use
        # of it, and the operator contract tests cover them.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            starts, columns, values, shape, check_invariants=False
        )


@dataclass(frozen=True)
class AveragedRows(LinearOperator):
    """Rows averaged in consecutive groups, some of them set to zero.

    This is P of Theorem 1: `rows` holds one row for each of N_phi next states of
    a sample, their mean is the integral over phi, and the row of a terminal
    sample is zero.
    """

    rows: LinearOperator
    group: int
    is_live: Tensor | None  # (n,): 1 keeps a row, 0 clears it; None keeps all

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        y = self.rows.matvec(x)
        if self.group > 1:
            y = y.view(-1, self.group).mean(dim=1)
        return y if self.is_live is None else y * self.is_live

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self.rows.rmatvec(self.spread(y))

    def spread(self, y: Tensor) -> Tensor:
        """What each single row contributes to y' A: its group's share, (m * group,)."""
        y = y if self.is_live is None else y * self.is_live
        return y if self.group == 1 else (y / self.group).repeat_interleave(self.group)

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        rows = self.rows.dense()
        grouped = rows.view(-1, self.group, rows.shape[1]).mean(dim=1)
        return grouped if self.is_live is None else grouped * self.is_live[:, None]

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        """x - gamma A x; the rows' own fused product if they are A itself."""
        if self.group == 1 and self.is_live is None:
            return self.rows.discounted(x, gamma)
        return super().discounted(x, gamma)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        """y - gamma A' y, likewise."""
        if self.group == 1 and self.is_live is None:
            return self.rows.discounted_transpose(y, gamma)
        return super().discounted_transpose(y, gamma)

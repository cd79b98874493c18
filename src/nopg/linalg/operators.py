"""What a linear map is: dense rows, or sparse rows with a fixed pattern.

An operator knows `matvec` (x -> A x), `rmatvec` (y -> A' y) and its dense twin.
How to invert one is the solvers' business.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

TOGETHER = 4_000_000
"""Entries summed over cells in one go."""


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

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        """Entries summed over cells of rows and of columns, where entries are at hand.

        Args:
            row_cells: Cell of each row, (m,).
            column_cells: Cell of each column, (n,).
            count: How many cells there are.

        Returns:
            The sums, (count, count); None for a map that is only ever multiplied.
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
class Pattern:
    """Where the entries of sparse rows are; their values come and go.

    Values arrive as they were listed ("stacked"): block after block of equally long
    rows, which need not be the natural order of the rows. They are brought into it
    once, since a solve makes a hundred products with the same values. The transpose
    is stored as rows too, since a scattering product is many times slower than a
    gathering one, and it is reached by one more permutation.
    """

    shape: tuple[int, int]
    position: Tensor  # (m,) stacked place of each natural row
    is_natural: bool  # whether the two orders agree
    source: Tensor | None  # (nnz,) int32, which stacked value each natural one is
    row_starts: Tensor  # (m + 1,) int32
    columns: Tensor  # (nnz,) int32
    transpose_starts: Tensor  # (n + 1,) int32
    transpose_columns: Tensor  # (nnz,) int32, row numbers
    transpose_source: Tensor  # (nnz,) int32, which natural value each one is

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
        flat = torch.cat([c.reshape(-1) for c in columns])
        is_natural = bool((order[1:] > order[:-1]).all())
        position, source = torch.argsort(order), None
        if not is_natural:
            row_of_entry = torch.repeat_interleave(order, lengths)
            by_row = torch.argsort(row_of_entry, stable=True)
            lengths, flat = lengths[position], flat[by_row]
            source = by_row.to(torch.int32)
        zero = lengths.new_zeros(1)
        natural = torch.arange(len(order), device=order.device)
        row_of_entry = torch.repeat_interleave(natural, lengths)
        # Stable: entries of one transposed row stay in stored order, so memory is
        # read forwards, and results do not depend on the sorting algorithm.
        across = torch.argsort(flat.long(), stable=True)
        counts = torch.bincount(flat.long(), minlength=n_columns)
        return cls(
            shape=(len(order), n_columns),
            position=position,
            is_natural=is_natural,
            source=source,
            row_starts=torch.cat([zero, lengths.cumsum(0)]).to(torch.int32),
            columns=flat.to(torch.int32),
            transpose_starts=torch.cat([zero, counts.cumsum(0)]).to(torch.int32),
            transpose_columns=row_of_entry[across].to(torch.int32),
            transpose_source=across.to(torch.int32),
        )


class SparseRows(LinearOperator):
    """A pattern with values: P as it is kept during training.

    Index arrays are int32: half the bytes, and the fast path of the sparse
    kernels torch calls.

    Args:
        pattern: Where entries are.
        stacked: Their values in the order they were listed, (nnz,).
    """

    def __init__(self, pattern: Pattern, stacked: Tensor) -> None:
        self.pattern = pattern
        self.values = stacked  # row after row, in natural order
        if pattern.source is not None:
            self.values = stacked.index_select(0, pattern.source)
        self._rows = csr(
            pattern.row_starts, pattern.columns, self.values, pattern.shape
        )
        self._transpose: Tensor | None = None

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        return self._rows @ x

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self._transposed() @ y

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        """x - gamma A x in one pass."""
        return torch.addmv(x, self._rows, x, alpha=-gamma)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        """y - gamma A' y in one pass."""
        return torch.addmv(y, self._transposed(), y, alpha=-gamma)

    def _transposed(self) -> Tensor:
        if self._transpose is None:
            p = self.pattern
            self._transpose = csr(
                p.transpose_starts,
                p.transpose_columns,
                self.values.index_select(0, p.transpose_source),
                (p.shape[1], p.shape[0]),
            )
        return self._transpose

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self._rows.to_dense()

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        """Entries summed over cells of rows and of columns, (count, count)."""
        p, sums = self.pattern, self.values.new_zeros(count * count)
        lengths = p.row_starts.diff()
        rows = max(1, TOGETHER * len(row_cells) // max(len(self.values), 1))
        for first in range(0, len(row_cells), rows):  # in parts: keys are large
            some = slice(first, first + rows)
            keys = row_cells[some].mul(count).repeat_interleave(lengths[some])
            stored = slice(
                first_entry := int(p.row_starts[first]), first_entry + len(keys)
            )
            keys += column_cells.index_select(0, p.columns[stored])
            sums.index_add_(0, keys, self.values[stored])
        return sums.view(count, count)


def csr(
    starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]
) -> Tensor:
    """A torch matrix of sparse rows, nothing checked."""
    _hush()
    return torch.sparse_csr_tensor(
        starts, columns, values, shape, check_invariants=False
    )


@cache
def _hush() -> None:
    """Let torch say once, unheard, that its CSR layout is "beta".

    Products with vectors are what we use of it, and the operator contract tests
    cover them. Filtering at every construction would cost more than a product.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        one = torch.ones(1)
        index = torch.tensor([0, 1], dtype=torch.int32)
        torch.sparse_csr_tensor(index, index[:1], one, (1, 1), check_invariants=False)


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

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        """Entries summed over cells of rows and of columns, (count, count)."""
        if self.is_live is None:
            spread = row_cells.repeat_interleave(self.group)
            sums = self.rows.block_sums(spread, column_cells, count)
        else:  # rows that are cleared are put into a cell of their own, and left out
            live_cells = torch.where(self.is_live > 0, row_cells, count)
            spread = live_cells.repeat_interleave(self.group)
            sums = self.rows.block_sums(spread, column_cells, count + 1)
        return None if sums is None else sums[:count, :count] / self.group

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

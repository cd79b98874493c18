"""What a linear map is; dense rows, sparse rows, and the mean of groups of them: P."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Self

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
    """Where the entries of sparse rows are."""

    # Values stay as they were listed ("stacked"): block after block of equally long rows. The
    # transpose is stored as rows too: a scattering product is far slower than a gathering one.

    shape: tuple[int, int]
    position: Tensor | None  # (m,) stacked place of each row; None if they are in order
    row_starts: Tensor  # (m + 1,) int32, of stacked rows
    columns: Tensor  # (nnz,) int32
    transpose_starts: Tensor  # (n + 1,) int32
    transpose_columns: Tensor  # (nnz,) int32, row numbers
    transpose_source: Tensor  # (nnz,) int32, which value each one is

    @classmethod
    def stack(cls, rows: list[Tensor], columns: list[Tensor], n_columns: int) -> Self:
        """A pattern from row numbers, (m_b,), and columns, (m_b, k_b), of blocks."""
        order = torch.cat(rows)
        lengths = torch.cat([c.new_full((len(c),), c.shape[1]) for c in columns]).long()
        flat, zero = torch.cat([c.reshape(-1) for c in columns]), lengths.new_zeros(1)
        # Stable: memory is read forwards, and results do not depend on the sorting algorithm.
        across = torch.argsort(flat.long(), stable=True)
        counts = torch.bincount(flat.long(), minlength=n_columns)
        return cls(
            shape=(len(order), n_columns),
            position=None if bool((order[1:] > order[:-1]).all()) else torch.argsort(order),
            row_starts=torch.cat([zero, lengths.cumsum(0)]).to(torch.int32),
            columns=flat.to(torch.int32),
            transpose_starts=torch.cat([zero, counts.cumsum(0)]).to(torch.int32),
            transpose_columns=torch.repeat_interleave(order, lengths)[across].to(torch.int32),
            transpose_source=across.to(torch.int32),
        )

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Where the entries of each row begin and where they end, (m,) int32 each."""
        return self.in_order(self.row_starts[:-1]), self.in_order(self.row_starts[1:])

    def in_order(self, stacked: Tensor, dim: int = 0) -> Tensor:
        """What belongs to stacked rows, in the original order of the rows."""
        return stacked if self.position is None else stacked.index_select(dim, self.position)


def csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch matrix of sparse rows, nothing checked."""
    _silence_warnings()
    return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


@cache
def _silence_warnings() -> None:
    """Let torch warn once, unheard, of its CSR layout and of unchecked indices."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor|invariant)")
        index = torch.tensor([0, 1], dtype=torch.int32)
        torch.sparse_csr_tensor(index, index[:1], torch.ones(1), (1, 1), check_invariants=False)


class SparseRows(LinearOperator):
    """A pattern with values, (nnz,), as listed: P as it is kept during training."""

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        return self.pattern.in_order(self._rows @ x)

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self._transposed @ y

    def row_mean(self) -> Tensor:
        """Mean of the rows, (n,), without the transpose: once, it does not pay."""
        m, n = self.pattern.shape
        if self.values.is_cuda:  # where sums in no fixed order would not repeat
            return self.rmatvec(self.values.new_full((m,), 1.0 / m))
        zeros = self.values.new_zeros(n)
        return zeros.index_add_(0, self.pattern.columns, self.values, alpha=1.0 / m)

    @cached_property
    def _rows(self) -> Tensor:
        p = self.pattern
        return csr(p.row_starts, p.columns, self.values, p.shape)

    @cached_property
    def _transposed(self) -> Tensor:
        p = self.pattern
        values = self.values.index_select(0, p.transpose_source)
        return csr(p.transpose_starts, p.transpose_columns, values, p.shape[::-1])

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self.pattern.in_order(self._rows.to_dense())


@dataclass(frozen=True)
class AveragedRows(LinearOperator):
    """Rows averaged in consecutive groups, some of them set to zero: P of Theorem 1."""

    rows: LinearOperator  # one row for each of N_phi next states of a sample
    group: int
    continuation: Tensor | None  # (n,): 1 keeps a row, 0 clears a terminal one; None keeps all

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
        return self.averaged(self.rows.dense())

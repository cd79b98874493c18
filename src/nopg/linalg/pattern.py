"""Where the entries of a sparse matrix are: settled once, while values come and go."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor


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

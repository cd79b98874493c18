"""Rows of B policies over one pattern: made for the actions taken, and differentiated.

What `RowModel` of `nopg.bellman.rows` is to the plain path: a class for each kind
(`build`, `matched`), with buffers that stay put, so that launches can be captured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from nopg.gpu.toolchain import tl, triton


@triton.jit
def load_rows(
    weights, columns, x, row, m, k: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """For a tile of rows: which entries are there, columns, weights, and x beside."""
    entry = tl.arange(0, K)
    mask = (row < m)[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    column = tl.load(columns + at, mask=mask, other=0)
    weight = tl.load(weights + at, mask=mask, other=0.0)
    return mask, column, weight, tl.load(x + column, mask=mask, other=0.0)


class FusedRows(ABC):
    """Rows of k entries at m queries."""

    def __init__(
        self,
        log_psi: Tensor,  # log state kernel, (m, k)
        columns: Tensor,  # samples each row lists, (m, k)
        n_policies: int,  # B
    ) -> None:
        self.log_psi, self.columns = log_psi.contiguous(), columns.contiguous()
        # Rows of the actions last taken, (B, m, k).
        self.weights = log_psi.new_empty((n_policies, *columns.shape))

    @abstractmethod
    def build(self, taken: Tensor) -> Tensor:
        """`weights` for the action taken at each query, (B, m, d_a)."""

    @abstractmethod
    def differentiate(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """P q, (B, m), and d (P q)_i / d a_i, (B, m, d_a), for q (B, n).

        One pass over the rows last built: what the derivative needs of them is made
        on the way and not stored.
        """

    def _outputs(self, q: Tensor, d_a: int) -> tuple[Tensor, Tensor]:
        """Where `differentiate` writes."""
        shape = (len(q), len(self.columns))
        return q.new_empty(shape), q.new_empty((*shape, d_a))

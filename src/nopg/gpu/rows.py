"""Rows of B policies over one pattern: made for the actions taken, and differentiated.

P x for rows of k entries is one read of the weights, x comes from the cache.

What `RowModel` of `nopg.bellman.rows` is to the plain path: a class for each kind
(`build`, `matched`), with buffers that stay put, so that launches can be captured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from nopg.gpu.toolchain import Tile, tl, triton


@triton.jit
def row_products(
    weights, columns, x, row, m, k: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """(P x)_i for a tile of rows i; zero beyond the last row."""
    entry = tl.arange(0, K)
    mask = (row < m)[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    column = tl.load(columns + at, mask=mask, other=0)
    weight = tl.load(weights + at, mask=mask, other=0.0)
    return tl.sum(weight * tl.load(x + column, mask=mask, other=0.0), axis=1)


@triton.jit
def _matvec(
    weights, columns, x, y, m, n, n_batch, k: tl.constexpr, R: tl.constexpr,
    K: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    products = row_products(
        weights + policy * m * k, columns, x + policy * n, row, m, k, K
    )
    tl.store(y + policy * m + row, products, mask=row < m)


def matvec(weights: Tensor, columns: Tensor, x: Tensor) -> Tensor:
    """P x, (B, m), of weights (B, m, k) with columns (m, k), and x (B, n)."""
    (m, k), (n_batch, n) = columns.shape, x.shape
    out, tile = x.new_empty((n_batch, m)), Tile.of_rows(k)
    _matvec[(tile.programs(m) * n_batch,)](
        weights.contiguous(), columns.contiguous(), x.contiguous(), out, m, n, n_batch,
        k=k, R=tile.rows, K=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out


class FusedRows(ABC):
    """Rows of k entries at m queries."""

    def __init__(
        self,
        log_psi: Tensor,  # log state kernel, (m, k)
        columns: Tensor,  # samples each row lists, (m, k)
        d_a: int,
        n_policies: int,  # B
    ) -> None:
        self.log_psi, self.columns = log_psi.contiguous(), columns.contiguous()
        # Rows of the actions last taken, (B, m, k), and what gives their derivatives:
        # d (P q)_i / d a_i = slopes_i q, (d_a, B, m, k).
        self.weights = log_psi.new_empty((n_policies, *columns.shape))
        self.slopes = log_psi.new_empty((d_a, n_policies, *columns.shape))

    @abstractmethod
    def build(self, taken: Tensor) -> Tensor:
        """`weights` and `slopes` for the action taken at each query, (B, m, d_a)."""

    def action_vjp(self, q: Tensor, row_weights: Tensor) -> Tensor:
        """Gradient of sum_i w_i (P q)_i by the actions taken, (B, m, d_a).

        q is (B, n), the weights w of the rows are (B, m).
        """
        # Slopes of a row sum to zero but for their last bits: keep q small.
        centred = q - q.mean(dim=-1, keepdim=True)
        found = [matvec(each, self.columns, centred) for each in self.slopes]
        return row_weights[..., None] * torch.stack(found, dim=-1)

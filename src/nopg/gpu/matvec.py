"""P x for rows of k entries: one read of the weights, x from the cache."""

from __future__ import annotations

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

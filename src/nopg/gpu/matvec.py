"""P x for rows of k entries: one read of the weights, x from the cache."""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton


@triton.jit
def row_products(
    weights,
    columns,
    x,
    row,
    m,
    k: tl.constexpr,
    K: tl.constexpr,
):
    """(P x)_i for a tile of rows i; zero beyond the last row."""
    entry = tl.arange(0, K)
    mask = (row < m)[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    column = tl.load(columns + at, mask=mask, other=0)
    weight = tl.load(weights + at, mask=mask, other=0.0)
    return tl.sum(weight * tl.load(x + column, mask=mask, other=0.0), axis=1)


@triton.jit
def _matvec(
    weights,
    columns,
    x,
    rows,
    y,
    m,
    n,
    n_out,
    weights_stride,
    n_batch,
    k: tl.constexpr,
    IS_NATURAL: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    products = row_products(
        weights + policy * weights_stride, columns, x + policy * n, row, m, k, K
    )
    natural = row
    if not IS_NATURAL:
        natural = tl.load(rows + row, mask=row < m, other=0).to(tl.int32)
    tl.store(y + policy * n_out + natural, products, mask=row < m)


def matvec(
    weights: Tensor,
    columns: Tensor,
    x: Tensor,
    *,
    rows: Tensor | None = None,
    out: Tensor | None = None,
    tile: Tile | None = None,
) -> Tensor:
    """P x.

    Args:
        weights: P, (m, k) or (B, m, k).
        columns: Its columns, (m, k).
        x: (n,) or (B, n).
        rows: For one of several blocks: the place of each row in `out`, (m,).
        out: Where to write, (m,) or (B, m); longer if `rows` are given.
        tile: How much one program takes.
    """
    m, k = columns.shape
    stack, vectors = policy_weights(weights), batched(x, 1)
    if out is None:
        out = x.new_empty((*x.shape[:-1], m))
    tile = tile or Tile.of_rows(k)
    _matvec[(tile.programs(m) * len(vectors),)](
        stack, columns.contiguous(), vectors, columns if rows is None else rows, out,
        m, x.shape[-1], out.shape[-1], stack.stride(0), len(vectors), k=k,
        IS_NATURAL=rows is None, R=tile.rows, K=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out


def policy_weights(weights: Tensor) -> Tensor:
    """Weights with an axis of policies, (B, m, k); that axis may have any stride.

    Several blocks share one array of values, (B, nnz), and each is a window of it.
    """
    stack = weights if weights.ndim > 2 else weights.unsqueeze(0)
    is_packed = stack.stride()[1:] == (stack.shape[2], 1)
    return stack if is_packed else stack.contiguous()

"""One sweep of mu = eps0 + T mu, T = (D P)', with what is left of it.

    mu' = eps0 + T (scale mu)        residual mu' - scale mu

`scale` is a number on the device (see `deflation`), applied while mu is read.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.rmatvec import column_products
from nopg.gpu.sweep_values import empty_sums
from nopg.gpu.toolchain import Tile, batched, tl, triton
from nopg.gpu.transpose import COLUMNS


@triton.jit
def sweep_columns(
    values,
    starts,
    rows,
    eps0,
    mu,
    scale,
    mu_next,
    sums,
    program,
    policy,
    n,
    n_entries,
    kind_stride,
    policy_stride,
    C: tl.constexpr,
    E: tl.constexpr,
):
    """The sweep for one tile of columns of one policy."""
    column = program * C + tl.arange(0, C)
    is_column = column < n
    factor = tl.load(scale + policy)
    products = column_products(
        values + policy * n_entries, starts, rows, mu + policy * n, column, n, C, E
    )
    own = policy * n + column
    step = tl.load(eps0 + own, mask=is_column, other=0.0) + factor * products
    residual = step - factor * tl.load(mu + own, mask=is_column, other=0.0)
    tl.store(mu_next + own, step, mask=is_column)
    place = sums + policy * policy_stride + program
    tl.store(place, tl.sum(residual * residual, axis=0))
    tl.store(place + kind_stride, tl.sum(step, axis=0))


@triton.jit
def _sweep_visits(
    values,
    starts,
    rows,
    eps0,
    mu,
    scale,
    mu_next,
    sums,
    n,
    n_entries,
    kind_stride,
    policy_stride,
    n_batch,
    C: tl.constexpr,
    E: tl.constexpr,
):
    sweep_columns(
        values, starts, rows, eps0, mu, scale, mu_next, sums,
        tl.program_id(0) // n_batch, (tl.program_id(0) % n_batch).to(tl.int64),
        n, n_entries, kind_stride, policy_stride, C, E,
    )  # fmt: skip


def sweep_visits(
    values: Tensor,
    starts: Tensor,
    rows: Tensor,
    eps0: Tensor,
    mu: Tensor,
    scale: Tensor,
    *,
    out: tuple[Tensor, Tensor] | None = None,
    tile: Tile = COLUMNS,
) -> tuple[Tensor, Tensor]:
    """Step to mu' and sum, program by program, its squared residuals and mu'.

    Args:
        values: Entries of T, (nnz,) or (B, nnz).
        starts: First entry of each column, (n + 1,).
        rows: Row each entry comes from, (nnz,).
        eps0: (n,) or (B, n).
        mu: The iterate but for its factor, (n,) or (B, n).
        scale: That factor, one number a policy, (B,).
        out: Where to write mu' and the sums.
        tile: Columns a program takes, and entries of each at a time.

    Returns:
        mu', like mu, and sums (2, B, programs): squared residuals of the sweep's
        input, then mu' itself.
    """
    stack, vectors = batched(values, 1), batched(mu, 1)
    n, n_batch = mu.shape[-1], len(vectors)
    if out is None:
        out = (vectors.new_empty(mu.shape), empty_sums(vectors, tile.programs(n)))
    mu_next, sums = out
    _sweep_visits[(tile.programs(n) * n_batch,)](
        stack, starts, rows, eps0.contiguous(), vectors, scale, mu_next, sums,
        n, len(rows), sums.stride(0), sums.stride(1), n_batch,
        C=tile.rows, E=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return mu_next, sums

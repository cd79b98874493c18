"""T x for a transpose stored column by column: gathers only, nothing is scattered.

Every column is summed by one program in a fixed order, so results repeat to the
last bit.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton
from nopg.gpu.transpose import COLUMNS, fresh_entries


@triton.jit
def column_products(
    values,
    starts,
    rows,
    x,
    column,
    n,
    C: tl.constexpr,
    E: tl.constexpr,
):
    """(T x)_j for a tile of columns j; zero beyond the last column."""
    is_column = column < n
    first = tl.load(starts + column, mask=is_column, other=0)
    last = tl.load(starts + column + 1, mask=is_column, other=0)
    total = tl.zeros((C, E), dtype=values.dtype.element_ty)
    for done in range(0, tl.max(last - first, axis=0), E):
        at = first[:, None] + done + tl.arange(0, E)[None, :]
        mask = at < last[:, None]
        row = tl.load(rows + at, mask=mask, other=0)
        value = tl.load(values + at, mask=mask, other=0.0)
        total += value * tl.load(x + row, mask=mask, other=0.0)
    return tl.sum(total, axis=1)


@triton.jit
def _rmatvec(
    values,
    starts,
    rows,
    x,
    y,
    n,
    m,
    n_entries,
    n_batch,
    C: tl.constexpr,
    E: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    column = tl.program_id(0) // n_batch * C + tl.arange(0, C)
    products = column_products(
        values + policy * n_entries, starts, rows, x + policy * m, column, n, C, E
    )
    tl.store(y + policy * n + column, products, mask=column < n)


def rmatvec(
    values: Tensor,
    starts: Tensor,
    rows: Tensor,
    x: Tensor,
    *,
    out: Tensor | None = None,
    tile: Tile = COLUMNS,
) -> Tensor:
    """T x with stored values.

    Args:
        values: Entries of T, (nnz,) or (B, nnz).
        starts: First entry of each column, (n + 1,).
        rows: Row each entry comes from, (nnz,).
        x: (m,) or (B, m).
        out: Where to write, (n,) or (B, n).
        tile: Columns a program takes, and entries of each at a time.
    """
    stack, vectors = batched(values, 1), batched(x, 1)
    n = len(starts) - 1
    out = x.new_empty((*x.shape[:-1], n)) if out is None else out
    _rmatvec[(tile.programs(n) * len(vectors),)](
        stack, starts, rows, vectors, out, n, x.shape[-1], len(rows), len(vectors),
        C=tile.rows, E=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out


@triton.jit
def _rmatvec_fresh(
    log_psi_t,
    starts,
    rows,
    sample_actions,
    taken,
    half_precision,
    log_mass,
    x,
    y,
    n,
    m,
    n_batch,
    d_a: tl.constexpr,
    IS_PER_ROW: tl.constexpr,
    C: tl.constexpr,
    E: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    column = tl.program_id(0) // n_batch * C + tl.arange(0, C)
    is_column = column < n
    first = tl.load(starts + column, mask=is_column, other=0)
    last = tl.load(starts + column + 1, mask=is_column, other=0)
    own = policy * m
    total = tl.zeros((C, E), dtype=log_psi_t.dtype.element_ty)
    for done in range(0, tl.max(last - first, axis=0), E):
        at = first[:, None] + done + tl.arange(0, E)[None, :]
        mask = at < last[:, None]
        row = tl.load(rows + at, mask=mask, other=0)
        entries = fresh_entries(
            log_psi_t, log_mass + own, sample_actions, taken + own * d_a,
            half_precision + own * d_a if IS_PER_ROW else half_precision,
            at, row, mask, column, is_column, d_a, IS_PER_ROW,
        )  # fmt: skip
        total += entries * tl.load(x + own + row, mask=mask, other=0.0)
    tl.store(y + policy * n + column, tl.sum(total, axis=1), mask=is_column)


def rmatvec_fresh(
    log_psi_t: Tensor,
    starts: Tensor,
    rows: Tensor,
    sample_actions: Tensor,
    taken: Tensor,
    half_precision: Tensor,
    log_mass: Tensor,
    x: Tensor,
    *,
    out: Tensor | None = None,
    tile: Tile = COLUMNS,
) -> Tensor:
    """P' x without stored values: each entry is made, used and forgotten.

    Pass D x to have T x. Reads the same bytes from memory as `rmatvec`, and
    1 + d_a more numbers an entry from cache; saves the array of values. The
    arguments are those of `transposed_values`, with x (m,) or (B, m).
    """
    policies, vectors = batched(taken, 2), batched(x, 1)
    n = len(starts) - 1
    out = x.new_empty((*x.shape[:-1], n)) if out is None else out
    is_per_row = half_precision.ndim > 1
    if is_per_row:
        half_precision = half_precision.expand(taken.shape)
    _rmatvec_fresh[(tile.programs(n) * len(vectors),)](
        log_psi_t.contiguous(), starts, rows, sample_actions.contiguous(), policies,
        half_precision.contiguous(), log_mass.contiguous(), vectors, out, n,
        x.shape[-1], len(vectors), d_a=taken.shape[-1], IS_PER_ROW=is_per_row,
        C=tile.rows, E=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out

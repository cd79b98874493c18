"""T = (D P)', stored column by column: how its values are made.

D is the diagonal of discounts, gamma on live rows and zero on terminal ones. Two
ways, for whichever the machine does faster: `permute` copies the weights of P,
reading them in the order of the transpose (4 bytes at random an entry);
`transposed_values` makes them anew from kernels that lie in that order already
(streams, at the price of an exponential and of a few numbers a row from cache).
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton

COLUMNS = Tile(rows=16, width=32)
"""Columns differ in length: a program takes several, 32 entries of each at a time."""


@triton.jit
def _permute(
    weights,
    source,
    rows,
    discount,
    values,
    n_entries,
    weights_stride,
    n_batch,
    BLOCK: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    entry = tl.program_id(0) // n_batch * BLOCK + tl.arange(0, BLOCK)
    mask = entry < n_entries
    place = tl.load(source + entry, mask=mask, other=0)
    row = tl.load(rows + entry, mask=mask, other=0)
    weight = tl.load(weights + policy * weights_stride + place, mask=mask, other=0.0)
    factor = tl.load(discount + row, mask=mask, other=0.0)
    tl.store(values + policy * n_entries + entry, factor * weight, mask=mask)


def permute(
    weights: Tensor,
    source: Tensor,
    rows: Tensor,
    discount: Tensor,
    *,
    out: Tensor | None = None,
    block: int = 1024,
) -> Tensor:
    """Values of T copied from P, (nnz,) or (B, nnz).

    Args:
        weights: All stored weights in a line, (nnz,) or (B, nnz).
        source: Place of each entry of T among them, (nnz,).
        rows: Row each entry comes from, (nnz,).
        discount: D, (m,).
        out: Where to write.
        block: Entries a program takes.
    """
    stack = batched(weights, 1)
    n_entries = len(source)
    out = weights.new_empty(weights.shape) if out is None else out
    _permute[(-(-n_entries // block) * len(stack),)](
        stack, source.contiguous(), rows.contiguous(), discount.contiguous(), out,
        n_entries, stack.stride(0), len(stack), BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def fresh_entries(
    log_psi_t,
    log_mass,
    sample_actions,
    taken,
    half_precision,
    at,
    row,
    mask,
    column,
    is_column,
    d_a: tl.constexpr,
    IS_PER_ROW: tl.constexpr,
):
    """P_ij = exp(l_ij - log_mass_i) for a tile of entries `at`, from rows `row`."""
    logits = tl.load(log_psi_t + at, mask=mask, other=0.0)
    logits -= tl.load(log_mass + row, mask=mask, other=0.0)
    for d in tl.static_range(d_a):
        a = tl.load(sample_actions + column * d_a + d, mask=is_column, other=0.0)
        difference = tl.load(taken + row * d_a + d, mask=mask, other=0.0) - a[:, None]
        if IS_PER_ROW:
            p = tl.load(half_precision + row * d_a + d, mask=mask, other=0.0)
        else:
            p = tl.load(half_precision + d)
        logits -= p * difference * difference
    return tl.exp(tl.where(mask, logits, 0.0))


@triton.jit
def _transposed_values(
    log_psi_t,
    starts,
    rows,
    sample_actions,
    taken,
    half_precision,
    log_mass,
    discount,
    values,
    n,
    m,
    n_entries,
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
    for done in range(0, tl.max(last - first, axis=0), E):
        at = first[:, None] + done + tl.arange(0, E)[None, :]
        mask = at < last[:, None]
        row = tl.load(rows + at, mask=mask, other=0)
        entries = fresh_entries(
            log_psi_t, log_mass + own, sample_actions, taken + own * d_a,
            half_precision + own * d_a if IS_PER_ROW else half_precision,
            at, row, mask, column, is_column, d_a, IS_PER_ROW,
        )  # fmt: skip
        entries *= tl.load(discount + row, mask=mask, other=0.0)
        tl.store(values + policy * n_entries + at, entries, mask=mask)


def transposed_values(
    log_psi_t: Tensor,
    starts: Tensor,
    rows: Tensor,
    sample_actions: Tensor,
    taken: Tensor,
    half_precision: Tensor,
    log_mass: Tensor,
    discount: Tensor,
    *,
    out: Tensor | None = None,
    tile: Tile = COLUMNS,
) -> Tensor:
    """Values of T made anew, D_i exp(l_ij - log_mass_i), (nnz,) or (B, nnz).

    Args:
        log_psi_t: Log state kernel in the order of the transpose, (nnz,).
        starts: First entry of each column, (n + 1,).
        rows: Row each entry comes from, (nnz,).
        sample_actions: (n, d_a).
        taken: Action taken at each row, (m, d_a) or (B, m, d_a).
        half_precision: 1 / (2 h^2), (d_a,), or one a row like `taken`.
        log_mass: Log normaliser of each row as `build` gave it, (m,) or (B, m).
        discount: D, (m,).
        out: Where to write.
        tile: Columns a program takes, and entries of each at a time.
    """
    policies = batched(taken, 2)
    n, n_entries = len(starts) - 1, len(rows)
    if out is None:
        out = log_psi_t.new_empty((*taken.shape[:-2], n_entries))
    is_per_row = half_precision.ndim > 1
    if is_per_row:
        half_precision = half_precision.expand(taken.shape)
    _transposed_values[(tile.programs(n) * len(policies),)](
        log_psi_t.contiguous(), starts, rows, sample_actions.contiguous(), policies,
        half_precision.contiguous(), log_mass.contiguous(), discount.contiguous(), out,
        n, policies.shape[1], n_entries, len(policies), d_a=taken.shape[-1],
        IS_PER_ROW=is_per_row, C=tile.rows, E=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out

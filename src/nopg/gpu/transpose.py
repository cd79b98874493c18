"""T = (D P)', stored column by column: where its entries are, and what they are.

D is the diagonal of discounts, gamma on live rows and zero on terminal ones. Values
are made anew from kernels that lie in the order of the transpose: streams, at the
price of an exponential and of a few numbers per row from cache, where copying the
weights of P would read each at random.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton

COLUMNS = Tile(rows=16, width=32)
"""Columns differ in length: a program takes several, 32 entries of each at a time."""

COPIED = 1024
"""Entries that a program copies."""


def transposed_pattern(columns: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the entries of the transpose are: made once, for every policy.

    Args:
        columns: Columns of the rows, (m, k).
        n: Width of the matrix.

    Returns:
        `starts` (n + 1,), `rows` (m k,) ascending in each column, and `source`
        (m k,), the place of each entry among the weights; all int32.
    """
    flat = columns.reshape(-1).long()
    source = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=n)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    rows = source // columns.shape[1]
    return starts.to(torch.int32), rows.to(torch.int32), source.to(torch.int32)


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
        logits = tl.load(log_psi_t + at, mask=mask, other=0.0)
        logits -= tl.load(log_mass + own + row, mask=mask, other=0.0)
        for d in tl.static_range(d_a):
            a = tl.load(sample_actions + column * d_a + d, mask=is_column, other=0.0)
            pi = tl.load(taken + (own + row) * d_a + d, mask=mask, other=0.0)
            difference = pi - a[:, None]
            logits -= tl.load(half_precision + d) * difference * difference
        entries = tl.exp(tl.where(mask, logits, 0.0))
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
) -> Tensor:
    """Values of T, D_i exp(l_ij - log_mass_i), (nnz,) or (B, nnz).

    Args:
        log_psi_t: Log state kernel in the order of the transpose, (nnz,).
        starts: First entry of each column, (n + 1,).
        rows: Row each entry comes from, (nnz,).
        sample_actions: (n, d_a).
        taken: Action taken at each row, (m, d_a) or (B, m, d_a).
        half_precision: 1 / (2 h^2), (d_a,).
        log_mass: Log normaliser of each row as `build` gave it, (m,) or (B, m).
        discount: D, (m,).
        out: Where to write.
    """
    policies = batched(taken, 2)
    n, n_entries = len(starts) - 1, len(rows)
    if out is None:
        out = log_psi_t.new_empty((*taken.shape[:-2], n_entries))
    _transposed_values[(COLUMNS.programs(n) * len(policies),)](
        log_psi_t.contiguous(), starts, rows, sample_actions.contiguous(), policies,
        half_precision.contiguous(), log_mass.contiguous(), discount.contiguous(), out,
        n, policies.shape[1], n_entries, len(policies), d_a=taken.shape[-1],
        C=COLUMNS.rows, E=COLUMNS.width, num_warps=COLUMNS.warps,
    )  # fmt: skip
    return out


@triton.jit
def _permuted_values(
    weights,
    source,
    discount,
    values,
    n_entries,
    n_batch,
    k: tl.constexpr,
    E: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    at = tl.program_id(0) // n_batch * E + tl.arange(0, E)
    mask = at < n_entries
    place = tl.load(source + at, mask=mask, other=0)
    own = policy * n_entries
    value = tl.load(weights + own + place, mask=mask, other=0.0)
    value *= tl.load(discount + place // k, mask=mask, other=0.0)
    tl.store(values + own + at, value, mask=mask)


def permuted_values(
    weights: Tensor, source: Tensor, discount: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Values of T copied from the weights of P, whatever made them, (B, nnz).

    Args:
        weights: P, (B, m, k).
        source: Place of each entry among the weights, (nnz,).
        discount: D, (m,).
        out: Where to write.
    """
    n_batch, n_entries = len(weights), len(source)
    if out is None:
        out = weights.new_empty((n_batch, n_entries))
    _permuted_values[(-(-n_entries // COPIED) * n_batch,)](
        weights.contiguous(), source, discount.contiguous(), out, n_entries, n_batch,
        k=weights.shape[2], E=COPIED, num_warps=4,
    )  # fmt: skip
    return out

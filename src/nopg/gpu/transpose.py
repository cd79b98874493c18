"""T = (D P)', stored column by column: where its entries are, and what they are.

D is the diagonal of discounts, gamma on live rows and zero on terminal ones. Values
are copied from the weights of P, whatever made those. Samples are in spatial order, so
that what one column reads lies close to what the next one does: no slower, to a few
hundredths of an update, than making them anew from kernels in the order of T.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.gpu.toolchain import Tile, tl, triton

COLUMNS = Tile(rows=16, width=32)
"""Columns differ in length: a program takes several, 32 entries of each at a time."""

COPIED = 4096
"""Entries that a program copies: so many that columns close by find theirs in cache."""


def transposed_pattern(columns: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the entries of the transpose are: made once, for every policy.

    What comes is `starts` (n + 1,), `rows` (m k,) ascending in each column, and
    `source` (m k,), the place of each entry among the weights (m, k); all int32.
    """
    flat = columns.reshape(-1).long()
    source = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=n)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    rows = source // columns.shape[1]
    return starts.to(torch.int32), rows.to(torch.int32), source.to(torch.int32)


@triton.jit
def _transposed_values(
    weights, source, discount, values, n_entries, n_batch, k: tl.constexpr,
    E: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    at = tl.program_id(0) // n_batch * E + tl.arange(0, E)
    mask = at < n_entries
    place = tl.load(source + at, mask=mask, other=0)
    own = policy * n_entries
    value = tl.load(weights + own + place, mask=mask, other=0.0)
    value *= tl.load(discount + place // k, mask=mask, other=0.0)
    tl.store(values + own + at, value, mask=mask)


def transposed_values(
    weights: Tensor,  # P, (B, m, k)
    source: Tensor,  # place of each entry among the weights, (nnz,)
    discount: Tensor,  # D, (m,)
    *,
    out: Tensor,
) -> None:
    """Values of T, D_i P_ij in its order, into `out`, (B, nnz)."""
    n_entries, (n_batch, _, k) = len(source), weights.shape
    _transposed_values[(-(-n_entries // COPIED) * n_batch,)](
        weights, source, discount.contiguous(), out, n_entries, n_batch, k=k, E=COPIED,
        num_warps=4,
    )  # fmt: skip

"""T = (D P)', D the diagonal of discounts, stored column by column."""

import torch
from torch import Tensor

from nopg.gpu.toolchain import tl, triton

COPIED = 4096  # entries of a program: columns close by find theirs in cache
SORTED = 2**24  # entries sorted at once; each takes 70 bytes meanwhile


def transposed_pattern(columns: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the entries of T are: made once, for every policy."""
    # Where each of the n columns starts, (n + 1,); of each entry the row of P it comes from, (m
    # k,), ascending in each column; and its place among the k of that row. Rows are sorted some at
    # a time: the order is that of one stable sort.
    (m, k), device = columns.shape, columns.device
    parts = range(0, m, max(1, SORTED // k))
    ahead = torch.zeros(n + 1, dtype=torch.int64, device=device)
    for first in parts:
        flat = columns[first : first + parts.step].reshape(-1)
        ahead[1:] += torch.bincount(flat, minlength=n)
    starts = ahead.cumsum_(0).clone()
    kind = torch.uint8 if k <= 2**8 else torch.int16 if k <= 2**15 else torch.int32
    rows = torch.empty(m * k, dtype=torch.int32, device=device)
    slots = torch.empty(m * k, dtype=kind, device=device)
    for first in parts:
        flat = columns[first : first + parts.step].reshape(-1)
        column, entry = flat.sort(stable=True)
        counts = torch.bincount(column, minlength=n)
        # An entry's place: behind those of its column that came before.
        shift = ahead[:-1] - (counts.cumsum(0) - counts)
        place = shift[column].add_(torch.arange(len(flat), device=device))
        rows[place] = (entry // k + first).to(torch.int32)
        slots[place] = (entry % k).to(kind)
        ahead[:-1] += counts
    return starts, rows, slots


@triton.jit
def _transposed_values(
    weights, rows, slots, discount, values, n_entries, n_batch, k: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    at = (tl.program_id(0) // n_batch).to(tl.int64) * E + tl.arange(0, E)
    mask = at < n_entries
    row = tl.load(rows + at, mask=mask, other=0)
    place = row.to(tl.int64) * k + tl.load(slots + at, mask=mask, other=0)
    own = policy * n_entries
    value = tl.load(weights + own + place, mask=mask, other=0.0)
    value *= tl.load(discount + row, mask=mask, other=0.0)
    tl.store(values + own + at, value, mask=mask)


def transposed_values(
    weights: Tensor, rows: Tensor, slots: Tensor, discount: Tensor, *, out: Tensor
) -> None:
    """Values of T, D_i P_ij in the order of its `rows` and `slots`, into `out`, (B, nnz)."""
    n_entries, (n_batch, _, k) = len(rows), weights.shape
    _transposed_values[(-(-n_entries // COPIED) * n_batch,)](
        weights, rows, slots, discount.contiguous(), out, n_entries, n_batch, k=k,
        E=COPIED, num_warps=4,
    )  # fmt: skip

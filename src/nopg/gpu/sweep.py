"""One sweep of q = r + D P q and of mu = eps0 + T mu, with T = (D P)'.

    q' = r + D P (q + shift)        residual q' - (q + shift)
    mu' = eps0 + T (scale mu)       residual mu' - scale mu

`shift` and `scale` come from residuals of previous sweeps, and are applied while vectors are read.
T is stored by columns, each summed by one program in a fixed order: results repeat to the last bit.

Where rows of P sum to one, (I - gamma P) 1 = (1 - gamma) 1. So `deflate` adds gamma / (1 - gamma)
times the mean of a nearly constant residual to q', and scales mu to total sum(eps0) / (1 - gamma).
"""

import torch
from torch import Tensor

from nopg.gpu.rows import load_rows
from nopg.gpu.toolchain import Tile, padded, tl, triton

COLUMNS, FEW_COLUMNS = Tile(rows=32, width=32), Tile(rows=8, width=128)
"""Columns differ in length; where there are few, what counts is how often a program waits."""
FEW = 2**12  # programs of a sweep that cost less than another launch
BLOCK = 4096  # sums read at a time, where one program adds up all of a policy's
COPIED = 4096  # entries of a program: columns close by find theirs in cache
SORTED = 2**24  # entries sorted at once; each takes 70 bytes meanwhile


def transposed_pattern(columns: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the entries of T are: made once, for every policy."""
    # Where each of the n columns starts, (n + 1,); each entry's row of P, (m k,), ascending in a
    # column, and its place in that row. Rows are sorted in parts, in the order of one stable sort.
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


@triton.jit
def _sweep_rows(
    weights, columns, rewards, discount, q, shift, q_next, sums, kind_stride, program,
    policy, n, k: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The sweep of q for one tile of rows of one policy."""
    row = program * R + tl.arange(0, R)
    is_row = row < n
    own = policy * n + row
    constant = tl.load(shift + policy)
    _, _, weight, there = load_rows(weights + policy * n * k, columns, q + policy * n, row, n, k, K)
    products = tl.sum(weight * there, axis=1)
    r = tl.load(rewards + row, mask=is_row, other=0.0)
    factor = tl.load(discount + row, mask=is_row, other=0.0)
    step = r + factor * (products + constant)
    before = tl.load(q + own, mask=is_row, other=0.0) + constant
    residual = tl.where(is_row, step - before, 0.0)
    tl.store(q_next + own, step, mask=is_row)
    tl.store(sums + program, tl.sum(residual * residual, axis=0))
    tl.store(sums + kind_stride + program, tl.sum(residual, axis=0))


@triton.jit
def _sweep_columns(
    values, starts, rows, eps0, mu, scale, mu_next, sums, kind_stride, program, policy,
    n, n_entries, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """The sweep of mu for one tile of columns of one policy."""
    column = program * C + tl.arange(0, C)
    is_column = column < n
    own = policy * n + column
    # Places count from the program's first: long numbers would take half as long again.
    base = tl.load(starts + program * C)
    first = (tl.load(starts + column, mask=is_column, other=base) - base).to(tl.int32)
    last = (tl.load(starts + 1 + column, mask=is_column, other=base) - base).to(tl.int32)
    rows += base
    values += policy * n_entries + base
    total = tl.zeros((C, E), dtype=values.dtype.element_ty)
    for done in range(0, tl.max(last - first, axis=0), E):
        at = first[:, None] + done + tl.arange(0, E)[None, :]
        mask = at < last[:, None]
        row = tl.load(rows + at, mask=mask, other=0)
        value = tl.load(values + at, mask=mask, other=0.0)
        total += value * tl.load(mu + policy * n + row, mask=mask, other=0.0)
    factor = tl.load(scale + policy)
    products = tl.sum(total, axis=1)
    step = tl.load(eps0 + own, mask=is_column, other=0.0) + factor * products
    residual = step - factor * tl.load(mu + own, mask=is_column, other=0.0)
    tl.store(mu_next + own, step, mask=is_column)
    tl.store(sums + program, tl.sum(residual * residual, axis=0))
    tl.store(sums + kind_stride + program, tl.sum(step, axis=0))


@triton.jit
def _sweep(
    weights, columns, rewards, discount, q, shift, values, starts, rows, eps0, mu,
    scale, q_next, mu_next, sums, n, n_entries, n_sums, mu_programs, n_batch,
    k: tl.constexpr, R: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
    E: tl.constexpr, HAS_COLUMNS: tl.constexpr, HAS_ROWS: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    program = tl.program_id(0) // n_batch
    kind_stride = (policy * 0 + n_batch) * n_sums
    sums += policy * n_sums
    # Columns first: the longest of them is what a launch may have to wait for.
    if HAS_COLUMNS:  # noqa: SIM102 - settled when compiled
        if program < mu_programs:
            _sweep_columns(
                values, starts, rows, eps0, mu, scale, mu_next, sums + 2 * kind_stride,
                kind_stride, program, policy, n, n_entries, C, E,
            )  # fmt: skip
    if HAS_ROWS:  # noqa: SIM102
        if program >= mu_programs:
            _sweep_rows(
                weights, columns, rewards, discount, q, shift, q_next, sums,
                kind_stride, program - mu_programs, policy, n, k, R, K,
            )  # fmt: skip


def sweep(
    weights: Tensor,  # P, (B, n, k)
    columns: Tensor,  # its columns, (n, k)
    rewards: Tensor,  # r, (n,)
    discount: Tensor,  # D, gamma on live rows and zero on terminal ones, (n,)
    q: Tensor,  # the iterate but for its shift, (B, n)
    shift: Tensor,  # what is still to be added to it, one number per policy, (B,)
    values: Tensor,  # entries of T, (B, nnz)
    starts: Tensor,  # first entry of each column, (n + 1,)
    rows: Tensor,  # row each entry comes from, (nnz,)
    eps0: Tensor,  # (B, n)
    mu: Tensor,  # the iterate but for its factor, (B, n)
    scale: Tensor,  # that factor, one number per policy, (B,)
    *,
    out: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Step to q' and mu', and sum what is left program by program, into `out`."""
    # Sums are of q's squared residuals and residuals, of mu's squared residuals, and of mu'.
    (n, k), n_batch = columns.shape, len(q)
    tile, across = _tiles(columns, n_batch)
    for has in ((True, True),) if across is FEW_COLUMNS else ((True, False), (False, True)):
        mu_programs = across.programs(n) if has[0] else 0
        q_programs = tile.programs(n) if has[1] else 0
        _sweep[((mu_programs + q_programs) * n_batch,)](
            weights, columns, rewards, discount, q, shift, values, starts, rows, eps0,
            mu, scale, *out, n, len(rows), out[2].shape[2], mu_programs, n_batch, k=k,
            R=tile.rows, K=tile.width, C=across.rows, E=across.width,
            HAS_COLUMNS=has[0], HAS_ROWS=has[1], num_warps=tile.warps,
        )  # fmt: skip


def sum_buffer(columns: Tensor, like: Tensor) -> Tensor:
    """Where sums of a sweep go, (4, B, programs), for iterates like (B, n)."""
    count = max(tile.programs(len(columns)) for tile in _tiles(columns, len(like)))
    return like.new_zeros((4, len(like), count))


def _tiles(columns: Tensor, n_batch: int) -> tuple[Tile, Tile]:
    """What a program takes of the rows, and of the columns."""
    n, k = columns.shape
    tile = Tile.of_rows(k)
    return tile, FEW_COLUMNS if n_batch * tile.programs(n) <= FEW else COLUMNS


@triton.jit
def _total(sums, n_sums, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_sums, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(sums + at, mask=at < n_sums, other=0.0).to(tl.float64)
    return tl.sum(total, axis=0)


@triton.jit
def _deflate(
    sums, gain, mu_total, limits, shift, scale, left, n_sums, n_batch, BLOCK: tl.constexpr,
):  # fmt: skip
    policy = tl.program_id(0)
    own, kind_stride = sums + policy * n_sums, n_batch * n_sums
    residuals = _total(own + kind_stride, n_sums, BLOCK)
    tl.store(shift + policy, tl.load(gain) * residuals)
    visits = _total(own + 3 * kind_stride, n_sums, BLOCK)
    wanted = tl.load(mu_total)
    # Nothing to scale to: terminal rows, or no visits at all.
    is_scaled = (wanted > 0.0) & (visits > 0.0)
    tl.store(scale + policy, tl.where(is_scaled, wanted / visits, 1.0))
    q_left = tl.sqrt(_total(own, n_sums, BLOCK))
    mu_left = tl.sqrt(_total(own + 2 * kind_stride, n_sums, BLOCK))
    # Nothing to earn: what is left of q counts as it is.
    q_limit = tl.load(limits + policy)
    q_left /= tl.where(q_limit > 0.0, q_limit, 1.0)
    mu_left /= tl.load(limits + n_batch + policy)
    tl.store(left + policy, tl.maximum(q_left, mu_left))


def deflate(
    sums: Tensor,  # from `sweep`, (4, B, programs)
    gain: Tensor,  # gamma / ((1 - gamma) n), or zero if some row is terminal, (1,)
    mu_total: Tensor,  # what mu sums to, or zero if some row is terminal, (1,)
    limits: Tensor,  # norms of r and of eps0, (2, B)
    *,
    out: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Shift for q', scale for mu' and what is left to solve, (B,) each, into `out`."""
    # Left is the larger residual of the sweep before, each as a share of its right-hand side.
    if sums.shape[2] > FEW:
        sums = sums.sum(dim=2, keepdim=True, dtype=torch.float64)
    _, n_batch, n_sums = sums.shape
    _deflate[(n_batch,)](
        sums, gain, mu_total, limits, *out, n_sums, n_batch,
        BLOCK=min(BLOCK, padded(n_sums)), num_warps=4,
    )  # fmt: skip

"""One sweep of q = r + D P q and of mu = eps0 + T mu, T = (D P)', in one launch.

    q' = r + D P (q + shift)        residual q' - (q + shift)
    mu' = eps0 + T (scale mu)       residual mu' - scale mu

`shift` and `scale` are numbers on the device that the residuals of previous sweeps
gave, applied while vectors are read: no pass is spent on them. The
shift is exact with terminal rows too, since rows of P sum to one and D clears the
terminal ones. Every column of T is summed by one program in a fixed order, so results
repeat to the last bit. Small problems pay for launches, not for bytes.

Where rows of P sum to one, (I - gamma P) 1 = (1 - gamma) 1. So after some plain
sweeps, whose residual is nearly constant, adding gamma / (1 - gamma) times its
mean to q' removes nearly all of it; and mu must total sum(eps0) / (1 - gamma), so
it is scaled to do so (`deflate`). Correcting now and then serves as well as after every
sweep: sweeps in between only make the residual more nearly constant.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.rows import row_products
from nopg.gpu.toolchain import Tile, tl, triton
from nopg.gpu.transpose import COLUMNS

BLOCK = 4096
"""Sums read at a time; one program adds up all of a policy's."""


@triton.jit
def _sweep_rows(
    weights, columns, rewards, discount, q, shift, q_next, sums, program, policy, n,
    kind_stride, policy_stride, k: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The sweep of q for one tile of rows of one policy."""
    row = program * R + tl.arange(0, R)
    is_row = row < n
    own = policy * n + row
    constant = tl.load(shift + policy)
    products = row_products(
        weights + policy * n * k, columns, q + policy * n, row, n, k, K
    )
    r = tl.load(rewards + row, mask=is_row, other=0.0)
    factor = tl.load(discount + row, mask=is_row, other=0.0)
    step = r + factor * (products + constant)
    before = tl.load(q + own, mask=is_row, other=0.0) + constant
    residual = tl.where(is_row, step - before, 0.0)
    tl.store(q_next + own, step, mask=is_row)
    place = sums + policy * policy_stride + program
    tl.store(place, tl.sum(residual * residual, axis=0))
    tl.store(place + kind_stride, tl.sum(residual, axis=0))


@triton.jit
def _sweep_columns(
    values, starts, rows, eps0, mu, scale, mu_next, sums, program, policy, n, n_entries,
    kind_stride, policy_stride, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """The sweep of mu for one tile of columns of one policy."""
    column = program * C + tl.arange(0, C)
    is_column = column < n
    own = policy * n + column
    first = tl.load(starts + column, mask=is_column, other=0)
    last = tl.load(starts + column + 1, mask=is_column, other=0)
    total = tl.zeros((C, E), dtype=values.dtype.element_ty)
    for done in range(0, tl.max(last - first, axis=0), E):
        at = first[:, None] + done + tl.arange(0, E)[None, :]
        mask = at < last[:, None]
        row = tl.load(rows + at, mask=mask, other=0)
        value = tl.load(values + policy * n_entries + at, mask=mask, other=0.0)
        total += value * tl.load(mu + policy * n + row, mask=mask, other=0.0)
    factor = tl.load(scale + policy)
    products = tl.sum(total, axis=1)
    step = tl.load(eps0 + own, mask=is_column, other=0.0) + factor * products
    residual = step - factor * tl.load(mu + own, mask=is_column, other=0.0)
    tl.store(mu_next + own, step, mask=is_column)
    place = sums + policy * policy_stride + program
    tl.store(place, tl.sum(residual * residual, axis=0))
    tl.store(place + kind_stride, tl.sum(step, axis=0))


@triton.jit
def _sweep(
    weights, columns, rewards, discount, q, shift, q_next, q_sums, values, starts, rows,
    eps0, mu, scale, mu_next, mu_sums, n, n_entries, q_kind_stride, q_policy_stride,
    mu_kind_stride, mu_policy_stride, mu_programs, n_batch, k: tl.constexpr,
    R: tl.constexpr, K: tl.constexpr, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    program = tl.program_id(0) // n_batch
    # Columns first: the longest of them is what a launch may have to wait for.
    if program < mu_programs:
        _sweep_columns(
            values, starts, rows, eps0, mu, scale, mu_next, mu_sums, program, policy,
            n, n_entries, mu_kind_stride, mu_policy_stride, C, E,
        )  # fmt: skip
    else:
        _sweep_rows(
            weights, columns, rewards, discount, q, shift, q_next, q_sums,
            program - mu_programs, policy, n, q_kind_stride, q_policy_stride, k, R, K,
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
    out: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Step to q' and mu', and sum what is left program by program, into `out`.

    It holds q' and sums (2, B, programs) of squared residuals, then of residuals;
    mu' and sums (2, B, programs) of squared residuals, then of mu'. Residuals
    are those of the input.
    """
    (n, k), n_batch = columns.shape, len(q)
    tile, mu_programs = Tile.of_rows(k), COLUMNS.programs(n)
    q_next, q_sums, mu_next, mu_sums = out
    _sweep[((tile.programs(n) + mu_programs) * n_batch,)](
        weights, columns, rewards, discount, q, shift, q_next, q_sums, values, starts,
        rows, eps0, mu, scale, mu_next, mu_sums, n, len(rows), q_sums.stride(0),
        q_sums.stride(1), mu_sums.stride(0), mu_sums.stride(1), mu_programs, n_batch,
        k=k, R=tile.rows, K=tile.width, C=COLUMNS.rows, E=COLUMNS.width,
        num_warps=tile.warps,
    )  # fmt: skip


def sum_buffers(columns: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Where sums of q's and of mu's sweep go, for iterates like (B, n)."""
    n, k = columns.shape
    counts = (Tile.of_rows(k).programs(n), COLUMNS.programs(n))
    q_sums, mu_sums = (like.new_empty((2, len(like), count)) for count in counts)
    return q_sums, mu_sums


@triton.jit
def _total(sums, n_programs, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_programs, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(sums + at, mask=at < n_programs, other=0.0)
        total += part.to(tl.float64)
    return tl.sum(total, axis=0)


@triton.jit
def _deflate(
    q_sums, mu_sums, gain, mu_total, shift, scale, norms, q_programs, mu_programs,
    n_batch, BLOCK: tl.constexpr,
):  # fmt: skip
    policy = tl.program_id(0)
    q_first = q_sums + policy * q_programs
    mu_first = mu_sums + policy * mu_programs
    squares = _total(q_first, q_programs, BLOCK)
    residuals = _total(q_first + n_batch * q_programs, q_programs, BLOCK)
    tl.store(norms + policy, tl.sqrt(squares))
    tl.store(shift + policy, tl.load(gain) * residuals)
    squares = _total(mu_first, mu_programs, BLOCK)
    visits = _total(mu_first + n_batch * mu_programs, mu_programs, BLOCK)
    tl.store(norms + n_batch + policy, tl.sqrt(squares))
    wanted = tl.load(mu_total + policy)
    # Nothing to scale to: terminal rows, or no visits at all.
    is_scaled = (wanted > 0.0) & (visits > 0.0)
    tl.store(scale + policy, tl.where(is_scaled, wanted / visits, 1.0))


def deflate(
    q_sums: Tensor,  # from `sweep`, (2, B, programs)
    mu_sums: Tensor,  # from `sweep`, (2, B, programs)
    gain: Tensor,  # gamma / ((1 - gamma) n), or zero if some row is terminal, (1,)
    mu_total: Tensor,  # sum(eps0) / (1 - gamma), or zero if some row is terminal, (B,)
    *,
    out: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Shift for q' and scale for mu', (B,) each, and the residual norms, into `out`.

    Norms are those of the sweep before, (2, B): of q's residual, then of mu's.
    """
    n_batch = q_sums.shape[1]
    _deflate[(n_batch,)](
        q_sums, mu_sums, gain, mu_total, *out, q_sums.shape[2], mu_sums.shape[2],
        n_batch, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip

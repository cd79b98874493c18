"""The way back of one update: covariances a row, centred before they are summed.

With c_ij = P_ij (q_j - v_i), which sums to zero over j, the pull on the action
taken at row i is w_i sum_j c_ij (a_j - abar_i) / h^2 for any abar_i: nothing
large is ever subtracted from anything large.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.gpu.matvec import policy_weights
from nopg.gpu.toolchain import Tile, batched, tl, triton


@triton.jit
def _pull(
    weights,
    columns,
    q,
    actions,
    row_weights,
    mean,
    std,
    variances,
    rows,
    to_mean,
    to_std,
    m,
    n,
    n_out,
    weights_stride,
    n_batch,
    k: tl.constexpr,
    d_a: tl.constexpr,
    IS_ANALYTIC: tl.constexpr,
    IS_NATURAL: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    entry = tl.arange(0, K)
    is_row = row < m
    mask = is_row[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    natural = row
    if not IS_NATURAL:
        natural = tl.load(rows + row, mask=is_row, other=0).to(tl.int32)
    own = policy * n_out + natural
    column = tl.load(columns + at, mask=mask, other=0)
    weight = tl.load(weights + policy * weights_stride + at, mask=mask, other=0.0)
    value = tl.load(q + policy * n + column, mask=mask, other=0.0)
    share = tl.load(row_weights + own, mask=is_row, other=0.0)
    v = tl.sum(weight * value, axis=1)
    centred = weight * (value - v[:, None])
    for d in tl.static_range(d_a):
        a = tl.load(actions + column * d_a + d, mask=mask, other=0.0)
        abar = tl.sum(weight * a, axis=1)
        first = tl.sum(centred * (a - abar[:, None]), axis=1)
        total = tl.load(variances + d)
        if IS_ANALYTIC:
            sigma = tl.load(std + own * d_a + d, mask=is_row, other=0.0)
            centre = tl.load(mean + own * d_a + d, mask=is_row, other=0.0)
            towards = a - centre[:, None]
            square = towards * towards
            spread = tl.sum(weight * square, axis=1)
            second = tl.sum(centred * (square - spread[:, None]), axis=1)
            total = total + sigma * sigma
            second = share * sigma * second / (total * total)
            tl.store(to_std + own * d_a + d, second, mask=is_row)
        tl.store(to_mean + own * d_a + d, share * first / total, mask=is_row)


def pull(
    weights: Tensor,
    columns: Tensor,
    q: Tensor,
    sample_actions: Tensor,
    row_weights: Tensor,
    variances: Tensor,
    *,
    rows: Tensor | None = None,
    out: Tensor | None = None,
    tile: Tile | None = None,
) -> Tensor:
    """Gradient of sum_i w_i (P q)_i by the actions taken: w_i Cov_i(q, a) / h^2.

    Args:
        weights: P, (m, k) or (B, m, k).
        columns: Its columns, (m, k).
        q: (n,) or (B, n).
        sample_actions: (n, d_a).
        row_weights: w, (m,) or (B, m).
        variances: h^2, (d_a,).
        rows: For one of several blocks: the number each row has in `row_weights`
            and `out`, (m,).
        out: Where to write, (m, d_a) or (B, m, d_a).
        tile: How much one program takes.
    """
    shape = (*row_weights.shape, sample_actions.shape[1])
    out = q.new_empty(shape) if out is None else out
    _launch(
        weights, columns, q, sample_actions, row_weights, out, out, variances, rows,
        (out, out), tile, is_analytic=False,
    )  # fmt: skip
    return out


def analytic_pull(
    weights: Tensor,
    columns: Tensor,
    q: Tensor,
    sample_actions: Tensor,
    row_weights: Tensor,
    mean: Tensor,
    std: Tensor,
    variances: Tensor,
    *,
    rows: Tensor | None = None,
    out: tuple[Tensor, Tensor] | None = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """The same by mean and std of a Gaussian policy, for weights of variance V.

    V = h^2 + std^2; the gradients are w_i Cov_i(q, a) / V and
    w_i std_i Cov_i(q, (a - mean_i)^2) / V^2. Arguments are those of `pull`, with
    `mean` and `std` (m, d_a) or (B, m, d_a); so are both results.
    """
    if out is None:
        out = (torch.empty_like(mean), torch.empty_like(mean))
    _launch(
        weights, columns, q, sample_actions, row_weights, mean.contiguous(),
        std.contiguous(), variances, rows, out, tile, is_analytic=True,
    )  # fmt: skip
    return out


def _launch(
    weights: Tensor,
    columns: Tensor,
    q: Tensor,
    sample_actions: Tensor,
    row_weights: Tensor,
    mean: Tensor,
    std: Tensor,
    variances: Tensor,
    rows: Tensor | None,
    out: tuple[Tensor, Tensor],
    tile: Tile | None,
    *,
    is_analytic: bool,
) -> None:
    m, k = columns.shape
    stack, vectors = policy_weights(weights), batched(q, 1)
    tile = tile or Tile.of_rows(k)
    _pull[(tile.programs(m) * len(vectors),)](
        stack, columns.contiguous(), vectors, sample_actions.contiguous(),
        row_weights.contiguous(), mean, std, variances.contiguous(),
        columns if rows is None else rows, *out, m, q.shape[-1],
        row_weights.shape[-1], stack.stride(0), len(vectors), k=k,
        d_a=sample_actions.shape[1], IS_ANALYTIC=is_analytic, IS_NATURAL=rows is None,
        R=tile.rows, K=tile.width, num_warps=tile.warps,
    )  # fmt: skip

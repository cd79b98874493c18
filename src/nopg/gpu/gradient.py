"""The way back of one update: covariances per row, centred before they are summed.

With c_ij = P_ij (q_j - v_i), which sums to zero over j, the derivative by the action
taken at row i is w_i sum_j c_ij (a_j - abar_i) / h^2 for any abar_i: nothing
large is ever subtracted from anything large.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton


@triton.jit
def _action_vjp(
    weights,
    columns,
    q,
    actions,
    row_weights,
    variances,
    out,
    m,
    n,
    n_batch,
    k: tl.constexpr,
    d_a: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    entry = tl.arange(0, K)
    is_row = row < m
    mask = is_row[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    own = policy * m + row
    column = tl.load(columns + at, mask=mask, other=0)
    weight = tl.load(weights + policy * m * k + at, mask=mask, other=0.0)
    value = tl.load(q + policy * n + column, mask=mask, other=0.0)
    share = tl.load(row_weights + own, mask=is_row, other=0.0)
    v = tl.sum(weight * value, axis=1)
    centred = weight * (value - v[:, None])
    for d in tl.static_range(d_a):
        a = tl.load(actions + column * d_a + d, mask=mask, other=0.0)
        abar = tl.sum(weight * a, axis=1)
        first = tl.sum(centred * (a - abar[:, None]), axis=1)
        total = tl.load(variances + d)
        tl.store(out + own * d_a + d, share * first / total, mask=is_row)


def action_vjp(
    weights: Tensor,
    columns: Tensor,
    q: Tensor,
    sample_actions: Tensor,
    row_weights: Tensor,
    variances: Tensor,
) -> Tensor:
    """Gradient of sum_i w_i (P q)_i by the actions taken: w_i Cov_i(q, a) / h^2.

    Args:
        weights: P, (m, k) or (B, m, k).
        columns: Its columns, (m, k).
        q: (n,) or (B, n).
        sample_actions: (n, d_a).
        row_weights: w, (m,) or (B, m).
        variances: h^2, (d_a,).

    Returns:
        The gradient, (m, d_a) or (B, m, d_a).
    """
    (m, k), d_a = columns.shape, sample_actions.shape[1]
    vectors = batched(q, 1)
    out = q.new_empty((*row_weights.shape, d_a))
    tile = Tile.of_rows(k)
    _action_vjp[(tile.programs(m) * len(vectors),)](
        batched(weights, 2), columns.contiguous(), vectors,
        sample_actions.contiguous(), row_weights.contiguous(), variances.contiguous(),
        out, m, q.shape[-1], len(vectors), k=k, d_a=d_a, R=tile.rows, K=tile.width,
        num_warps=tile.warps,
    )  # fmt: skip
    return out

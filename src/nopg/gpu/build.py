"""Kernel rows of one update: a softmax each, held in registers from load to store.

With slopes S_ij = P_ij (a_j - abar_i) / h^2, which sum to zero over j, the derivative
of (P q)_i by the action taken at row i is S_i q, the covariance of Eq. (10): the way
back is a product, as the way forth.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton


@triton.jit
def _build(
    log_psi, columns, actions, taken, half_precision, weights, slopes, m, n_batch,
    k: tl.constexpr, d_a: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    # Policies of one row tile run side by side: what they share stays in cache.
    policy = tl.program_id(0) % n_batch
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    entry = tl.arange(0, K)
    is_row = row < m
    mask = is_row[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    own = policy.to(tl.int64) * m + row
    logits = tl.load(log_psi + at, mask=mask, other=-float("inf"))
    column = tl.load(columns + at, mask=mask, other=0)
    for d in tl.static_range(d_a):
        a = tl.load(actions + column * d_a + d, mask=mask, other=0.0)
        pi = tl.load(taken + own * d_a + d, mask=is_row, other=0.0)
        p = tl.load(half_precision + d)
        difference = a - pi[:, None]
        logits -= p * difference * difference
    # Rows beyond the last are all -inf; give them a peak and a sum to divide by.
    peak = tl.where(is_row, tl.max(logits, axis=1), 0.0)
    kernel = tl.exp(logits - peak[:, None])
    total = tl.where(is_row, tl.sum(kernel, axis=1), 1.0)
    weight = kernel / total[:, None]
    tl.store(weights + policy.to(tl.int64) * m * k + at, weight, mask=mask)
    for d in tl.static_range(d_a):
        a = tl.load(actions + column * d_a + d, mask=mask, other=0.0)
        centred = a - tl.sum(weight * a, axis=1)[:, None]
        slope = 2.0 * tl.load(half_precision + d) * weight * centred
        of_policy = (policy.to(tl.int64) + d * n_batch) * m * k
        tl.store(slopes + of_policy + at, slope, mask=mask)


def build(
    log_psi: Tensor,  # log state kernel, (m, k)
    columns: Tensor,  # samples each row lists, (m, k)
    sample_actions: Tensor,  # their actions, (n, d_a)
    taken: Tensor,  # action taken at each row, (m, d_a) or (B, m, d_a)
    half_precision: Tensor,  # p = 1 / (2 h^2), (d_a,)
    *,
    out: tuple[Tensor, Tensor] | None = None,  # where to write
) -> tuple[Tensor, Tensor]:
    """Weights P_ij = softmax_j(log_psi_ij - sum_d p_d (taken_id - a_jd)^2).

    Returns:
        Weights, (m, k) or (B, m, k), and slopes, (d_a, m, k) or (d_a, B, m, k).
    """
    m, k = log_psi.shape
    policies = batched(taken, 2)  # (B, m, d_a)
    if out is None:
        shape = (*taken.shape[:-2], m, k)
        out = log_psi.new_empty(shape), log_psi.new_empty((taken.shape[-1], *shape))
    tile = Tile.of_rows(k)
    _build[(tile.programs(m) * len(policies),)](
        log_psi.contiguous(), columns.contiguous(), sample_actions.contiguous(),
        policies, half_precision.contiguous(), *out, m, len(policies), k=k,
        d_a=taken.shape[-1], R=tile.rows, K=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out

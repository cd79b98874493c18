"""Weights of one update: a softmax a row, held in registers from load to store."""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.toolchain import Tile, batched, tl, triton


@triton.jit
def _build(
    log_psi,
    columns,
    actions,
    taken,
    half_precision,
    rows,
    weights,
    log_mass,
    m,
    n_taken,
    weights_stride,
    n_batch,
    k: tl.constexpr,
    d_a: tl.constexpr,
    IS_GATHERED: tl.constexpr,
    IS_PER_ROW: tl.constexpr,
    IS_NATURAL: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    # Policies of one row tile run side by side: what they share stays in cache.
    policy = tl.program_id(0) % n_batch
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    entry = tl.arange(0, K)
    is_row = row < m
    mask = is_row[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    natural = row
    if not IS_NATURAL:
        natural = tl.load(rows + row, mask=is_row, other=0).to(tl.int32)
    own = policy.to(tl.int64) * n_taken + natural
    logits = tl.load(log_psi + at, mask=mask, other=-float("inf"))
    if not IS_GATHERED:
        column = tl.load(columns + at, mask=mask, other=0)
    for d in tl.static_range(d_a):
        if IS_GATHERED:
            beside = (row.to(tl.int64) + m * d)[:, None] * k + entry[None, :]
            a = tl.load(actions + beside, mask=mask, other=0.0)
        else:
            a = tl.load(actions + column * d_a + d, mask=mask, other=0.0)
        pi = tl.load(taken + own * d_a + d, mask=is_row, other=0.0)
        if IS_PER_ROW:
            p = tl.load(half_precision + own * d_a + d, mask=is_row, other=0.0)[:, None]
        else:
            p = tl.load(half_precision + d)
        difference = a - pi[:, None]
        logits -= p * difference * difference
    # Rows beyond the last are all -inf; give them a peak and a sum to divide by.
    peak = tl.where(is_row, tl.max(logits, axis=1), 0.0)
    kernel = tl.exp(logits - peak[:, None])
    total = tl.where(is_row, tl.sum(kernel, axis=1), 1.0)
    base = weights + policy.to(tl.int64) * weights_stride
    tl.store(base + at, kernel / total[:, None], mask=mask)
    tl.store(log_mass + own, peak + tl.log(total), mask=is_row)


def build(
    log_psi: Tensor,
    columns: Tensor,
    sample_actions: Tensor,
    taken: Tensor,
    half_precision: Tensor,
    *,
    gathered: Tensor | None = None,
    rows: Tensor | None = None,
    out: tuple[Tensor, Tensor] | None = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights P_ij = softmax_j(log_psi_ij - sum_d p_d (taken_id - a_jd)^2).

    Args:
        log_psi: Log state kernel, (m, k).
        columns: Samples each row lists, (m, k).
        sample_actions: Their actions, (n, d_a); fetched entry by entry.
        taken: Action taken at each row, (m, d_a) or (B, m, d_a).
        half_precision: p = 1 / (2 h^2), (d_a,), or one a row like `taken`.
        gathered: Actions laid out beside the entries, (d_a, m, k): more bytes, no
            gather. Replaces the two before.
        rows: For one of several blocks: the number each row has in `taken`, (m,).
        out: Where to write: weights (m, k) and log masses, batched like `taken`.
        tile: How much one program takes.

    Returns:
        Weights (m, k) and the log of their normaliser, (m,), batched like `taken`.
    """
    m, k = log_psi.shape
    d_a = taken.shape[-1]
    policies = batched(taken, 2)  # (B, m, d_a)
    n_batch, n_taken = policies.shape[:2]
    if out is None:
        out = (
            log_psi.new_empty((*taken.shape[:-2], m, k)),
            log_psi.new_empty(taken.shape[:-1]),
        )
    weights, log_mass = out
    is_per_row = half_precision.ndim > 1
    if is_per_row:
        half_precision = half_precision.expand(taken.shape)
    actions = sample_actions if gathered is None else gathered
    tile = tile or Tile.of_rows(k)
    _build[(tile.programs(m) * n_batch,)](
        log_psi.contiguous(), columns.contiguous(), actions.contiguous(), policies,
        half_precision.contiguous(), columns if rows is None else rows.contiguous(),
        weights, log_mass, m, n_taken, weights.stride(0) if weights.ndim > 2 else 0,
        n_batch, k=k, d_a=d_a, IS_GATHERED=gathered is not None,
        IS_PER_ROW=is_per_row, IS_NATURAL=rows is None, R=tile.rows, K=tile.width,
        num_warps=tile.warps,
    )  # fmt: skip
    return weights, log_mass

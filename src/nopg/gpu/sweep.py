"""Both sweeps in one launch: small problems pay for launches, not for bytes."""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.matvec import policy_weights
from nopg.gpu.sweep_values import empty_sums, sweep_rows
from nopg.gpu.sweep_visits import sweep_columns
from nopg.gpu.toolchain import Tile, batched, tl, triton
from nopg.gpu.transpose import COLUMNS


@triton.jit
def _sweep(
    weights,
    columns,
    rewards,
    discount,
    q,
    shift,
    q_next,
    q_sums,
    values,
    starts,
    rows,
    eps0,
    mu,
    scale,
    mu_next,
    mu_sums,
    n,
    weights_stride,
    n_entries,
    q_kind_stride,
    q_policy_stride,
    mu_kind_stride,
    mu_policy_stride,
    mu_programs,
    n_batch,
    k: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
    C: tl.constexpr,
    E: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    program = tl.program_id(0) // n_batch
    # Columns first: the longest of them is what a launch may have to wait for.
    if program < mu_programs:
        sweep_columns(
            values, starts, rows, eps0, mu, scale, mu_next, mu_sums, program, policy,
            n, n_entries, mu_kind_stride, mu_policy_stride, C, E,
        )  # fmt: skip
    else:
        sweep_rows(
            weights, columns, rewards, discount, q, shift, columns, q_next, q_sums,
            program - mu_programs, policy, n, n, weights_stride, q_kind_stride,
            q_policy_stride, k, True, R, K,
        )  # fmt: skip


def sweep(
    weights: Tensor,
    columns: Tensor,
    rewards: Tensor,
    discount: Tensor,
    q: Tensor,
    shift: Tensor,
    values: Tensor,
    starts: Tensor,
    rows: Tensor,
    eps0: Tensor,
    mu: Tensor,
    scale: Tensor,
    *,
    out: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    tile: Tile | None = None,
    column_tile: Tile = COLUMNS,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`sweep_values` and `sweep_visits` together, for rows in one natural block.

    Arguments are theirs, in their order; `rows` are those of the transpose.

    Returns:
        q' and its sums, mu' and its sums.
    """
    stack, entries = policy_weights(weights), batched(values, 1)
    qs, mus = batched(q, 1), batched(mu, 1)
    (n, k), n_batch = columns.shape, len(qs)
    tile = tile or Tile.of_rows(k)
    q_programs, mu_programs = tile.programs(n), column_tile.programs(n)
    if out is None:
        out = (
            qs.new_empty(q.shape),
            empty_sums(qs, q_programs),
            mus.new_empty(mu.shape),
            empty_sums(mus, mu_programs),
        )
    q_next, q_sums, mu_next, mu_sums = out
    _sweep[((q_programs + mu_programs) * n_batch,)](
        stack, columns.contiguous(), rewards.contiguous(), discount.contiguous(), qs,
        shift, q_next, q_sums, entries, starts, rows, eps0.contiguous(), mus, scale,
        mu_next, mu_sums, n, stack.stride(0), len(rows), q_sums.stride(0),
        q_sums.stride(1), mu_sums.stride(0), mu_sums.stride(1), mu_programs, n_batch,
        k=k, R=tile.rows, K=tile.width, C=column_tile.rows, E=column_tile.width,
        num_warps=tile.warps,
    )  # fmt: skip
    return out

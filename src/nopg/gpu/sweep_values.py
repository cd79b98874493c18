"""One sweep of q = r + D P q, with what is left of it.

    q' = r + D P (q + shift)        residual q' - (q + shift)

`shift` is a number on the device that the previous sweeps' residuals gave (see
`deflation`); it is added while q is read, so no pass is spent on it. It is exact
with terminal rows too: rows of P sum to one, and D clears the terminal ones.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.matvec import policy_weights, row_products
from nopg.gpu.toolchain import Tile, batched, tl, triton


@triton.jit
def sweep_rows(
    weights,
    columns,
    rewards,
    discount,
    q,
    shift,
    rows,
    q_next,
    sums,
    program,
    policy,
    m,
    n,
    weights_stride,
    kind_stride,
    policy_stride,
    k: tl.constexpr,
    IS_NATURAL: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    """The sweep for one tile of rows of one policy."""
    row = program * R + tl.arange(0, R)
    is_row = row < m
    natural = row
    if not IS_NATURAL:
        natural = tl.load(rows + row, mask=is_row, other=0).to(tl.int32)
    constant = tl.load(shift + policy)
    products = row_products(
        weights + policy * weights_stride, columns, q + policy * n, row, m, k, K
    )
    r = tl.load(rewards + natural, mask=is_row, other=0.0)
    factor = tl.load(discount + natural, mask=is_row, other=0.0)
    step = r + factor * (products + constant)
    before = tl.load(q + policy * n + natural, mask=is_row, other=0.0) + constant
    residual = tl.where(is_row, step - before, 0.0)
    tl.store(q_next + policy * n + natural, step, mask=is_row)
    place = sums + policy * policy_stride + program
    tl.store(place, tl.sum(residual * residual, axis=0))
    tl.store(place + kind_stride, tl.sum(residual, axis=0))


@triton.jit
def _sweep_values(
    weights,
    columns,
    rewards,
    discount,
    q,
    shift,
    rows,
    q_next,
    sums,
    m,
    n,
    weights_stride,
    kind_stride,
    policy_stride,
    n_batch,
    k: tl.constexpr,
    IS_NATURAL: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    sweep_rows(
        weights, columns, rewards, discount, q, shift, rows, q_next, sums,
        tl.program_id(0) // n_batch, (tl.program_id(0) % n_batch).to(tl.int64),
        m, n, weights_stride, kind_stride, policy_stride, k, IS_NATURAL, R, K,
    )  # fmt: skip


def sweep_values(
    weights: Tensor,
    columns: Tensor,
    rewards: Tensor,
    discount: Tensor,
    q: Tensor,
    shift: Tensor,
    *,
    rows: Tensor | None = None,
    out: tuple[Tensor, Tensor] | None = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """Step to q' and sum, program by program, its residuals squared and plain.

    Args:
        weights: P, (m, k) or (B, m, k).
        columns: Its columns, (m, k).
        rewards: r, (n,).
        discount: D, gamma on live rows and zero on terminal ones, (n,).
        q: The iterate but for its shift, (n,) or (B, n).
        shift: What is still to be added to it, one number a policy, (B,).
        rows: For one of several blocks: the number of each row in q, (m,).
        out: Where to write q' and the sums.
        tile: How much one program takes.

    Returns:
        q', like q, and sums (2, B, programs): squared residuals, then residuals.
        They belong to the sweep's input, q + shift.
    """
    m, k = columns.shape
    stack, vectors = policy_weights(weights), batched(q, 1)
    n_batch = len(vectors)
    tile = tile or Tile.of_rows(k)
    if out is None:
        out = (vectors.new_empty(q.shape), empty_sums(vectors, tile.programs(m)))
    q_next, sums = out
    _sweep_values[(tile.programs(m) * n_batch,)](
        stack, columns.contiguous(), rewards.contiguous(), discount.contiguous(),
        vectors, shift, columns if rows is None else rows, q_next, sums,
        m, q.shape[-1], stack.stride(0), sums.stride(0), sums.stride(1), n_batch, k=k,
        IS_NATURAL=rows is None, R=tile.rows, K=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return q_next, sums


def empty_sums(vectors: Tensor, n_programs: int) -> Tensor:
    """Room for what programs sum up, (2, B, programs), for vectors (B, n)."""
    return vectors.new_empty((2, len(vectors), n_programs))

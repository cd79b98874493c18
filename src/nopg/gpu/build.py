"""Kernel rows of one update: a softmax each, held in registers from load to store."""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.rows import FusedRows
from nopg.gpu.toolchain import Tile, tl, triton


@triton.jit
def _build(
    log_psi, columns, table, taken, precision, weights, m, n_batch, k: tl.constexpr,
    d_a: tl.constexpr, width: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
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
    column = tl.load(columns + at, mask=mask, other=0).to(tl.uint32)
    for d in tl.static_range(d_a):
        a = tl.load(table + column * width + d, mask=mask, other=0.0)
        pi = tl.load(taken + own * d_a + d, mask=is_row, other=0.0)
        z = (a - pi[:, None]) * tl.load(precision + d)
        logits -= 0.5 * z * z
    # Rows beyond the last are all -inf; give them a peak and a sum to divide by.
    peak = tl.where(is_row, tl.max(logits, axis=1), 0.0)
    kernel = tl.exp(logits - peak[:, None])
    total = tl.where(is_row, tl.sum(kernel, axis=1), 1.0)
    weight = kernel / total[:, None]
    tl.store(weights + policy.to(tl.int64) * m * k + at, weight, mask=mask)


class FusedKernelRows(FusedRows):
    """The paper's rows, softmax_j(log_psi_ij - sum_d (taken_id - a_jd)^2 / 2 h_d^2).

    Actions are all their features: they have no points.
    """

    def build(self, taken: Tensor) -> Tensor:
        """A softmax per row."""
        (m, k), n_batch = self.columns.shape, len(taken)
        tile = Tile.of_rows(k)
        _build[(tile.programs(m) * n_batch,)](
            self.log_psi, self.columns, self.table, taken.contiguous(), self.precision,
            self.weights, m, n_batch, k=k, d_a=self.d_a, width=self.table.shape[1],
            R=tile.rows, K=tile.width, num_warps=tile.warps,
        )  # fmt: skip
        return self.weights

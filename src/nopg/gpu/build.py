"""Kernel rows of one update: a softmax each, held in registers from load to store.

The derivative of (P q)_i by the action taken at row i is the covariance of Eq. (10),
sum_j P_ij (q_j - (P q)_i) (a_j - (P a)_i) / h^2.
"""

from __future__ import annotations

from torch import Tensor

from nopg.gpu.rows import FusedRows, load_rows
from nopg.gpu.toolchain import Tile, tl, triton


@triton.jit
def _build(
    log_psi, columns, actions, taken, half_precision, weights, m, n_batch,
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


@triton.jit
def _differentiate(
    weights, columns, actions, half_precision, q, products, slopes, m, n, n_batch,
    k: tl.constexpr, d_a: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    mask, column, weight, beside = load_rows(
        weights + policy * m * k, columns, q + policy * n, row, m, k, K
    )
    product = tl.sum(weight * beside, axis=1)
    own = policy * m + row
    tl.store(products + own, product, mask=row < m)
    centred = weight * (beside - product[:, None])
    for d in tl.static_range(d_a):
        a = tl.load(actions + column * d_a + d, mask=mask, other=0.0)
        a -= tl.sum(weight * a, axis=1)[:, None]
        slope = 2.0 * tl.load(half_precision + d) * tl.sum(centred * a, axis=1)
        tl.store(slopes + own * d_a + d, slope, mask=row < m)


class FusedKernelRows(FusedRows):
    """The paper's rows, softmax_j(log_psi_ij - sum_d (taken_id - a_jd)^2 / 2 h_d^2)."""

    def __init__(
        self,
        log_psi: Tensor,  # log state kernel, (m, k)
        columns: Tensor,  # samples each row lists, (m, k)
        sample_actions: Tensor,  # (n, d_a)
        bandwidths: Tensor,  # of the actions, h, (d_a,)
        n_policies: int,  # B
    ) -> None:
        super().__init__(log_psi, columns, n_policies)
        self._sample_actions = sample_actions.contiguous()
        self._half_precision = 0.5 / bandwidths**2

    def build(self, taken: Tensor) -> Tensor:
        """A softmax per row."""
        (m, k), (n_batch, _, d_a) = self.columns.shape, taken.shape
        tile = Tile.of_rows(k)
        _build[(tile.programs(m) * n_batch,)](
            self.log_psi, self.columns, self._sample_actions, taken.contiguous(),
            self._half_precision, self.weights, m, n_batch, k=k, d_a=d_a, R=tile.rows,
            K=tile.width, num_warps=tile.warps,
        )  # fmt: skip
        return self.weights

    def differentiate(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """A covariance per row."""
        (m, k), (n_batch, n) = self.columns.shape, q.shape
        d_a, tile = self._sample_actions.shape[1], Tile.of_rows(k)
        products, slopes = self._outputs(q, d_a)
        _differentiate[(tile.programs(m) * n_batch,)](
            self.weights, self.columns, self._sample_actions, self._half_precision,
            q.contiguous(), products, slopes, m, n, n_batch, k=k, d_a=d_a, R=tile.rows,
            K=tile.width, num_warps=tile.warps,
        )  # fmt: skip
        return products, slopes

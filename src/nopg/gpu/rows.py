"""Rows of B policies over one pattern: made for actions taken, and differentiated."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from nopg.gpu.toolchain import Tile, padded, tl, triton

TURN = tl.constexpr(2.0 * math.pi)


@triton.jit
def load_rows(weights, columns, x, row, m, k: tl.constexpr, K: tl.constexpr):
    """For a tile of rows: which entries are there, columns, weights, and x beside."""
    entry = tl.arange(0, K)
    mask = (row < m)[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    column = tl.load(columns + at, mask=mask, other=0)
    weight = tl.load(weights + at, mask=mask, other=0.0)
    return mask, column, weight, tl.load(x + column, mask=mask, other=0.0)


@triton.jit
def _differentiate(
    weights, columns, table, points, precision, state, q, products, slopes, m, n,
    n_batch, k: tl.constexpr, d_s: tl.constexpr, d_a: tl.constexpr,
    n_angles: tl.constexpr, width: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    is_row, own = row < m, policy * m + row
    mask, column, weight, beside = load_rows(
        weights + policy * m * k, columns, q + policy * n, row, m, k, K
    )
    product = tl.sum(weight * beside, axis=1)
    tl.store(products + own, product, mask=is_row)
    centred = weight * (beside - product[:, None])
    d: tl.constexpr = d_s + d_a
    covariances = ()
    for f in tl.static_range(d):
        z = tl.load(table + column.to(tl.uint32) * width + f, mask=mask, other=0.0)
        if f >= d_s - n_angles and f < d_s:
            place = points + row.to(tl.int64) * d_s + f
            z -= tl.load(place, mask=is_row, other=0.0)[:, None]
            z -= TURN * tl.floor(z / TURN + 0.5)
        z -= tl.sum(weight * z, axis=1)[:, None]
        covariances += (tl.sum(centred * z, axis=1) * tl.load(precision + f),)
    for a in tl.static_range(d_a):
        slope = covariances[d_s + a] * tl.load(precision + d_s + a)
        if d_s > 0:  # tilts follow the action too
            gains = state + own * (d + d * d_a + d_a) + d + a
            for f in tl.static_range(d):
                slope += tl.load(gains + f * d_a, mask=is_row, other=0.0) * covariances[f]
        tl.store(slopes + own * d_a + a, slope, mask=is_row)


class FusedRows(ABC):
    """Rows of k entries at m queries, functions of d features of the samples.

    Features are coordinates of the state where rows depend on its direction, and the action; the
    last `n_angles` of the coordinates are angles, and are wrapped.
    """

    def __init__(
        self,
        log_psi: Tensor,  # log state kernel, (m, k)
        columns: Tensor,  # samples each row lists, (m, k)
        table: Tensor,  # features of the samples, from `feature_table`
        points: Tensor,  # coordinates of the queries, (m, d_s)
        precision: Tensor,  # 1 / h of each feature, (d,)
        n_policies: int,  # B
        n_angles: int = 0,
    ) -> None:
        self.log_psi, self.columns = log_psi.contiguous(), columns.contiguous()
        self.table, self.points = table, points.contiguous()
        self.precision, self.n_angles = precision, n_angles
        self.d_s, self.d_a = points.shape[1], len(precision) - points.shape[1]
        # Rows of the actions last taken, (B, m, k).
        self.weights = log_psi.new_empty((n_policies, *columns.shape))
        # Of rows the tilt, how it follows actions, and these; unseen ones start as kernel rows.
        numbers = len(precision) * (1 + self.d_a) + self.d_a if self.d_s else 0
        self.state = points.new_zeros((n_policies, len(points), numbers))

    @abstractmethod
    def build(self, taken: Tensor) -> Tensor:
        """`weights` for the action taken at each query, (B, m, d_a)."""

    def differentiate(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """P q, (B, m), and d (P q)_i / d a_i, (B, m, d_a), for q (B, n), Eq. (10)."""
        (m, k), (n_batch, n) = self.columns.shape, q.shape
        tile = Tile.of_rows(k)
        products, slopes = (q.new_empty((n_batch, m)), q.new_empty((n_batch, m, self.d_a)))
        _differentiate[(tile.programs(m) * n_batch,)](
            self.weights, self.columns, self.table, self.points, self.precision,
            self.state, q.contiguous(), products, slopes, m, n, n_batch, k=k,
            d_s=self.d_s, d_a=self.d_a, n_angles=self.n_angles,
            width=self.table.shape[1], R=tile.rows, K=tile.width, num_warps=tile.warps,
        )  # fmt: skip
        return products, slopes


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
    tl.store(weights + policy.to(tl.int64) * m * k + at, kernel / total[:, None], mask=mask)


class FusedKernelRows(FusedRows):
    """The paper's rows, softmax_j(log_psi_ij - |taken_i - a_j|^2 / 2 h^2)."""

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


def feature_table(*features: Tensor) -> Tensor:
    """Features (n, d) side by side, filled up to a power of two: one read for all."""
    found = torch.cat(features, dim=1)
    return torch.nn.functional.pad(found, (0, padded(found.shape[1]) - found.shape[1]))

"""Rows without displacement: a second opinion on what Nadaraya-Watson smooths away.

A row of Definition 2 averages over samples around the query x = (s, a). Where they
lie to one side, at an edge of the data or on a slope of their density, their mean
x_bar is not x: the estimated system is moved by x_bar - x at every step, which can
hold up a pole that falls. Tilting the row,

    w_j ~ P_j exp(lambda' (x_j - x)),
    lambda = argmin log sum_j P_j exp(lambda' (x_j - x)) + ridge |lambda|^2 / 2,

puts the mean back on the query (as far as the samples surround it) and keeps the row
a distribution: of all of them it is the one closest to P in relative entropy. What
is first-order in the bandwidth of the bias is gone; the spread around x is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.errors import ConfigError
from nopg.linalg.operators import DenseRows, LinearOperator, SparseRows
from nopg.linalg.pattern import Pattern

MOST = 48
"""Samples a centred row keeps, the heaviest of the plain row."""
RIDGE = 1e-2
"""How soon a row gives up reaching for a query its samples do not surround."""
MAX_STEPS = 8
LONGEST_STEP = 8.0
"""Most a Newton step may change the logarithm of a weight."""
TOLERANCE = 1e-2
"""Displacement at which a row counts as centred, in bandwidths."""


@dataclass(frozen=True)
class CentredRows:
    """Rows whose mean is their query, where the data allow it.

    Attributes:
        operator: The rows, (m, n).
        displacement: |x_bar - x| that is left, in bandwidths, (m,).
        spread: Root mean square distance of the row's samples from x_bar, (m,).
    """

    operator: LinearOperator
    displacement: Tensor
    spread: Tensor


def centred_rows(
    rows: QueryRows, plain: LinearOperator, queries: Tensor, samples: Tensor
) -> CentredRows:
    """Tilt every row until its mean is its query.

    Args:
        rows: The lists the plain rows were made from.
        plain: The rows themselves, (m, n).
        queries: (s, a) of each row in bandwidths, (m, d).
        samples: (s, a) of each sample in bandwidths, (n, d).
    """
    displacement, spread = queries.new_zeros((2, len(queries)))
    numbers, columns, values = [], [], []
    for which, listed, weights in _heaviest(rows, plain):
        offsets = samples[listed] - queries[which, None]  # (m_b, k, d)
        tilted = _tilted(weights, offsets)
        mean = torch.einsum("mk,mkd->md", tilted, offsets)
        displacement[which] = mean.norm(dim=1)
        second = torch.einsum("mk,mkd->m", tilted, offsets.square())
        spread[which] = (second - mean.square().sum(dim=1)).clamp(min=0.0).sqrt()
        numbers.append(which)
        columns.append(listed.to(torch.int32))
        values.append(tilted.reshape(-1))
    pattern = Pattern.stack(numbers, columns, len(samples))
    return CentredRows(SparseRows(pattern, torch.cat(values)), displacement, spread)


def _heaviest(
    rows: QueryRows, plain: LinearOperator
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Row numbers (m_b,), samples (m_b, k) and weights (m_b, k), block by block."""
    if isinstance(plain, DenseRows):
        everything = torch.arange(len(plain.matrix), device=plain.matrix.device)
        weights, listed = _top(plain.matrix)
        return [(everything, listed, weights)]
    if not isinstance(plain, SparseRows):
        raise ConfigError(
            "Intervals need all rows in one process, these are shared out over ranks; "
            "save the model and ask the one that is loaded."
        )
    found = []
    for block in rows.blocks:
        assert block.columns is not None
        within = torch.arange(block.columns.shape[1], device=block.rows.device)
        first = plain.pattern.row_starts[block.rows].long()
        weights, places = _top(plain.values[first[:, None] + within])
        found.append((block.rows, block.columns.long().gather(1, places), weights))
    return found


def _top(weights: Tensor) -> tuple[Tensor, Tensor]:
    k = min(MOST, weights.shape[1])
    top, places = torch.topk(weights, k, dim=1)
    return top / top.sum(dim=1, keepdim=True), places


def _tilted(weights: Tensor, offsets: Tensor) -> Tensor:
    """Newton's method on the dual, every row by itself, (m, k).

    A step that does not lower the dual is shortened; rows leave as they finish. In
    single precision: a hundredth of a bandwidth is all that is asked for.
    """
    z, log_base = offsets.float(), weights.clamp(min=1e-37).float().log()
    tilt = z.new_zeros((len(z), z.shape[2]))
    trial, dual = tilt.clone(), z.new_full((len(z),), torch.inf)
    ridge = RIDGE * torch.eye(z.shape[2], device=z.device)
    left = torch.arange(len(z), device=z.device)
    for _ in range(MAX_STEPS):
        here = trial[left]
        logits = log_base[left] + _along(z[left], here)
        reached = torch.logsumexp(logits, dim=1) + 0.5 * RIDGE * here.square().sum(1)
        is_lower = reached <= dual[left]
        back = left[~is_lower]
        trial[back] = tilt[back] + 0.25 * (trial[back] - tilt[back])
        on = left[is_lower]
        tilt[on], dual[on] = trial[on], reached[is_lower]
        slope, step = _newton(logits[is_lower], z[on], tilt[on], ridge)
        trial[on] = tilt[on] - step
        left = torch.cat([back, on[slope > TOLERANCE]])
        if len(left) == 0:
            break
    tilted = torch.softmax(log_base + _along(z, tilt), dim=1).to(weights)
    return tilted / tilted.sum(dim=1, keepdim=True)


def _newton(
    logits: Tensor, z: Tensor, tilt: Tensor, ridge: Tensor
) -> tuple[Tensor, Tensor]:
    """Length of the dual's slope, (m,), and the step that would end it, (m, d)."""
    wz = torch.softmax(logits, dim=1)[..., None] * z
    mean = wz.sum(dim=1)
    slope = mean + RIDGE * tilt
    second = torch.matmul(wz.transpose(1, 2), z)  # (m, d, d)
    curvature = second - mean[:, :, None] * mean[:, None, :] + ridge
    step = torch.linalg.solve(curvature, slope)
    reach = _along(z, step).abs().amax(dim=1, keepdim=True)
    return slope.norm(dim=1), step * (LONGEST_STEP / reach.clamp(min=LONGEST_STEP))


def _along(offsets: Tensor, direction: Tensor) -> Tensor:
    return torch.matmul(offsets, direction[..., None])[..., 0]

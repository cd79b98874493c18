"""Newton's method for rows that are to have a given mean, many rows at once.

The dual of "the distribution closest to w whose mean offset is 0",

    log sum_j w_j exp(lambda' z_j) + ridge |lambda|^2 / 2,

is convex in lambda. Its slope and curvature are the first two moments of the tilted
row, and one product with the features (1, z, z z') gives both. Rows are short and
dimensions few, so that calls are what costs, not numbers: on the CPU they are left to
NumPy, whose small products take a tenth of torch's. `xp` is whichever library it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

RIDGE = 1e-2
"""How soon a row gives up reaching for a query its samples do not surround."""
MAX_STEPS = 6
LONGEST_STEP = 16.0
"""Most a Newton step may change the logarithm of a weight."""
TOLERANCE = 1e-2
"""Displacement at which a row counts as centred, in bandwidths."""
TOGETHER = 500_000
"""Numbers among the features of the rows that are tilted at once."""

Array = Any
"""An array of NumPy or a tensor of torch."""


def tilted(weights: Tensor, offsets: Tensor) -> Tensor:
    """Weights tilted until the mean offset is 0, as far as it can be, (m, k).

    In single precision: a hundredth of a bandwidth is all that is asked for.

    Args:
        weights: Of each entry of each row, summing to one, (m, k); may be 0.
        offsets: Of each entry from the row's query, (m, k, d).
    """
    z = offsets.mT.float().contiguous()  # (m, d, k)
    log_weights = weights.log().float()  # what has no weight never gets any
    d = z.shape[1]
    rows = max(1, TOGETHER // (z.shape[2] * (1 + d + d * d)))
    parts = zip(torch.split(log_weights, rows), torch.split(z, rows), strict=True)
    if z.is_cpu:
        pairs = ((a.numpy(), b.numpy()) for a, b in parts)
        logits = torch.cat([torch.from_numpy(_tilted(np, *pair)) for pair in pairs])
    else:
        logits = torch.cat([_tilted(torch, *pair) for pair in parts])
    found = torch.softmax(logits, dim=1).to(weights)
    return found / found.sum(dim=1, keepdim=True)


def _tilted(xp: Any, log_weights: Array, z: Array) -> Array:
    """Log weights, tilted, up to a constant a row, (m, k)."""
    search = _Search.from_zero(xp, log_weights, z)
    tilt = xp.zeros_like(search.tilt)
    for _ in range(MAX_STEPS):
        is_open = search.advance(xp)
        n_open = int(is_open.sum())
        if 2 * n_open < len(is_open):  # rows leave as they finish
            tilt[search.rows] = search.tilt
            search = search.of(is_open)
        if n_open == 0:
            break
    tilt[search.rows] = search.tilt
    return log_weights + _along(xp, z, tilt)


@dataclass
class _Search:
    """Rows on their way.

    Attributes:
        rows: Which rows these are, (m,).
        log_weights: Before tilting, (m, k).
        features: 1, z and z z' of each entry, (m, 1 + d + d^2, k).
        tilt: The best lambda so far, (m, d).
        trial: The next to be tried, (m, d).
        dual: What the best has reached, (m, 1).
    """

    rows: Array
    log_weights: Array
    features: Array
    tilt: Array
    trial: Array
    dual: Array

    @classmethod
    def from_zero(cls, xp: Any, log_weights: Array, z: Array) -> _Search:
        """Rows not moved yet: their log weights (m, k) and offsets (m, d, k)."""
        m, d, k = z.shape
        squares = (z[:, :, None] * z[:, None]).reshape(m, d * d, k)
        features = xp.concatenate([xp.ones_like(z[:, :1]), z, squares], axis=1)
        tilt = xp.zeros_like(z[:, :, 0])
        worst = xp.full_like(tilt[:, :1], xp.inf)
        rows = xp.cumsum(xp.ones_like(worst[:, 0], dtype=xp.int64), axis=0) - 1
        return cls(rows, log_weights, features, tilt, tilt, worst)

    def of(self, which: Array) -> _Search:
        """Only some of the rows."""
        return _Search(*(getattr(self, one.name)[which] for one in fields(self)))

    def advance(self, xp: Any) -> Array:
        """Rate the trials and propose others; which rows are not centred yet, (m,).

        A trial that does not lower the dual is drawn back towards the best.
        """
        reached, slope, step = self._newton(xp)
        is_lower = reached <= self.dual
        self.tilt = xp.where(is_lower, self.trial, self.tilt)
        self.dual = xp.where(is_lower, reached, self.dual)
        shorter = self.tilt + 0.25 * (self.trial - self.tilt)
        self.trial = xp.where(is_lower, self.trial - step, shorter)
        return ~is_lower[:, 0] | ((slope * slope).sum(axis=1) > TOLERANCE**2)

    def _newton(self, xp: Any) -> tuple[Array, Array, Array]:
        """The dual at the trials (m, 1), its slope, and Newton's step, (m, d) both."""
        here, d = self.trial, self.trial.shape[1]
        z = self.features[:, 1 : 1 + d]
        logits = self.log_weights + _along(xp, z, here)
        peak = xp.amax(logits, axis=1, keepdims=True)
        weights = xp.exp(logits - peak)[..., None]
        moments = xp.matmul(self.features, weights)[..., 0]
        total = moments[:, :1]
        dual = xp.log(total) + peak + 0.5 * RIDGE * (here * here).sum(1, keepdims=True)
        moments = moments / total
        mean, second = moments[:, 1 : 1 + d], moments[:, 1 + d :].reshape(-1, d, d)
        curvature = second - mean[:, :, None] * mean[:, None]
        for i in range(d):
            curvature[:, i, i] += RIDGE
        slope = mean + RIDGE * here
        step = xp.linalg.solve(curvature, slope[..., None])[..., 0]
        reach = xp.amax(xp.abs(_along(xp, z, step)), axis=1, keepdims=True)
        return dual, slope, step * (LONGEST_STEP / xp.clip(reach, LONGEST_STEP, None))


def _along(xp: Any, z: Array, direction: Array) -> Array:
    """z' direction of every entry, (m, k), for z (m, d, k)."""
    return xp.matmul(direction[:, None], z)[:, 0]

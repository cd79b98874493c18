"""The paper's bandwidths: one-dimensional density cross-validation.

For each column: candidates up to one and a half times Silverman's rule, five
folds of consecutive rows, the highest held-out log-likelihood wins. Values that
repeat (grids, clipped or on-off actions) have no best bandwidth: the likelihood
grows without bound as h shrinks. Such columns are recognised, and said.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

N_CANDIDATES = 29
"""linspace(0, 1.5 s, 30) without its first point, which is zero."""
N_FOLDS = 5
BLOCK = 2_000_000
"""Pairs evaluated at a time."""


def cross_validated_bandwidth(column: FloatArray) -> tuple[float, str | None]:
    """The candidate with the highest held-out log-likelihood.

    Args:
        column: Values of one dimension, (n,).

    Returns:
        The bandwidth, infinity for a constant column; and a remark in words where
        the choice says more about repeated values than about the density.
    """
    n = len(column)
    spread = float(np.std(column, ddof=1)) if n > 1 else 0.0
    # Not "== 0": rounding leaves a spread of 1e-17 on a column of equal decimals.
    if spread <= 1e-12 * (1.0 + float(np.abs(column).max())):
        return math.inf, "is constant: it cannot tell samples apart and is ignored"
    silverman = spread * (n * 0.75) ** -0.2  # one dimension
    candidates = silverman * 1.5 * np.arange(1, N_CANDIDATES + 1) / N_CANDIDATES
    likelihoods = [_held_out_likelihood(column, h) for h in candidates]
    best = int(np.argmax(likelihoods))
    remark = None
    distinct = len(np.unique(column))
    if best == 0 and distinct < n:
        remark = (
            f"has only {distinct} distinct values in {n} rows, so the likelihood "
            "prefers ever smaller bandwidths: the smallest candidate was taken"
        )
    elif best == N_CANDIDATES - 1:
        remark = (
            "wants a bandwidth beyond the largest candidate (rows sorted by this "
            "column make folds that cannot predict each other): the largest was taken"
        )
    return float(candidates[best]), remark


def _held_out_likelihood(column: FloatArray, h: float) -> float:
    """Log-likelihood of each fold under the density of the others, summed."""
    folds = np.array_split(np.arange(len(column)), min(N_FOLDS, len(column)))
    total = 0.0
    for fold in folds:
        rest = np.delete(column, fold)
        rows = max(1, BLOCK // max(len(rest), 1))
        for part in np.array_split(column[fold], math.ceil(len(fold) / rows)):
            exponents = -0.5 * ((part[:, None] - rest[None, :]) / h) ** 2
            peak = exponents.max(axis=1)
            mass = np.exp(exponents - peak[:, None]).sum(axis=1)
            total += float((peak + np.log(mass)).sum())
        total -= len(fold) * math.log(h * len(rest) * math.sqrt(2.0 * math.pi))
    return total

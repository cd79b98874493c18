"""The paper's bandwidths: one-dimensional density cross-validation.

For each column: candidates up to one and a half times Silverman's rule, five folds of consecutive
rows, the highest held-out log-likelihood wins. Values that repeat (grids, clipped or on-off
actions) have no best bandwidth: the likelihood grows as h shrinks. Such columns are named.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError, warn

FloatArray = NDArray[np.float64]
Factor = float | Sequence[float]  # one number for all dimensions, or one per dimension
N_CANDIDATES = 29  # linspace(0, 1.5 s, 30) without its first point, which is zero


def cross_validated(kind: str, values: FloatArray, factor: Factor, has_floor: bool) -> list[float]:
    """The bandwidth of every column of `values` (n, d), times its factor."""
    # Remarks are warned about, but for next states, which repeat those of states. The floor of
    # repeated values holds after the factor, which is for the same: density between grid points.
    d_all = values.shape[1]
    factors = factor if isinstance(factor, Sequence) else [factor] * d_all
    if len(factors) != d_all:
        raise ConfigError(f"There must be one {kind} factor, or {d_all}, got {len(factors)}.")
    chosen = []
    for d, column in enumerate(values.T):
        h, remark = cross_validated_bandwidth(np.ascontiguousarray(column))
        h *= factors[d]
        if has_floor and h < (least := half_spacing(column)):
            h, remark = least, None
        if remark and kind != "next-state":
            warn(f"{kind} column {d} {remark}.")
        chosen.append(h)
    return chosen


def half_spacing(column: FloatArray) -> float:
    """Half the median distance of neighbouring distinct values; 0 if none repeats."""
    gaps = np.diff(np.sort(column))
    is_gap = gaps > 1e-9 * float(gaps.sum())  # less of the range is rounding
    return 0.0 if is_gap.all() or not is_gap.any() else 0.5 * float(np.median(gaps[is_gap]))


def cross_validated_bandwidth(column: FloatArray) -> tuple[float, str | None]:
    """The candidate with the highest held-out log-likelihood, for a column (n,)."""
    # The bandwidth, infinity for a constant column; and a remark in words where the choice says
    # more about repeated values than about the density.
    n = len(column)
    spread = float(np.std(column, ddof=1)) if n > 1 else 0.0
    # Not "== 0": rounding leaves a spread of 1e-17 on a column of equal decimals.
    if spread <= 1e-12 * (1.0 + float(np.abs(column).max())):
        return math.inf, "is constant: it cannot tell samples apart and is ignored"
    silverman = spread * (n * 0.75) ** -0.2  # one dimension
    candidates = silverman * 1.5 * np.arange(1, N_CANDIDATES + 1) / N_CANDIDATES
    best = int(np.argmax([_held_out_likelihood(column, h) for h in candidates]))
    remark, distinct = None, len(np.unique(column))
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
    total = 0.0
    for fold in np.array_split(np.arange(len(column)), min(5, len(column))):
        rest = np.delete(column, fold)
        rows = max(1, 2_000_000 // max(len(rest), 1))  # that many pairs at a time
        for part in np.array_split(column[fold], math.ceil(len(fold) / rows)):
            exponents = -0.5 * ((part[:, None] - rest[None, :]) / h) ** 2
            peak = exponents.max(axis=1)
            total += float((peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1))).sum())
        total -= len(fold) * math.log(h * len(rest) * math.sqrt(2.0 * math.pi))
    return total

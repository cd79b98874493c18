"""How good an estimate of a gradient is: angle, bias and variance over data sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from reproduction.envs.base import FloatArray

Estimates = Sequence[Sequence[float] | None]
"""One data set's estimate each; None where the method gave none."""


def angle(estimate: FloatArray, truth: FloatArray) -> float | None:
    """Degrees between two directions; None where one of them is no direction."""
    lengths = float(np.linalg.norm(estimate) * np.linalg.norm(truth))
    if not np.isfinite(lengths) or lengths == 0.0:
        return None
    cosine = float(estimate @ truth) / lengths
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def mean_angle(pairs: Sequence[tuple[FloatArray, FloatArray | None]]) -> float | None:
    """Mean angle of pairs of an estimate and the truth, where both are directions."""
    found = [angle(g, truth) for g, truth in pairs if truth is not None]
    angles = [a for a in found if a is not None]
    return round(float(np.mean(angles)), 2) if angles else None


def gradient_quality(
    truths: Sequence[FloatArray | None], estimates: Sequence[Estimates]
) -> dict[str, float]:
    """Quality at each point over data sets, then the mean over points.

    Bias is the distance of the mean estimate from the truth, variance the trace of the
    estimates' covariance, both relative to the length of the truth. A semi-gradient
    estimates a direction only, so both are given for directions, vectors of length
    one, as well. Estimates that are missing or exactly zero are left out; `given` is
    the share of those that are not.

    Args:
        truths: The true gradient at each point, (2,); None where there is none.
        estimates: At each point, one estimate a data set.
    """
    columns: dict[str, list[float]] = defaultdict(list)
    for truth, found in zip(truths, estimates, strict=True):
        if truth is None:
            continue
        kept = np.array([g for g in found if g is not None and np.any(g)])  # (m, 2)
        columns["given"].append(len(kept) / max(len(found), 1))
        if len(kept) == 0:
            continue
        size = float(np.linalg.norm(truth))
        units = kept / np.linalg.norm(kept, axis=1, keepdims=True)
        angles = [angle(gradient, truth) for gradient in kept]
        columns["angle"].append(float(np.mean([a for a in angles if a is not None])))
        bias, variance = _moments(kept / size, truth / size)
        columns["bias"].append(bias)
        columns["variance"].append(variance)
        bias, variance = _moments(units, truth / size)
        columns["direction_bias"].append(bias)
        columns["direction_variance"].append(variance)
    return {name: round(float(np.mean(values)), 4) for name, values in columns.items()}


def _moments(found: FloatArray, truth: FloatArray) -> tuple[float, float]:
    """Distance of the mean from the truth, and the trace of the covariance."""
    centre = found.mean(axis=0)
    spread = float(((found - centre) ** 2).sum() / max(len(found) - 1, 1))
    return float(np.linalg.norm(centre - truth)), spread

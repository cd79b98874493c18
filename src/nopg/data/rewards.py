"""Rewards computed from (s, a, s') instead of read from a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nopg.data.validation import FloatArray, IntArray
from nopg.errors import DataError

RewardFunction = Callable[[FloatArray, Any, FloatArray], Any]
"""Takes states (n, d_s), actions and successors (n, d_s); gives rewards (n,)."""


def rewards_from(
    reward: RewardFunction | Any,
    observations: FloatArray,
    actions: FloatArray | IntArray,
    next_observations: FloatArray,
) -> FloatArray:
    """Call `reward` once on all rows.

    Raises:
        DataError: If it does not give one number per row.
    """
    values = np.asarray(reward(observations, actions, next_observations))
    if values.shape == (len(observations), 1):
        values = values[:, 0]
    if values.shape != (len(observations),) or values.dtype.kind not in "biuf":
        raise DataError(
            f"A reward function must give one number per row, shape "
            f"({len(observations)},), got {values.dtype} of shape {values.shape}; it "
            "is called once with all rows, so write s[:, 0] rather than s[0]."
        )
    return values.astype(np.float64)

"""Regions of the state space: boxes, predicates, or the end of the task."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError

TERMINATED = "terminated"  # the region that is entered when the task ends for good

Membership = Callable[[NDArray[np.float64]], NDArray[np.bool_]]
"""States (m, d_s) to whether each lies in the region, (m,)."""


def membership(region: Any, d_s: int) -> Membership | None:
    """What a user may call a region, as a checked function; None for the task's end.

    A predicate on states (m, d_s); a pair (low, high) of d_s numbers each, infinity
    where a side is open; or anything with `low` and `high`, such as a Gymnasium Box.
    """
    if isinstance(region, str) and region == TERMINATED:
        return None
    if callable(region) and not hasattr(region, "low"):
        return _predicate(region)
    ends = (region.low, region.high) if hasattr(region, "low") else region
    try:
        low, high = (np.asarray(end, dtype=np.float64) for end in ends)
    except (TypeError, ValueError):
        raise ConfigError(
            "`region` must be a function of states, a pair (low, high), a Box or "
            f'"{TERMINATED}", got {region!r}.'
        ) from None
    if low.shape != (d_s,) or high.shape != (d_s,):
        raise ConfigError(
            f"`region` must have {d_s} lower and {d_s} upper ends, one per state "
            f"dimension, got shapes {low.shape} and {high.shape}; use -inf and inf for "
            "dimensions that do not matter."
        )
    if not (low <= high).all():
        side = int(np.nonzero(~(low <= high))[0][0])
        raise ConfigError(
            f"Lower ends of `region` must not exceed upper ends, dimension {side} goes "
            f"from {low[side]} to {high[side]}; swap them."
        )
    return lambda states: np.asarray(((states >= low) & (states <= high)).all(axis=1))


def _predicate(region: Callable[..., Any]) -> Membership:
    def inside(states: NDArray[np.float64]) -> NDArray[np.bool_]:
        try:
            found = np.asarray(region(states))
        except Exception as error:
            raise ConfigError(
                f"`region` must take an array of states {states.shape}, it raised "
                f"{type(error).__name__}: {error}; write it for rows of states, such "
                "as lambda s: s[:, 0] > 1."
            ) from error
        if found.shape != (len(states),) or found.dtype.kind != "b":
            raise ConfigError(
                "`region` must return one True or False per state, "
                f"({len(states)},), it returned shape {found.shape} of {found.dtype}; "
                "compare whole columns, such as s[:, 0] > 1."
            )
        return found

    return inside

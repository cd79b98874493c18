"""Whether the arrays of a dataset fit each other and their spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.data.validation import preview
from nopg.errors import DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def require_transitions(arrays: dict[str, Any]) -> None:
    """At least two rows, and states and successors of one width."""
    n = len(arrays["observations"])
    if n < 2:
        raise DataError(
            f"A dataset needs at least two transitions, got {n}; kernel regression "
            "has nothing to interpolate between."
        )
    d_s, d_next = (
        arrays[key].shape[1] for key in ("observations", "next_observations")
    )
    if d_s != d_next:
        raise DataError(
            "`observations` and `next_observations` must have the same columns, got "
            f"{d_s} and {d_next}; select the same ones for both."
        )


def require_inside(actions: Any, space: Space[Any] | None) -> None:
    """Actions of the kind, the width and the range that `space` allows."""
    if space is None:
        return
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if actions.ndim == 1:
        count = getattr(space, "n", None)
        if count is None or int(getattr(space, "start", 0)) != 0:
            raise DataError(
                f"Integer `actions` need a Discrete action space starting at 0, got "
                f"{space}; pass actions.astype(float) if they are continuous."
            )
        outside = actions >= count
    elif low is None or high is None or np.shape(low) != actions.shape[1:]:
        raise DataError(
            f"Continuous `actions` of width {actions.shape[1]} need a Box action space "
            f"of the same shape, got {space}; correct the space or the actions."
        )
    else:
        # A float32 space rounds its bounds: allow what that rounding moves.
        slack = 1e-6 * (1.0 + np.maximum(np.abs(low), np.abs(high)))
        outside = ((actions < low - slack) | (actions > high + slack)).any(axis=1)
    if outside.any():
        rows = np.nonzero(outside)[0]
        raise DataError(
            f"`actions` must lie in the action space {space}, {len(rows)} rows do not "
            f"({preview(rows)}); clip them if the system did, or pass a wider space."
        )


def column_names(
    prefix: str, given: Sequence[str] | None, count: int
) -> tuple[str, ...]:
    """One distinct name per column: those given, else the prefix and a number."""
    if given is None:
        return tuple(f"{prefix}{i}" for i in range(count))
    names = tuple(str(name) for name in given)
    if len(names) != count or len(set(names)) != count:
        raise DataError(
            f"There must be {count} distinct column names, got {list(names)}; name "
            "each column once."
        )
    return names

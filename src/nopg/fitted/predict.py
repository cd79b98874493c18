"""Observations in, actions out, as the environment expects them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nopg.errors import DataError
from nopg.policies.families import Policy

if TYPE_CHECKING:
    from gymnasium.spaces import Space


def predicted_actions(
    policy: Policy,
    space: Space[Any],
    observation: Any,  # one state (d_s,) or several (m, d_s)
    generator: torch.Generator | None,  # of draws; None takes the most typical actions
    width: int | None = None,  # numbers an observation must have, where that is known
    names: Sequence[str] | None = None,  # what they are called, for the error
) -> NDArray[Any]:
    """The policy's actions, clipped to the space and in its dtype."""
    parameter = next(policy.parameters())
    array = checked_observation(observation, width, names)
    states = torch.tensor(np.atleast_2d(array)).to(parameter)
    try:
        with torch.no_grad():
            actions = policy.act(states, generator).cpu().numpy()
    except RuntimeError as error:
        raise DataError(
            f"`observation` must have as many numbers as the training states, got "
            f"{array.shape[-1]} ({str(error).splitlines()[0]})."
        ) from None
    if not np.isfinite(actions).all():
        raise DataError(
            "Actions must be finite, the policy answers "
            f"{actions[~np.isfinite(actions)][0]} to observations of up to "
            f"{np.abs(array).max():.2g}; pass states in the units of the data."
        )
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is not None and high is not None:
        actions = np.clip(actions, low, high)
    actions = actions.astype(space.dtype)
    return np.asarray(actions[0] if array.ndim == 1 else actions)


def checked_observation(
    observation: Any, width: int | None, names: Sequence[str] | None = None
) -> NDArray[np.float64]:
    """One observation (d_s,) or several (m, d_s), as finite numbers."""
    try:
        if np.iscomplexobj(observation):
            raise TypeError
        array = np.array(observation, dtype=np.float64)  # rows as torch wants them
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            "`observation` must be numbers, one state (d_s,) or several (m, d_s), got "
            f"{type(observation).__name__}; flatten it first."
        ) from None
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        raise DataError(
            "`observation` must be one finite state (d_s,) or several (m, d_s), got "
            f"shape {array.shape}{'' if np.isfinite(array).all() else ' with NaN'}."
        )
    if width is not None and array.shape[-1] != width:
        called = "" if names is None else f" ({', '.join(names)})"
        raise DataError(
            f"`observation` must have {width} numbers{called} like the training "
            f"states, got {array.shape[-1]}; pass one state (d_s,) or several (m, d_s)."
        )
    return array

"""Observations in, actions out, and what a policy with memory keeps in between.

As for the recurrent policies of stable-baselines3, `predict` returns a `state` and takes it back.
Where nobody hands it back, what the last call left is kept for the next one of the same thread.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray

from nopg.data.history import HistoryLayout
from nopg.data.validation import BoolArray, FloatArray
from nopg.errors import DataError, warn
from nopg.policies.families import Policy


def predicted_actions(
    policy: Policy,
    space: Space[Any],
    generator: torch.Generator | None,  # of draws; None takes the most typical actions
    observation: Any,  # one state (d_s,) or several (m, d_s)
    width: int | None = None,  # numbers an observation must have, where that is known
    names: Sequence[str] | None = None,  # what they are called, for the error
) -> NDArray[Any]:
    """The policy's actions, clipped to the space and in its dtype."""
    array = checked_observation(observation, width, names)
    states = torch.tensor(np.atleast_2d(array)).to(next(policy.parameters()))
    try:
        with torch.no_grad():
            actions = policy.act(states, generator).cpu().numpy()
    except RuntimeError as error:
        raise DataError(
            f"`observation` must have as many numbers as the training states, got "
            f"{array.shape[-1]} ({str(error).splitlines()[0]})."
        ) from None
    if (odd := actions[~np.isfinite(actions)]).size:
        raise DataError(
            f"Actions must be finite, the policy answers {odd[0]} to observations of up to "
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
        array = np.full((), np.nan)
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        raise DataError(
            "`observation` must be finite, one state (d_s,) or several (m, d_s), got "
            f"{type(observation).__name__} of shape {array.shape}; flatten or mend it."
        )
    if width is not None and array.shape[-1] != width:
        called = "" if names is None else f" ({', '.join(names)})"
        raise DataError(
            f"`observation` must have {width} numbers{called} like the training "
            f"states, got {array.shape[-1]}; pass one state (d_s,) or several (m, d_s)."
        )
    return array


class EpisodeBuffer(threading.local):
    """The past of the episode that is running, for one layout, in each thread."""

    def __init__(self, layout: HistoryLayout) -> None:
        self.layout = layout
        self._kept: FloatArray | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return EpisodeBuffer, (self.layout,)  # a copy starts an episode of its own

    def reset(self) -> None:
        """Start a new episode with the next observation."""
        self._kept = None

    def act(
        self,
        observation: Any,
        state: Any,
        episode_start: Any,
        names: Sequence[str] | None,  # of an observation's columns, for the error
        choose: Callable[[FloatArray], NDArray[Any]],  # what to do in whole states
    ) -> tuple[NDArray[Any], FloatArray]:
        """Actions for observations, (d_o,) or (m, d_o), and the `state` they leave."""
        observed = checked_observation(observation, self.layout.n_observed, names)
        seen = self.recall(observed, state, episode_start)
        is_single = observed.ndim == 1
        actions = choose(seen[0] if is_single else seen)
        past = self.layout.after(seen, actions)
        self._kept = past if is_single and state is None else None
        return actions, past[0].copy() if is_single else past

    def recall(
        self, observation: FloatArray, state: Any = None, episode_start: Any = None
    ) -> FloatArray:
        """Observations, (d_o,) or (m, d_o), with their past, (m, width)."""
        # A `state` of None is what was kept for one observation, and starts an episode for several.
        present = np.atleast_2d(observation)
        starts = self._starts(len(present), episode_start)
        past = self.layout.begin(present)
        if state is not None:
            past = np.where(starts[:, None], past, self._past(len(present), state))
        elif observation.ndim == 1:
            if self._kept is not None and not starts[0]:
                past = self._kept
        elif episode_start is None:
            warn(
                f"Of {len(present)} observations without `state` each is taken as the "
                "first of an episode, since this policy acts on the past too; pass the "
                "`state` that `predict` returned, and `episode_start` at the first."
            )
        return self.layout.join(present, past)

    def _starts(self, m: int, episode_start: Any) -> BoolArray:
        found = np.asarray(False if episode_start is None else episode_start)
        if found.size not in (1, m) or found.dtype.kind not in "biu":
            raise DataError(
                f"`episode_start` must be one True or False per observation, ({m},), "
                f"got {episode_start!r}; pass np.ones({m}, dtype=bool) at the first."
            )
        return np.broadcast_to(found.astype(bool).reshape(-1), (m,))

    def _past(self, m: int, state: Any) -> FloatArray:
        try:
            found = np.asarray(state, dtype=np.float64).reshape(m, self.layout.n_kept)
        except (TypeError, ValueError):
            found = np.full((1, 1), np.nan)
        if not np.isfinite(found).all():
            raise DataError(
                f"`state` must be what `predict` returned for the {m} observations of the step "
                f"before, ({m}, {self.layout.n_kept}) finite numbers, got {type(state).__name__} "
                f"of shape {np.shape(state)}; pass None to start an episode."
            )
        return found

"""A guard: the learned policy where data back it, another controller elsewhere."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.predict import EpisodeBuffer
from nopg.fitted.sign_off import guard_distance


class SafePolicy:
    """Acts like `model` near the data and like `fallback` far from them.

    Far means that the nearest sample to (state, action) is more than `threshold` bandwidths away.

    Args:
        policy: A fitted policy that holds its data.
        fallback: A function from one observation to one action, or anything with such a `predict`.
        threshold: Largest distance to the nearest sample, in bandwidths. "auto" is that which 99 of
            100 transitions of the data have from each other, at least 1; of `learn` also that of
            held-out episodes from the others, where replay shows them predicted (`policy.check`).

    Attributes:
        threshold: The threshold in use.
        decisions: Actions asked for so far.
        interventions: How many of them came from the fallback.

    Example:
        >>> safe = nopg.SafePolicy(policy, fallback=lambda observation: [0.0])
        >>> safe.predict([100.0, 100.0])[0]  # nothing was logged there
        array([0.])
        >>> safe.interventions
        1
    """

    def __init__(
        self, policy: FittedPolicy, fallback: Any, threshold: float | str = "auto"
    ) -> None:
        if not callable(fallback) and not hasattr(fallback, "predict"):
            raise ConfigError(
                "`fallback` must be a function of an observation or have `predict`, "
                f"got {type(fallback).__name__}; pass for example lambda s: [0.0]."
            )
        if threshold == "auto":
            threshold = guard_distance(policy)
        if not isinstance(threshold, (int, float)) or not threshold > 0.0:
            raise ConfigError(f'`threshold` must be positive or "auto", got {threshold!r}; try 3.')
        self.threshold = float(threshold)
        self.decisions = self.interventions = 0
        self._policy, self._fallback = policy, fallback
        self._buffer = None if policy.memory is None else EpisodeBuffer(policy.memory)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], Any]:
        """Actions for one observation or a batch, as in stable-baselines3.

        A policy with memory remembers the actions that were taken, be they its own or those of the
        fallback; `state` and `episode_start` are as in its `predict`.
        """
        names = self._policy.observation_names
        choose = partial(self._guarded, observation, deterministic=deterministic)
        if self._buffer is None:
            return choose(observation), state
        return self._buffer.act(observation, state, episode_start, names, choose)

    def reset(self) -> None:
        """Start a new episode with the next `predict`, where no state is handed in."""
        if self._buffer is not None:
            self._buffer.reset()

    def _guarded(self, observation: Any, seen: Any, deterministic: bool) -> NDArray[Any]:
        """The policy's actions at what it has seen, or the fallback's, counted."""
        actions = np.array(self._policy.predict(seen, deterministic=deterministic)[0])
        rows, other = np.atleast_2d(observation), self._fallback
        taken = actions[None] if np.ndim(observation) == 1 else actions  # changed in place
        is_far = self._policy.support(seen, taken).distance > self.threshold
        self.decisions += len(is_far)
        self.interventions += int(is_far.sum())
        for i in np.nonzero(is_far)[0]:
            chosen = other.predict(rows[i])[0] if hasattr(other, "predict") else other(rows[i])
            if (action := np.asarray(chosen, dtype=taken.dtype)).shape != taken.shape[1:]:
                raise ConfigError(
                    f"`fallback` must return an action of shape {taken.shape[1:]}, it "
                    f"returned {action.shape}; return one action for one observation."
                )
            taken[i] = action
        return actions

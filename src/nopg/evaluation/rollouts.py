"""Where the policy will be after each step, and the regions it may enter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg.data.validation import BoolArray, FloatArray, IntArray
from nopg.errors import ConfigError

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Rollouts:
    """Where the policy is predicted to be after each step.

    Attributes:
        states: Places it can be after 1, 2, ... steps, (T, P, d_s); (1, P, d_s) if always the same.
        weights: Probability of each place after each step, (T, P). A row sums to the probability
            that the task has not ended before that step.
        initial: The states it starts from, each as likely, (B, d_s).
        by: Who predicts: "kernel" or "model".
    """

    states: FloatArray
    weights: FloatArray
    initial: FloatArray
    by: str

    @property
    def running(self) -> FloatArray:
        """Probability that each step is made at all, (T,)."""
        return np.asarray(self.weights.sum(axis=1))

    @property
    def mean(self) -> FloatArray:
        """Mean state after each step, of the runs that make it, (T, d_s)."""
        total = np.maximum(self.running, TINY)
        return np.asarray((self.weights[:, None] @ self.states)[:, 0] / total[:, None])

    def visits(self, gamma: float) -> tuple[FloatArray, FloatArray]:
        """Places, initial ones last, (m, d_s), and their discounted visits, (m,)."""
        weights = self.weights * (gamma ** np.arange(1.0, len(self.weights) + 1.0))[:, None]
        if len(self.states) == 1:
            weights = weights.sum(axis=0)
        starts = np.full(len(self.initial), 1.0 / len(self.initial))
        places = self.states.reshape(-1, self.states.shape[2])
        return np.vstack([places, self.initial]), np.append(weights.ravel(), starts)

    def quantiles(self, levels: Any) -> FloatArray:
        """Quantiles of each state dimension after each step, (levels, T, d_s)."""
        every = np.broadcast_to(self.states, (*self.weights.shape, self.states.shape[2]))
        order = np.argsort(every, axis=1, kind="stable")
        risen = np.cumsum(np.take_along_axis(self.weights[..., None], order, 1), axis=1)
        risen /= np.maximum(risen[:, -1:], TINY)
        ranks = [(risen < level).sum(axis=1).clip(max=risen.shape[1] - 1) for level in levels]
        found = np.take_along_axis(np.take_along_axis(every, order, 1), np.stack(ranks, 1), 1)
        return np.moveaxis(found, 1, 0)

    def __repr__(self) -> str:
        n_steps, n_places = self.weights.shape
        return (
            f"Rollouts({n_steps} steps over {n_places} places, "
            f"{self.running[-1]:.0%} still running at the end, by {self.by})"
        )


def evenly_drawn(weights: FloatArray, n: int) -> IntArray:
    """Rows drawn n times as often as their share of the weights, in order, (n,)."""
    even = (np.arange(n) + 0.5) / n
    return np.searchsorted(np.cumsum(weights) / weights.sum(), even).clip(max=len(weights) - 1)


TERMINATED = "terminated"  # the region that is entered when the task ends for good
Membership = Callable[[FloatArray], BoolArray]  # (m, d_s) to (m,)
Region = Membership | None  # None is the task's end


def membership(region: Any, d_s: int) -> Region:
    """What a user may call a region, as a checked function; None for the task's end."""
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
    if not low.shape == high.shape == (d_s,) or not (low <= high).all():
        raise ConfigError(
            f"`region` must have {d_s} lower and {d_s} upper ends, none below its lower one, got "
            f"{low.tolist()} and {high.tolist()}; use -inf and inf where nothing matters."
        )
    return lambda states: np.asarray(((states >= low) & (states <= high)).all(axis=1))


def _predicate(region: Callable[..., Any]) -> Membership:
    def inside(states: FloatArray) -> BoolArray:
        try:
            found = np.asarray(region(states))
        except Exception as error:
            raise ConfigError(
                f"`region` must take states {states.shape}, it raised {type(error).__name__}: "
                f"{error}; write it for rows of states, such as lambda s: s[:, 0] > 1."
            ) from error
        if found.shape != (len(states),) or found.dtype.kind != "b":
            raise ConfigError(
                f"`region` must return one True or False per state, ({len(states)},), it returned "
                f"shape {found.shape} of {found.dtype}; compare whole columns, such as s[:, 0] > 1."
            )
        return found

    return inside

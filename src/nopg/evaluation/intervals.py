"""Answers with intervals: an estimate, its ends, and how far it may be off."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import stdtr, stdtrit

from nopg.errors import ConfigError
from nopg.policies.arrays import Array


@dataclass(frozen=True)
class Estimate:
    """What a policy is expected to do, between two ends.

    Attributes:
        value: The estimate: a number, or one per state, (m,).
        low: Lower end, likewise; None where no interval was asked for.
        high: Upper end, likewise.
        level: How often the truth is meant to lie between, such as 0.95.
        by: Who says so: "kernel", the Bellman equation of kernel regression, or "model", rollouts
            in learned models of the system.
        noise: Standard deviation of single runs around the value, because the system does not act
            the same way twice; None if nobody looked.
        model: Standard deviation of the value itself, because the data leave the system open.
        known: Whether the data say anything of every state; where not, `low` and `high` are NaN.
        reason: Why not, in a sentence.
    """

    value: Any
    low: Any
    high: Any
    level: float | None
    by: str = "kernel"
    noise: Any = None
    model: Any = None
    known: bool = True
    reason: str = ""

    @classmethod
    def without_ends(cls, value: Any, by: str) -> Self:
        """A value alone."""
        return cls(value, None, None, None, by)

    def single(self) -> Self:
        """The same with numbers in place of arrays of one entry."""
        found = {name: getattr(self, name) for name in ("value", "low", "high", "noise", "model")}
        numbers: Any = {k: float(np.ravel(x)[0]) for k, x in found.items() if x is not None}
        return replace(self, **numbers)

    def as_unknown(self, reason: str, where: Any = True) -> Self:
        """The same without ends, at some states or all, where nothing is known."""
        low, high = (np.where(where, np.nan, end) for end in (self.low, self.high))
        return replace(self, low=low, high=high, known=False, reason=reason)

    def informative(self, possible: tuple[float, float]) -> Self:
        """The same; without ends where these are all that is possible anyway."""
        if self.low is None:
            return self
        is_all = (self.low <= possible[0]) & (self.high >= possible[1])
        if not np.any(is_all):
            return self
        reason = "The return is as open as the rewards; record transitions near the policy's path."
        return self.as_unknown(reason, is_all)

    def __repr__(self) -> str:
        value = np.ravel(self.value)
        if not self.known:
            return f"unknown (by {self.by}): {self.reason}"
        if self.low is None or self.level is None:
            return f"{', '.join(f'{v:.4g}' for v in value)} (by {self.by})"
        rows = zip(value, np.ravel(self.low), np.ravel(self.high), strict=True)
        shown = ", ".join(f"{v:.4g} [{low:.4g}, {high:.4g}]" for v, low, high in rows)
        return f"{shown} ({self.level:.0%}, by {self.by})"


@dataclass(frozen=True)
class Spread:
    """How far m answers may be off, for lack of data and for lack of paths.

    What lack of data leaves open is asked of models drawn from the posterior and of models without
    a part of the data each; each knows of errors that the other does not, so that squares add up.
    What gaps between the rows may hide counts where it is more than that: of a kink an error as
    wide as the gap, so that where answers change with gaps twice as wide, half of the change.
    """

    deviations: Array  # answers in drawn models less the answers themselves, (S, m)
    scale: float  # what replay of held-out data found bands to be too narrow by
    errors: Array  # standard errors of other kinds, (m,)
    left_out: Array | None = None  # answers in models without a part of the data each, (K, m)
    gaps: Array | None = None  # answers in models with wider gaps, (K, m)
    freedom: float = 0.0  # degrees of freedom; 0 for those of the models

    @property
    def std(self) -> Array:
        """Standard deviation for lack of data, (m,)."""
        return self._with_others(self.scale * np.sqrt(np.square(self.deviations).mean(axis=0)))

    def ends(self, value: Array, level: float) -> tuple[Array, Array]:
        """Lower and upper end, of Student's distribution with a side each."""
        width = stdtrit(self.degrees, 0.5 + 0.5 * level)
        below, above = self._sides
        return value - width * below, value + width * above

    def probability_below(self, value: Array, limit: float) -> Array:
        """How likely the truth lies below a limit, (m,)."""
        below, above = self._sides
        std = np.maximum(np.where(value > limit, below, above), 1e-300)
        return np.asarray(stdtr(self.degrees, (limit - value) / std))

    @property
    def degrees(self) -> float:
        """Degrees of freedom: of the fewer squares that tell how far answers differ."""
        found = len(self.deviations)
        if self.left_out is not None and len(self.left_out) > 2:  # the largest does not count
            found = min(found, len(self.left_out) - 1)
        return self.freedom or found - 1.0

    def _with_others(self, drawn: Array) -> Array:
        """What else lack of data leaves open, beside what drawn models say, (m,)."""
        found = np.hypot(drawn, 0.0 if self.left_out is None else jackknife_std(self.left_out))
        if self.gaps is not None and len(self.gaps):
            changes = np.abs(self.gaps - np.median(self.gaps, axis=0))
            found = np.maximum(found, 0.5 * changes.max(axis=0))
        return np.asarray(found)

    @property
    def _sides(self) -> tuple[Array, Array]:
        """Standard deviations downwards and upwards, (m,) each."""
        # Deviations to one side count on that side; those to the other count half of themselves
        # there, since a few draws may all lie on one side by chance.
        found = []
        for sign in (-1.0, 1.0):
            ours = np.where(sign * self.deviations > 0.0, 1.0, 0.5)
            square = np.square(self.scale * ours * self.deviations).mean(axis=0)
            share = np.square(ours).mean(axis=0)
            found.append(np.hypot(self._with_others(np.sqrt(square / share)), self.errors))
        return found[0], found[1]


def jackknife_std(answers: Array) -> Array:
    """Standard error of an answer from those without each of K parts, (K, m) to (m,).

    sqrt((K - 1) / K sum_k (x_k - mean)^2), Efron and Tibshirani 1993, Eq. 11.5, but around the
    median and without the largest: one part may hold all there is of a place.
    """
    others = np.sort(np.square(answers - np.median(answers, axis=0)), axis=0)[:-1]
    # If they are normal, the root over all of ten is 1.21 times that without the largest.
    return np.asarray(1.21 * np.sqrt(others.sum(axis=0)))


def require_level(level: float) -> float:
    """The level, if it is one."""
    if not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
        raise ConfigError(f"`interval` must lie between 0 and 1, got {level!r}; 0.95 is usual.")
    return float(level)

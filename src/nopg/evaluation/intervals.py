"""Answers with intervals: the same question put to replicas and to other row models.

Three things can be wrong with an answer. Other data of the same kind would have given
another one: the spread of bootstrap replicas. Smoothing has a bias, which no resampling
shows and which on coarse data is the larger by far: the distance to what wider and
centred rows answer. And where no sample is near, the answer is not known at all. The
interval reaches from the lowest to the highest model, and further on both sides,

    [min - pad - (v - worst) unknown, max + pad + (best - v) unknown],
    pad = z sqrt(spread^2 + ((max - min) / 2)^2),   unknown = sum_x w_x u_x,

where w_x is how often, discounted, the policy asks at the query x, u_x goes from 0 to 1
as the distance of x from the data exceeds what is usual among the data themselves, and
worst and best are what the lowest and the highest reward seen, for ever, come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.errors import ConfigError

BIAS = 0.5
"""Standard deviation of what smoothing still hides, as a share of what the models show
of it: they remove a part of the bias, and agree with the plain rows on the rest."""


@dataclass(frozen=True)
class Interval:
    """Estimates, each between two ends that hold the truth with a given frequency.

    Attributes:
        value: The estimates, as without an interval, (m,).
        low: Lower ends, (m,).
        high: Upper ends, (m,).
        level: How often the truth is meant to lie between, such as 0.95.
    """

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    level: float

    def __repr__(self) -> str:
        rows = zip(self.value, self.low, self.high, strict=True)
        shown = ", ".join(f"{v:.4g} [{low:.4g}, {high:.4g}]" for v, low, high in rows)
        return f"{shown} ({self.level:.0%})"


@dataclass(frozen=True)
class Answers:
    """What the estimator, its replicas and the other models say to one question.

    Attributes:
        value: Answers of the plain chain, (m,).
        replicas: Of its replicas, (m, b).
        models: Of every other row model, (m,) each.
        possible: Lowest and highest answer there can be.
        unknown: Visits to places without data, (m,) or a scalar.
    """

    value: Tensor
    replicas: Tensor
    models: list[Tensor]
    possible: tuple[float, float]
    unknown: Tensor | float = 0.0

    def interval(self, level: float) -> Interval:
        """The ends, kept within what is possible."""
        z = NormalDist().inv_cdf(0.5 + 0.5 * level)
        every = torch.stack([self.value, *self.models])  # (1 + models, m)
        low, high = every.amin(dim=0), every.amax(dim=0)
        bias = (BIAS * (high - low)).square()
        pad = z * (self.replicas.var(dim=1) + bias).sqrt()
        worst, best = self.possible
        low = low - pad - self.unknown * (self.value - worst).clamp(min=0.0)
        high = high + pad + self.unknown * (best - self.value).clamp(min=0.0)
        # An answer outside what is possible, by rounding, stays inside its interval.
        low = torch.minimum(low.clamp(min=worst), self.value)
        high = torch.maximum(high.clamp(max=best), self.value)
        ends = [x.double().cpu().numpy() for x in (self.value, low, high)]
        return Interval(ends[0], ends[1], ends[2], level)


def require_level(level: float) -> float:
    """The level, if it is one.

    Raises:
        ConfigError: If it does not lie between 0 and 1.
    """
    if not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
        raise ConfigError(
            f"`interval` must lie between 0 and 1, got {level!r}; 0.95 holds the truth "
            "19 times in 20."
        )
    return float(level)

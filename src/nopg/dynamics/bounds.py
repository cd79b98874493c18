"""Where the data have been, and when a path has left it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.dynamics.angles import NO_ANGLES, Angles
from nopg.dynamics.saturation import Walls

MARGIN = 0.1
"""How far beyond the data a regression is believed, as a share of their range."""


@dataclass(frozen=True)
class Box:
    """The smallest box around all states seen, a little enlarged.

    At a wall of the system states stop. Elsewhere a prediction just beyond the box may
    be an error of the regression, and is set back; one that moves out at the pace at
    which the system usually moves is not: it goes where no data are.

    Attributes:
        low: Lower end in each dimension, (d_s,).
        high: Upper end, (d_s,).
        walls: Which of these ends are walls.
        angles: Which columns are cosines and sines.
        pace: Root mean square of the steps seen, (d_s,).
    """

    low: Tensor
    high: Tensor
    walls: Walls
    angles: Angles
    pace: Tensor

    @classmethod
    def around(
        cls,
        states: Tensor,
        next_states: Tensor,
        walls: Walls,
        angles: Angles = NO_ANGLES,
    ) -> Box:
        """The box of n transitions, two (n, d_s), with these walls and angles."""
        both = torch.cat([states, next_states])
        pace = (next_states - states).square().mean(dim=0).sqrt()
        # What hardly moves says nothing about how fast it may.
        is_still = pace <= 1e-9 * both.abs().amax(dim=0)
        pace = torch.where(is_still, torch.ones_like(pace), pace)
        low, high = both.amin(dim=0), both.amax(dim=0)
        border = MARGIN * (high - low)
        low = torch.where(walls.is_low, low, low - border)
        high = torch.where(walls.is_high, high, high + border)
        return cls(low, high, walls, angles, pace)

    def confine(self, states: Tensor) -> Tensor:
        """Where steps end that would reach `states`: stopped by walls, in the box."""
        if self.walls.are_there:
            states = self.walls.stop(states, self.low, self.high)
        return torch.maximum(torch.minimum(states, self.high), self.low)

    def settle(self, states: Tensor) -> Tensor:
        """The same, with angles on their circles."""
        return self.angles.settle(self.confine(states))

    def settle_slope(self, states: Tensor) -> Tensor:
        """d settle / d states, (m, d_s, d_s)."""
        confined = self.confine(states)
        is_free = (confined == states).to(states)
        return self.angles.slopes(confined) * is_free[:, None]

    def are_stopped(self, states: Tensor) -> Tensor:
        """Which states are at a wall, (m,)."""
        at_low = (states <= self.low) & self.walls.is_low
        at_high = (states >= self.high) & self.walls.is_high
        return (at_low | at_high).any(dim=1)

    def lost(self, states: Tensor) -> Tensor:
        """Probability that a path ends here because nobody knows what follows, (m,).

            1 - exp(-1/2 sum_d (distance from the box / pace)_d^2)

        It is smooth, so that a gradient leads back.
        """
        return -torch.expm1(-0.5 * self._beyond(states).square().sum(dim=1))

    def lost_slope(self, states: Tensor) -> Tensor:
        """d lost / d state, (m, d_s)."""
        beyond = self._beyond(states)
        kept = torch.exp(-0.5 * beyond.square().sum(dim=1))
        return kept[:, None] * beyond / self.pace

    def _beyond(self, states: Tensor) -> Tensor:
        """Signed distance from the box in steps, 0 within it and at walls, (m, d_s)."""
        below = (states - self.low).clamp_max(0.0) * ~self.walls.is_low
        above = (states - self.high).clamp_min(0.0) * ~self.walls.is_high
        return (below + above) / self.pace

"""Walls of a system: values that states never pass and that some stop at exactly.

A car stops at the end of its track, a motor at its top speed. The law of motion breaks
there, and a smooth regression of both sides of the break is wrong on both. So steps
into a wall are told apart: the regression learns free motion, and the wall is put back
afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.dynamics.angles import NO_ANGLES, Angles

MIN_HITS = 2
"""Different steps that must end at exactly the same extreme value before it counts as
a wall: numbers that vary freely never meet."""
MAX_SHARE = 0.3
"""Largest share of steps that may end there: flags and levels are no walls."""


@dataclass(frozen=True)
class Walls:
    """What stops a state, by dimension, and what stopping does to the others.

    Attributes:
        is_low: Whether the smallest value of each dimension is a wall, (d_s,).
        is_high: Whether the largest is, (d_s,).
        is_set: Whether a stop at the lower (0) or upper (1) wall of one dimension
            always leaves another at one value, (2, d_s, d_s).
        set_to: That value, likewise.
    """

    is_low: Tensor
    is_high: Tensor
    is_set: Tensor
    set_to: Tensor

    @classmethod
    def of(
        cls,
        states: Tensor,
        actions: Tensor,
        next_states: Tensor,
        angles: Angles = NO_ANGLES,
    ) -> tuple[Walls, Tensor]:
        """Walls of n transitions, and which of their steps ended at one, (n,).

        A cosine of 1 is the turning point of a circle, no wall.
        """
        both = torch.cat([states, next_states])
        hits = torch.stack(
            [next_states == both.amin(dim=0), next_states == both.amax(dim=0)]
        )
        inputs = torch.cat([states, actions], dim=1)
        counts = torch.tensor([[_count(inputs[h]) for h in side.T] for side in hits])
        is_few = hits.sum(dim=1) <= MAX_SHARE * len(states)
        is_wall = (counts >= MIN_HITS) & is_few  # (2, d_s)
        is_wall[:, [*angles.first, *angles.second]] = False
        hits &= is_wall[:, None]
        stopped = hits.any(dim=2).any(dim=0)
        if float(stopped.double().mean()) > MAX_SHARE:
            is_wall, hits = torch.zeros_like(is_wall), torch.zeros_like(hits)
            stopped = torch.zeros_like(stopped)
        is_set, set_to = _resets(next_states, hits, is_wall)
        return cls(is_wall[0], is_wall[1], is_set, set_to), stopped

    @property
    def are_there(self) -> bool:
        """Whether there is any."""
        return bool(self.is_low.any() or self.is_high.any())

    def stop(self, reached: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Where steps end that would reach `reached`, (m, d_s), but for the walls."""
        beyond = torch.stack(
            [(reached <= low) & self.is_low, (reached >= high) & self.is_high]
        )
        stopped = reached.clone()
        for side, dimension in torch.nonzero(self.is_set.any(dim=2)).tolist():
            others = self.is_set[side, dimension]
            row = beyond[side, :, dimension]
            stopped[row.nonzero(), others] = self.set_to[side, dimension, others]
        return stopped


def _count(rows: Tensor) -> int:
    """Different rows: a system that repeats itself meets its own extremes again."""
    return len(torch.unique(rows, dim=0)) if len(rows) > 1 else len(rows)


def _resets(
    next_states: Tensor, hits: Tensor, is_wall: Tensor
) -> tuple[Tensor, Tensor]:
    """Which other dimensions each wall sets to a value of its own, and to which."""
    d_s = next_states.shape[1]
    is_set = torch.zeros(2, d_s, d_s, dtype=torch.bool)
    set_to = torch.zeros(2, d_s, d_s).to(next_states)
    width = next_states.amax(dim=0) - next_states.amin(dim=0)
    for side, dimension in torch.nonzero(is_wall).tolist():
        after = next_states[hits[side, :, dimension]]
        spread = after.amax(dim=0) - after.amin(dim=0)
        is_set[side, dimension] = (spread <= 1e-6 * width) & (width > 0)
        is_set[side, dimension, dimension] = False
        set_to[side, dimension] = after.mean(dim=0)
    return is_set, set_to

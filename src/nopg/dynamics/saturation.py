"""Saturation: values that states never pass and that some stop at exactly.

A car stops at the end of its track, a motor at its top speed. The law of motion breaks
there, and a smooth regression of both sides of the break is wrong on both. So saturated
steps are set apart: the regression learns free motion, and saturation is applied to
its predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MIN_STEPS = 2
"""Different steps that must end at exactly the same extreme value before it counts as
saturation: numbers that vary freely never meet."""
MAX_SHARE = 0.3
"""Largest share of steps that may end there: flags and levels do not saturate."""


@dataclass(frozen=True)
class Saturation:
    """Which bounds stop a state, by dimension, and what that does to the others.

    Attributes:
        is_low: Whether the smallest value of each dimension saturates, (d_s,).
        is_high: Whether the largest does, (d_s,).
        is_set: Whether saturation at the lower (0) or upper (1) bound of one dimension
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
        exempt: Sequence[int] = (),
    ) -> tuple[Saturation, Tensor]:
        """Saturation of n transitions, and which of them are saturated, (n,).

        `exempt` are dimensions that do not saturate: a cosine of 1 is the turning
        point of a circle.
        """
        both = torch.cat([states, next_states])
        hits = torch.stack(
            [next_states == both.amin(dim=0), next_states == both.amax(dim=0)]
        )
        inputs = torch.cat([states, actions], dim=1)
        counts = torch.tensor([[_count(inputs[h]) for h in side.T] for side in hits])
        is_few = hits.sum(dim=1) <= MAX_SHARE * len(states)
        stops = (counts >= MIN_STEPS) & is_few  # (2, d_s)
        stops[:, list(exempt)] = False
        hits &= stops[:, None]
        is_saturated = hits.any(dim=2).any(dim=0)
        if float(is_saturated.double().mean()) > MAX_SHARE:
            stops, hits = torch.zeros_like(stops), torch.zeros_like(hits)
            is_saturated = torch.zeros_like(is_saturated)
        is_set, set_to = _resets(next_states, hits, stops)
        return cls(stops[0], stops[1], is_set, set_to), is_saturated

    @property
    def exists(self) -> bool:
        """Whether any dimension saturates."""
        return bool(self.is_low.any() or self.is_high.any())

    def reset(self, reached: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """States `reached`, (m, d_s), with what their saturated dimensions set."""
        beyond = torch.stack(
            [(reached <= low) & self.is_low, (reached >= high) & self.is_high]
        )
        after = reached.clone()
        for side, dimension in torch.nonzero(self.is_set.any(dim=2)).tolist():
            others = self.is_set[side, dimension]
            row = beyond[side, :, dimension]
            after[row.nonzero(), others] = self.set_to[side, dimension, others]
        return after


def _count(rows: Tensor) -> int:
    """Different rows: a system that repeats itself meets its own extremes again."""
    return len(torch.unique(rows, dim=0)) if len(rows) > 1 else len(rows)


def _resets(next_states: Tensor, hits: Tensor, stops: Tensor) -> tuple[Tensor, Tensor]:
    """Which other dimensions each bound sets to a value of its own, and to which."""
    d_s = next_states.shape[1]
    is_set = torch.zeros(2, d_s, d_s, dtype=torch.bool)
    set_to = torch.zeros(2, d_s, d_s).to(next_states)
    width = next_states.amax(dim=0) - next_states.amin(dim=0)
    for side, dimension in torch.nonzero(stops).tolist():
        after = next_states[hits[side, :, dimension]]
        spread = after.amax(dim=0) - after.amin(dim=0)
        is_set[side, dimension] = (spread <= 1e-6 * width) & (width > 0)
        is_set[side, dimension, dimension] = False
        set_to[side, dimension] = after.mean(dim=0)
    return is_set, set_to

"""State bounds: where predicted states can be, and when they are out of support.

A car stops at the end of its track, a motor at its top speed: states saturate. The law of motion
breaks there, and a smooth regression of both sides of the break is wrong on both. So the regression
learns free motion, and saturation is applied to its predictions. Other states lie on a circle,
where two columns are the cosine and the sine of an angle: off it small errors add up until a
rollout has left it for good. So predictions are projected.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.data.validation import angle_pairs

MIN_STEPS = 2
"""Different steps that must end at exactly the same extreme value before it counts as
saturation: numbers that vary freely never meet."""
MORE, USUAL = 4.0, 0.8
"""How much more often it must come again than the values of this share of the rows do:
an encoder's steps make every value come again."""
MAX_SHARE = (
    0.3  # share of steps that end there, of more of which rows are learned from all the same
)
MANY_ENDS = 0.1  # share of the ends from which on a switch that is on there says impact
MARGIN = 0.1
"""How far beyond the data a regression is believed, as a share of their range: the
best reward of a log is seldom the best there is."""


@dataclass(frozen=True)
class Saturation:
    """Which bounds stop a state, by dimension, and what that does to the others."""

    is_low: Tensor  # whether the smallest value of each dimension saturates, (d_s,)
    is_high: Tensor  # whether the largest does, (d_s,)
    # Whether saturation at the lower (0) or upper (1) bound of one dimension always leaves another
    # at one value, (2, d_s, d_s).
    is_set: Tensor
    set_to: Tensor  # that value, likewise
    is_usual: Tensor  # bounds that many rows are at: too many not to learn from them, (2, d_s)

    @classmethod
    def of(
        cls, states: Tensor, actions: Tensor, next_states: Tensor, exempt: Sequence[int] = ()
    ) -> tuple["Saturation", Tensor]:
        """Saturation of n transitions, and which of them are saturated, (n,)."""
        # `exempt` dimensions do not saturate: a cosine of 1 is the turning point of a circle.
        both = torch.cat([states, next_states])
        hits = torch.stack([next_states == both.amin(dim=0), next_states == both.amax(dim=0)])
        x = torch.cat([states, actions], dim=1)
        # Different rows: a system that repeats itself meets its own extremes again.
        counts = torch.tensor([[len(torch.unique(x[h], dim=0)) for h in side.T] for side in hits])
        stops = counts >= MIN_STEPS  # (2, d_s)
        stops &= counts - 1 > MORE * _usual_repeats(next_states, stops.any(dim=0))
        stops[:, list(exempt)] = False
        # A sun that is down at night, an empty store. Of flags and constants it says nothing.
        is_flag = (both == both.amin(dim=0)) | (both == both.amax(dim=0))
        is_usual = stops & (hits.sum(dim=1) > MAX_SHARE * len(states))
        stops, is_usual = stops & ~is_usual, is_usual & ~is_flag.all(dim=0)
        hits &= stops[:, None]
        is_saturated = hits.any(dim=2).any(dim=0)
        is_share = is_saturated.double().mean() <= MAX_SHARE
        stops, hits, is_saturated = stops & is_share, hits & is_share, is_saturated & is_share
        is_set, set_to = _resets(next_states, hits, stops)
        stops |= is_usual
        return cls(stops[0], stops[1], is_set, set_to, is_usual), is_saturated

    @property
    def exists(self) -> bool:
        """Whether any dimension saturates."""
        return bool(self.is_low.any() or self.is_high.any())

    def reset(self, reached: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """States `reached`, (m, d_s), with what their saturated dimensions set."""
        beyond = torch.stack([(reached <= low) & self.is_low, (reached >= high) & self.is_high])
        after = reached.clone()
        for side, dimension in torch.nonzero(self.is_set.any(dim=2)).tolist():
            others, row = self.is_set[side, dimension], beyond[side, :, dimension]
            after[row.nonzero(), others] = self.set_to[side, dimension, others]
        return after


@dataclass(frozen=True)
class StateBounds:
    """The smallest box around all states seen, a little enlarged.

    Where the system saturates, states stop at the bound. Elsewhere a prediction just beyond may be
    an error of the regression, and is clipped; by as much as a usual step it is out of support.
    """

    low: Tensor  # of each dimension, (d_s,)
    high: Tensor  # (d_s,)
    saturation: Saturation  # which of these bounds stop states
    angles: tuple[tuple[int, int], ...]  # pairs of columns that are cosine and sine
    typical_step: Tensor  # root mean square of the steps seen, (d_s,)
    is_switch: Tensor  # which dimensions have two values, one of them seldom, (d_s,)

    @classmethod
    def of(
        cls, states: Tensor, actions: Tensor, next_states: Tensor, n_present: int | None = None
    ) -> tuple["StateBounds", Tensor]:
        """Bounds of n transitions, and which of these are saturated, (n,)."""
        # Columns from `n_present` on are past ones: where they have been says nothing that was not
        # said when they were present, and they have no bounds.
        both = torch.cat([states, next_states])
        angles = tuple(angle_pairs(both[:, :n_present]))
        columns = [column for pair in angles for column in pair]
        is_past = torch.arange(states.shape[1]) >= (n_present or states.shape[1])
        columns += torch.nonzero(is_past)[:, 0].tolist()
        saturation, is_saturated = Saturation.of(states, actions, next_states, columns)
        saturation.is_set[:, :, is_past] = False
        step = (next_states - states).square().mean(dim=0).sqrt()
        # What hardly moves says nothing about how fast it may.
        step = torch.where(step <= 1e-9 * both.abs().amax(dim=0), torch.ones_like(step), step)
        low, high = both.amin(dim=0), both.amax(dim=0)
        is_switch = ((both == low) | (both == high)).all(dim=0)
        is_switch &= saturation.is_low | saturation.is_high
        margin = MARGIN * (high - low)
        margin[is_past], margin[is_switch] = torch.inf, 0.0
        low = torch.where(saturation.is_low, low, low - margin)
        high = torch.where(saturation.is_high, high, high + margin)
        return cls(low, high, saturation, angles, step, is_switch), is_saturated

    def impact_step(self, next_states: Tensor, terminations: Tensor) -> Tensor | None:
        """The typical step if a switch that seldom is on, a contact, is on at many ends."""
        is_on = self.are_switched(next_states[terminations.bool()])
        return self.typical_step if int(is_on.sum()) > MANY_ENDS * len(is_on) else None

    def clip(self, states: Tensor) -> Tensor:
        """States within the bounds, with what saturation sets, (m, d_s)."""
        if self.saturation.exists:
            states = self.saturation.reset(states, self.low, self.high)
        return torch.maximum(torch.minimum(states, self.high), self.low)

    def project_angles(self, states: np.ndarray) -> np.ndarray:
        """States with angles on their circles, (m, d_s)."""
        projected = states.copy()
        for pair in map(list, self.angles):
            radius = np.maximum(np.sqrt(np.square(states[:, pair]).sum(axis=1)), 1e-9)
            projected[:, pair] = states[:, pair] / radius[:, None]
        return projected

    def projection_jacobian(self, states: Tensor) -> Tensor:
        """d project / d states, (m, d_s, d_s)."""
        # 0 where clipped; (1 - u u') / radius for the unit vector u of each angle.
        clipped = self.clip(states)
        jacobian = torch.eye(states.shape[1]).to(states).repeat(len(states), 1, 1)
        for i, j in self.angles:
            x, y = clipped[:, i], clipped[:, j]
            radius = (x.square() + y.square()).sqrt().clamp_min(1e-9)
            x, y = x / radius, y / radius
            jacobian[:, i, i] = y.square() / radius
            jacobian[:, j, j] = x.square() / radius
            jacobian[:, i, j] = jacobian[:, j, i] = -x * y / radius
        return jacobian * (clipped == states).to(states)[:, None]

    def are_left_out(self, next_states: Tensor) -> Tensor:
        """Which next states are at a bound that stops them, or beyond one, (m,)."""
        stops = self.saturation
        at_low = (next_states <= self.low) & stops.is_low & ~stops.is_usual[0]
        at_high = (next_states >= self.high) & stops.is_high & ~stops.is_usual[1]
        return (at_low | at_high).any(dim=1) | self.are_beyond(next_states)

    def are_beyond(self, states: Tensor) -> Tensor:
        """Which states lie where the model ends, at a break of the law, (m,)."""
        return ((states < self.low) | (states > self.high)).any(dim=1) | self.are_switched(states)

    def are_switched(self, states: Tensor) -> Tensor:
        """In which a switch is on that seldom is, as that of a leg on the ground, (m,)."""
        return (states != self.switched_off(states)).any(dim=1)

    def switched_off(self, states: Tensor) -> Tensor:
        """States with every switch as it mostly is, (m, d_s)."""
        usual = torch.where(self.saturation.is_high, self.low, self.high)
        return torch.where(self.is_switch, usual, states)

    def opened(self) -> "StateBounds":
        """The same without any bound but those that stop states."""
        low = torch.where(self.saturation.is_low, self.low, -torch.inf)
        high = torch.where(self.saturation.is_high, self.high, torch.inf)
        return replace(self, low=low, high=high)

    def ranges_beyond(self, states: np.ndarray) -> np.ndarray:
        """How far states, (..., d_s), are beyond the bounds, in ranges of the data, (...)."""
        low, high = self.low.numpy(), self.high.numpy()
        beyond = np.maximum(low - states, states - high).clip(0.0)  # 0 of the past, without bounds
        return np.asarray((beyond / np.maximum(high - low, 1e-300)).max(axis=-1))

    def out_of_support_gradient(self, states: Tensor) -> Tensor:
        """d out_of_support / d states, (m, d_s)."""
        below = (states - self.low).clamp_max(0.0) * ~self.saturation.is_low
        above = (states - self.high).clamp_min(0.0) * ~self.saturation.is_high
        beyond = (below + above) / self.typical_step
        return torch.exp(-0.5 * beyond.square().sum(dim=1))[:, None] * beyond / self.typical_step


class RewardBounds(NamedTuple):
    """What a regression may predict of steps after which the episode goes on.

    Without bounds a search finds the place where it promises more than was ever earned. A cost may
    well grow beyond what was seen; to be careful, there is room for as much again below.
    """

    low: float
    high: float
    seen: float  # the lowest

    @classmethod
    def of(cls, seen: Tensor) -> "RewardBounds":
        """Those of rewards seen, (n,), a little wider above and twice as wide below."""
        low, high = float(seen.min()), float(seen.max())
        return cls(2.0 * low - high, high + MARGIN * (high - low), low)

    def are_inside(self, clipped: Tensor) -> Tensor:
        """Where rewards within the bounds move with what they were clipped from."""
        return (clipped > self.low) & (clipped < self.high)


def _usual_repeats(states: Tensor, asked: Tensor) -> Tensor:
    """How often values between the extremes come again as a rule, by column asked for, (d_s,)."""
    found = states.new_zeros(states.shape[1])
    for d in torch.nonzero(asked)[:, 0].tolist():
        column = states[:, d]
        between = column[(column > column.min()) & (column < column.max())]
        if len(between):
            _, which, counts = torch.unique(between, return_inverse=True, return_counts=True)
            found[d] = counts[which].to(states).quantile(USUAL) - 1.0
    return found


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

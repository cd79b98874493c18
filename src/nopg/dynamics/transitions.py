"""The learned system: next state, reward and end of a step, with their slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.box import Box
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.walls import Walls

MAX_ENDS = 1024
"""Next states, terminal or not, that vote on whether a state ends the episode."""


class Step(NamedTuple):
    """One predicted step of a batch."""

    reached: Tensor  # (m, d_s), where the regression leads
    next_states: Tensor  # (m, d_s), the same where states can be
    rewards: Tensor  # (m,)
    ends: Tensor  # (m,), the probability that the episode ends
    lost: Tensor  # (m,), that of having left what the data show


class StepSlopes(NamedTuple):
    """How a predicted step moves with the state and the action before it."""

    reached: Tensor  # (m, d_s, d_s + d_a)
    next_states: Tensor  # (m, d_s, d_s), by the state reached
    rewards: Tensor  # (m, d_s + d_a)
    ends: Tensor  # (m, d_s), by the *next* state
    lost: Tensor  # (m, d_s), by the state reached


@dataclass(frozen=True)
class TransitionModel:
    """Gaussian processes of (s' - s, r) on (s, a); terminal neighbours vote on ends.

    Beyond the box the data have visited nobody knows: a path that leaves it is lost,
    and what it would have earned counts as the worst the data allow.

    Attributes:
        process: The regression.
        box: Where the data have been.
        rewards: Smallest and largest reward seen.
        ends: How episodes end, None if none of the data does.
    """

    process: GaussianProcess
    box: Box
    rewards: tuple[float, float]
    ends: EndVote | None

    @classmethod
    def fit(
        cls,
        states: Tensor,
        actions: Tensor,
        rewards: Tensor,
        next_states: Tensor,
        terminations: Tensor,
        *,
        generator: np.random.Generator,
        like: TransitionModel | None = None,
    ) -> TransitionModel:
        """Learn from n transitions, all float64; labels as one-hot actions.

        `like` is a model of more data of the same system: its box holds here too, and
        its length scales are a good start.
        """
        inputs = torch.cat([states, actions], dim=1)
        targets = torch.cat([next_states - states, rewards[:, None]], dim=1)
        if like is None:
            walls, stopped = Walls.of(states, actions, next_states)
            box = Box.around(states, next_states, walls)
        else:
            box, stopped = like.box, like.box.are_stopped(next_states)
        free = ~stopped
        process = GaussianProcess.fit(
            inputs[free],
            targets[free],
            generator,
            None if like is None else like.process,
        )
        seen = (float(rewards.min()), float(rewards.max()))
        ends = EndVote.of(next_states, terminations, generator)
        return cls(process, box, seen if like is None else like.rewards, ends)

    def worst_value(self, gamma: float) -> float:
        """The least a path can still earn: the lowest reward for ever, or an end."""
        forever = self.rewards[0] / (1.0 - gamma)
        return forever if self.ends is None else min(0.0, forever)

    def best_value(self, gamma: float, horizon: int) -> float:
        """The most a path of so many steps can earn: the largest reward throughout."""
        most = self.rewards[1] * (1.0 - gamma**horizon) / (1.0 - gamma)
        return most if self.ends is None else max(0.0, most)

    def step(self, states: Tensor, actions: Tensor) -> Step:
        """What the model expects of one step."""
        d_s = states.shape[1]
        predicted = self.process.predict(torch.cat([states, actions], dim=1))
        reached = states + predicted[:, :d_s]
        following = self.box.settle(reached)
        if self.ends is None:
            ends = torch.zeros(len(states)).to(states)
        else:
            ends = self.ends.probability(following)
        lost = self.box.lost(reached)
        return Step(reached, following, predicted[:, d_s], ends, lost)

    def slopes(self, states: Tensor, actions: Tensor, step: Step) -> StepSlopes:
        """Derivatives of `step(states, actions)`, which gave `step`."""
        d_s = states.shape[1]
        slopes = self.process.slopes(torch.cat([states, actions], dim=1))
        moving = slopes[:, :d_s].clone()
        moving[:, :, :d_s] += torch.eye(d_s).to(states)
        settling = self.box.settle_slope(step.reached)
        if self.ends is None:
            ends = torch.zeros_like(states)
        else:
            ends = torch.zeros_like(states)
            # Where all neighbours agree the slope is 0.
            is_open = (step.ends > 1e-15) & (step.ends < 1.0 - 1e-15)
            ends[is_open] = self.ends.slope(step.next_states[is_open])
        lost = self.box.lost_slope(step.reached)
        return StepSlopes(moving, settling, slopes[:, d_s], ends, lost)

    def doubt(self, states: Tensor, actions: Tensor) -> Tensor:
        """Largest deviation among the predictions, in deviations of the data, (m,)."""
        deviation = self.process.deviation(torch.cat([states, actions], dim=1))
        amplitude = self.process.amplitude.clamp_min(1e-300)
        return (deviation / amplitude).amax(dim=1)


@dataclass(frozen=True)
class EndVote:
    """Whether a state ends the episode: the share of terminal states around it."""

    points: Tensor  # (m, d_s), in units of `unit`
    is_end: Tensor  # (m,), 0 or 1
    unit: Tensor  # (d_s,)
    width: float

    @classmethod
    def of(
        cls, next_states: Tensor, terminations: Tensor, generator: np.random.Generator
    ) -> EndVote | None:
        """From next states (n, d_s) and flags (n,); None if nothing ended."""
        is_end = terminations.to(torch.bool)
        if not bool(is_end.any()):
            return None
        unit = next_states.std(dim=0, correction=0)
        unit = torch.where(unit > 1e-12, unit, torch.ones_like(unit))
        order = torch.as_tensor(generator.permutation(len(next_states)))
        order = _voters(next_states[order] / unit, is_end[order], order)
        points = next_states[order] / unit
        near = torch.cdist(points[-500:], points).topk(
            min(3, len(points)), largest=False
        )
        width = float(near.values[:, -1].median()) + 1e-6
        return cls(points, is_end[order].to(points), unit, width)

    def probability(self, states: Tensor) -> Tensor:
        """Weighted share of ends among the neighbours, (m,)."""
        return self._weights(states) @ self.is_end

    def slope(self, states: Tensor) -> Tensor:
        """d probability / d state, (m, d_s): a covariance under the weights."""
        weights = self._weights(states)
        share = weights * (self.is_end - (weights @ self.is_end)[:, None])
        return (share @ self.points) / (self.width**2 * self.unit)

    def _weights(self, states: Tensor) -> Tensor:
        distance = torch.cdist(states / self.unit, self.points) / self.width
        return torch.softmax(-0.5 * distance.square(), dim=1)


def _voters(points: Tensor, is_end: Tensor, names: Tensor) -> Tensor:
    """Names of at most `MAX_ENDS` points: ends, what is next to them, and the rest.

    The border between ends and others is where votes are close, so it is kept dense.
    """
    if len(points) <= MAX_ENDS:
        return names
    ends = torch.nonzero(is_end)[: MAX_ENDS // 3, 0]
    others = torch.nonzero(~is_end)[:, 0]
    n_others = min(MAX_ENDS - len(ends), len(others))
    distance = torch.cdist(points[others], points[ends]).amin(dim=1)
    beside = others[distance.argsort(stable=True)[: n_others // 2]]
    is_left = torch.ones(len(points), dtype=torch.bool)
    is_left[beside] = False
    rest = others[is_left[others]][: n_others - len(beside)]
    return names[torch.cat([ends, beside, rest])]

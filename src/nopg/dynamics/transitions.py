"""The learned system: next state, reward and end of a step, with their slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.gaussian_process import GaussianProcess

MAX_ENDS = 4096
"""Next states, terminal or not, that vote on whether a state ends the episode."""


class Step(NamedTuple):
    """One predicted step of a batch."""

    next_states: Tensor  # (m, d_s)
    rewards: Tensor  # (m,)
    ends: Tensor  # (m,), the probability that the episode ends


class StepSlopes(NamedTuple):
    """How a predicted step moves with the state and the action before it."""

    next_states: Tensor  # (m, d_s, d_s + d_a)
    rewards: Tensor  # (m, d_s + d_a)
    ends: Tensor  # (m, d_s), by the *next* state


@dataclass(frozen=True)
class TransitionModel:
    """Gaussian processes of (s' - s, r) on (s, a); terminal neighbours vote on ends.

    Predictions stay in the box the data have visited: beyond it nobody knows.

    Attributes:
        process: The regression.
        low: Smallest value seen of each state dimension, (d_s,).
        high: Largest, (d_s,).
        ends: How episodes end, None if none of the data does.
    """

    process: GaussianProcess
    low: Tensor
    high: Tensor
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
    ) -> TransitionModel:
        """Learn from n transitions, all float64; labels as one-hot actions."""
        inputs = torch.cat([states, actions], dim=1)
        targets = torch.cat([next_states - states, rewards[:, None]], dim=1)
        both = torch.cat([states, next_states])
        return cls(
            GaussianProcess.fit(inputs, targets, generator),
            both.amin(dim=0),
            both.amax(dim=0),
            EndVote.of(next_states, terminations, generator),
        )

    def step(self, states: Tensor, actions: Tensor) -> Step:
        """What the model expects of one step."""
        d_s = states.shape[1]
        predicted = self.process.predict(torch.cat([states, actions], dim=1))
        following = states + predicted[:, :d_s]
        following = torch.maximum(torch.minimum(following, self.high), self.low)
        if self.ends is None:
            ends = torch.zeros(len(states)).to(states)
        else:
            ends = self.ends.probability(following)
        return Step(following, predicted[:, d_s], ends)

    def slopes(self, states: Tensor, actions: Tensor, step: Step) -> StepSlopes:
        """Derivatives of `step(states, actions)`, which gave `step`."""
        d_s = states.shape[1]
        slopes = self.process.slopes(torch.cat([states, actions], dim=1))
        moving = slopes[:, :d_s].clone()
        moving[:, :, :d_s] += torch.eye(d_s).to(states)
        following = step.next_states
        is_inside = (following > self.low) & (following < self.high)
        # Against a wall of the box a state does not move.
        moving = torch.where(is_inside[:, :, None], moving, 0.0)
        if self.ends is None:
            ends = torch.zeros_like(states)
        else:
            ends = self.ends.slope(following)
        return StepSlopes(moving, slopes[:, d_s], ends)

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
        n = len(next_states)
        order = torch.as_tensor(generator.permutation(n))
        # Ends are few: keep them before the others.
        order = torch.cat([order[is_end[order]], order[~is_end[order]]])[:MAX_ENDS]
        unit = next_states.std(dim=0, correction=0)
        unit = torch.where(unit > 1e-12, unit, torch.ones_like(unit))
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

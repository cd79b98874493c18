"""The learned system: next state, reward and end of a step, with their slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.angles import Angles
from nopg.dynamics.bounds import Box
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.saturation import Walls
from nopg.dynamics.terminations import EndVote, live_rewards


class Step(NamedTuple):
    """One predicted step of a batch."""

    reached: Tensor  # (m, d_s), where the regression leads
    next_states: Tensor  # (m, d_s), the same where states can be
    rewards: Tensor  # (m,), what is expected, an end included
    ends: Tensor  # (m,), the probability that the episode ends
    lost: Tensor  # (m,), that of having left what the data show
    live: Tensor  # (m,), the reward if the episode goes on


class StepSlopes(NamedTuple):
    """How a predicted step moves with the state and the action before it."""

    reached: Tensor  # (m, d_s, d_s + d_a)
    next_states: Tensor  # (m, d_s, d_s), by the state reached
    rewards: Tensor  # (m, d_s + d_a)
    final: Tensor  # (m, d_s), of the rewards by the *next* state
    ends: Tensor  # (m, d_s), likewise
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
        live = live_rewards(inputs, rewards, terminations)
        targets = torch.cat([next_states - states, live[:, None]], dim=1)
        if like is None:
            angles = Angles.of(torch.cat([states, next_states]))
            walls, stopped = Walls.of(states, actions, next_states, angles)
            box = Box.around(states, next_states, walls, angles)
        else:
            box, stopped = like.box, like.box.are_stopped(next_states)
        free = ~stopped
        process = GaussianProcess.fit(
            inputs[free],
            targets[free],
            generator,
            None if like is None else like.process,
            every=(states.shape[1],),  # a rare reward may be what it is all about
        )
        seen = (float(rewards.min()), float(rewards.max()))
        ends = EndVote.of(next_states, rewards, terminations, generator)
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
        live, lost = predicted[:, d_s], self.box.lost(reached)
        if self.ends is None:
            never = torch.zeros_like(live)
            return Step(reached, following, live, never, lost, live)
        ends, final = self.ends.vote(following)
        rewards = (1.0 - ends) * live + final
        return Step(reached, following, rewards, ends, lost, live)

    def slopes(self, states: Tensor, actions: Tensor, step: Step) -> StepSlopes:
        """Derivatives of `step(states, actions)`, which gave `step`."""
        d_s = states.shape[1]
        slopes = self.process.slopes(torch.cat([states, actions], dim=1))
        moving = slopes[:, :d_s].clone()
        moving[:, :, :d_s] += torch.eye(d_s).to(states)
        settling = self.box.settle_slope(step.reached)
        lost = self.box.lost_slope(step.reached)
        earning = (1.0 - step.ends)[:, None] * slopes[:, d_s]
        ends, final = torch.zeros_like(states), torch.zeros_like(states)
        if self.ends is not None:
            # Where all neighbours agree the slope is 0.
            is_open = (step.ends > 1e-15) & (step.ends < 1.0 - 1e-15)
            ends[is_open], final[is_open] = self.ends.slopes(step.next_states[is_open])
            final = final - step.live[:, None] * ends
        return StepSlopes(moving, settling, earning, final, ends, lost)

    def uncertainty(self, states: Tensor, actions: Tensor) -> Tensor:
        """Largest deviation among the predictions, in deviations of the data, (m,)."""
        deviation = self.process.deviation(torch.cat([states, actions], dim=1))
        amplitude = self.process.amplitude.clamp_min(1e-300)
        return (deviation / amplitude).amax(dim=1)

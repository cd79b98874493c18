"""How episodes end in the learned system, and what an end is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MAX_VOTERS = 1024
"""Next states, terminal or not, that vote on whether a state ends the episode."""


@dataclass(frozen=True)
class EndVote:
    """Whether a state ends the episode: the share of terminal states around it.

    Attributes:
        points: Next states that vote, in units of `unit`, (m, d_s).
        is_end: Whether the episode ended there, 0 or 1, (m,).
        rewards: What that end was worth, 0 for the others, (m,).
        unit: Deviation of each dimension, (d_s,).
        width: Width of the kernel, in these units.
    """

    points: Tensor
    is_end: Tensor
    rewards: Tensor
    unit: Tensor
    width: float

    @classmethod
    def of(
        cls,
        next_states: Tensor,
        rewards: Tensor,
        terminations: Tensor,
        generator: np.random.Generator,
    ) -> EndVote | None:
        """From n transitions; None if nothing ended."""
        is_end = terminations.to(torch.bool)
        if not bool(is_end.any()):
            return None
        unit = next_states.std(dim=0, correction=0)
        unit = torch.where(unit > 1e-12, unit, torch.ones_like(unit))
        order = torch.as_tensor(generator.permutation(len(next_states)))
        order = _voters(next_states[order] / unit, is_end[order], order)
        points, ended = next_states[order] / unit, is_end[order].to(rewards)
        near = torch.cdist(points[-500:], points).topk(
            min(3, len(points)), largest=False
        )
        width = float(near.values[:, -1].median()) + 1e-6
        return cls(points, ended, ended * rewards[order], unit, width)

    def vote(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Probability of an end, (m,), and that times what it is worth, (m,)."""
        weights = self._weights(states)
        return weights @ self.is_end, weights @ self.rewards

    def slopes(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Both by the state, (m, d_s) each: covariances under the weights."""
        weights = self._weights(states)
        found = []
        for values in (self.is_end, self.rewards):
            share = weights * (values - (weights @ values)[:, None])
            found.append((share @ self.points) / (self.width**2 * self.unit))
        return found[0], found[1]

    def _weights(self, states: Tensor) -> Tensor:
        distance = torch.cdist(states / self.unit, self.points) / self.width
        return torch.softmax(-0.5 * distance.square(), dim=1)


def live_rewards(inputs: Tensor, rewards: Tensor, terminations: Tensor) -> Tensor:
    """Rewards as if no episode had ended: at an end, that of the nearest other step.

    A prize or a fine for ending jumps where the episode ends, and no smooth regression
    follows it; it belongs to the end.

    Args:
        inputs: States and actions, (n, d).
        rewards: Of each step, (n,).
        terminations: Whether it ended the episode, (n,).
    """
    is_end = terminations.to(torch.bool)
    if not bool(is_end.any()) or bool(is_end.all()):
        return rewards
    spread = inputs.std(dim=0, correction=0)
    x = inputs / torch.where(spread > 1e-12, spread, torch.ones_like(spread))
    live, found = rewards[~is_end], rewards.clone()
    nearest = [int(torch.cdist(one[None], x[~is_end]).argmin()) for one in x[is_end]]
    found[is_end] = live[torch.tensor(nearest)]
    return found


def _voters(points: Tensor, is_end: Tensor, names: Tensor) -> Tensor:
    """Names of at most `MAX_VOTERS` points: ends, what is next to them, and the rest.

    The border between ends and others is where votes are close, so it is kept dense.
    """
    if len(points) <= MAX_VOTERS:
        return names
    ends = torch.nonzero(is_end)[: MAX_VOTERS // 3, 0]
    others = torch.nonzero(~is_end)[:, 0]
    n_others = min(MAX_VOTERS - len(ends), len(others))
    distance = torch.cdist(points[others], points[ends]).amin(dim=1)
    beside = others[distance.argsort(stable=True)[: n_others // 2]]
    is_left = torch.ones(len(points), dtype=torch.bool)
    is_left[beside] = False
    rest = others[is_left[others]][: n_others - len(beside)]
    return names[torch.cat([ends, beside, rest])]

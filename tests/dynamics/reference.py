"""What a learned model expects of a step, in torch, so that autograd goes through it.

Written down once more, apart from the arrays and the compiled code of the library, which are held
against it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.dynamics.bounds import StateBounds
from nopg.dynamics.terminations import TerminationModel
from nopg.dynamics.transition_model import PredictedStep, TransitionModel


def projected(bounds: StateBounds, states: Tensor) -> Tensor:
    """States within the bounds, with angles on their circles, (m, d_s)."""
    states = bounds.clip(states)
    for i, j in bounds.angles:
        radius = torch.hypot(states[:, i], states[:, j]).clamp_min(1e-9)
        factors = torch.ones_like(states)
        factors[:, i] = factors[:, j] = 1.0 / radius
        states = states * factors
    return states


def out_of_support(bounds: StateBounds, states: Tensor) -> Tensor:
    """1 - exp(-1/2 sum_d (distance beyond the bounds / typical step)_d^2), (m,)."""
    below = (bounds.low - states).clamp_min(0.0) * ~bounds.saturation.is_low
    above = (states - bounds.high).clamp_min(0.0) * ~bounds.saturation.is_high
    beyond = (below + above) / bounds.typical_step
    return 1.0 - torch.exp(-0.5 * beyond.square().sum(dim=1))


def ends(model: TerminationModel, states: Tensor) -> tuple[Tensor, Tensor]:
    """Probability of a termination, (m,), and that times its reward, (m,)."""
    distance = torch.cdist(states / model.unit, model.points) / model.width
    stands_for = 0.0 if model.log_counts is None else model.log_counts
    weights = torch.softmax(stands_for - 0.5 * distance.square(), dim=1)
    found, paid = weights @ model.is_terminal, weights @ model.rewards
    for one in model.limits:
        over = torch.sigmoid(one.slope * states[:, one.column] - one.offset)
        found, paid = (1.0 - over) * found + over, (1.0 - over) * paid + over * one.reward
    return found, paid


def step(
    model: TransitionModel, states: Tensor, actions: Tensor, draws: Tensor | None = None
) -> PredictedStep[Tensor]:
    """One step, with the noise of standard normal draws, (m, d_s)."""
    inputs = torch.cat([states, actions], dim=1)
    predicted = model.process.predict(inputs)
    d_s = predicted.shape[1] - 1  # of the present
    moved = predicted[:, :d_s]
    if model.stiction is not None:
        moved = moved * torch.from_numpy(model.stiction.moves(inputs.detach().numpy()))
    reached = states[:, :d_s] + moved
    if model.noise is not None and draws is not None:
        reached = reached + model.noise.disturb(inputs, draws[:, :d_s])
    if model.history is not None:
        past = inputs[:, torch.from_numpy(model.history.copied)]
        reached = torch.cat([reached, model.history.changed(reached, past)], dim=1)
    after, out = projected(model.bounds, reached), out_of_support(model.bounds, reached)
    rewards = predicted[:, d_s].clamp(*model.reward_bounds[:2])
    if model.known_reward is not None:
        rewards = model.known_reward(states, actions, after)
    if model.termination is None:
        return PredictedStep(reached, after, rewards, torch.zeros_like(rewards), out, rewards)
    terminated, final = ends(model.termination, after[:, :d_s])
    expected = rewards
    if model.known_reward is None:
        expected = (1.0 - terminated) * rewards + final
    return PredictedStep(reached, after, expected, terminated, out, rewards)

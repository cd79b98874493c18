"""Climbing the imagined return: policies that are right already become better.

Kernel rows blur what they estimate, so the policy that is best for them is a little
off. The learned system is sharper near the paths a policy really takes, but its
gradient only helps a policy that already does roughly the right thing. So this comes
last.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nopg.dynamics.rollouts import (
    Paths,
    discount_horizon,
    model_rollout,
    rollout_gradients,
)
from nopg.dynamics.stepper import Array
from nopg.dynamics.transition_model import TransitionModel
from nopg.fitted.search_result import ModelEstimate
from nopg.policies.adam import Adam
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.base import Policy

LEARNING_RATE = 5e-3
"""Adam's first step size; half of that of the search, which has farther to go."""
PATIENCE = 25
"""Updates without a gain after which refining a policy ends."""
GAIN = 1e-3
"""Smallest gain that counts, as a share of |J|."""
N_KEPT, FIRST_ROUND = 3, 0.3
"""All policies are refined for this share of the updates, then so many of the best:
where a policy starts says little about where it can get."""
CHECK_EVERY = 5
"""Updates between second model_estimates on the policies being refined."""
SLOW = 0.005
"""Weight gamma^T at which paths end that are asked an opinion about."""
LONG = 1e-8
"""The same where the last choice is made: what fails late is to be seen, however
little it weighs."""
N_STARTS = 5
"""Starts a gradient and first model_estimates are averaged over."""
N_DOUBTED = 256
"""Steps of a policy's paths whose uncertainty is taken: it costs more than following it."""


def model_estimates(
    models: Sequence[TransitionModel],
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
    negligible: float = SLOW,
) -> list[ModelEstimate]:
    """Follow each policy through each model from each of `starts`; believe the lowest.

    Policies are followed as they will act: for labels, the likeliest one. Paths end
    at a weight gamma^T of `negligible`, or at rest.
    """
    views = [_views(model, policies, starts, gamma, negligible) for model in models]
    return [min(each, key=lambda view: view.value) for each in zip(*views, strict=True)]


def values(
    models: Sequence[TransitionModel],
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
) -> list[float]:
    """The values of `model_estimates` alone, which cost less."""
    found = []
    for model in models:
        paths = _followed(model, policies, starts, gamma, SLOW)
        found.append(paths.returns.reshape(len(policies), -1).mean(axis=1))
    return [float(value) for value in np.min(found, axis=0)]


def enough(model: TransitionModel, gamma: float, negligible: float = SLOW) -> float:
    """The most that paths of an opinion can earn, less what regressions err by."""
    most = model.best_value(gamma, discount_horizon(gamma, negligible))
    return most - 1e-4 * abs(most)


@dataclass
class _Climber:
    """A policy on its way up, with the best it has been."""

    policy: Policy
    adam: Adam
    best: float
    enough: float
    kept: dict[str, Any]
    last_gain: int = 0
    is_done: bool = False

    def judge(self, value: float, step: int) -> None:
        """Note what the models think of the policy after so many updates."""
        if value > self.best + GAIN * abs(self.best):
            self.last_gain = step
        if value > self.best:
            self.best, self.kept = value, copy.deepcopy(self.policy.state_dict())
        self.is_done = self.best >= self.enough or step - self.last_gain > PATIENCE


def refine(
    models: Sequence[TransitionModel],
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
    n_updates: int,
    advance: Callable[[float], None] = lambda best: None,
) -> list[float]:
    """Improve `policies` in place by the gradient of their return in the first model.

    Every few updates all models are asked about them, and the parameters of the best
    opinion are kept: what exploits an error of the first model does not fool the
    others, and no policy gets worse in their view.

    Args:
        models: Learned systems; the first is climbed.
        policies: Perceptrons of one shape.
        starts: Where the task starts, (B, d_s).
        gamma: Discount factor.
        n_updates: Most updates of each.
        advance: Told the best value so far after each update.

    Returns:
        The value of each policy in the models' view; of an interrupted refining, none.
    """
    starts = starts[:N_STARTS]
    first = values(models, policies, starts, gamma)
    climbers = [
        _Climber(
            policy,
            Adam([p for p in policy.parameters() if p.requires_grad]),
            value,
            enough(models[0], gamma),
            copy.deepcopy(policy.state_dict()),
        )
        for policy, value in zip(policies, first, strict=True)
    ]
    for one in climbers:
        one.judge(one.best, 0)
    try:
        for step in range(1, n_updates + 1):
            team = [one for one in climbers if not one.is_done]
            if not team:
                break
            _climb(models[0], team, starts, gamma, (step - 1) / n_updates)
            if step % CHECK_EVERY == 0 or step == n_updates:
                views = values(models, [one.policy for one in team], starts, gamma)
                for one, value in zip(team, views, strict=True):
                    one.judge(value, step)
            if step == math.ceil(FIRST_ROUND * n_updates):
                _dismiss(climbers)
            advance(max(one.best for one in climbers))
    finally:  # an interrupt, too, leaves the best
        for one in climbers:
            one.policy.load_state_dict(one.kept)
    return [one.best for one in climbers]


def _dismiss(climbers: Sequence[_Climber]) -> None:
    """Let only the best go on."""
    for one in sorted(climbers, key=lambda one: -one.best)[N_KEPT:]:
        one.is_done = True


def _climb(
    model: TransitionModel,
    team: Sequence[_Climber],
    starts: Array,
    gamma: float,
    progress: float,
) -> None:
    """One update of each policy, with a step size that falls along a cosine."""
    policies = [one.policy for one in team]
    gradients = rollout_gradients(
        model, policies, starts, gamma, discount_horizon(gamma)
    )
    decay = 0.5 * (1.0 + math.cos(math.pi * progress))
    for one, gradient in zip(team, gradients, strict=True):
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradient))
        if math.isfinite(norm) and norm > 0.0:
            one.adam.step(gradient, LEARNING_RATE * decay)
        else:
            one.is_done = True


def _followed(
    model: TransitionModel,
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
    negligible: float,
) -> Paths:
    """Every policy's paths from every start, policy by policy."""
    actor = ArrayPolicies(policies, is_decided=True)
    every = np.tile(starts, (len(policies), 1))
    horizon = discount_horizon(gamma, negligible)
    return model_rollout(model, actor, every, gamma, horizon, until_still=True)


def _views(
    model: TransitionModel,
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
    negligible: float,
) -> list[ModelEstimate]:
    """What one model thinks of each policy."""
    paths = _followed(model, policies, starts, gamma, negligible)
    n_steps = min(len(paths.states), discount_horizon(gamma))
    some = slice(None, n_steps, -(-n_steps * len(starts) // N_DOUBTED))  # rounded up
    states, actions = (
        torch.from_numpy(x[some].reshape(-1, x.shape[2]))
        for x in (paths.states, paths.actions)
    )
    weights = gamma ** np.arange(len(paths.states))[some]
    uncertainty = (
        model.uncertainty(states, actions)
        .numpy()
        .reshape(len(weights), len(policies), -1)
    )
    uncertainties = np.average(uncertainty.mean(axis=2), axis=0, weights=weights)
    returns = paths.returns.reshape(len(policies), -1).mean(axis=1)
    return [
        ModelEstimate(*map(float, pair))
        for pair in zip(returns, uncertainties, strict=True)
    ]

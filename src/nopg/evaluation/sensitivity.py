"""How much a policy's return depends on the outcome of every step of its paths.

The recursion is that of `dynamics.rollouts`, backwards in time, by closed-form
Jacobians; but a path that is out of support goes on, since it is there that something
is to be learned.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.data.validation import IntArray
from nopg.discount import discount_horizon
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.rollouts import Steps, rollout_steps
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import CategoricalPolicy, Policy


class Places(NamedTuple):
    """Steps along predicted paths, and how the return depends on their outcomes."""

    inputs: Tensor  # (m, d_s + d_a)
    visits: Tensor  # (m,), discounted, over the number of paths
    slopes: Tensor  # (m, q), d J / d prediction
    start: IntArray  # (m,)
    step: IntArray  # (m,)


def path_places(
    model: TransitionModel,
    policy: Policy,
    starts: Array,  # (B, d_s)
    gamma: float,
    moved_by: Steps | None = None,  # who makes the steps; the model itself by default
) -> Places:
    """Every step of the policy's predicted paths, with its sensitivity."""
    n_steps, actor = discount_horizon(gamma), actor_of(policy)
    (n_paths, d_s), generator = starts.shape, np.random.default_rng(0)
    noise = noise_draws(n_steps, n_paths, d_s, generator, model.noise)
    steps = moved_by or ArrayTransitionModel(model)
    path = [*rollout_steps(steps, actor, starts, n_steps, draws=noise)]
    draws = torch.from_numpy(noise)
    value = torch.zeros(len(starts), dtype=torch.float64)
    adjoint = torch.zeros(starts.shape, dtype=torch.float64)
    inputs, slopes = [], []
    for t in reversed(range(n_steps)):
        states, actions = (torch.from_numpy(x) for x in path[t][:2])
        outcome = model.step(states, actions, draws[t])
        by = model.jacobians(states, actions, outcome, draws[t])
        goes_on = (1.0 - outcome.terminated)[:, None]
        after = gamma * (goes_on * adjoint - value[:, None] * by.terminated)
        moved = _product(after + by.final_rewards, by.next_states)  # by state reached
        joint = by.rewards + _product(moved, by.reached)
        by_action = joint[:, states.shape[1] :]
        adjoint = joint[:, : states.shape[1]] + _pulled_back(policy, states, by_action)
        value = outcome.rewards + gamma * goes_on[:, 0] * value
        slopes.append(_by_prediction(model, moved, goes_on))
        inputs.append(torch.cat([states, actions], dim=1))
    lasts = np.stack([1.0 - one.outcome.terminated for one in path])  # (T, B)
    alive = np.cumprod(np.vstack([np.ones(len(starts)), lasts[:-1]]), axis=0)
    discounts = gamma ** np.arange(n_steps)[:, None]
    visits = torch.from_numpy(discounts * alive / len(starts)).reshape(-1)
    return Places(
        torch.cat(inputs[::-1]),
        visits,
        torch.cat(slopes[::-1]) * visits[:, None],
        np.tile(np.arange(len(starts)), n_steps),
        np.repeat(np.arange(n_steps), len(starts)),
    )


def _product(rows: Tensor, matrices: Tensor) -> Tensor:
    """Each row times its matrix, (m, a) and (m, a, b) to (m, b)."""
    return (rows[:, None] @ matrices)[:, 0]


def _pulled_back(policy: Policy, states: Tensor, by_action: Tensor) -> Tensor:
    """Slopes by the policy's actions as slopes by the states, (m, d_s)."""
    if isinstance(policy, CategoricalPolicy):  # a label does not move with the state
        return torch.zeros_like(states)
    at = states.clone().requires_grad_()
    return torch.autograd.grad((policy.outputs(at)[0] * by_action).sum(), at)[0]


def _by_prediction(model: TransitionModel, moved: Tensor, goes_on: Tensor) -> Tensor:
    """Slopes by the regression's targets, (m, q), from those by the state reached."""
    d_s = model.process.linear.shape[1] - 1  # of the present
    slopes = moved[:, :d_s].clone()
    if model.history is not None:  # the past holds how the present differs from it
        changes = model.history.n_changes
        slopes[:, :changes] += moved[:, d_s : d_s + changes]
    return torch.cat([slopes, goes_on], dim=1)

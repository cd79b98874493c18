"""Following policies through the learned system: their returns and the gradients.

The states are found by a plain loop. All slopes are then taken at once, a backward
recursion of small products gives how the return moves with each action, and one
vector-Jacobian product through the policy does the rest: no graph over time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.stepper import Array, ArrayStep, Stepper
from nopg.dynamics.transition_model import Step, TransitionModel
from nopg.policies.arrays import ArrayPolicies
from nopg.policies.base import Policy

NEGLIGIBLE = 0.03
"""Weight gamma^T at which an imagined path ends, where nothing else is said."""

STILL = 1e-4
"""Share of the usual pace below which a state rests."""
CHECK_EVERY = 16


class Actor(Protocol):
    """What the learned system follows: actions as its regression takes them."""

    def act(self, states: Array) -> Array:
        """Actions of a batch of states, (m, d_a)."""


class Paths(NamedTuple):
    """B imagined paths of T steps."""

    states: Array  # (T, B, d_s)
    actions: Array  # (T, B, d_a)
    steps: ArrayStep  # fields of (T, B, ...)
    returns: Array  # (B,), discounted


def discount_horizon(gamma: float, negligible: float = NEGLIGIBLE) -> int:
    """Steps until the discount leaves a negligible weight."""
    return max(1, math.ceil(math.log(negligible) / math.log(max(gamma, 1e-6))))


def model_rollout(
    model: TransitionModel,
    actor: Actor,
    starts: Array,
    gamma: float,
    horizon: int,
    *,
    until_still: bool = False,
) -> Paths:
    """Follow the actions of `actor` from `starts`, (B, d_s).

    Args:
        model: The learned system.
        actor: Who acts.
        starts: Where, (B, d_s).
        gamma: Discount factor.
        horizon: Most steps.
        until_still: Stop where every path has come to rest, and count the last reward
            for ever after.
    """
    stepper, worst = Stepper(model), model.worst_value(gamma)
    states, actions, steps = [], [], []
    here, alive, returns = starts, np.ones(len(starts)), np.zeros(len(starts))
    for t in range(horizon):
        action = actor.act(here)
        step = stepper.step(here, action)
        goes_on = 1.0 - step.ends
        given_up = goes_on * step.lost
        returns += gamma**t * alive * (step.rewards + gamma * worst * given_up)
        states.append(here)
        actions.append(action)
        steps.append(step)
        alive = alive * (goes_on - given_up)
        here = step.next_states
        if alive.max() < 1e-12:
            break
        if until_still and t % CHECK_EVERY == 0 and _is_still(model, states[-1], step):
            returns += gamma ** (t + 1) * alive * step.rewards / (1.0 - gamma)
            break
    joined = ArrayStep(*(np.stack(field) for field in zip(*steps, strict=True)))
    return Paths(np.stack(states), np.stack(actions), joined, returns)


def _is_still(model: TransitionModel, states: Array, step: ArrayStep) -> bool:
    """Whether no path moves, or ends, or is lost any more."""
    moved = np.abs(step.next_states - states) / model.box.pace.numpy()
    return bool(moved.max() < STILL and step.ends.max() + step.lost.max() < 1e-9)


def rollout_gradients(
    model: TransitionModel,
    policies: Sequence[Policy],
    starts: Array,
    gamma: float,
    horizon: int,
) -> list[tuple[Tensor, ...]]:
    """The gradient of each policy's mean imagined return in its parameters.

    The actions are the policies' first outputs: means, or probabilities of labels,
    which stand for the mean effect of a randomised label.

    With U_t the return from step t on, p_t the probability that step t ends, o_t that
    it is lost and W the worst value,

        U_t = r_t + gamma (1 - p_t) ((1 - o_t) U_{t+1} + o_t W)

    is differentiated backwards in time:

        dU_t / da_t = dr/da + (dr/ds' + gamma V) ds'/da,  V = (1 - p)(1 - o) dU_{t+1}/ds
                      - ((1 - o) U_{t+1} + o W) dp/ds + (1 - p)(W - U_{t+1}) do/ds
        dU_t / ds_t = likewise by s, plus (dU_t / da_t) dpi/ds

    All policies are followed at once, from the same starts: a step of a few paths
    costs hardly more than a step of one.
    """
    every = np.tile(starts, (len(policies), 1))
    paths = model_rollout(model, ArrayPolicies(policies), every, gamma, horizon)
    n_steps, n_paths, d_s = paths.states.shape
    shares = paths.states.reshape(n_steps, len(policies), -1, d_s)
    slopes = [
        _policy_slopes(policy, shares[:, k].reshape(-1, d_s))
        for k, policy in enumerate(policies)
    ]
    by_state = [each.reshape(n_steps, len(starts), -1, d_s) for _, each in slopes]
    pulls = _pulls(model, paths, np.concatenate(by_state, axis=1), gamma)
    survival = (1.0 - paths.steps.ends) * (1.0 - paths.steps.lost)
    reached = np.cumprod(np.concatenate([np.ones((1, n_paths)), survival[:-1]]), axis=0)
    discount = gamma ** np.arange(n_steps) / len(starts)
    pulls *= (reached * discount[:, None])[..., None]
    pulls = pulls.reshape(n_steps, len(policies), len(starts), -1)
    return [
        _through(policy, actions, pulls[:, k].reshape(actions.shape))
        for k, (policy, (actions, _)) in enumerate(zip(policies, slopes, strict=True))
    ]


def _pulls(
    model: TransitionModel, paths: Paths, by_state: Array, gamma: float
) -> Array:
    """dU_t / da_t along each path, (T, B, d_a)."""
    n_steps, n_paths, d_s = paths.states.shape
    flat = Step(
        *(
            torch.from_numpy(field.reshape(-1, *field.shape[2:]))
            for field in paths.steps
        )
    )
    states, actions = (
        torch.from_numpy(x.reshape(n_steps * n_paths, -1))
        for x in (paths.states, paths.actions)
    )
    moving, settling, earning, final, ending, losing = (
        field.numpy().reshape(n_steps, n_paths, *field.shape[1:])
        for field in model.slopes(states, actions, flat)
    )
    worst = model.worst_value(gamma)
    stays, lost = (1.0 - paths.steps.ends)[..., None], paths.steps.lost[..., None]
    rewards = paths.steps.rewards[..., None]
    value, adjoint = np.zeros((n_paths, 1)), np.zeros((n_paths, d_s))
    pulls = np.empty_like(paths.actions)
    for t in range(n_steps - 1, -1, -1):
        expected = (1.0 - lost[t]) * value + lost[t] * worst
        ahead = stays[t] * (1.0 - lost[t]) * adjoint - expected * ending[t]
        ahead = ((gamma * ahead + final[t])[:, None] @ settling[t])[:, 0]
        ahead = ahead + gamma * stays[t] * (worst - value) * losing[t]
        joint = earning[t] + (ahead[:, None] @ moving[t])[:, 0]
        pulls[t] = joint[:, d_s:]
        adjoint = joint[:, :d_s] + (pulls[t][:, None] @ by_state[t])[:, 0]
        value = rewards[t] + gamma * stays[t] * expected
    return pulls


def _policy_slopes(policy: Policy, states: Array) -> tuple[Tensor, Array]:
    """Typical actions (m, d_a), differentiable, and d action / d state."""
    inputs = torch.from_numpy(states).requires_grad_()
    actions = policy.outputs(inputs)[0]
    rows = [
        torch.autograd.grad(actions[:, d].sum(), inputs, retain_graph=True)[0]
        for d in range(actions.shape[1])
    ]
    return actions, torch.stack(rows, dim=1).numpy()


def _through(policy: Policy, actions: Tensor, pulls: Array) -> tuple[Tensor, ...]:
    """The pull on each action, passed on to the parameters."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    found = torch.autograd.grad(
        actions, parameters, grad_outputs=torch.from_numpy(pulls), allow_unused=True
    )
    return tuple(
        torch.zeros_like(p) if g is None else g
        for g, p in zip(found, parameters, strict=True)
    )

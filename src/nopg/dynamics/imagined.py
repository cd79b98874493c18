"""Following a policy through the learned system: its return and the gradient of it.

The states are found by a plain loop. All slopes are then taken at once, a backward
recursion of small products gives how the return moves with each action, and one
vector-Jacobian product through the policy does the rest: no graph over time.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from nopg.dynamics.transitions import Step, TransitionModel
from nopg.policies.base import Policy

NEGLIGIBLE = 0.03
"""Weight gamma^T at which an imagined path ends."""


class Actor(Protocol):
    """What the learned system follows: actions as its regression takes them."""

    def act(self, states: Tensor) -> Tensor:
        """Actions of a batch of states, (m, d_a)."""


class Paths(NamedTuple):
    """B imagined paths of T steps."""

    states: Tensor  # (T, B, d_s)
    actions: Tensor  # (T, B, d_a)
    steps: Step  # fields of (T, B, ...)
    returns: Tensor  # (B,), discounted


def horizon_of(gamma: float) -> int:
    """Steps until the discount leaves a negligible weight."""
    return max(1, math.ceil(math.log(NEGLIGIBLE) / math.log(max(gamma, 1e-6))))


@torch.no_grad()
def imagine(
    model: TransitionModel, actor: Actor, starts: Tensor, gamma: float, horizon: int
) -> Paths:
    """Follow the actions of `actor` from `starts`, (B, d_s)."""
    states, actions, steps = [], [], []
    here = starts
    alive = torch.ones(len(starts)).to(starts)
    returns = torch.zeros_like(alive)
    for t in range(horizon):
        action = actor.act(here)
        step = model.step(here, action)
        returns += gamma**t * alive * step.rewards
        states.append(here)
        actions.append(action)
        steps.append(step)
        alive = alive * (1.0 - step.ends)
        here = step.next_states
        if float(alive.max()) < 1e-12:
            break
    joined = Step(*(torch.stack(field) for field in zip(*steps, strict=True)))
    return Paths(torch.stack(states), torch.stack(actions), joined, returns)


def imagined_gradient(
    model: TransitionModel, policy: Policy, starts: Tensor, gamma: float, horizon: int
) -> tuple[float, tuple[Tensor, ...]]:
    """The mean imagined return of a policy and its gradient in the parameters.

    The actions are the policy's first outputs: means, or probabilities of labels.

    With U_t the return from step t on, p_t the probability that step t ends and
    f = 1 - p:

        dU_t / da_t = dr/da + gamma (f dU_{t+1}/ds - U_{t+1} dp/ds) ds'/da
        dU_t / ds_t = likewise by s, plus (dU_t / da_t) dpi/ds
    """
    paths = imagine(model, _Outputs(policy), starts, gamma, horizon)
    n_steps, n_paths, d_s = paths.states.shape
    states = paths.states.reshape(-1, d_s)
    outputs, by_state = _policy_slopes(policy, states)
    flat = Step(*(field.flatten(0, 1) for field in paths.steps))
    slopes = model.slopes(states, paths.actions.flatten(0, 1), flat)
    moving, earning, ending = (
        field.reshape(n_steps, n_paths, *field.shape[1:]) for field in slopes
    )
    by_state = by_state.reshape(n_steps, n_paths, -1, d_s)
    value = torch.zeros(n_paths).to(states)
    adjoint = torch.zeros(n_paths, d_s).to(states)
    pulls = torch.empty_like(paths.actions)
    for t in range(n_steps - 1, -1, -1):
        goes_on = (1.0 - paths.steps.ends[t])[:, None]
        ahead = gamma * (goes_on * adjoint - value[:, None] * ending[t])
        joint = earning[t] + torch.bmm(ahead[:, None], moving[t])[:, 0]
        pulls[t] = joint[:, d_s:]
        adjoint = joint[:, :d_s] + torch.bmm(pulls[t][:, None], by_state[t])[:, 0]
        value = paths.steps.rewards[t] + gamma * goes_on[:, 0] * value
    reached = torch.cumprod(1.0 - paths.steps.ends, dim=0)
    reached = torch.cat([torch.ones_like(reached[:1]), reached[:-1]])
    discount = gamma ** torch.arange(n_steps).to(states)
    weights = reached * discount[:, None] / n_paths
    parameters = [p for p in policy.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(
        outputs,
        parameters,
        grad_outputs=(pulls * weights[..., None]).reshape(outputs.shape),
        allow_unused=True,
    )
    return float(paths.returns.mean()), tuple(
        torch.zeros_like(p) if g is None else g
        for g, p in zip(gradients, parameters, strict=True)
    )


def _policy_slopes(policy: Policy, states: Tensor) -> tuple[Tensor, Tensor]:
    """Typical actions (m, d_a), differentiable, and d action / d state."""
    inputs = states.detach().requires_grad_()
    actions = policy.outputs(inputs)[0]
    rows = [
        torch.autograd.grad(actions[:, d].sum(), inputs, retain_graph=True)[0]
        for d in range(actions.shape[1])
    ]
    return actions, torch.stack(rows, dim=1)


class _Outputs:
    """A policy by its first output: mean actions, or probabilities of labels.

    Probabilities stand for the mean effect of a randomised label, which is smooth
    where the label itself is not.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, states: Tensor) -> Tensor:
        return self.policy.outputs(states)[0]

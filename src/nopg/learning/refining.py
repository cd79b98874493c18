"""Climbing the imagined return: a policy that is right already becomes better.

Kernel rows blur what they estimate, so the policy that is best for them is a little
off. The learned system is sharper near the paths a policy really takes, but its
gradient only helps a policy that already does roughly the right thing. So this comes
last.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.dynamics.imagined import Actor, horizon_of, imagine, imagined_gradient
from nopg.dynamics.transitions import TransitionModel
from nopg.learning.adam import Adam
from nopg.policies.base import Policy

LEARNING_RATE = 5e-3
"""Adam's first step size; half of that of the search, which has farther to go."""
PATIENCE = 25
"""Updates without a gain after which refining ends."""
GAIN = 1e-3
"""Smallest gain that counts, as a share of |J|."""


CHECK_EVERY = 5
"""Updates between second opinions on the policy being refined."""
N_STARTS = 6
"""Starts a gradient is averaged over; opinions are asked about all of them."""


@dataclass(frozen=True)
class Opinion:
    """What the learned systems think of a policy.

    Attributes:
        value: Mean discounted return of the imagined paths, the lowest of the models'.
        doubt: Mean deviation of the predictions along them, in deviations of the
            data: near 0 the model knows the system there, near 1 it guesses.
    """

    value: float
    doubt: float


def opinion(
    models: Sequence[TransitionModel], actor: Actor, starts: Tensor, gamma: float
) -> Opinion:
    """Follow `actor` through each model from each of `starts`; believe the lowest."""
    views = [_view(model, actor, starts, gamma) for model in models]
    return min(views, key=lambda view: view.value)


def refine(
    models: Sequence[TransitionModel],
    policy: Policy,
    actor: Actor,
    starts: Tensor,
    gamma: float,
    n_updates: int,
) -> Opinion:
    """Improve `policy` in place by the gradient of its return in the first model.

    Every few updates all models are asked about it, and the parameters of the best
    opinion are kept: what exploits an error of the first model does not fool the
    others, and the policy never gets worse in their view.

    Args:
        models: Learned systems; the first is climbed.
        policy: Its first output is what the models take as actions.
        actor: The policy as it will be used, for opinions.
        starts: Where the task starts, (B, d_s).
        gamma: Discount factor.
        n_updates: Most updates made.

    Returns:
        The opinion of the policy kept.
    """
    parameters = [p for p in policy.parameters() if p.requires_grad]
    adam = Adam(parameters)
    horizon, some = horizon_of(gamma), starts[:N_STARTS]
    best = opinion(models, actor, starts, gamma)
    kept, last_gain = copy.deepcopy(policy.state_dict()), 0
    try:
        for step in range(1, n_updates + 1):
            _, gradient = imagined_gradient(models[0], policy, some, gamma, horizon)
            norm = math.sqrt(sum(float(g.square().sum()) for g in gradient))
            if not math.isfinite(norm) or norm == 0.0:
                break
            decay = 0.5 * (1.0 + math.cos(math.pi * (step - 1) / n_updates))
            adam.step(gradient, LEARNING_RATE * decay)
            if step % CHECK_EVERY and step < n_updates:
                continue
            view = opinion(models, actor, starts, gamma)
            if view.value > best.value + GAIN * abs(best.value):
                last_gain = step
            if view.value > best.value:
                best, kept = view, copy.deepcopy(policy.state_dict())
            if step - last_gain > PATIENCE:
                break
    finally:  # an interrupt, too, leaves the best
        policy.load_state_dict(kept)
    return best


@torch.no_grad()
def _view(
    model: TransitionModel, actor: Actor, starts: Tensor, gamma: float
) -> Opinion:
    paths = imagine(model, actor, starts, gamma, horizon_of(gamma))
    doubt = model.doubt(paths.states.flatten(0, 1), paths.actions.flatten(0, 1))
    discount = gamma ** torch.arange(len(paths.states)).to(starts)
    weights = discount.repeat_interleave(len(starts))
    return Opinion(
        float(paths.returns.mean()), float((weights * doubt).sum() / weights.sum())
    )

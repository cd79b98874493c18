"""Distillation: behaviour cloning of the actions that value iteration found best."""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.algorithms.search.planning import DistillationTargets
from nopg.policies.adam import Adam, cosine_decay
from nopg.policies.families import CategoricalPolicy, Policy

N_STEPS = 300
"""Steps of Adam on all targets; the error of a plan is level by then."""
LEARNING_RATE = 1e-2
BATCH, EPOCHS, MAX_STEPS = 256, 400, 20_000
"""Close distillation: targets of a step, how often each is met, and steps at most."""


def distil(
    policy: Policy, targets: DistillationTargets, is_close: bool = False
) -> float:
    """Fit the typical actions of `policy` to the targets, in place.

    States count by their advantage weights: where all actions are as good, any will
    do. Labels are fitted by their likelihood, other actions by their squared error in
    units of the targets' range.

    Plans are rough, and so is what is made of them at first. What was done by someone
    who knows how is worth following closely, for some seconds: a balance is lost by
    small errors.

    Returns:
        The mean error that is left.
    """
    states, wanted, weights = (torch.from_numpy(x) for x in targets[:3])
    span = wanted.amax(dim=0) - wanted.amin(dim=0)
    span = torch.where(span > 1e-9, span, torch.ones_like(span))  # what never changes
    parameters = [p for p in policy.parameters() if p.requires_grad]
    adam = Adam(parameters)
    is_discrete = isinstance(policy, CategoricalPolicy)

    def error(rows: Tensor | slice) -> Tensor:
        outputs = policy.outputs(states[rows])[0]
        if is_discrete:
            each = -(wanted[rows] * outputs.clamp_min(1e-9).log()).sum(dim=1)
        else:
            each = ((outputs - wanted[rows]) / span).square().mean(dim=1)
        return (weights[rows] * each).mean()

    n, n_steps, rate = len(states), N_STEPS, LEARNING_RATE
    rows: Tensor | slice = slice(None)
    if is_close:
        n_steps = min(max(N_STEPS, EPOCHS * n // BATCH), MAX_STEPS)
        rate = 0.5 * LEARNING_RATE
    generator = torch.Generator().manual_seed(0)
    for step in range(n_steps):
        if is_close and n > BATCH:
            rows = torch.randint(n, (BATCH,), generator=generator)
        # Adam ascends: the error is to fall.
        slopes = torch.autograd.grad(-error(rows), parameters, materialize_grads=True)
        adam.step(slopes, rate * cosine_decay(step, n_steps))
    with torch.no_grad():
        return float(error(slice(None)))

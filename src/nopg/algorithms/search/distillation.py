"""Distillation: behaviour cloning of the actions that value iteration found best."""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.algorithms.search.planning import DistillationTargets
from nopg.policies.adam import Adam, cosine_decay
from nopg.policies.families import CategoricalPolicy, Policy

N_STEPS = 300
"""Steps of Adam; the error is level by then."""
LEARNING_RATE = 1e-2


def distil(
    policy: Policy, targets: DistillationTargets, n_steps: int = N_STEPS
) -> float:
    """Fit the typical actions of `policy` to the targets, in place.

    States count by their advantage weights: where all actions are as good, any will
    do. Labels are fitted by their likelihood, other actions by their squared error in
    units of the targets' range.

    Returns:
        The mean error that is left.
    """
    states, wanted, weights = (torch.from_numpy(x) for x in targets[:3])
    span = wanted.amax(dim=0) - wanted.amin(dim=0)
    span = torch.where(span > 1e-9, span, torch.ones_like(span))  # what never changes
    parameters = [p for p in policy.parameters() if p.requires_grad]
    adam = Adam(parameters)
    is_discrete = isinstance(policy, CategoricalPolicy)

    def error() -> Tensor:
        outputs = policy.outputs(states)[0]
        if is_discrete:
            each = -(wanted * outputs.clamp_min(1e-9).log()).sum(dim=1)
        else:
            each = ((outputs - wanted) / span).square().mean(dim=1)
        return (weights * each).mean()

    for step in range(n_steps):
        decay = cosine_decay(step, n_steps)
        # Adam ascends: the error is to fall.
        gradient = torch.autograd.grad(-error(), parameters, materialize_grads=True)
        adam.step(gradient, LEARNING_RATE * decay)
    with torch.no_grad():
        return float(error())

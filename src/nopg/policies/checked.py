"""A policy's outputs, refused in one sentence if they cannot be used."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nopg.errors import ConfigError
from nopg.policies.base import Policy
from nopg.policies.categorical import CategoricalPolicy
from nopg.policies.continuous import DeterministicPolicy


def as_policy(module: nn.Module) -> Policy:
    """A policy as it is; any other module becomes a deterministic one."""
    return module if isinstance(module, Policy) else DeterministicPolicy(module)


def checked_outputs(policy: Policy, states: Tensor, width: int) -> tuple[Tensor, ...]:
    """What the policy says at `states`, after a look at shape and finiteness.

    Args:
        policy: The policy.
        states: Query states, (m, d_s).
        width: Columns every output must have: d_a, or the number of actions.

    Raises:
        ConfigError: If an output has another shape, or is not finite.
    """
    outputs = policy.outputs(states)
    expected = (len(states), width)
    what = "probabilities" if isinstance(policy, CategoricalPolicy) else "actions"
    for output in outputs:
        if not isinstance(output, Tensor) or tuple(output.shape) != expected:
            found = tuple(output.shape) if isinstance(output, Tensor) else type(output)
            raise ConfigError(
                f"The policy must return {what} of shape {expected} for "
                f"{len(states)} states, it returned {found}; correct its last layer."
            )
        # One bad number spoils the sum; so does overflow, hence the second look.
        if math.isfinite(output.sum().item()):
            continue
        if not bool(torch.isfinite(output).all()):
            bad = int((~torch.isfinite(output)).any(dim=1).nonzero()[0])
            raise ConfigError(
                f"The policy must return finite {what}, it returned "
                f"{output[bad].tolist()} at state {states[bad].tolist()}; lower the "
                "learning rate or check its parameters."
            )
    return outputs

"""What rollouts of a policy earn in a learned model, and what they leave open."""

from __future__ import annotations

import numpy as np

from nopg.dynamics.rollouts import Steps, discount_horizon, rollout_steps
from nopg.policies.arrays import Actor, Array

NEGLIGIBLE = 1e-3
"""Weight gamma^T at which a rollout is cut off."""
SHORT = 0.03
"""The same in drawn models, which show a spread and no value."""
LEAST = 1e-9
"""Probability of running at which a rollout has ended."""


def known_return(
    model: Steps,
    actor: Actor,
    starts: Array,
    gamma: float,
    draws: Array | None = None,
    *,
    negligible: float = NEGLIGIBLE,
    lengths: Array | None = None,
) -> tuple[Array, Array]:
    """What rollouts from `starts` earn in support, and the weight of what is unknown.

    Out of support nobody knows what a rollout earns: that makes a discounted weight
    beside the discounted return that is known, to be multiplied by the worst or the
    best reward the data allow; (B,) each. Where a rollout is cut off it goes on earning
    what it earned last, unless `lengths`, (B,), say how many steps count.
    """
    earned, left = np.zeros((2, len(starts)))
    horizon = discount_horizon(gamma, negligible)
    until = np.full(len(starts), np.inf)
    if lengths is not None:
        until, horizon = lengths, int(lengths.max())
    path = rollout_steps(model, actor, starts, horizon, LEAST, draws)
    for t, one in enumerate(path):
        running = one.running * (t < until)
        earned += gamma**t * running * one.outcome.rewards
        rest = np.maximum(gamma ** (t + 1) - gamma**until, 0.0)
        left += rest * running * one.outcome.leaves
    if lengths is None:
        later = gamma ** (t + 1) * one.survivors * one.outcome.continuing_rewards
        earned += later / (1.0 - gamma)
    return earned, left / (1.0 - gamma)

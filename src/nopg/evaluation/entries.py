"""How likely rollouts in a learned model enter a region."""

from __future__ import annotations

import math

import numpy as np

from nopg.dynamics.rollouts import Steps, discount_horizon, rollout_steps
from nopg.evaluation.regions import Membership
from nopg.evaluation.returns import LEAST, NEGLIGIBLE
from nopg.policies.arrays import Actor, Array

SLACK = 0.1
"""How early or late a rollout may be, as a share of the time it takes: small errors of
a speed add up."""


def entry_probability(
    model: Steps,
    actor: Actor,
    starts: Array,
    inside: Membership | None,
    horizon: int | None,
    gamma: float,
    draws: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Certain, expected and possible probability of entering a region, (B,) each.

    Out of support a rollout may enter at any step after, or never; halfway is expected.
    What must happen by step T counts as certain if it happens a tenth of the time
    sooner, and as possible if it happens a tenth later.
    """
    if horizon is None:
        last = discount_horizon(gamma, NEGLIGIBLE)
        entered, left = _entries(model, actor, starts, inside, last, draws)
        weights = gamma ** np.arange(last + 1.0)
        certain = entered.T @ weights
        running = 1.0 - entered.sum(axis=0) - left.sum(axis=0)
        unknown = left.T @ weights + gamma**last * running
        return certain, certain + 0.5 * unknown, certain + unknown
    entered, left = _entries(model, actor, starts, inside, latest(horizon), draws)
    early = math.floor(horizon / (1.0 + SLACK))
    certain = entered[: early + 1].sum(axis=0)
    by_then = entered[: horizon + 1].sum(axis=0)
    unknown = left[: horizon + 1].sum(axis=0)
    possible = entered.sum(axis=0) + left.sum(axis=0)
    return certain, by_then + 0.5 * unknown, possible


def latest(horizon: int) -> int:
    """The step until which an entry by `horizon` counts as possible."""
    return math.ceil(horizon * (1.0 + SLACK))


def _entries(
    model: Steps,
    actor: Actor,
    starts: Array,
    inside: Membership | None,
    last: int,
    draws: Array | None,
) -> tuple[Array, Array]:
    """Probability of entering, and of leaving the data, at each step 0 to `last`."""
    entered, left = np.zeros((2, last + 1, len(starts)))
    is_outside = np.ones(len(starts), dtype=bool)
    if inside is not None:
        is_outside = ~inside(starts)
        entered[0] = ~is_outside
    path = rollout_steps(model, actor, starts, last, LEAST, draws)
    for t, one in enumerate(path, start=1):
        running = one.running * is_outside
        left[t] = running * one.outcome.leaves
        if inside is None:
            entered[t] = running * one.outcome.terminated
            continue
        enters = inside(one.outcome.next_states)
        entered[t] = (running - left[t]) * enters
        is_outside = is_outside & ~enters
        if not is_outside.any():
            break
    return entered, left

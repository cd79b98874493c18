"""Entering a region along the paths that a learned system foretells.

A path that stays where data are enters the region at a step or does not. One that is
lost may enter at any step after, or never: what is certain and what is possible are
kept apart. And a path that is right may be early or late, since small errors of a
speed add up: what must happen by step T counts as certain if it happens a tenth of
the time sooner, and as possible if it happens a tenth later.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nopg.dynamics.stepper import Array, Stepper
from nopg.evaluation.following import LEFT_OUT, Actor
from nopg.evaluation.regions import Membership

SLACK = 0.1
"""How early or late a foretold path may be, as a share of the time it takes."""


class Entered(NamedTuple):
    """Probability of entering from each of B starts, between two ends."""

    certain: Array  # (B,)
    expected: Array  # (B,), what is lost counted halfway
    possible: Array  # (B,)


def entering(
    system: Stepper,
    actor: Actor,
    starts: Array,
    inside: Membership | None,
    horizon: int | None,
    gamma: float,
) -> Entered:
    """Follow `actor` from `starts`, (B, d_s), into a region.

    Args:
        system: The learned system.
        actor: Who acts.
        starts: Where the paths start.
        inside: The region; None for the end of the task.
        horizon: Steps within which; None weighs an entry after t steps by gamma^t.
        gamma: Discount factor in [0, 1).
    """
    last = _last_step(horizon, gamma)
    entered, lost = _follow(system, actor, starts, inside, last)
    if horizon is None:
        weights = gamma ** np.arange(last + 1.0)
        surely = entered.T @ weights
        left = 1.0 - entered.sum(axis=0) - lost.sum(axis=0)
        maybe = lost.T @ weights + gamma**last * left
        return Entered(surely, surely + 0.5 * maybe, surely + maybe)
    early = math.floor(horizon / (1.0 + SLACK))
    certain = entered[: early + 1].sum(axis=0)
    by_then = entered[: horizon + 1].sum(axis=0)
    unknown = lost[: horizon + 1].sum(axis=0)
    possible = entered.sum(axis=0) + lost.sum(axis=0)
    return Entered(certain, by_then + 0.5 * unknown, possible)


def _last_step(horizon: int | None, gamma: float) -> int:
    if horizon is not None:
        return math.ceil(horizon * (1.0 + SLACK))
    return max(1, math.ceil(math.log(LEFT_OUT) / math.log(max(gamma, 1e-6))))


def _follow(
    system: Stepper,
    actor: Actor,
    starts: Array,
    inside: Membership | None,
    last: int,
) -> tuple[Array, Array]:
    """Probability of entering, and of being lost, at each step 0 to `last`."""
    entered, lost = np.zeros((2, last + 1, len(starts)))
    known = np.ones(len(starts))  # neither in the region, nor lost, nor at an end
    if inside is not None:
        entered[0] = inside(starts)
        known = known - entered[0]
    here = starts
    for t in range(1, last + 1):
        step = system.step(here, actor.act(here))
        here = step.next_states
        lost[t] = known * (1.0 - step.ends) * step.lost
        stays = known - lost[t]
        hit = step.ends * known if inside is None else stays * inside(here)
        entered[t] = hit
        known = np.maximum(stays - np.maximum(hit, step.ends * known), 0.0)
        if known.max() < 1e-9:
            break
    return entered, lost

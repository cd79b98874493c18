"""Where the policy is predicted to be, how often, and what the data say of it there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nopg.data.validation import BoolArray, FloatArray, IntArray
from nopg.evaluation.rollouts import Rollouts
from nopg.fitted.grounds import evenly_drawn, untried_at
from nopg.fitted.policy import FittedPolicy

MOST_PLACES = 6_000
"""Visited states that are looked at; of more, a choice by their visits."""


@dataclass(frozen=True)
class VisitedStates:
    """States the policy is predicted to visit, and how often.

    Attributes:
        states: (m, d_s).
        actions: What the policy does there, (m, d_a), or labels (m,).
        visits: Share of all discounted visits, (m,), summing to one.
        starts: How untried its first actions are, above 1 they count as such, (B,).
    """

    states: FloatArray
    actions: FloatArray | IntArray
    visits: FloatArray
    starts: FloatArray


def visited_states(policy: FittedPolicy, rollouts: Rollouts) -> VisitedStates:
    """The states of rollouts with their discounted visits."""
    assert policy.data is not None  # rollouts need them
    states, visits = _places(rollouts, policy.gamma, ~policy.data.terminations)
    if len(states) > MOST_PLACES:
        drawn = evenly_drawn(visits, MOST_PLACES)
        chosen, counts = np.unique(drawn, return_counts=True)
        states, visits = states[chosen], counts / MOST_PLACES
    return VisitedStates(
        states=states,
        actions=policy.predict(states)[0],
        visits=visits,
        starts=untried_at(policy, rollouts.initial),
    )


def _places(
    rollouts: Rollouts, gamma: float, goes_on: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Every place with its share of the discounted visits, (m, d_s) and (m,).

    Where the task has ended the policy does not act: by kernels, that is after the
    rows that do not go on; rollouts of learned models have lost that weight already.
    """
    discounts = gamma ** np.arange(1.0, len(rollouts.weights) + 1.0)
    weights = discounts[:, None] * rollouts.weights
    if len(rollouts.states) == 1:  # the same places at every step, one per row
        weights = weights.sum(axis=0) * goes_on
    n_starts = len(rollouts.initial)
    visits = np.append(weights.ravel(), np.full(n_starts, 1.0 / n_starts))
    places = rollouts.states.reshape(-1, rollouts.states.shape[2])
    states = np.vstack([places, rollouts.initial])
    is_visited = visits > 0.0
    return states[is_visited], visits[is_visited] / visits.sum()

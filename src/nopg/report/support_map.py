"""How far the data carry the policy: support where it is predicted to go.

How much a state matters is its share of the discounted visits; how well it is known is
the distance to the nearest sample (s, a), in bandwidths, at the action that the policy
takes there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from nopg.data.validation import BoolArray, FloatArray, IntArray
from nopg.evaluation.rollouts import Rollouts
from nopg.fitted.policy import FittedPolicy

REACH = 2.0
"""Bandwidths up to which a sample speaks for its surroundings: there its kernel has
fallen to exp(-2), and beyond it only the ratio of tiny numbers is left."""
MOST_PLACES = 6_000
"""Visited states whose support is computed; of more, a choice by their visits."""
_ENTRIES = 2_000_000


@dataclass(frozen=True)
class VisitedStates:
    """States the policy is predicted to visit, how often, and how well they are known.

    Attributes:
        states: (m, d_s).
        actions: What the policy does there, (m, d_a), or labels (m,).
        visits: Share of all discounted visits, (m,), summing to one.
        distance: To the nearest sample, in bandwidths, (m,).
        starts: Distance of the initial states to the nearest sample, (B,).
        starts_alone: The same of the state alone, whatever the action, (B,).
    """

    states: FloatArray
    actions: FloatArray | IntArray
    visits: FloatArray
    distance: FloatArray
    starts: FloatArray
    starts_alone: FloatArray

    @property
    def beyond(self) -> float:
        """Share of the visits farther than `REACH` from every sample."""
        return float(self.visits[self.distance > REACH].sum())


def visited_states(policy: FittedPolicy, rollouts: Rollouts) -> VisitedStates:
    """The states of rollouts with their discounted visits and their support."""
    assert policy.data is not None  # rollouts need them
    states, visits = _places(rollouts, policy.gamma, ~policy.data.terminations)
    if len(states) > MOST_PLACES:
        shares = (np.arange(MOST_PLACES) + 0.5) / MOST_PLACES
        drawn = np.searchsorted(np.cumsum(visits), shares).clip(max=len(visits) - 1)
        chosen, counts = np.unique(drawn, return_counts=True)
        states, visits = states[chosen], counts / MOST_PLACES
    distance = support_at(policy, states)
    h = np.array(policy.bandwidths.state)  # an infinite bandwidth adds nothing
    tree = cKDTree(policy.data.observations / h)
    return VisitedStates(
        states=states,
        actions=policy.predict(states)[0],
        visits=visits,
        distance=distance,
        starts=support_at(policy, rollouts.initial),
        starts_alone=tree.query(rollouts.initial / h)[0],
    )


def support_at(policy: FittedPolicy, states: FloatArray) -> FloatArray:
    """Distance to the nearest sample at the policy's action, (m,)."""
    assert policy.data is not None
    parts = in_parts(states, len(policy.data))
    return np.concatenate([policy.support(part).distance for part in parts])


def in_parts(states: FloatArray, row_length: int) -> list[FloatArray]:
    """States in parts whose rows fit into memory."""
    size = max(64, _ENTRIES // max(1, row_length))
    return [states[start : start + size] for start in range(0, len(states), size)]


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

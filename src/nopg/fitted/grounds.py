"""What a verdict is drawn from, asked of a policy by the evaluator that fits it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import DataError
from nopg.evaluation.comparison import Comparison
from nopg.evaluation.rollouts import evenly_drawn
from nopg.evaluation.verdict import LIKELY, MEAN_ACTION, Grounds, guessed_share
from nopg.policies.arrays import Array

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy

N_PLACES = 1_000
"""Visited states that are looked at."""
_ENTRIES = 2_000_000
"""Kernel entries that are worth taking at once."""


def grounds_of(policy: FittedPolicy) -> Grounds:
    """Estimate, comparison, replay and untried steps of a policy."""
    if policy.evaluator == "model":
        states, visits = policy.visited()
        drawn = evenly_drawn(visits, N_PLACES)
        untried = float((untried_at(policy, states[drawn]) > 1.0).mean())
    else:
        untried = policy.support().share_beyond(policy.kernel.usual_distance())
    data = policy.require_data()
    return Grounds(
        policy.expected_return(), _compared(policy, data), policy.check(), untried
    )


def untried_at(policy: FittedPolicy, states: Array) -> Array:
    """How little the data say of what the policy does in these states, (m,).

    Above 1 it counts as untried: by learned models, more than half of a prediction is
    a guess; by kernels, the nearest row is farther than rows are from each other.
    """
    if policy.evaluator == "model":
        model = policy.model.models[0]
        return guessed_share(model, policy.policy, states) / LIKELY
    size = max(64, _ENTRIES // len(policy.require_data()))
    parts = [states[first : first + size] for first in range(0, len(states), size)]
    distances = np.concatenate([policy.support(part).distance for part in parts])
    return distances / policy.kernel.usual_distance()


def _compared(policy: FittedPolicy, data: Dataset) -> Comparison:
    """With the recorded episodes; without any, with what was done on average."""
    try:
        return policy.compare()
    except DataError:  # rows are in no order
        mean = np.mean(data.actions, axis=0)
        if data.is_discrete:
            mean = np.bincount(data.actions).argmax()

        def usual(observations: Array) -> Array:
            return np.tile(np.atleast_1d(mean), (len(observations), 1))

        return replace(policy.compare(usual), against=MEAN_ACTION)

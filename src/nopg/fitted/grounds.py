"""What a verdict is drawn from, asked of a policy by the evaluator that fits it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import DataError
from nopg.evaluation.comparison import Comparison
from nopg.evaluation.support import usual_distance
from nopg.evaluation.verdict import MEAN_ACTION, Grounds, untried_share
from nopg.policies.arrays import Array

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy


def grounds_of(policy: FittedPolicy) -> Grounds:
    """Estimate, comparison, replay and untried steps of a policy."""
    estimate = policy.expected_return()
    if estimate.by == "model":
        model = policy.model.models[0]
        untried = untried_share(model, policy.policy, *policy.visited())
    else:
        usual = usual_distance(policy.kernel.problem)
        untried = policy.support().share_beyond(usual)
    comparison = _compared(policy, policy.require_data())
    return Grounds(estimate, comparison, policy.check(), untried)


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

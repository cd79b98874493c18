"""Everything the page is made from, asked of the policy once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from nopg.data.dataset import Dataset
from nopg.data.diagnostics.description import Description
from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.suggest import Suggestion
from nopg.evaluation.verdict import Grounds, Verdict
from nopg.fitted.history import History
from nopg.fitted.policy import FittedPolicy
from nopg.report.paths import (
    PredictedPaths,
    VisitedStates,
    horizon,
    predicted_paths,
    visited_states,
)

N_SUGGESTED = 12
"""Steps to record that the page lists."""


@dataclass(frozen=True)
class Evidence:
    """What the sentences and the pictures are made from."""

    policy: FittedPolicy  # the policy
    data: Dataset  # the transitions it was learned from
    history: History  # updates of NOPG; empty after a search, or where none are known
    verdict: Verdict  # go, caution or stop
    grounds: Grounds  # what the verdict was drawn from: estimate, comparison, replay
    suggestion: Suggestion  # where to record next
    visited: VisitedStates  # states the policy is predicted to visit
    paths: PredictedPaths  # predicted paths
    description: Description  # what `describe` says of the data

    @property
    def estimate(self) -> Estimate:
        """The expected return with its interval, by the evaluator that fits."""
        return self.grounds.estimate

    @property
    def is_by_models(self) -> bool:
        """Whether learned models evaluate the policy, and not the kernels."""
        return self.estimate.by == "model"

    def evaluators(self) -> dict[str, tuple[list[int], list[float]]]:
        """Steps and results of every evaluator that ran during training."""
        names = {name: None for update in self.history for name in update.evaluations}
        return {name: self.history.evaluations(name) for name in names}


def gather(policy: FittedPolicy) -> Evidence:
    """Ask a policy everything its page tells."""
    with warnings.catch_warnings():
        # What these say is on the page, in its place.
        warnings.simplefilter("ignore", NopgWarning)
        grounds = policy.grounds
        rollouts = policy.rollouts(horizon(policy.gamma))
        suggestion = policy.suggest(N_SUGGESTED)
    assert policy.data is not None  # an estimate needs them
    return Evidence(
        policy=policy,
        data=policy.data,
        history=policy.history or History(),
        verdict=policy.verdict(),
        grounds=grounds,
        suggestion=suggestion,
        visited=visited_states(rollouts, policy.gamma, ~policy.data.terminations),
        paths=predicted_paths(rollouts),
        description=policy.data.describe(policy.action_space),
    )

"""Everything the page is made from, asked of the policy once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from nopg.bellman.solution import Objective
from nopg.data.dataset import Dataset
from nopg.data.diagnostics.description import Description
from nopg.data.validation import FloatArray
from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from nopg.fitted.history import History
from nopg.fitted.policy import FittedPolicy
from nopg.report.paths import PredictedPaths, horizon, predicted_paths
from nopg.report.support_map import VisitedStates, visited_states


@dataclass(frozen=True)
class Evidence:
    """What the findings and the pictures are made from.

    Attributes:
        policy: The policy.
        data: The transitions it was learned from.
        history: Updates of NOPG; empty after a search, or where none are known.
        estimate: The expected return with its interval, by the evaluator that fits.
        objective: J with its certificate; None where the kernels did not choose.
        visited: States the policy is predicted to visit, and the data around them.
        paths: Predicted paths.
        description: What `describe` says of the data.
    """

    policy: FittedPolicy
    data: Dataset
    history: History
    estimate: Estimate
    objective: Objective | None
    visited: VisitedStates
    paths: PredictedPaths
    description: Description

    @property
    def is_by_models(self) -> bool:
        """Whether learned models evaluate the policy, and not the kernels."""
        return self.estimate.by == "model"

    def logged_returns(self) -> FloatArray | None:
        """Discounted return of every logged episode; None if rows have no episode."""
        data, gamma = self.data, self.policy.gamma
        if data.episodes is None:
            return None
        order = np.argsort(data.episodes, kind="stable")
        _, first, counts = np.unique(
            data.episodes[order], return_index=True, return_counts=True
        )
        age = np.arange(len(order)) - np.repeat(first, counts)
        return np.asarray(np.add.reduceat(data.rewards[order] * gamma**age, first))

    @property
    def is_logged_to_the_end(self) -> bool:
        """Whether rewards after the logged episodes hardly count: only then compare."""
        lengths = self.description.episode_lengths
        if lengths is None:
            return False
        all_end = int(self.data.terminations.sum()) == self.data.n_episodes
        return all_end or self.policy.gamma ** lengths[0] < 0.1

    def evaluators(self) -> dict[str, tuple[list[int], list[float]]]:
        """Steps and results of every evaluator that ran during training."""
        names = {name: None for update in self.history for name in update.evaluations}
        return {name: self.history.evaluations(name) for name in names}


def gather(policy: FittedPolicy) -> Evidence:
    """Ask a policy everything its page tells.

    Raises:
        NotFittedError: If the policy was saved without its data.
    """
    with warnings.catch_warnings():
        # One episode cannot tell how episodes differ; the page counts them anyway.
        warnings.simplefilter("ignore", NopgWarning)
        estimate = policy.expected_return()
        rollouts = policy.rollouts(horizon(policy.gamma))
    assert policy.data is not None  # an estimate needs them
    return Evidence(
        policy=policy,
        data=policy.data,
        history=policy.history or History(),
        estimate=estimate,
        objective=policy.kernel.objective() if estimate.by == "kernel" else None,
        visited=visited_states(policy, rollouts),
        paths=predicted_paths(rollouts),
        description=policy.data.describe(policy.action_space),
    )

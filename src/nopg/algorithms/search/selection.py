"""Which candidate is kept: what the learned models expect of each, and the floor."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nopg.algorithms.search.candidates import FoundPolicy
from nopg.algorithms.search.floor import Floor
from nopg.algorithms.search.refinement import (
    FINAL_WEIGHT,
    N_FINAL_PATHS,
    N_KEPT,
    NOISY_FINAL_WEIGHT,
    attainable_return,
    model_estimates,
    refine,
    search_starts,
)
from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation.model import ModelEvaluator
from nopg.fitted.search_result import (
    CLONING,
    Candidate,
    CandidateMethod,
    SearchResult,
)
from nopg.policies.arrays import Array

logger = logging.getLogger(__name__)


@dataclass
class Selection:
    """The learned models, and what they expect of the candidates so far.

    Attributes:
        models: The learned models.
        starts: Where the task starts, and where else candidates are rolled out from,
            (B, d_s).
        gamma: Discount factor.
        worst_share: Share of the rollouts whose mean return counts, the worst of them.
        found: Every candidate's policy.
        candidates: What is expected of each.
    """

    models: Sequence[TransitionModel]
    starts: Array
    gamma: float
    worst_share: float = 1.0
    found: list[FoundPolicy] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def add(self, one: FoundPolicy) -> None:
        """Take a candidate, with a first estimate from a few starts."""
        some = search_starts(self.models[0], self.starts)
        (estimate,) = model_estimates(
            self.models, [one.policy], some, self.gamma, worst_share=self.worst_share
        )
        self.found.append(one)
        self.candidates.append(Candidate(one.method, estimate))

    def is_optimal(self) -> bool:
        """Whether the best so far leave nothing to be gained, not even late."""
        values = [one.first.value for one in self.candidates]
        if max(values, default=-np.inf) < attainable_return(self.models[0], self.gamma):
            return False
        self._estimate_best(values)
        last = max(one.final.value for one in self.candidates if one.refined)
        return last >= attainable_return(self.models[0], self.gamma, FINAL_WEIGHT)

    def refine_all(self, n_updates: int, advance: Any) -> None:
        """Improve every policy in place, and estimate the best once more."""
        policies = [one.policy for one in self.found]
        values = [one.first.value for one in self.candidates]
        try:
            if n_updates > 0:
                values = refine(
                    self.models,
                    policies,
                    self.starts,
                    self.gamma,
                    n_updates,
                    lambda value: advance(f"model J={value:.4g}"),
                    self.worst_share,
                )
        finally:  # an interrupt leaves each as good as it became
            self._estimate_best(values)

    def choose(self) -> SearchResult:
        """The best candidate: of those estimated at length, where there are any."""
        asked = [i for i, one in enumerate(self.candidates) if one.refined is not None]
        chosen = max(
            asked or range(len(self.candidates)),
            key=lambda i: self.candidates[i].final.value,
        )
        return SearchResult(self.candidates, chosen)

    def not_below(
        self, floor: Floor, evaluator: ModelEvaluator, starts: Array
    ) -> SearchResult:
        """The best candidate, or the clone of the log if that is not beaten."""
        search = self.choose()
        policy = self.found[search.chosen].policy
        try:
            is_beaten, worse = floor.is_beaten(evaluator, policy, starts)
        except (KeyboardInterrupt, MemoryError):
            logger.warning("Interrupted; the policy found is kept, unlike the log's.")
            return search
        if is_beaten:
            return search
        logger.warning(
            "The best policy found is worse than one cloned from the best episodes "
            "with a probability of %.2g; the clone is kept. Record more to learn more.",
            worse,
        )
        self.add(FoundPolicy(CandidateMethod(CLONING), floor.clone))
        return SearchResult(self.candidates, len(self.candidates) - 1)

    def _estimate_best(self, values: Sequence[float]) -> None:
        """A last estimate of those of the highest values: long, from every start."""
        best = sorted(range(len(values)), key=lambda i: -values[i])[:N_KEPT]
        policies = [self.found[i].policy for i in best]
        starts, negligible = self.starts, FINAL_WEIGHT
        if self.models[0].noise is not None:
            starts = search_starts(self.models[0], starts, N_FINAL_PATHS)
            negligible = NOISY_FINAL_WEIGHT
        estimates = model_estimates(
            self.models, policies, starts, self.gamma, negligible, self.worst_share
        )
        # An earlier estimate may be of a policy that has changed since.
        self.candidates = [replace(one, refined=None) for one in self.candidates]
        for i, estimate in zip(best, estimates, strict=True):
            self.candidates[i] = replace(self.candidates[i], refined=estimate)

"""What a fitted model can be asked about how far to trust it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nopg.algorithms.nopg.setup import Setup
from nopg.bellman.problem import Problem
from nopg.bellman.solution import BellmanSolution
from nopg.errors import NopgWarning
from nopg.evaluation.bootstrap import replica_weights
from nopg.evaluation.chains import plain_chain
from nopg.evaluation.intervals import Estimate, require_level
from nopg.evaluation.kernel import Ensemble
from nopg.evaluation.replicas import Basis
from nopg.evaluation.safety import (
    PredictedStates,
    asked_region,
    predicted_states,
    visit_probability,
)
from nopg.evaluation.support import Support, support_at, usual_distance
from nopg.policies.base import Policy
from nopg.randomness import Seed

if TYPE_CHECKING:
    from nopg.evaluation.model import ModelEvaluator
    from nopg.fitted.search_result import Search


class Questions(ABC):
    """Support, safety and intervals of the present policy of a fitted model."""

    search: Search | None
    _seeds: Seed
    _asked: Ensemble | None = None
    _basis: Basis | None = None
    _foreteller: ModelEvaluator | None = None

    @property
    @abstractmethod
    def setup(self) -> Setup:
        """Policy, space, bandwidths and rows."""

    @property
    @abstractmethod
    def policy(self) -> Policy:
        """The policy."""

    @property
    @abstractmethod
    def solution(self) -> BellmanSolution:
        """The Bellman equation of the present policy, solved."""

    def support(
        self, states: Any = None, actions: Any = None, *, foretell: bool = False
    ) -> Support:
        """How much data stand behind states and actions.

        Args:
            states: States, (m, d_s); None for every state the policy is predicted to
                visit, weighted by how often.
            actions: Actions taken there, (m, d_a) or labels (m,); by default those of
                the policy.
            foretell: Follow the policy from each state through two learned systems,
                too: `.foretold` is the return they expect. The first time takes some
                seconds, for learning them.
        """
        problem, weights = self._problem, None
        if states is None:
            places = problem.queries
            weights = self._visits()
        else:
            from nopg.bellman.samples import initial_state_tensor

            places = initial_state_tensor(states, problem.samples.states)
        if actions is None:
            with torch.no_grad():
                actions = self.policy.act(places).cpu().numpy()
        states = places.double().cpu().numpy()
        found = support_at(problem, states, actions, weights)
        if not foretell:
            return found
        return replace(found, foretold=self.foreteller.values(self.policy, states))

    def foretold(self, interval: float = 0.95) -> Estimate:
        """The return J as two learned systems foretell it, with its interval.

        Gaussian processes of the same transitions, those `nopg.learn` asks for a second
        opinion: on smooth systems much closer to the truth than the kernels of
        `objective`. The first time takes some seconds, for learning them.

        Args:
            interval: How often the true return is to lie between `low` and `high`.
        """
        kernels = self._replicas().objective(require_level(interval))
        return self.foreteller.expected_return(self.policy, self._starts(), kernels)

    @property
    def foreteller(self) -> ModelEvaluator:
        """Two systems learned from the data, when first asked something."""
        from nopg.evaluation.model import (
            ModelEvaluator,  # not needed to train or to act
        )

        data = self.setup.data
        if self._foreteller is None or self._foreteller.data is not data:
            gamma = self._problem.config.gamma
            assert data is not None  # a problem needs them
            self._foreteller = ModelEvaluator(data, gamma, self._seeds)
        return self._foreteller

    def foretell_like(self, other: Questions) -> None:
        """Share the learned systems of another model of the same data."""
        self._foreteller = other.foreteller

    def visit_probability(
        self,
        region: Any,
        horizon: int | None = None,
        interval: float = 0.95,
        *,
        foretell: bool = False,
    ) -> Estimate:
        """How likely the policy enters a region, by the data alone.

        Args:
            region: A function of states (m, d_s) to booleans (m,); a pair (low, high)
                with infinities for open sides; a Gymnasium Box; or "terminated" for
                the end of the task.
            horizon: Steps within which; None weighs an entry after t steps by gamma^t.
            interval: How often the truth is to lie between `low` and `high`.
            foretell: Follow the policy through two learned systems, as `foretold`
                does, in place of the kernels' chain: on smooth systems much narrower,
                and what a policy that `learn` found should be asked with.

        Returns:
            The probability from the initial states with its interval, one entry each.
        """
        level = require_level(interval)
        kernels = visit_probability(self._replicas(), region, horizon, level)
        if not foretell:
            return kernels
        states = self._starts()
        inside = asked_region(region, horizon, states.shape[1])
        return self.foreteller.visit_probability(self.policy, states, inside, horizon, kernels)

    def predicted_states(self, steps: int = 100) -> PredictedStates:
        """The distribution of states after each of the next steps, from data alone."""
        return predicted_states(plain_chain(self.solution, self.policy), steps)

    def usual_distance(self) -> float:
        """Bandwidths that 99 of 100 samples have at most to the nearest other one."""
        return usual_distance(self._problem)

    @property
    def _problem(self) -> Problem:
        return self.solution.estimator.problem

    @property
    def _ensemble(self) -> Ensemble:
        """What intervals of J and of values are made of, with a word of warning."""
        if self.search is not None:
            warnings.warn(
                "Intervals of the kernels should be asked of policies that ascend their "
                "J, this one was found by `learn` and may do better than they can "
                "tell; ask model.foretold(interval=0.95) for J.",
                NopgWarning,
                stacklevel=3,
            )
        return self._replicas()

    def _replicas(self) -> Ensemble:
        """Replicas and row models of the present policy, made when first needed."""
        solution = self.solution
        if self._asked is None or self._asked.solution is not solution:
            self._asked = Ensemble(solution, self.policy, self._known_basis())
        return self._asked

    def _known_basis(self) -> Basis:
        """What no policy changes, made for the first interval of a data set."""
        problem, data = self._problem, self.setup.data
        if self._basis is None or self._basis.problem is not problem:
            assert data is not None  # a solution needs them
            generator = self._seeds.numpy("replicas")
            weights = replica_weights(data, problem.samples, generator)
            self._basis = Basis(problem, weights)
        return self._basis

    def _starts(self) -> NDArray[np.float64]:
        """The initial states, (B, d_s)."""
        starts = self.setup.initial_states
        assert starts is not None  # a solution needs them
        return np.array(starts, dtype=np.float64)

    def _visits(self) -> NDArray[np.float64]:
        """Discounted visits to each query: N_phi next states a sample, then starts."""
        solution, problem = self.solution, self._problem
        group = problem.config.next_state_samples
        visits = problem.config.gamma * solution.transition.spread(solution.mu.value)
        n_initial = len(problem.queries) - len(problem.samples.rewards) * group
        share = visits.new_full((n_initial,), 1.0 / n_initial)
        return np.asarray(torch.cat([visits, share]).clamp(min=0.0).double().cpu())

"""One question put to the estimator, to its replicas and to other row models.

The spread of the answers is what intervals of the kernel estimate are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nopg.bellman.problem import Problem
from nopg.bellman.rows import QueryRows
from nopg.bellman.samples import initial_state_tensor
from nopg.bellman.solution import BellmanSolution
from nopg.evaluation.bootstrap import model_values, replica_values, weighted_product
from nopg.evaluation.chains import (
    ALTERNATIVES,
    Alternative,
    Chain,
    alternative_chain,
    plain_chain,
)
from nopg.evaluation.intervals import Answers, Estimate
from nopg.evaluation.support import distance_of_rows, usual_distance
from nopg.policies.families import Policy

Question = Callable[[Chain, Tensor | None], Tensor]
"""A chain, and replica weights (n, b) or None, to answers (m,) or (m, b)."""


@dataclass(frozen=True)
class EnsembleBasis:
    """What the ensemble needs of a data set whatever the policy, made once."""

    problem: Problem  # data and neighbour lists
    weights: Tensor  # replica weights, (n, b)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """What the plain rows are compared with."""
        return ALTERNATIVES[self.problem.config.rows]

    @cached_property
    def rescaled(self) -> tuple[Problem, ...]:
        """The problem as each of them sees it."""
        return tuple(other.problem(self.problem) for other in self.alternatives)

    @cached_property
    def usual_distance(self) -> float:
        """Bandwidths that 99 of 100 samples have at most to the nearest other one."""
        return usual_distance(self.problem)


@dataclass(frozen=True)
class KernelEnsemble:
    """The plain chain with its replicas, and the chains of other row models."""

    solution: BellmanSolution  # the solved equation of the plain chain
    policy: Policy  # whose chains these are
    basis: EnsembleBasis  # what no policy changes

    @property
    def weights(self) -> Tensor:
        """Replica weights, (n, b)."""
        return self.basis.weights

    @cached_property
    def plain(self) -> Chain:
        """The paper's chain."""
        return plain_chain(self.solution, self.policy)

    @cached_property
    def alternatives(self) -> tuple[Chain, ...]:
        """The same policy under every other row model."""
        pairs = zip(self.basis.alternatives, self.basis.rescaled, strict=True)
        return tuple(
            alternative_chain(self.solution, self.policy, other.scale, problem)
            for other, problem in pairs
        )

    @cached_property
    def replica_q(self) -> Tensor:
        """q of every replica, (n, b)."""
        return replica_values(self.plain, self.weights, self.solution.q.value)

    @cached_property
    def _models(self) -> tuple[list[Tensor], Tensor]:
        """q under every other row model, and the visits of the last one."""
        return model_values(self.alternatives, self.solution)

    def values(self, states: Any, level: float) -> Estimate:
        """V(s) at any states with its interval."""
        plain = self.plain.at(states)
        models = zip(self.alternatives, self._models[0], strict=True)
        return Answers(
            plain.matvec(self.solution.q.value),
            weighted_product(plain, self.weights)(self.replica_q),
            [chain.at(states).matvec(q) for chain, q in models],
            self.possible_returns,
            self._unknown_at(states) + self._later_unknown,
        ).interval(level)

    def objective(self, level: float) -> Estimate:
        """J with its interval."""
        q = self.solution.q.value
        models = zip(self.alternatives, self._models[0], strict=True)
        return Answers(
            self.plain.at_initial.matvec(q).mean(dim=0, keepdim=True),
            self._replica_objectives()[None],
            [c.at_initial.matvec(x).mean(dim=0, keepdim=True) for c, x in models],
            self.possible_returns,
            self._unknown_visits,
        ).interval(level)

    def asked(
        self, question: Question, level: float, possible: tuple[float, float]
    ) -> Estimate:
        """Any other question, put to the plain chain, its replicas and the models."""
        return Answers(
            question(self.plain, None),
            question(self.plain, self.weights),
            [question(chain, None) for chain in self.alternatives],
            possible,
            self._unknown_visits,
        ).interval(level)

    @cached_property
    def _unknown_visits(self) -> Tensor:
        """Discounted visits to unknown places from the initial states, a scalar."""
        m = self.plain.problem.next_rows.shape[0]
        return self._unknown_queries[m:].mean() + self._later_unknown

    @cached_property
    def _later_unknown(self) -> Tensor:
        """sum_i gamma mu_i u_i over the rows at the next states, a scalar.

        Visits are those of the centred chain: plain rows pull the estimated system
        back into the data, so that it never meets the places that matter here. Values
        at other states take the number over as it is: what comes after the first step
        is of the same kind wherever the policy starts.
        """
        chain, problem = self.alternatives[-1], self.plain.problem
        shares = self._unknown_queries[: problem.next_rows.shape[0]]
        _, visits = self._models
        visits = problem.config.gamma * chain.continued(visits).clamp(min=0.0)
        return (visits * chain.averaged(shares)).sum()

    @cached_property
    def _unknown_queries(self) -> Tensor:
        """How little the data say at the next states and the initial ones, (m,)."""
        problem = self.plain.problem
        return self._unknown((problem.next_rows, problem.initial_rows), problem.queries)

    def _unknown_at(self, states: Any) -> Tensor:
        queries = initial_state_tensor(states, self.plain.problem.samples.states)
        return self._unknown((self.plain.problem.rows_at(queries),), queries)

    def _unknown(self, parts: tuple[QueryRows, ...], states: Tensor) -> Tensor:
        """How little the data say of the policy at states, from 0 to 1, (m,).

        A place is unknown as far as it lies beyond what is usual among the data, or
        beyond a bandwidth outside of the samples around it: rows that could not be
        centred hold the estimated system back at the edge of the data.
        """
        problem = self.plain.problem
        with torch.no_grad():
            lengths = [rows.shape[0] for rows in parts]
            actions = torch.split(self.policy.act(states).detach(), lengths)
        pairs = zip(parts, actions, strict=True)
        distance = torch.cat([distance_of_rows(problem, *pair) for pair in pairs])
        beyond = distance - self.basis.usual_distance
        for chain in self.alternatives:
            if chain.displacement is not None and states is problem.queries:
                beyond = torch.maximum(beyond, chain.displacement - 1.0)
        return 1.0 - torch.exp(-0.5 * beyond.clamp(min=0.0).square())

    def _replica_objectives(self) -> Tensor:
        """J of every replica, (b,), from the two vectors that are solved for already.

        J_w = eps0_w' q + mu' (r + gamma P_w q - q) is exact in the reweighted rows and
        of first order in what they change of q and mu: two products, no solve.
        """
        chain, q = self.plain, self.solution.q.value[:, None]
        r, gamma = chain.problem.samples.rewards[:, None], chain.problem.config.gamma
        q = q.expand(-1, self.weights.shape[1])
        first = weighted_product(chain.at_initial, self.weights)(q).mean(dim=0)
        later = weighted_product(chain.at_next, self.weights)(q)
        later = chain.continued(chain.averaged(later))
        return first + self.solution.mu.value @ (r + gamma * later - q)

    @cached_property
    def possible_returns(self) -> tuple[float, float]:
        """What the lowest and the highest reward seen, earned for ever, come to."""
        problem = self.plain.problem
        r, horizon = problem.samples.rewards, 1.0 / (1.0 - problem.config.gamma)
        low, high = float(r.min()), float(r.max())
        if problem.samples.continuation_mask is not None:  # a task may end at once
            return min(low * horizon, low), max(high * horizon, high)
        return low * horizon, high * horizon

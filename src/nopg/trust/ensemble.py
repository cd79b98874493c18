"""One question put to the estimator, to its replicas and to other row models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.bellman.samples import initial_state_tensor
from nopg.bellman.solution import BellmanSolution
from nopg.linalg.columns import solve_columns
from nopg.linalg.operators import AveragedRows
from nopg.linalg.solve import (
    DiscountedSystem,
    SolverConfig,
    solve_values,
    solve_visits,
)
from nopg.policies.base import Policy
from nopg.trust.bootstrap import weighted_product
from nopg.trust.chains import ALTERNATIVES, Chain, alternative_chain, plain_chain
from nopg.trust.intervals import Answers, Interval
from nopg.trust.support import support_of_rows, usual_distance

RTOL = 1e-3
"""Accuracy of replicas and models: far below the differences that are looked for."""
VISITS_RTOL = 1e-2
"""Accuracy of visits, which decide how far an interval opens, and no estimate."""

Question = Callable[[Chain, Tensor | None], Tensor]
"""A chain, and replica weights (n, b) or None, to answers (m,) or (m, b)."""


@dataclass(frozen=True)
class Ensemble:
    """The plain chain with its replicas, and the chains of other row models.

    Attributes:
        solution: The solved equation of the plain chain.
        policy: Whose chains these are.
        weights: Replica weights, (n, b).
    """

    solution: BellmanSolution
    policy: Policy
    weights: Tensor

    @cached_property
    def plain(self) -> Chain:
        """The paper's chain."""
        return plain_chain(self.solution, self.policy)

    @cached_property
    def alternatives(self) -> tuple[Chain, ...]:
        """The same policy under every other row model."""
        return tuple(
            alternative_chain(self.solution, self.policy, m) for m in ALTERNATIVES
        )

    @cached_property
    def replica_q(self) -> Tensor:
        """q of every replica, (n, b)."""
        return replica_values(self.plain, self.weights, self.solution.q.value)

    @cached_property
    def model_q(self) -> tuple[Tensor, ...]:
        """q under every other row model, (n,) each."""
        start = self.solution.q.value
        return tuple(model_values(chain, start) for chain in self.alternatives)

    def values(self, states: Any, level: float) -> Interval:
        """V(s) at any states with its interval."""
        plain = self.plain.at(states)
        models = zip(self.alternatives, self.model_q, strict=True)
        return Answers(
            plain.matvec(self.solution.q.value),
            weighted_product(plain, self.weights)(self.replica_q),
            [chain.at(states).matvec(q) for chain, q in models],
            self.possible_returns,
            self._unknown_at(states) + self._later_unknown,
        ).interval(level)

    def objective(self, level: float) -> Interval:
        """J with its interval."""
        q = self.solution.q.value
        models = zip(self.alternatives, self.model_q, strict=True)
        return Answers(
            self.plain.at_initial.matvec(q).mean(dim=0, keepdim=True),
            self._replica_objectives()[None],
            [c.at_initial.matvec(x).mean(dim=0, keepdim=True) for c, x in models],
            self.possible_returns,
            self._unknown_visits,
        ).interval(level)

    def asked(
        self, question: Question, level: float, possible: tuple[float, float]
    ) -> Interval:
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
        problem = self.plain.problem
        m = problem.next_rows.shape[0]
        starts = problem.queries[m:]
        first = self._unknown(problem.initial_rows, starts, slice(m, None))
        return first.mean() + self._later_unknown

    @cached_property
    def _later_unknown(self) -> Tensor:
        """sum_i gamma mu_i u_i over the rows at the next states, a scalar.

        Visits are those of the centred chain: plain rows pull the estimated system
        back into the data, so that it never meets the places that matter here. Values
        at other states take the number over as it is: what comes after the first step
        is of the same kind wherever the policy starts.
        """
        chain, problem = self.alternatives[-1], self.plain.problem
        m = problem.next_rows.shape[0]
        shares = self._unknown(problem.next_rows, problem.queries[:m], slice(m))
        visits = model_visits(chain, self.solution.mu.value)
        visits = problem.config.gamma * chain.only_live(visits).clamp(min=0.0)
        return (visits * chain.averaged(shares)).sum()

    def _unknown_at(self, states: Any) -> Tensor:
        queries = initial_state_tensor(states, self.plain.problem.samples.states)
        return self._unknown(self.plain.problem.rows_at(queries), queries)

    def _unknown(
        self, rows: QueryRows, states: Tensor, which: slice | None = None
    ) -> Tensor:
        """How little the data say of the policy at states, from 0 to 1, (m,).

        A place is unknown as far as it lies beyond what is usual among the data, or
        beyond a bandwidth outside of the samples around it: rows that could not be
        centred hold the estimated system back at the edge of the data.
        """
        with torch.no_grad():
            actions = self.policy.act(states)
        distance = support_of_rows(self.plain.problem, rows, actions).distance
        beyond = torch.as_tensor(distance).to(states) - self._usual_distance
        if which is not None:
            for chain in self.alternatives:
                if chain.displacement is not None:
                    outside = chain.displacement[which] - 1.0
                    beyond = torch.maximum(beyond, outside)
        return 1.0 - torch.exp(-0.5 * beyond.clamp(min=0.0).square())

    @cached_property
    def _usual_distance(self) -> float:
        return usual_distance(self.plain.problem)

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
        later = chain.only_live(chain.averaged(later))
        return first + self.solution.mu.value @ (r + gamma * later - q)

    @cached_property
    def possible_returns(self) -> tuple[float, float]:
        """What the lowest and the highest reward seen, earned for ever, come to."""
        problem = self.plain.problem
        r, horizon = problem.samples.rewards, 1.0 / (1.0 - problem.config.gamma)
        low, high = float(r.min()), float(r.max())
        if problem.samples.live_rows is not None:  # a task may end at once
            return min(low * horizon, low), max(high * horizon, high)
        return low * horizon, high * horizon


def replica_values(chain: Chain, weights: Tensor, start: Tensor) -> Tensor:
    """q_w = (I - gamma P_w)^-1 r of every replica, together, (n, b)."""
    problem = chain.problem
    gamma, r = problem.config.gamma, problem.samples.rewards[:, None]
    rows = weighted_product(chain.at_next, weights)

    def product(x: Tensor) -> Tensor:
        return x - gamma * chain.only_live(chain.averaged(rows(x)))

    width = weights.shape[1]
    first = start[:, None].expand(-1, width)
    return solve_columns(product, r.expand(-1, width), first, rtol=RTOL)


def model_values(chain: Chain, start: Tensor) -> Tensor:
    """q = (I - gamma P)^-1 r of a chain, (n,)."""
    r = chain.problem.samples.rewards
    return solve_values(_system(chain), r, SolverConfig(rtol=RTOL), start).value


def model_visits(chain: Chain, start: Tensor) -> Tensor:
    """mu = (I - gamma P)^-T eps0 of a chain, (n,)."""
    n_initial = len(chain.problem.queries) - chain.problem.next_rows.shape[0]
    share = start.new_full((n_initial,), 1.0 / n_initial)
    eps0 = chain.at_initial.rmatvec(share)
    config = SolverConfig(rtol=VISITS_RTOL)
    return solve_visits(_system(chain), eps0, config, start).value


def _system(chain: Chain) -> DiscountedSystem:
    samples, config = chain.problem.samples, chain.problem.config
    P = AveragedRows(chain.at_next, config.next_state_samples, samples.live_rows)
    return DiscountedSystem(P, config.gamma)

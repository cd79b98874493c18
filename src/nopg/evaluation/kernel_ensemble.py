"""Intervals of the kernel estimate: replicas of the data, and rows made otherwise.

Other data would have given another answer: the spread of bootstrap replicas. Smoothing has a bias:
the distance to what other rows answer. And where no sample is near, the answer is not known: w_x is
how often, discounted, the policy asks at the query x, and u_x goes from 0 to 1 as x is farther from
the data than is usual. `Answers` makes an interval of all.

A replica gives every episode (or every sample, where there are none) a weight drawn from the
exponential distribution and adds its logarithm to the column of each of its samples (Rubin, 1981).
Rows are softmaxes, so that its product needs no matrix,

    P_w x = P (w o x) / (P w),

and all replicas share one sparse product. This is exact where a row is one softmax; the rows of
stochastic and discrete policies average several, and there the average is reweighted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.equation import evaluate_at
from nopg.bellman.problem import MATCHED, NADARAYA_WATSON, Problem
from nopg.bellman.rows import QueryRows
from nopg.bellman.samples import Samples, initial_state_tensor
from nopg.bellman.solution import BellmanSolution, Estimator
from nopg.data.dataset import Dataset
from nopg.errors import warn
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.support import distance_of_rows, usual_distance
from nopg.linalg.operators import LinearOperator
from nopg.linalg.solve import SolverConfig, solve_columns
from nopg.policies.families import Policy
from nopg.randomness import Seed

N_REPLICAS = 32  # enough for a spread known to one part in eight
RTOL = 1e-3  # accuracy of replicas and other rows, far below what they differ by
ALTERNATIVES = {
    NADARAYA_WATSON: ((NADARAYA_WATSON, 2.0**0.5), (MATCHED, 2.0)),
    MATCHED: ((NADARAYA_WATSON, 1.0), (MATCHED, 2.0)),
}
"""What the plain rows are compared with, by what these are: a row model, and a factor on the
bandwidths. A wider kernel, as their choice might have gone; or the paper's rows, whose bias is
another than that of matched ones. And last rows without displacement, which reach all around."""


class EnsembleBasis(NamedTuple):
    """What the ensemble needs of a data set whatever the policy, made once."""

    weights: Tensor  # replica weights, (n, b)
    others: tuple[tuple[float, Problem], ...]  # data with other rows, and their scale
    usual_distance: float  # between samples, in bandwidths
    seed: Seed  # of what a stochastic policy draws

    @classmethod
    def of(cls, problem: Problem, data: Dataset, seed: Seed) -> Self:
        """For the rows of this problem, made of these data."""
        weights = replica_weights(data, problem.samples, seed.numpy("replicas"))
        kinds = ALTERNATIVES[problem.config.rows]
        others = tuple((scale, _seen_as(problem, rows, scale)) for rows, scale in kinds)
        return cls(weights, others, usual_distance(problem), seed)


def _seen_as(plain: Problem, rows: str, scale: float) -> Problem:
    """The same data with rows of this kind; lists are shared where they can be."""
    if rows == plain.config.rows:
        return plain.rescaled(scale)
    config = replace(plain.config, rows=rows, neighbours="auto", stochastic="quadrature")
    other = replace(plain, config=config)
    later, first = (other.rows_at(r.queries) for r in (plain.next_rows, plain.initial_rows))
    return replace(other, next_rows=later, initial_rows=first).rescaled(scale)


def replica_weights(data: Dataset, samples: Samples, generator: np.random.Generator) -> Tensor:
    """Weights of each sample in each replica, in the order of `samples`, (n, b)."""
    # One episode alone has no spread between episodes: samples are weighted, and a warning says so.
    if data.n_episodes == 1:
        warn(
            "Intervals over episodes need two or more, these data have one; its samples are drawn "
            "instead, so the interval cannot tell how much another run would have differed."
        )
    units = np.arange(len(data)) if data.episodes is None or data.n_episodes == 1 else data.episodes
    _, numbers = np.unique(units, return_inverse=True)
    drawn = generator.exponential(size=(int(numbers.max()) + 1, N_REPLICAS))
    weights = torch.as_tensor(drawn[numbers]).to(samples.rewards)
    return weights if samples.order is None else weights[samples.order]


def weighted_product(rows: LinearOperator, weights: Tensor | None) -> Callable[[Tensor], Tensor]:
    """X -> P_w X with one column per replica, (n, b) to (m, b); P x if unweighted."""
    if weights is None:
        return rows.matvec
    total = rows.matvec(weights).clamp(min=torch.finfo(weights.dtype).tiny)
    return lambda x: rows.matvec(weights * x) / total


def replica_values(solution: BellmanSolution, weights: Tensor) -> Tensor:
    """q_w = (I - gamma P_w)^-1 r of every replica, together, (n, b)."""
    problem, width = solution.estimator.problem, weights.shape[1]
    rows = weighted_product(solution.at_next.operator, weights)
    gamma, averaged = problem.config.gamma, solution.transition.averaged
    r, first = (x[:, None].expand(-1, width) for x in (problem.samples.rewards, solution.q.value))
    return solve_columns(lambda x: x - gamma * averaged(rows(x)), r, first, rtol=RTOL)


class Answers(NamedTuple):
    """What the equation, its replicas and other rows say to one question.

    The interval reaches from the lowest to the highest row model, and further,

        [min - pad - (v - worst) unknown, max + pad + (best - v) unknown],
        pad = z sqrt(spread^2 + ((max - min) / 2)^2),   unknown = sum_x w_x u_x,

    where worst and best are what the lowest and the highest reward seen come to.
    """

    value: Tensor  # answers with the plain rows, (m,)
    replicas: Tensor  # of its replicas, (m, b)
    others: list[Tensor]  # with other rows, (m,) each
    possible: tuple[float, float]  # lowest and highest answer there can be
    unknown: Tensor  # visits to places without data, (m,) or a scalar

    def interval(self, level: float) -> Estimate:
        """The ends, kept within what is possible."""
        z = NormalDist().inv_cdf(0.5 + 0.5 * level)
        every = torch.stack([self.value, *self.others])  # (1 + others, m)
        low, high = every.amin(dim=0), every.amax(dim=0)
        # Other rows remove a part of the bias, and agree with the plain rows on the rest: of what
        # they show of it, half is the standard deviation of what smoothing still hides.
        pad = z * (self.replicas.var(dim=1) + (0.5 * (high - low)).square()).sqrt()
        worst, best = self.possible
        low = low - pad - self.unknown * (self.value - worst).clamp(min=0.0)
        high = high + pad + self.unknown * (best - self.value).clamp(min=0.0)
        # An answer outside what is possible, by rounding, stays inside its interval.
        low = torch.minimum(low.clamp(min=worst), self.value)
        high = torch.maximum(high.clamp(max=best), self.value)
        ends = [x.double().cpu().numpy() for x in (self.value, low, high)]
        return Estimate(ends[0], ends[1], ends[2], level)


@dataclass(frozen=True)
class KernelEnsemble:
    """One policy's equation with its replicas, and its equations with other rows."""

    solution: BellmanSolution  # the plain one
    policy: Policy  # whose equations these are
    basis: EnsembleBasis  # what no policy changes

    @cached_property
    def alternatives(self) -> tuple[BellmanSolution, ...]:
        """The equations with other rows, solved from the plain solution on."""
        near, seed = replace(self.solution.following(), rows=None), self.basis.seed
        config, device = SolverConfig(rtol=RTOL), str(near.q.device)
        with torch.no_grad():
            return tuple(
                # The draws of the plain rows, where the policy is stochastic.
                Estimator.of(other, self.policy).solve(
                    self.policy, seed.torch("final-samples", device), config, near
                )
                for _, other in self.basis.others
            )

    @cached_property
    def replica_q(self) -> Tensor:
        """q of every replica, (n, b)."""
        return replica_values(self.solution, self.basis.weights)

    def values(self, states: Any, level: float) -> Estimate:
        """V(s) at any states with its interval."""
        plain, *others = (
            evaluate_at(one.estimator.problem, self.policy, states, self.basis.seed)
            for one in (self.solution, *self.alternatives)
        )
        problem = self.solution.estimator.problem
        queries = initial_state_tensor(states, problem.samples.states)
        return Answers(
            plain.matvec(self.solution.q.value),
            weighted_product(plain, self.basis.weights)(self.replica_q),
            [rows.matvec(one.q.value) for rows, one in zip(others, self.alternatives, strict=True)],
            problem.possible_returns,
            _unknown(self._beyond((problem.rows_at(queries),), queries)) + self._later_unknown,
        ).interval(level)

    def objective(self, level: float) -> Estimate:
        """J with its interval."""
        found = [one.eps0 @ one.q.value for one in (self.solution, *self.alternatives)]
        replicas, others = self._replica_objectives()[None], [one[None] for one in found[1:]]
        possible = self.solution.estimator.problem.possible_returns
        answers = Answers(found[0][None], replicas, others, possible, self._unknown_visits)
        return answers.interval(level)

    def probability(
        self, ask: Callable[[BellmanSolution, Tensor | None], Tensor], level: float
    ) -> Estimate:
        """A probability, asked of an equation and replica weights (n, b), or none."""
        plain, replicas = ask(self.solution, None), ask(self.solution, self.basis.weights)
        others = [ask(one, None) for one in self.alternatives]
        return Answers(plain, replicas, others, (0.0, 1.0), self._unknown_visits).interval(level)

    @cached_property
    def _unknown_visits(self) -> Tensor:
        """Discounted visits to unknown places from the initial states, a scalar."""
        m = self.solution.estimator.problem.next_rows.shape[0]
        return self._unknown_queries[m:].mean() + self._later_unknown

    @cached_property
    def _later_unknown(self) -> Tensor:
        """sum_i gamma mu_i u_i over the rows at the next states, a scalar."""
        # Visits are those of the rows without displacement: plain rows pull the estimated system
        # back into the data, so that it never meets the places that matter here. Values at other
        # states take the number over: after the first step all is of the same kind.
        last, problem = self.alternatives[-1], self.solution.estimator.problem
        shares = self._unknown_queries[: problem.next_rows.shape[0]]
        visits = last.transition.spread(last.mu.value.clamp(min=0.0))
        return problem.config.gamma * (visits * shares).sum()

    @cached_property
    def _unknown_queries(self) -> Tensor:
        """How little the data say at the next states and the initial ones, (m,)."""
        # Beyond a bandwidth outside of the samples around it a place is unknown too: rows that
        # could not be centred hold the estimated system back at the edge of data.
        problem = self.solution.estimator.problem
        beyond = self._beyond((problem.next_rows, problem.initial_rows), problem.queries)
        for (scale, _), one in zip(self.basis.others, self.alternatives, strict=True):
            later, first = one.at_next.displacement, one.at_initial.displacement
            if later is not None and first is not None:
                beyond = torch.maximum(beyond, scale * torch.cat([later, first]) - 1.0)
        return _unknown(beyond)

    def _beyond(self, parts: tuple[QueryRows, ...], states: Tensor) -> Tensor:
        """How much farther states are from the data than is usual among them, (m,)."""
        with torch.no_grad():
            taken = self.policy.act(states).detach()
            actions = torch.split(taken, [rows.shape[0] for rows in parts])
        problem, pairs = (self.solution.estimator.problem, zip(parts, actions, strict=True))
        distance = torch.cat([distance_of_rows(problem, *pair) for pair in pairs])
        return distance - self.basis.usual_distance

    def _replica_objectives(self) -> Tensor:
        """J of every replica, (b,), from the two vectors that are solved for already."""
        # J_w = eps0_w' q + mu' (r + gamma P_w q - q) is exact in the reweighted rows and of first
        # order in what they change of q and mu: two products, no solve.
        solution, weights = self.solution, self.basis.weights
        problem = solution.estimator.problem
        q = solution.q.value[:, None].expand(-1, weights.shape[1])
        first = weighted_product(solution.at_initial.operator, weights)(q).mean(dim=0)
        later = weighted_product(solution.at_next.operator, weights)(q)
        later = problem.config.gamma * solution.transition.averaged(later)
        return first + solution.mu.value @ (problem.samples.rewards[:, None] + later - q)


def _unknown(beyond: Tensor) -> Tensor:
    """A distance beyond what is usual as a share from 0 to 1, (m,)."""
    return 1.0 - torch.exp(-0.5 * beyond.clamp(min=0.0).square())

"""Theorem 1 and Equation (10) for one policy: q, mu, J and the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nopg.bellman.certificate import Objective, certified_objective
from nopg.bellman.problem import Problem
from nopg.bellman.queries import (
    Evaluations,
    QueryResponsibilities,
    query_responsibilities,
)
from nopg.bellman.responsibilities import Evaluation
from nopg.linalg.coarse import CoarseCorrection, CoarseSpace
from nopg.linalg.krylov import Workspace
from nopg.linalg.operators import AveragedRows
from nopg.linalg.solve import (
    DiscountedSystem,
    Solution,
    SolverConfig,
    solve_pair,
    workspace_for,
)
from nopg.policies.base import Policy
from nopg.policies.checked import checked_outputs


@dataclass(frozen=True)
class Estimator:
    """A problem together with the kind of responsibilities its policy needs."""

    problem: Problem
    at_queries: QueryResponsibilities

    @classmethod
    def of(cls, problem: Problem, policy: Policy) -> Estimator:
        """The estimator for `policy` and every policy of the same family."""
        return cls(problem, query_responsibilities(problem, policy))

    def solve(
        self,
        policy: Policy,
        generator: torch.Generator,
        solver: SolverConfig,
        start: tuple[Tensor, ...] | None = None,
    ) -> BellmanSolution:
        """One pass of Algorithm 1 up to the update of theta.

        Args:
            policy: The policy, of the family this estimator was made for.
            generator: Source of the policy's draws, where it needs any.
            solver: Accuracy of the two solves.
            start: What a solution close by leaves: `following` of it, or (q, mu).
        """
        samples, gamma = self.problem.samples, self.problem.config.gamma
        outputs = checked_outputs(policy, self.problem.queries, samples.action_width)
        with torch.no_grad():
            values = tuple(output.detach() for output in outputs)
            found = self.at_queries.evaluate(values, generator)
            P = AveragedRows(
                found.at_next.operator,
                self.problem.config.next_state_samples,
                samples.continuation_mask,
            )
            eps0 = found.at_initial.operator.row_mean()  # (n,)
            system = DiscountedSystem(P, gamma)
            correction = None
            if self.problem.coarse is not None and len(eps0) > solver.dense_below:
                correction = self._correction(self.problem.coarse, P, start)
            guess = None if start is None else (start[0], start[1])
            q, mu = solve_pair(
                system,
                samples.rewards,
                eps0,
                solver,
                guess,
                correction,
                self._workspace,
            )
        return BellmanSolution(self, outputs, found, P, eps0, q, mu, correction)

    @cached_property
    def _workspace(self) -> Workspace:
        """Where the solves of all policies are made, one after the other."""
        return workspace_for(self.problem.samples.rewards)

    def _correction(
        self, space: CoarseSpace, P: AveragedRows, start: tuple[Tensor, ...] | None
    ) -> CoarseCorrection | None:
        """That of the start if it brought one, else a new one."""
        kept = None
        if start is not None and len(start) > 2:
            kept = CoarseCorrection.kept(start[2], space)
        return kept or CoarseCorrection.of(P, self.problem.config.gamma, space)


@dataclass(frozen=True)
class BellmanSolution:
    """The solved equation of one policy.

    Attributes:
        estimator: What it was solved with.
        outputs: The policy's outputs at the queries, still attached to their graph.
        found: Rows at the queries.
        transition: P, (n, n).
        eps0: Mean responsibilities of the initial states, (n,).
        q: Solution of (I - gamma P) q = r.
        mu: Solution of (I - gamma P)' mu = eps0.
        correction: The coarse inverse both were solved with, if any.
    """

    estimator: Estimator
    outputs: tuple[Tensor, ...]
    found: Evaluations
    transition: AveragedRows
    eps0: Tensor
    q: Solution
    mu: Solution
    correction: CoarseCorrection | None = None

    @property
    def at_next(self) -> Evaluation:
        """Rows at the next states."""
        return self.found.at_next

    @property
    def at_initial(self) -> Evaluation:
        """Rows at the initial states."""
        return self.found.at_initial

    def following(self, *, keep_correction: bool = True) -> tuple[Tensor, ...]:
        """Where to start solving for a policy close by: q, mu, and a coarse inverse.

        Args:
            keep_correction: Whether to pass on the coarse inverse; it grows old
                slowly, and making it takes as long as some ten products.
        """
        vectors = (self.q.value, self.mu.value)
        if self.correction is None or not keep_correction:
            return vectors
        return (*vectors, self.correction.core)

    def objective(self) -> Objective:
        """J with bounds on what truncation and solver can have cost."""
        problem = self.estimator.problem
        dropped_most = float(self.at_next.dropped.max())
        problem.warn_if_capped(self.at_next.dropped, dropped_most)
        return certified_objective(
            gamma=problem.config.gamma,
            rewards=problem.samples.rewards,
            has_terminals=problem.samples.continuation_mask is not None,
            eps0=self.eps0,
            q=self.q,
            mu=self.mu,
            dropped_mass=self._dropped_mass(),
            dropped_most=dropped_most,
        )

    def _dropped_mass(self) -> float:
        """Sum of gamma mu_i delta_i, plus delta_0: unvisited rows do not count."""
        gamma = self.estimator.problem.config.gamma
        visits = self.transition.spread(self.mu.value.clamp(min=0.0))
        later = gamma * float(visits @ self.at_next.dropped)
        return later + float(self.at_initial.dropped.mean())

    def output_gradients(self) -> tuple[Tensor, ...]:
        """dJ with respect to the policy's outputs at the queries, Eq. (10).

        The first term of the equation comes from the initial states, with weight
        1 / B each; the second from the next states, with weight gamma mu_i.
        """
        q, gamma = self.q.value, self.estimator.problem.config.gamma
        visits = gamma * self.transition.spread(self.mu.value)
        n_initial = len(self.at_initial.dropped)
        share = q.new_full((n_initial,), 1.0 / n_initial)
        return self.estimator.at_queries.pull(self.found, q, visits, share)

    def gradient(self, policy: Policy) -> tuple[Tensor, ...]:
        """dJ / d theta, one tensor a parameter: one backward pass, Eq. (10).

        Where ranks share the rows each has the gradient of its own; the sum is ours.
        """
        parameters = [p for p in policy.parameters() if p.requires_grad]
        with torch.no_grad():
            pulls = self.output_gradients()
        # An output may be a constant, as the spread of a linear Gaussian policy is.
        learned = [
            (output, pull)
            for output, pull in zip(self.outputs, pulls, strict=True)
            if output.requires_grad
        ]
        outputs, pulls = zip(*learned, strict=True)
        found = torch.autograd.grad(
            outputs, parameters, pulls, allow_unused=True, retain_graph=True
        )
        gradients = tuple(
            torch.zeros_like(p) if g is None else g
            for p, g in zip(parameters, found, strict=True)
        )
        ranks = self.estimator.problem.ranks
        return gradients if ranks is None else ranks.sum(gradients)

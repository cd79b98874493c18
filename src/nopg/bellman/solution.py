"""Theorem 1 and Equation (10) for one policy: q, mu, J with its certificate, gradient.

How wrong J can be is bounded. Truncation: with complete rows P and kept rows P~, of which row i is
within total variation delta_i, and the same for eps0,

    J - J~ = gamma mu~' (P - P~) q + (eps0 - eps0~)' q          (exact),
    |J - J~| <= (gamma sum_i mu~_i delta_i + delta_0) span(q).

Solver. J is eps0' q + mu' (r - Lambda q), whose error is a product of residuals: loose solves do.

    |J~ - J^| <= ||res_mu||_1 ||res_q||_inf / (1 - gamma).
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from nopg.bellman.problem import Problem
from nopg.bellman.responsibilities import Hint, Outputs, PolicyRows, Responsibilities
from nopg.bellman.rows import EXACT
from nopg.bellman.sharded import ShardedResponsibilities
from nopg.linalg.coarse import PRECISION, CoarseCorrection
from nopg.linalg.operators import AveragedRows
from nopg.linalg.solve import DiscountedSystem, Solution, SolverConfig, solve_pair
from nopg.policies.build import PerceptronPass
from nopg.policies.families import Policy, checked_outputs


class Objective(float):
    """The estimated return J, a float that knows its certificate."""

    truncation_error: float  # bound on what dropped neighbours can have changed
    solver_error: float  # bound on what inexact solves can have changed

    def __new__(
        cls, value: float, truncation_error: float = 0.0, solver_error: float = 0.0
    ) -> "Objective":
        """Attach the two bounds to the value."""
        objective = super().__new__(cls, value)
        objective.truncation_error = truncation_error
        objective.solver_error = solver_error
        return objective

    @property
    def certificate(self) -> float:
        """Both bounds together: the complete, exact J is within this distance."""
        return self.truncation_error + self.solver_error

    def __repr__(self) -> str:
        return f"{float(self):.6g} (numerically certain to {self.certificate:.1e})"


@dataclass(frozen=True)
class Start:
    """Where solves for a policy close to a solved one begin."""

    q: Tensor  # solution of (I - gamma P) q = r
    mu: Tensor  # solution of (I - gamma P)' mu = eps0
    core: Tensor | None = None  # what the coarse inverse was made of, if there is one
    rows: Tensor | None = None  # what rows were found by, where the row model iterates


@dataclass(frozen=True)
class Estimator:
    """A problem together with the kind of responsibilities its policy needs."""

    problem: Problem
    at_next: Responsibilities
    at_initial: Responsibilities

    @classmethod
    def of(cls, problem: Problem, policy: Policy) -> "Estimator":
        """The estimator for `policy` and every policy of the same family."""
        for rows in (problem.next_rows, problem.initial_rows):  # once, and not in an update
            _ = rows.actions, rows.pattern and rows.pattern.ends
        later = problem.responsibilities(policy, problem.next_rows)
        if problem.ranks is not None:
            later = ShardedResponsibilities(later, problem)
        return cls(problem, later, problem.responsibilities(policy, problem.initial_rows))

    def solve(
        self,
        policy: Policy,
        draws: Generator,
        solver: SolverConfig,
        start: Start | None = None,  # what a policy close by left
        before: PerceptronPass | None = None,  # of this policy, which has changed in place
    ) -> "BellmanSolution":
        """One pass of Algorithm 1 up to the update of theta."""
        problem, samples = self.problem, self.problem.samples
        made = before.again() if before else PerceptronPass.of(policy, problem.queries)
        said = None if made is None else made.outputs
        outputs = checked_outputs(policy, problem.queries, samples.action_width, said)
        with torch.no_grad():
            at_next, at_initial = self._rows(outputs, draws, solver, start)
            group = problem.config.next_state_samples
            P = AveragedRows(at_next.operator, group, samples.continuation_mask)
            eps0 = at_initial.operator.row_mean()  # (n,)
            system = DiscountedSystem(P, problem.config.gamma)
            correction, cells = None, problem.coarse
            if cells is not None and len(eps0) > solver.dense_below:
                if start is not None and start.core is not None:
                    correction = CoarseCorrection(cells, start.core.to(PRECISION))
                elif system.compiled is not None:
                    correction = system.compiled.correction(cells)
            near = None if start is None else (start.q, start.mu)
            q, mu = solve_pair(system, samples.rewards, eps0, solver, near, correction)
        return BellmanSolution(self, outputs, at_next, at_initial, P, eps0, q, mu, correction, made)

    def _rows(
        self, outputs: Outputs, draws: Generator, solver: SolverConfig, start: Start | None
    ) -> list[PolicyRows]:
        """Rows at the next states, then at the initial ones."""
        m, accuracy = self.at_next.rows.shape[0], max(EXACT, solver.rtol)
        guess, found = None if start is None else start.rows, []
        for family, some in ((self.at_next, slice(m)), (self.at_initial, slice(m, None))):
            hint = Hint(None if guess is None else guess[..., some, :], accuracy)
            there = tuple(output.detach()[some] for output in outputs)
            found.append(family.evaluate(there, draws, hint))
        return found


@dataclass(frozen=True)
class BellmanSolution:
    """The solved equation of one policy."""

    estimator: Estimator
    outputs: Outputs  # the policy's at the queries; attached to their graph, or `made`
    at_next: PolicyRows
    at_initial: PolicyRows
    transition: AveragedRows  # P, (n, n)
    eps0: Tensor  # mean responsibilities of the initial states, (n,)
    q: Solution  # of (I - gamma P) q = r
    mu: Solution  # of (I - gamma P)' mu = eps0
    correction: CoarseCorrection | None = None  # what both were solved with
    made: PerceptronPass | None = None  # what the outputs were made by

    def following(self) -> Start:
        """Where to start solving for a policy close by."""
        # The coarse inverse grows old slowly, and making it takes some ten products.
        core = None if self.correction is None else self.correction.core
        later, first = self.at_next.state, self.at_initial.state
        rows = None if later is None or first is None else torch.cat([later, first], dim=-2)
        return Start(self.q.value, self.mu.value, core, rows)

    def objective(self) -> Objective:
        """J with bounds on what truncation and solver can have cost."""
        problem, q, mu = self.estimator.problem, self.q, self.mu
        gamma, delta = problem.config.gamma, self.at_next.dropped  # (m,)
        most, horizon = float(delta.max()), 1.0 / (1.0 - gamma)
        problem.warn_if_capped(delta, most)
        ends = ([end.item() for end in torch.aminmax(x)] for x in (q.value, q.residual))
        (low, high), (res_low, res_high) = ends
        res_q, res_mu = max(-res_low, res_high), float(mu.residual.abs().sum())
        # Sums are rounded too: a few units in the last place of their largest terms.
        scale = float(mu.value.abs().sum()) * max(-low, high)
        rounding = 16.0 * torch.finfo(mu.value.dtype).eps * scale
        # Unvisited rows do not count; the solved visitation is off by at most the last term.
        visits = self.transition.spread(mu.value.clamp(min=0.0))
        mass = gamma * float(visits @ delta) + float(self.at_initial.dropped.mean())
        mass += gamma * most * res_mu / (1.0 - gamma)
        # Two bounds hold on the span of the complete equation's q: by rewards alone, and by the
        # solved q~, as ||q - q~||_inf <= gamma / (1 - gamma) max_i delta_i span(q~).
        least, largest = problem.possible_returns
        solved = high - low + 2.0 * res_q * horizon
        span = min(largest - least, solved * (1.0 + 2.0 * gamma * horizon * most))
        value = float(self.eps0 @ q.value + mu.value @ q.residual)
        return Objective(value, mass * span, res_q * res_mu / (1.0 - gamma) + rounding)

    def output_gradients(self) -> tuple[Tensor, ...]:
        """dJ with respect to the policy's outputs at the queries, Eq. (10)."""
        # Its first term is that of initial states, weight 1 / B each; the second has gamma mu_i.
        q, gamma = self.q.value, self.estimator.problem.config.gamma
        visits = gamma * self.transition.spread(self.mu.value)
        estimator, ranks = self.estimator, self.estimator.problem.ranks
        # Every rank makes all rows at the initial states, and adds its share of them.
        n_initial = len(self.at_initial.dropped) * (1 if ranks is None else ranks.size)
        share = torch.full_like(self.at_initial.dropped, 1.0 / n_initial)
        later = estimator.at_next.vjp(self.at_next, q, visits)
        first = estimator.at_initial.vjp(self.at_initial, q, share)
        return tuple(torch.cat(both) for both in zip(later, first, strict=True))

    def gradient(self, policy: Policy) -> tuple[Tensor, ...]:
        """dJ / d theta, one tensor per parameter: one backward pass, Eq. (10)."""
        # Where ranks share the rows each has the gradient of its own; the sum is ours.
        with torch.no_grad():
            slopes = self.output_gradients()
        if self.made is not None:
            found = self.made.vjp(slopes)
        else:
            parameters = [p for p in policy.parameters() if p.requires_grad]
            # An output may be a constant, as the spread of a linear Gaussian policy is.
            both = zip(self.outputs, slopes, strict=True)
            # Sums, since torch imports its compiler to check the shapes of slopes.
            sums = [(output * slope).sum() for output, slope in both if output.requires_grad]
            found = torch.autograd.grad(sums, parameters, retain_graph=True, materialize_grads=True)
        ranks = self.estimator.problem.ranks
        return found if ranks is None else ranks.sum(found)

"""The nonparametric Bellman equation of one data set and one policy.

    V(s) = eps(s)' (r + gamma int phi(s') V(s') ds')          (Definition 2)

has the one solution V(s) = eps(s)' q with q = (I - gamma P)^-1 r (Theorem 1).
"""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from nopg.bellman.problem import NADARAYA_WATSON, EstimatorConfig, Problem
from nopg.bellman.rows import Neighbours
from nopg.bellman.samples import initial_state_tensor
from nopg.bellman.sharded import joined_parts
from nopg.bellman.solution import BellmanSolution, Estimator, Objective
from nopg.data.dataset import Dataset
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.operators import LinearOperator
from nopg.linalg.ranks import Ranks
from nopg.linalg.solve import SolverConfig
from nopg.policies.families import Policy, as_policy, checked_outputs
from nopg.randomness import Seed


class BellmanEquation:
    """Evaluate one policy on logged data: no training, no simulator.

    Args:
        data: The transitions.
        policy: A policy, or any torch module from states to actions.
        initial_states: States the return is counted from, (B, d_s).
        gamma: Discount factor in [0, 1).
        bandwidths: Kernel bandwidths.
        neighbours: Samples a row keeps: a number, "auto", or None for all of them.
        rtol: Relative residual of the two solves.
        seed: Seed of the draws stochastic policies and sampled next states need.
        dtype: Precision of everything.
        ranks: Processes that share the rows, from `joined_ranks`; each makes and asks the same.
        rows: Which rows; the paper's, "nadaraya-watson", where `NOPG` has "matched".
        stochastic: How a stochastic policy's integral is taken; here as in the paper.
        settings: Other fields of `EstimatorConfig`, such as `policy_samples`.
    """

    def __init__(
        self,
        data: Dataset,
        policy: nn.Module,
        initial_states: Any,
        *,
        gamma: float,
        bandwidths: Bandwidths,
        neighbours: Neighbours = None,
        rtol: float = 1e-10,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        ranks: Ranks | None = None,
        rows: str = NADARAYA_WATSON,
        stochastic: str = "paper",
        **settings: Any,
    ) -> None:
        samples, _ = joined_parts(data, ranks, dtype, "cpu")
        d_a = 1 if data.is_discrete else samples.actions.shape[1]
        bandwidths.require_widths(samples.states.shape[1], d_a)
        settings |= {"rows": rows, "stochastic": stochastic, "neighbours": neighbours}
        self._seeds, self._solver = Seed(seed), SolverConfig(rtol=rtol)
        self.policy = as_policy(policy).to(dtype)
        initial = initial_state_tensor(initial_states, samples.states)
        config, draws = EstimatorConfig(gamma=gamma, **settings), self._seeds.torch("next-states")
        self.problem = Problem.build(samples, initial, bandwidths, config, draws, ranks)

    @cached_property
    def solution(self) -> BellmanSolution:
        """Everything the two solves produced."""
        estimator = Estimator.of(self.problem, self.policy)
        return estimator.solve(self.policy, self._seeds.torch("policy-samples"), self._solver)

    @property
    def q(self) -> Tensor:
        """q = (I - gamma P)^-1 r: the value of following each sample, (n,)."""
        return self.problem.samples.in_original_order(self.solution.q.value)

    @property
    def mu(self) -> Tensor:
        """mu = (I - gamma P)^-T eps0: discounted visits to each sample, (n,)."""
        return self.problem.samples.in_original_order(self.solution.mu.value)

    @property
    def objective(self) -> Objective:
        """J = eps0' q = mu' r with its certificate."""
        return self.solution.objective()

    def gradient(self) -> Tensor:
        """dJ / d theta in the order of `policy.parameters()`, flat, Eq. (10)."""
        return torch.cat([part.reshape(-1) for part in self.solution.gradient(self.policy)])

    def transition_matrix(self) -> Tensor:
        """P of Theorem 1 as a dense matrix, (n, n)."""
        in_original_order = self.problem.samples.in_original_order
        columns = in_original_order(self.solution.transition.dense().T.contiguous())
        return in_original_order(columns.T.contiguous())

    def responsibilities(self, states: Any) -> Tensor:
        """eps(s) at any states, rows summing to one, (m, n)."""
        rows = evaluate_at(self.problem, self.policy, states, self._seeds)
        return self.problem.samples.in_original_order(rows.dense().T.contiguous()).T

    def value(self, states: Any) -> Tensor:
        """V(s) = eps(s)' q, (m,)."""
        rows = evaluate_at(self.problem, self.policy, states, self._seeds)
        return rows.matvec(self.solution.q.value)

    def visitation(self, states: Any) -> Tensor:
        """The paper's mu(s) = eps(s)' mu, (m,)."""
        rows = evaluate_at(self.problem, self.policy, states, self._seeds)
        return rows.matvec(self.solution.mu.value)


def evaluate_at(problem: Problem, policy: Policy, states: Any, seeds: Seed) -> LinearOperator:
    """Responsibilities of `policy` at any states, as an operator (m, n)."""
    queries = initial_state_tensor(states, problem.samples.states)
    with torch.no_grad():
        outputs = checked_outputs(policy, queries, problem.samples.action_width)
        family = problem.responsibilities(policy, problem.rows_at(queries))
        return family.evaluate(outputs, seeds.torch("value-samples", queries.device)).operator

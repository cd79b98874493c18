"""What kernel regression says of a policy: the Bellman equation, asked everything.

    V(s) = eps(s)' q,   q = (I - gamma P)^-1 r          (Theorem 1)

The equation is solved once per policy; return, values, visits, gradient, support, intervals and
probabilities are then products with its rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.bellman.equation import evaluate_at
from nopg.bellman.paths import MeanPaths
from nopg.bellman.problem import MATCHED, EstimatorConfig, Problem
from nopg.bellman.samples import Samples, initial_state_tensor
from nopg.bellman.solution import BellmanSolution, Estimator, Objective
from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, require_count
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.kernel_ensemble import EnsembleBasis, KernelEnsemble, weighted_product
from nopg.evaluation.rollouts import Region, Rollouts
from nopg.evaluation.support import Support, support_at, usual_distance
from nopg.kernels.bandwidths import select_bandwidths
from nopg.linalg.solve import SolverConfig, solve_columns
from nopg.policies.families import DeterministicPolicy, Policy
from nopg.randomness import Seed

FINAL_RTOL = 1e-6  # relative residual of the solve behind every answer
N_PATHS = 32  # paths drawn at least, from all initial states together


@dataclass(frozen=True, eq=False)
class KernelEvaluator:
    """The kernel estimate of one policy on one data set."""

    problem: Problem  # kernel rows of the data, whatever the policy
    policy: Policy  # whose return is estimated; call `policy_changed` after its parameters have
    data: Dataset  # what the problem was made from
    seed: Seed  # source of every draw
    rtol: float = FINAL_RTOL  # relative residual of the solves

    def policy_changed(self) -> None:
        """Forget what was solved for earlier parameters of the policy."""
        for name in ("solution", "ensemble", "path_return"):
            self.__dict__.pop(name, None)

    @cached_property
    def solution(self) -> BellmanSolution:
        """The Bellman equation of the present policy, solved."""
        generator = self.seed.torch("final-samples", str(self.problem.queries.device))
        estimator = Estimator.of(self.problem, self.policy)
        return estimator.solve(self.policy, generator, SolverConfig(rtol=self.rtol))

    def objective(self) -> Objective:
        """The return J = eps0' q with a certificate of its numerical error."""
        return self.solution.objective()

    def gradient(self) -> Tensor:
        """dJ / d theta of the present policy, flat, Eq. (10)."""
        return torch.cat([part.reshape(-1) for part in self.solution.gradient(self.policy)])

    def expected_return(self, level: float | None = None) -> Estimate:
        """The return, with its interval if a level is given; arrays of one entry.

        It is that of paths where these can be had, see `path_return`, and J where not. Intervals
        are those of J; they reach as far as the paths say.
        """
        along = self.path_return
        if level is None:
            value = float(self.objective()) if along is None else along
            return Estimate.without_ends(np.array([value]), "kernel")
        found = self.ensemble.objective(level)
        if along is None:
            return found
        low, high = np.minimum(found.low, along), np.maximum(found.high, along)
        return replace(found, value=np.array([along]), low=low, high=high)

    @cached_property
    def path_return(self) -> float | None:
        """Mean return of paths drawn with a local linear regression.

        J keeps a spread of one bandwidth in every step, which adds up; these keep what samples
        differ by from the regression. None for the paper's rows and for policies that draw actions.
        """
        problem, is_plain = self.problem, isinstance(self.policy, DeterministicPolicy)
        if problem.config.rows != MATCHED or not is_plain:
            return None
        initial = problem.initial_rows.queries.double().cpu()
        paths = MeanPaths.through(self.data, problem.bandwidths, problem.config.gamma, self.seed)
        starts = initial.repeat(-(-N_PATHS // len(initial)), 1)
        return float(paths.returns([self.policy], starts, self.seed.numpy("paths")).mean())

    def values(self, states: Any, level: float | None = None) -> Estimate:
        """V(s) at any states, (m,), with its interval if a level is given."""
        if level is None:
            return Estimate.without_ends(self._at(states, self.solution.q.value), "kernel")
        return self.ensemble.values(states, level)

    def visitation(self, states: Any) -> NDArray[np.float64]:
        """The paper's discounted visitation mu(s) = eps(s)' mu, (m,)."""
        return self._at(states, self.solution.mu.value)

    def visit_probability(self, inside: Region, horizon: int | None, level: float) -> Estimate:
        """How likely a region, or the task's end, is entered from the initial states.

        Without a horizon an entry at step t is weighed by gamma^t; one entry.
        """

        def ask(one: BellmanSolution, weights: Tensor | None) -> Tensor:
            return entry_from_starts(one, inside, horizon, weights).mean(dim=0, keepdim=True)

        return self.ensemble.probability(ask, level)

    def rollouts(self, n_steps: int) -> Rollouts:
        """The distribution of states after each of the next steps, no sampling."""
        require_count("n_steps", n_steps)
        problem, at_sample = self._alone(), self.solution.eps0  # (n,), after one step
        samples, found = problem.samples, []
        for _ in range(n_steps):
            found.append(samples.in_original_order(at_sample).double().cpu().numpy())
            at_sample = self.solution.transition.rmatvec(at_sample)
        states = samples.in_original_order(samples.next_states).double().cpu().numpy()
        initial = problem.initial_rows.queries.double().cpu().numpy()
        return Rollouts(states[None], np.stack(found), initial, "kernel")

    def support(
        self, states: Any, actions: Any = None, weights: NDArray[np.float64] | None = None
    ) -> Support:
        """How much data stand behind states and actions, by default the policy's."""
        if actions is None:
            places = initial_state_tensor(states, self.problem.samples.states)
            with torch.no_grad():
                actions = self.policy.act(places).cpu().numpy()
        return support_at(self.problem, states, actions, weights)

    def visited_support(self) -> Support:
        """Support of the states the chain visits, weighted by discounted visits."""
        solution, problem = self.solution, self._alone()
        visits = problem.config.gamma * solution.transition.spread(solution.mu.value)
        n_initial = problem.initial_rows.shape[0]
        share = visits.new_full((n_initial,), 1.0 / n_initial)
        weights = torch.cat([visits, share]).clamp(min=0.0).double().cpu().numpy()
        return self.support(problem.queries.double().cpu().numpy(), weights=weights)

    def usual_distance(self) -> float:
        """Bandwidths that 99 of 100 samples have at most to the nearest other one."""
        return usual_distance(self._alone())

    @cached_property
    def ensemble(self) -> KernelEnsemble:
        """Replicas and other rows of the present policy."""
        return KernelEnsemble(self.solution, self.policy, self._basis)

    @cached_property
    def _basis(self) -> EnsembleBasis:
        return EnsembleBasis.of(self._alone(), self.data, self.seed)

    def _alone(self) -> Problem:
        """The problem, if this process holds all of its data."""
        if self.problem.samples.ranks is None:
            return self.problem
        raise ConfigError("This needs all data, ranks share them; ask after save and nopg.load.")

    def _at(self, states: Any, values: Tensor) -> NDArray[np.float64]:
        rows = evaluate_at(self.problem, self.policy, states, self.seed)
        return np.asarray(rows.matvec(values).double().cpu().numpy())


def build_problem(
    policy: Policy, data: Dataset, starts: Any, widths: object, config: EstimatorConfig, seed: Seed
) -> Problem:
    """Choose bandwidths by a rule, or take them, and lay out the kernel rows."""
    # The policy's parameters set dtype and device.
    like = next(policy.parameters(), torch.empty(0, dtype=torch.float64))
    samples = Samples.of(data, like.dtype, like.device)
    initial = initial_state_tensor(starts, samples.states)
    chosen = select_bandwidths(widths, data, seed.numpy("bandwidths"))
    return Problem.build(samples, initial, chosen, config, seed.torch("next-states", like.device))


def entry_from_starts(
    solved: BellmanSolution, inside: Region, horizon: int | None, weights: Tensor | None
) -> Tensor:
    """Probability of entering a region from each initial state, (B,) or (B, b).

    The estimated system visits the initial state and then next states, sample by sample. Entering a
    region is a first passage: with f = 1 at samples whose next state lies in it,

        h = f + (1 - f) P h          (for ever; by step T, T products from h = f)
        h = f + gamma (1 - f) P h    (discounted),

    and the probability from the start is eps0' h, or gamma eps0' h.
    """
    problem, transition = solved.estimator.problem, solved.transition
    samples, queries, group = problem.samples, problem.queries, transition.group
    m = len(samples.rewards) * group
    if inside is None:
        ends = (1.0 - samples.continuation).repeat_interleave(group)
        hit = torch.cat([ends, queries.new_zeros(len(queries) - m)])
    else:
        hit = torch.as_tensor(inside(queries.double().cpu().numpy()).astype(np.float64)).to(queries)
    width = 1 if weights is None else weights.shape[1]
    later, first = hit[:m, None], hit[m:, None]
    onwards = weighted_product(solved.at_next.operator, weights)
    entered = later.view(-1, group).mean(dim=1, keepdim=True).expand(-1, width)
    missed = 1.0 - later

    def step(h: Tensor) -> Tensor:
        """(1 - f) P h, next state by next state."""
        return transition.averaged(missed * onwards(h))

    if horizon is None:
        gain = problem.config.gamma
        h = solve_columns(lambda x: x - gain * step(x), entered, entered.clone(), rtol=1e-4)
    else:
        h, gain = entered, 1.0
        for _ in range(horizon - 1):
            h = entered + step(h)
    from_start = weighted_product(solved.at_initial.operator, weights)(h)
    probability = first + (1.0 - first) * gain * from_start
    return probability if weights is not None else probability[:, 0]

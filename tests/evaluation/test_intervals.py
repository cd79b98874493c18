"""Intervals: replicas against real reweighting, models against what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman.solution import BellmanSolution, Estimator
from nopg.evaluation.kernel_ensemble import (
    RTOL,
    EnsembleBasis,
    KernelEnsemble,
    replica_values,
    replica_weights,
    weighted_product,
)
from nopg.linalg.solve import SolverConfig, solve_columns
from nopg.randomness import Seed
from tests.problems import KINDS, small_problem


def solved(kind: str, **changes: object) -> BellmanSolution:
    problem = small_problem(kind, **changes)  # type: ignore[arg-type]
    return problem.equation().solution


def drawn_weights(n: int, b: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand((n, b), dtype=torch.float64, generator=generator) + 0.1


def dense_rows(solution: BellmanSolution, weights: torch.Tensor) -> torch.Tensor:
    """P with a log-weight added to each column, by a softmax of its own."""
    plain = solution.at_next.operator.dense()
    return torch.softmax(plain.log() + weights.log(), dim=1)


def test_weighted_product_is_the_softmax_with_log_weights() -> None:
    solution = solved("deterministic")
    weights, x = drawn_weights(40, 5), drawn_weights(40, 5).flip(0)
    found = weighted_product(solution.at_next.operator, weights)(x)
    for b in range(5):
        expected = dense_rows(solution, weights[:, b]) @ x[:, b]
        torch.testing.assert_close(found[:, b], expected)


def test_replica_values_solve_the_reweighted_equation() -> None:
    solution = solved("deterministic", next_state_samples=1)
    weights = drawn_weights(40, 3)
    found = replica_values(solution, weights)
    samples = solution.estimator.problem.samples
    live = samples.continuation
    # A residual e moves q by at most |e| / (1 - gamma).
    bound = RTOL * float(samples.rewards.norm()) / (1.0 - 0.9)
    for b in range(3):
        P = dense_rows(solution, weights[:, b]) * live[:, None]
        system = torch.eye(40, dtype=torch.float64) - 0.9 * P
        expected = torch.linalg.solve(system, samples.rewards)
        torch.testing.assert_close(found[:, b], expected, rtol=0.0, atol=bound)
        assert float((expected - solution.q.value).abs().max()) > 3.0 * bound


def test_replica_objectives_have_the_right_slope_in_every_weight() -> None:
    """dJ / d log w_j by finite differences of complete solves."""
    problem = small_problem("deterministic", n=12, next_state_samples=1)
    equation = problem.equation()
    solution, step = equation.solution, 1e-4
    samples = solution.estimator.problem.samples

    def exact(weights: torch.Tensor) -> float:
        P = dense_rows(solution, weights) * samples.continuation[:, None]
        q = torch.linalg.solve(torch.eye(12, dtype=torch.float64) - 0.9 * P, samples.rewards)
        rows = solution.at_initial.operator.dense()
        first = torch.softmax(rows.log() + weights.log(), dim=1)
        return float((first @ q).mean())

    nudges = torch.exp(step * torch.eye(12, dtype=torch.float64))  # column j: weight j
    basis = EnsembleBasis(nudges, (), 1.0, Seed(0))
    ensemble = KernelEnsemble(solution, equation.policy, basis)
    centre = float(solution.objective())
    slopes = (ensemble._replica_objectives() - centre) / step
    expected = [(exact(nudges[:, j]) - exact(1.0 / nudges[:, j])) / (2.0 * step) for j in range(12)]
    torch.testing.assert_close(
        slopes, torch.tensor(expected, dtype=torch.float64), rtol=1e-2, atol=1e-4
    )


def test_many_columns_agree_with_a_factorisation() -> None:
    generator = torch.Generator().manual_seed(0)
    P = torch.rand((60, 60), generator=generator, dtype=torch.float64)
    A = torch.eye(60, dtype=torch.float64) - 0.97 * P / P.sum(dim=1, keepdim=True)
    rhs = torch.randn((60, 7), generator=generator, dtype=torch.float64)
    rhs[:, 3] = 0.0
    found = solve_columns(lambda x: A @ x, rhs, torch.zeros_like(rhs), rtol=1e-9)
    torch.testing.assert_close(found, torch.linalg.solve(A, rhs), rtol=1e-6, atol=1e-6)


def test_wider_rows_are_those_of_wider_bandwidths() -> None:
    problem = small_problem("deterministic")
    equation = problem.equation()
    estimator = Estimator.of(equation.problem.rescaled(1.5), equation.policy)
    rows = estimator.solve(equation.policy, torch.Generator(), SolverConfig()).at_next
    wide = small_problem("deterministic")
    again = nopg.BellmanEquation(
        wide.data, wide.policy, wide.initial_states,
        bandwidths=wide.bandwidths.scaled(1.5, 1.5), **wide.settings,
    )  # fmt: skip
    torch.testing.assert_close(rows.operator.dense(), again.solution.at_next.operator.dense())


@pytest.mark.parametrize("kind", KINDS)
def test_every_policy_family_gets_an_interval(kind: str) -> None:
    problem = small_problem(kind)
    solution = problem.equation().solution
    basis = EnsembleBasis.of(solution.estimator.problem, problem.data, Seed(0))
    ensemble = KernelEnsemble(solution, problem.policy, basis)
    found = ensemble.objective(0.95)
    assert found.low[0] < float(solution.objective()) < found.high[0]
    values = ensemble.values(problem.initial_states, 0.95)
    assert values.value.mean() == pytest.approx(float(solution.objective()), rel=0.3)
    assert (values.low <= values.value).all()
    assert (values.value <= values.high).all()
    wider = ensemble.objective(0.99)
    assert wider.low[0] <= found.low[0] < found.high[0] <= wider.high[0]


def test_replicas_follow_episodes_and_one_alone_is_said() -> None:
    problem = small_problem("deterministic")
    samples = problem.equation().problem.samples
    d = problem.data
    columns = (
        d.observations, d.actions, d.rewards, d.next_observations, d.terminations, None
    )  # fmt: skip
    ids = np.repeat([0, 1, 2, 3], 10)
    weights = replica_weights(nopg.Dataset(*columns, ids), samples, np.random.default_rng(0))
    assert torch.equal(weights[0], weights[9])
    assert not torch.equal(weights[9], weights[10])
    with pytest.warns(nopg.NopgWarning, match="need two or more, these data have one"):
        replica_weights(
            nopg.Dataset(*columns, np.zeros(40, int)), samples, np.random.default_rng(0)
        )


def test_ends_that_say_nothing_are_not_given() -> None:
    value, low, high = np.zeros(3), np.array([-5.0, -5.0, -1.0]), np.array([5.0, 1, 1])
    every = nopg.Estimate(value, low, high, 0.95)
    found = every.informative((-5.0, 5.0))
    assert not found.known
    assert np.isnan([found.low[0], found.high[0]]).all()
    np.testing.assert_array_equal(found.low[1:], low[1:])  # one end is a bound still
    assert "as open as the rewards" in found.reason
    assert every.informative((-9.0, 9.0)) is every
    alone = nopg.Estimate.without_ends(1.0, "kernel")
    assert alone.informative((0.0, 2.0)) is alone
    assert repr(found).startswith("unknown (by kernel)")

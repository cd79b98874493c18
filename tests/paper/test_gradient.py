"""Eq. (10) against two independent truths."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from nopg.policies.build import linear_policy
from tests.paper.dense_reference import dense_objective
from tests.problems import KINDS, small_problem


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradient_matches_central_differences(kind: str, seed: int) -> None:
    """With terminals, four initial states and three draws a next state."""
    problem = small_problem(kind, seed)
    found = problem.equation().gradient()
    theta = parameters_to_vector(problem.policy.parameters()).detach().clone()
    step = 1e-5
    expected = torch.empty_like(theta)
    for i in range(len(theta)):
        sides = []
        for sign in (1.0, -1.0):
            moved = theta.clone()
            moved[i] += sign * step
            vector_to_parameters(moved, problem.policy.parameters())
            sides.append(float(problem.equation().objective))
        expected[i] = (sides[0] - sides[1]) / (2 * step)
    error = float((found - expected).norm() / expected.norm())
    print(f"{kind}: relative error {error:.1e} against central differences")
    assert error <= 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_gradient_matches_autograd_through_the_dense_solve(
    kind: str, seed: int, count: int
) -> None:
    problem = small_problem(kind, seed, next_state_samples=count)
    equation = problem.equation()
    expected_J = dense_objective(problem)
    parameters = list(problem.policy.parameters())
    parts = torch.autograd.grad(expected_J, parameters)
    expected = torch.cat([part.reshape(-1) for part in parts])
    error = float((equation.gradient() - expected).norm() / expected.norm())
    print(f"{kind}: relative error {error:.1e} against autograd")
    assert error <= 1e-10
    assert float(equation.objective) == pytest.approx(float(expected_J.detach()), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_sparse_rows_matches_that_of_complete_ones(kind: str) -> None:
    """Blocks of unequal length, permuted rows: the same mathematics."""
    problem = small_problem(kind, 3, n=300, next_state_samples=2, state_bandwidth=0.05)
    complete = problem.equation()
    sparse = problem.equation(neighbours="auto", tolerance=1e-13)
    assert sparse.problem.next_rows.pattern is not None
    assert len(sparse.problem.next_rows.blocks) > 1
    torch.testing.assert_close(sparse.gradient(), complete.gradient(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        sparse.transition_matrix(), complete.transition_matrix(), rtol=0, atol=1e-12
    )


def test_gradient_of_a_linear_policy_with_a_fixed_spread() -> None:
    """One output is a constant: the other alone carries the gradient."""
    problem = small_problem("paper")
    policy = linear_policy([0.3, -0.2], std=[0.2, 0.3])
    gain = next(policy.parameters())
    given = replace(problem, policy=policy)
    found = given.equation().gradient()
    expected = torch.empty_like(found)
    for i in range(2):
        sides = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                gain[i] += step
                sides.append(float(given.equation().objective))
                gain[i] -= step
        expected[i] = (sides[0] - sides[1]) / 2e-5
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)

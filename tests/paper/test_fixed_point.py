"""Theorem 1: the solution solves the equation, at every state, not only the data's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.problems import KINDS, small_problem

DETERMINISTIC_KINDS = ("deterministic", "analytic", "discrete")


@pytest.mark.parametrize("kind", DETERMINISTIC_KINDS)
def test_bellman_residual_at_a_thousand_random_states(kind: str) -> None:
    """V(s) = eps(s)' (r + gamma V(s')) with V evaluated anew on both sides."""
    problem = small_problem(kind, next_state_samples=1)
    equation = problem.equation()
    states = np.random.default_rng(1).normal(scale=2.0, size=(1000, 2))
    data = problem.data
    V_next = equation.value(data.next_observations) * torch.tensor(~data.terminations)
    target = torch.tensor(data.rewards) + problem.settings["gamma"] * V_next
    right = equation.responsibilities(states) @ target
    residual = float((equation.value(states) - right).abs().max())
    print(f"{kind}: largest Bellman residual {residual:.1e}")
    assert residual <= 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_visitation_satisfies_its_own_equation(kind: str) -> None:
    """Mu' = eps0' + gamma mu' P."""
    problem = small_problem(kind)
    equation = problem.equation()
    P, eps0 = equation.transition_matrix(), equation.solution.eps0
    expected = eps0 + problem.settings["gamma"] * equation.mu @ P
    assert float((equation.mu - expected).abs().max()) <= 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_three_ways_to_the_objective_agree(kind: str) -> None:
    """J = eps0' q = mu' r."""
    problem = small_problem(kind)
    equation = problem.equation()
    J = float(equation.objective)
    by_q = float(equation.solution.eps0 @ equation.q)
    by_mu = float(equation.mu @ torch.tensor(problem.data.rewards))
    assert by_q == pytest.approx(J, abs=1e-10)
    assert by_mu == pytest.approx(J, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_live_rows_sum_to_one_and_terminal_rows_to_zero(kind: str) -> None:
    problem = small_problem(kind)
    sums = problem.equation().transition_matrix().sum(dim=1)
    expected = torch.tensor(~problem.data.terminations).double()
    torch.testing.assert_close(sums, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", [None, 7, "auto"])
def test_rows_sum_to_one_however_far_the_query(kind: str, neighbours: object) -> None:
    """A thousand bandwidths away every density underflows; rows do not."""
    problem = small_problem(kind)
    far = np.array([[500.0, -500.0], [1e6, 1e6], [0.0, 0.0]])
    equation = problem.equation(neighbours=neighbours)
    sums = equation.responsibilities(far).sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-12)


def test_order_in_memory_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large data sets are reordered in space; q, mu and P keep the user's order."""
    problem = small_problem("deterministic", n=300, next_state_samples=1)
    plain = problem.equation()
    expected = plain.q, plain.mu, plain.transition_matrix()
    monkeypatch.setattr("nopg.bellman.samples.ORDERED_FROM", 10)
    moved = problem.equation()
    assert moved.problem.samples.order is not None
    found = moved.q, moved.mu, moved.transition_matrix()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
    states = problem.data.observations[:7]
    torch.testing.assert_close(moved.value(states), plain.value(states))
    torch.testing.assert_close(moved.responsibilities(states), plain.responsibilities(states))
    torch.testing.assert_close(moved.gradient(), plain.gradient(), rtol=1e-8, atol=0)

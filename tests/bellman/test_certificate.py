"""The certificate is a bound: the true error never exceeds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.policies.build import PolicySpec
from tests.problems import small_problem


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["deterministic", "paper", "analytic", "discrete"]),
    seed=st.integers(0, 10_000),
    neighbours=st.integers(1, 40),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
    has_terminals=st.booleans(),
)
def test_true_error_never_exceeds_the_certificate(
    kind: str, seed: int, neighbours: int, gamma: float, has_terminals: bool
) -> None:
    problem = small_problem(
        kind, seed, n=60, gamma=gamma, has_terminals=has_terminals, next_state_samples=2
    )
    complete = problem.equation()
    short = problem.equation(neighbours=neighbours)
    error = abs(float(complete.objective) - float(short.objective))
    assert error <= short.objective.certificate


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), rtol=st.sampled_from([1e-1, 1e-2, 1e-4]))
def test_solver_error_is_certified_too(seed: int, rtol: float) -> None:
    """Loose iterative solves: J is corrected, and what is left is bounded."""
    problem = small_problem("deterministic", seed, n=300, next_state_samples=1)
    exact = problem.equation(rtol=1e-12)
    loose = problem.equation(rtol=rtol)
    assert loose.solution.q.method != "direct"
    error = abs(float(exact.objective) - float(loose.objective))
    bound = loose.objective.certificate + exact.objective.certificate
    assert error <= bound


def test_sparse_objective_agrees_on_the_pendulum_grid() -> None:
    """At the default tolerance, n = 1800, J of complete and sparse rows agree."""
    data = grid_dataset(30, 30)
    spec = PolicySpec(kind="deterministic", n_states=3, n_outputs=1)
    box = (-2.0 * torch.ones(1), 2.0 * torch.ones(1))
    policy = spec.build(torch.Generator().manual_seed(0), *box)
    bandwidths = nopg.Bandwidths([0.15, 0.15, 0.5], [2.0])
    arguments = (data, policy, BOTTOM)
    complete = nopg.BellmanEquation(*arguments, gamma=0.97, bandwidths=bandwidths)
    sparse = nopg.BellmanEquation(*arguments, gamma=0.97, bandwidths=bandwidths, neighbours="auto")
    stored = sparse.problem.next_rows.n_entries / len(data)
    error = abs(float(sparse.objective) - float(complete.objective))
    print(f"{stored:.0f} of {len(data)} entries a row, J off by {error:.1e}")
    assert stored < len(data) / 4
    assert error <= 1e-6
    assert error <= sparse.objective.certificate


def test_objective_is_a_float_that_prints_its_certainty() -> None:
    objective = nopg.Objective(-12.5, 0.25, 0.5)
    assert objective + 1 == -11.5
    assert objective.certificate == pytest.approx(0.75)
    assert "7.5e-01" in repr(objective)
    assert np.isfinite(objective)


def test_lists_that_end_too_early_are_announced() -> None:
    """And the certificate still holds; lists that are long enough are quiet."""
    data = grid_dataset(16, 16)
    spec = PolicySpec(kind="deterministic", n_states=3, n_outputs=1)
    box = (-2.0 * torch.ones(1), 2.0 * torch.ones(1))
    policy = spec.build(torch.Generator().manual_seed(0), *box)
    wide = nopg.Bandwidths([0.3, 0.3, 1.0], [2.0])

    def equation(**settings: Any) -> nopg.BellmanEquation:
        chosen: dict[str, Any] = {"gamma": 0.9, "bandwidths": wide} | settings
        return nopg.BellmanEquation(data, policy, BOTTOM, **chosen)

    exact = float(equation(neighbours=None).objective)
    assert float(equation(neighbours="auto").objective) == pytest.approx(exact)
    short = equation(neighbours="auto", max_neighbours=24)
    with pytest.warns(nopg.NopgWarning, match=r"24 samples \(`max_neighbours`\)"):
        objective = short.objective
    assert abs(float(objective) - exact) <= objective.certificate
    # A length that was asked for is no surprise, and neither is a loose tolerance.
    assert equation(neighbours=24).objective.certificate > 0.0
    assert equation(neighbours="auto", max_neighbours=24, tolerance=0.99).objective < 0

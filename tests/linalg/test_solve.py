"""The solver chain: right, or an error; never silently wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nopg.errors import ConfigError, SolverError
from nopg.linalg import solve as solve_module
from nopg.linalg.krylov import Attempt, gmres
from nopg.linalg.operators import DenseRows
from nopg.linalg.solve import DiscountedSystem, SolverConfig, fixed_point, solve_columns, solve_pair


def stochastic(n: int, generator: torch.Generator, sharpness: float = 3.0) -> Tensor:
    logits = torch.randn((n, n), dtype=torch.float64, generator=generator)
    return torch.softmax(sharpness * logits, dim=1)


@pytest.mark.parametrize("solver", [gmres, fixed_point])
@pytest.mark.parametrize("gamma", [0.5, 0.97])
def test_every_solver_matches_lu(solver: object, gamma: float, generator: torch.Generator) -> None:
    P = stochastic(80, generator)
    A = torch.eye(80, dtype=torch.float64) - gamma * P
    b = torch.randn(80, dtype=torch.float64, generator=generator)
    attempt = solver(lambda x: A @ x, b, torch.zeros_like(b), 1e-10, 5000)  # type: ignore[operator]
    assert attempt.is_converged
    torch.testing.assert_close(attempt.residual, b - A @ attempt.value)
    expected = torch.linalg.solve(A, b)
    torch.testing.assert_close(attempt.value, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dense_below", [0, 1000])
def test_pair_solves_both_systems(dense_below: int, generator: torch.Generator) -> None:
    P = stochastic(60, generator)
    system = DiscountedSystem(DenseRows(P), 0.95)
    r = torch.randn(60, dtype=torch.float64, generator=generator)
    eps0 = torch.softmax(r, dim=0)
    config = SolverConfig(rtol=1e-11, dense_below=dense_below)
    q, mu = solve_pair(system, r, eps0, config)
    A = torch.eye(60, dtype=torch.float64) - 0.95 * P
    torch.testing.assert_close(A @ q.value, r, rtol=0, atol=1e-9)
    torch.testing.assert_close(A.T @ mu.value, eps0, rtol=0, atol=1e-9)
    assert q.method == ("direct" if dense_below else "gmres")


def test_warm_start_saves_products(generator: torch.Generator) -> None:
    P = stochastic(200, generator)
    r = torch.randn(200, dtype=torch.float64, generator=generator)
    system = DiscountedSystem(DenseRows(P), 0.97)
    config = SolverConfig(rtol=1e-6, dense_below=0)
    cold = solve_pair(system, r, r.abs(), config)
    moved = DiscountedSystem(DenseRows(0.999 * P + 0.001 / 200), 0.97)
    start = (cold[0].value, cold[1].value)
    warm = solve_pair(moved, r, r.abs(), config, start)
    again = solve_pair(moved, r, r.abs(), config)
    assert warm[0].matvecs < again[0].matvecs


def test_the_worst_case_of_krylov_solvers_is_solved() -> None:
    """A cyclic shift and a one-hot right-hand side: no step but the last gains much."""
    n = 50
    P = torch.roll(torch.eye(n, dtype=torch.float64), 1, dims=1)
    b = torch.zeros(n, dtype=torch.float64)
    b[0] = 1.0
    system = DiscountedSystem(DenseRows(P), 0.99)
    q, mu = solve_pair(system, b, b, SolverConfig(rtol=1e-8, dense_below=0))
    assert float((system.apply(q.value) - b).norm()) <= 1e-8
    assert float((system.apply_transpose(mu.value) - b).norm()) <= 1e-8


def test_chain_ends_with_an_error_that_advises(
    monkeypatch: pytest.MonkeyPatch, generator: torch.Generator
) -> None:
    system = DiscountedSystem(DenseRows(stochastic(40, generator)), 0.999)
    r = torch.randn(40, dtype=torch.float64, generator=generator)
    tight = SolverConfig(rtol=1e-12, dense_below=0, max_matvecs=3)
    with pytest.raises(SolverError, match="lower gamma"):
        solve_pair(system, r, r, tight)

    def diverges(*_: object) -> Attempt:
        return Attempt(r * torch.nan, r * torch.nan, False, 1)

    chain = {"first": diverges, "second": diverges, "fixed point": fixed_point}
    monkeypatch.setattr(solve_module, "CHAIN", chain)
    q, _ = solve_pair(system, r, r, SolverConfig(rtol=1e-3, dense_below=0))
    assert q.method == "fixed point"
    assert q.fallbacks == 2


def test_non_finite_rewards_are_refused_not_solved(generator: torch.Generator) -> None:
    system = DiscountedSystem(DenseRows(stochastic(40, generator)), 0.9)
    r = torch.full((40,), torch.nan, dtype=torch.float64)
    for dense_below in (0, 1000):
        with pytest.raises(SolverError):
            solve_pair(system, r, r, SolverConfig(dense_below=dense_below))


@pytest.mark.parametrize("rtol", [0.0, 1.0, -1e-3])
def test_tolerance_must_make_sense(rtol: float) -> None:
    with pytest.raises(ConfigError, match="rtol"):
        SolverConfig(rtol=rtol)


def test_columns_with_matrices_of_their_own(generator: torch.Generator) -> None:
    """Of right-hand sides that differ by many orders, each is solved to `rtol`."""
    P = torch.stack([stochastic(60, generator, s) for s in (0.3, 1.0, 3.0, 9.0)])
    A = torch.eye(60, dtype=torch.float64) - 0.97 * P  # (b, n, n)
    rhs = torch.randn((60, 4), dtype=torch.float64, generator=generator)
    rhs *= torch.tensor([1e-8, 1.0, 0.0, 1e5], dtype=torch.float64)

    def product(x: Tensor) -> Tensor:
        return torch.einsum("bij,jb->ib", A, x)

    start = torch.ones_like(rhs)
    found = solve_columns(product, rhs, start, rtol=1e-6)
    left = (rhs - product(found)).norm(dim=0)
    assert bool((left <= 1e-6 * rhs.norm(dim=0)).all())
    assert not bool(found[:, 2].any())
    assert bool((start == 1.0).all())


def test_columns_that_cannot_be_solved_are_an_error() -> None:
    rhs = torch.ones((5, 2), dtype=torch.float64)
    rhs[0, 1] = torch.nan
    with pytest.raises(SolverError, match="all columns"):
        solve_columns(lambda x: x, rhs, torch.zeros_like(rhs), rtol=1e-3)

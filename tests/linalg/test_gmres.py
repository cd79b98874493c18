"""GMRES in torch: accurate, or it says not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nopg.linalg import krylov
from nopg.linalg.krylov import gmres


def system(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    logits = 3.0 * torch.randn((n, n), dtype=torch.float64, generator=generator)
    A = torch.eye(n, dtype=torch.float64) - 0.97 * torch.softmax(logits, dim=1)
    return A, torch.randn(n, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("steps", [6, 40])
def test_accurate_with_restarts_and_without(steps: int, generator: torch.Generator) -> None:
    A, b = system(90, generator)
    tolerance, start = 1e-12 * float(b.norm()), torch.zeros_like(b)
    attempt = gmres(lambda x: A @ x, b, start, tolerance, 2000, restart=steps)
    assert attempt.is_converged
    assert float((b - A @ attempt.value).norm()) <= 1.01 * tolerance
    expected = torch.linalg.solve(A, b)
    torch.testing.assert_close(attempt.value, expected, rtol=0, atol=1e-9)
    assert not start.any()


def test_a_map_that_is_no_number_is_given_up_without_harm(generator: torch.Generator) -> None:
    start = torch.randn(40, dtype=torch.float64, generator=generator)
    kept = start.clone()
    attempt = gmres(lambda x: x * torch.nan, start, start, 1e-8, 100)
    assert not attempt.is_converged
    assert attempt.matvecs <= 100
    assert torch.equal(start, kept)


def test_vectors_stay_orthogonal_though_nearly_dependent(generator: torch.Generator) -> None:
    """Each new vector is the last but for a millionth: one sweep would not do."""
    basis = torch.empty((7, 200))
    basis[0] = torch.nn.functional.normalize(torch.randn(200, generator=generator), dim=0)
    for j in range(1, 7):
        small = 1e-3 * torch.randn(200, generator=generator) / 200**0.5
        basis[j] = basis[j - 1] + small
        made = basis[j].clone()
        column = krylov._orthonormalise(basis, j)
        again = basis[: j + 1].T @ torch.tensor(column)
        torch.testing.assert_close(again, made, rtol=0, atol=1e-6)
    one = torch.eye(7, dtype=torch.float64)
    V = basis.double()
    torch.testing.assert_close(V @ V.T, one, rtol=0, atol=1e-4)

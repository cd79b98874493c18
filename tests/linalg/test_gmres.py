"""GMRES, preconditioned in single precision: accurate, or it says not."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nopg.linalg import krylov
from nopg.linalg.krylov import Preconditioner, Workspace, gmres


def system(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    logits = 3.0 * torch.randn((n, n), dtype=torch.float64, generator=generator)
    A = torch.eye(n, dtype=torch.float64) - 0.97 * torch.softmax(logits, dim=1)
    return A, torch.randn(n, dtype=torch.float64, generator=generator)


def preconditioner(A: Tensor, M: Tensor, steps: int = 40) -> Preconditioner:
    single, inverse = A.float(), M.float()
    workspace = Workspace(steps, len(A), single)
    return Preconditioner(lambda x: single @ x, lambda x: inverse @ x, workspace)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("steps", [6, 40])
def test_double_precision_out_of_steps_in_single(
    noise: float, steps: int, generator: torch.Generator
) -> None:
    """An inverse that is exact, close, or rough; with restarts and without."""
    A, b = system(90, generator)
    inverse = torch.linalg.inv(A)
    size = noise * float(inverse.abs().mean())
    M = inverse + size * torch.randn(A.shape, dtype=A.dtype, generator=generator)
    tolerance = 1e-12 * float(b.norm())
    start = torch.zeros_like(b)
    attempt = gmres(
        lambda x: A @ x,
        b,
        start,
        tolerance,
        2000,
        preconditioner=preconditioner(A, M, steps),
    )
    assert attempt.is_converged
    assert float((b - A @ attempt.value).norm()) <= 1.01 * tolerance
    expected = torch.linalg.solve(A, b)
    torch.testing.assert_close(attempt.value, expected, rtol=0, atol=1e-9)
    assert not start.any()


def test_scale_does_not_matter(generator: torch.Generator) -> None:
    """Right-hand sides that single precision cannot hold."""
    A, b = system(50, generator)
    for scale in (1e-60, 1e60):
        tolerance = 1e-9 * float((scale * b).norm())
        attempt = gmres(
            lambda x: A @ x,
            scale * b,
            torch.zeros_like(b),
            tolerance,
            500,
            preconditioner=preconditioner(A, torch.linalg.inv(A)),
        )
        assert attempt.is_converged
        expected = torch.linalg.solve(A, b)
        torch.testing.assert_close(attempt.value / scale, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("entry", [math.nan, 1e30, 0.0])
def test_a_useless_preconditioner_is_given_up_without_harm(
    entry: float, generator: torch.Generator
) -> None:
    A, b = system(40, generator)
    start = torch.randn(40, dtype=torch.float64, generator=generator)
    kept = start.clone()
    M = torch.full_like(A, entry)
    attempt = gmres(
        lambda x: A @ x, b, start, 1e-8, 100, preconditioner=preconditioner(A, M)
    )
    assert not attempt.is_converged
    assert attempt.matvecs <= 100
    assert torch.equal(start, kept)


def test_vectors_stay_orthogonal_though_nearly_dependent(
    generator: torch.Generator,
) -> None:
    """Each new vector is the last but for a millionth: one sweep would not do."""
    space = Workspace(6, 200, torch.zeros(0))
    space.row(0).copy_(torch.randn(200, generator=generator))
    space.row(0).div_(space.row(0).norm())
    for j in range(1, 7):
        small = 1e-3 * torch.randn(200, generator=generator) / 200**0.5
        space.row(j).copy_(space.row(j - 1) + small)
        made = space.row(j).clone()
        column = krylov._orthonormalise(space, j)
        again = space.head(j + 1)[1] @ torch.tensor(column)
        torch.testing.assert_close(again, made, rtol=0, atol=1e-6)
    V = space.head(7)[0].double()
    one = torch.eye(7, dtype=torch.float64)
    torch.testing.assert_close(V @ V.T, one, rtol=0, atol=1e-4)


def test_least_squares_agree_with_numpy(generator: torch.Generator) -> None:
    least = krylov._LeastSquares(2.5)
    H = torch.randn((6, 5), dtype=torch.float64, generator=generator).triu(-1)
    H[range(1, 6), range(5)] = H[range(1, 6), range(5)].abs()
    for j in range(5):
        assert least.take(H[: j + 2, j].tolist())
    target = torch.zeros(6, dtype=torch.float64)
    target[0] = 2.5
    expected = torch.linalg.lstsq(H, target[:, None]).solution[:, 0]
    assert least.solution() == pytest.approx(expected.tolist())
    assert abs(least.left) == pytest.approx(float((target - H @ expected).norm()))

"""Smooth functions as a coarse space: orthonormal, exact where P leaves no others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nopg.linalg.coarse import CoarseCells, CoarseCorrection, Modes
from nopg.linalg.operators import AveragedRows, DenseRows
from nopg.linalg.solve import DiscountedSystem, SolverConfig, solve_pair
from tests.linalg.test_coarse import GAMMA, smooth_chain


def modes_of(P: Tensor, points: Tensor, count: int) -> Modes:
    return Modes.of(DenseRows(P), CoarseCells.of(points, 2 * count), count)


def test_they_are_orthonormal_and_hold_what_rows_leave(
    generator: torch.Generator,
) -> None:
    P, following = smooth_chain(300, generator)
    modes = modes_of(P, following, 32)
    U = modes.columns.double()
    torch.testing.assert_close(modes.rows, modes.columns.T)
    torch.testing.assert_close(
        U.T @ U, torch.eye(32, dtype=torch.float64), rtol=0, atol=1e-5
    )
    x = P @ P @ torch.randn(300, dtype=torch.float64, generator=generator)
    assert float((x - U @ (U.T @ x)).norm()) < 0.01 * float(x.norm())


def test_how_much_they_capture(generator: torch.Generator) -> None:
    P, following = smooth_chain(300, generator)
    modes = modes_of(P, following, 32)
    left = torch.linalg.svdvals(P)[32:].square().sum() / P.square().sum()
    assert modes.captured(DenseRows(P)) == pytest.approx(1.0 - float(left), abs=0.01)
    identity = DenseRows(torch.eye(300, dtype=torch.float64))
    assert modes.captured(identity) == pytest.approx(32 / 300, abs=1e-4)


def test_fewer_functions_than_asked_for_where_rows_are_few() -> None:
    """Two different rows: two functions, not noise made orthonormal."""
    kind = torch.arange(40) % 2
    P = torch.nn.functional.one_hot(kind, 2).double() @ torch.eye(2, 40).double()
    modes = modes_of(P, kind[:, None].double(), 8)
    assert modes.core_shape == (2, 40)


@pytest.mark.parametrize("ended", [False, True])
def test_the_correction_is_the_inverse_where_p_leaves_nothing_else(
    ended: bool, generator: torch.Generator
) -> None:
    """P = U B with the space's own U and any B: then M = (I - gamma P)^-1."""
    smoother, following = smooth_chain(60, generator)
    live = torch.ones(60, dtype=torch.float64)
    live[::7] = 0.0 if ended else 1.0
    cells = CoarseCells.of(following, 32)
    modes = Modes.of(AveragedRows(DenseRows(smoother), 1, live), cells, 16)
    U = modes.columns.double()
    P = U @ (U.T @ smoother)
    M = CoarseCorrection.of(DenseRows(P), GAMMA, modes)
    assert M is not None
    A = torch.eye(60, dtype=torch.float64) - GAMMA * P
    x = torch.randn(60, dtype=torch.float64, generator=generator)
    for apply, matrix in ((M.apply, A), (M.apply_transpose, A.T)):
        expected = torch.linalg.solve(matrix, x).float()
        torch.testing.assert_close(apply(x.float()), expected, rtol=1e-3, atol=1e-3)
    if ended:
        assert float(U[::7].abs().max()) == 0.0


def test_same_solutions_in_a_quarter_of_the_products(
    generator: torch.Generator,
) -> None:
    """To an accuracy far beyond that of the steps, which are in single precision."""
    P, following = smooth_chain(600, generator)
    r, eps0 = torch.rand((2, 600), dtype=torch.float64, generator=generator)
    system = DiscountedSystem(DenseRows(P), GAMMA)
    config = SolverConfig(rtol=1e-11, dense_below=0)
    plain = solve_pair(system, r, eps0, config)
    M = CoarseCorrection.of(DenseRows(P), GAMMA, modes_of(P, following, 64))
    helped = solve_pair(system, r, eps0, config, None, M)
    A = system.dense()
    for solution, matrix, b in zip(helped, (A, A.T), (r, eps0), strict=True):
        expected = torch.linalg.solve(matrix, b)
        torch.testing.assert_close(solution.value, expected, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(
            solution.residual, b - matrix @ solution.value, rtol=0, atol=1e-12
        )
        assert solution.method == "preconditioned gmres"
        assert solution.value.dtype == torch.float64
    before, after = (sum(s.matvecs for s in pair) for pair in (plain, helped))
    assert after < 0.25 * before


def test_without_an_inverse_there_is_no_correction() -> None:
    """gamma U' P U with an eigenvalue of one: P need not be stochastic for that."""
    columns = torch.eye(6)[:, :2].contiguous()
    modes = Modes(columns, columns.T.contiguous())
    P = torch.eye(6, dtype=torch.float64) / 0.5
    assert CoarseCorrection.of(DenseRows(P), 0.5, modes) is None
    assert CoarseCorrection.of(DenseRows(P * torch.nan), 0.5, modes) is None


def test_what_was_kept_for_another_space_is_not_used(
    generator: torch.Generator,
) -> None:
    P, following = smooth_chain(100, generator)
    modes, cells = modes_of(P, following, 16), CoarseCells.of(following, 16)
    for space, other in ((modes, cells), (cells, modes)):
        M = CoarseCorrection.of(DenseRows(P), GAMMA, space)
        assert M is not None
        again = CoarseCorrection.kept(M.core.double(), space)
        assert again is not None
        assert torch.equal(again.core, M.core)
        assert CoarseCorrection.kept(M.core, other) is None

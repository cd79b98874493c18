"""The coarse correction: exact where P is coarse, harmless where it is useless."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nopg.linalg.coarse import CoarseCells, CoarseCorrection
from nopg.linalg.operators import AveragedRows, DenseRows
from nopg.linalg.solve import DiscountedSystem, SolverConfig, solve_pair

GAMMA = 0.97


def smooth_chain(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """States on a line that drift and blur a little: many steps to mix. P and s'."""
    states = torch.rand(n, dtype=torch.float64, generator=generator)
    following = (states + 0.02).remainder(1.0)
    logits = -0.5 * ((following[:, None] - states) / 0.03).square()
    return torch.softmax(logits, dim=1), following[:, None]


def test_cells_hold_every_point_once_in_equal_parts(
    generator: torch.Generator,
) -> None:
    points = torch.rand((1003, 3), dtype=torch.float64, generator=generator)
    cells = CoarseCells.of(points, 64)
    assert cells.cell.shape == (1003,)
    assert torch.equal(torch.bincount(cells.cell, minlength=64), cells.sizes)
    assert int(cells.sizes.sum()) == 1003
    assert set(cells.sizes.tolist()) <= {15, 16}
    spread = torch.stack([points[cells.cell == c].std(dim=0) for c in range(64)])
    assert float(spread.mean()) < 0.35 * float(points.std())


def test_few_points_make_few_cells() -> None:
    assert len(CoarseCells.of(torch.zeros((3, 2)), 256).sizes) == 2


def test_the_correction_is_the_inverse_where_rows_are_equal_within_cells(
    generator: torch.Generator,
) -> None:
    """P = Z Pc R: then M = (I - gamma P)^-1, terminal rows or not."""
    cell = torch.arange(12) % 4
    sizes = torch.bincount(cell)
    Z = torch.nn.functional.one_hot(cell).double()
    logits = torch.randn((4, 4), dtype=torch.float64, generator=generator)
    P = Z @ torch.softmax(logits, dim=1) @ (Z / sizes).T
    for ended in ((), (1,)):
        live = torch.ones(12, dtype=torch.float64)
        for c in ended:
            live[cell == c] = 0.0
        transition = AveragedRows(DenseRows(P), 1, live)
        M = CoarseCorrection.of(transition, GAMMA, CoarseCells(cell, sizes))
        assert M is not None
        A = torch.eye(12, dtype=torch.float64) - GAMMA * live[:, None] * P
        x = torch.randn(12, dtype=torch.float64, generator=generator)
        for apply, matrix in ((M.apply, A), (M.apply_transpose, A.T)):
            found = apply(x.float())
            expected = torch.linalg.solve(matrix, x).float()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_its_transpose_is_its_transpose(generator: torch.Generator) -> None:
    P, following = smooth_chain(300, generator)
    M = CoarseCorrection.of(DenseRows(P), GAMMA, CoarseCells.of(following, 32))
    assert M is not None
    x, y = torch.randn((2, 300), generator=generator)
    product = float(y @ M.apply(x))
    assert product == pytest.approx(float(M.apply_transpose(y) @ x), rel=1e-4)


def test_same_solutions_in_half_the_products(generator: torch.Generator) -> None:
    P, following = smooth_chain(600, generator)
    r, eps0 = torch.rand((2, 600), dtype=torch.float64, generator=generator)
    system = DiscountedSystem(DenseRows(P), GAMMA)
    config = SolverConfig(rtol=1e-8, dense_below=0)
    plain = solve_pair(system, r, eps0, config)
    M = CoarseCorrection.of(DenseRows(P), GAMMA, CoarseCells.of(following, 64))
    helped = solve_pair(system, r, eps0, config, None, M)
    A = system.dense()
    for solution, matrix, b in zip(helped, (A, A.T), (r, eps0), strict=True):
        expected = torch.linalg.solve(matrix, b)
        torch.testing.assert_close(solution.value, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            solution.residual, b - matrix @ solution.value, rtol=0, atol=1e-12
        )
        assert float(solution.residual.norm()) <= 1e-8 * float(b.norm())
        assert solution.method == "preconditioned gmres"
    before, after = (sum(s.matvecs for s in pair) for pair in (plain, helped))
    assert after < 0.5 * before


@pytest.mark.parametrize("core", [torch.nan, 1e30])
def test_a_useless_correction_costs_time_not_truth(
    core: float, generator: torch.Generator
) -> None:
    P, following = smooth_chain(200, generator)
    r, eps0 = torch.rand((2, 200), dtype=torch.float64, generator=generator)
    system = DiscountedSystem(DenseRows(P), GAMMA)
    cells = CoarseCells.of(following, 16)
    bad = CoarseCorrection(cells, torch.full((16, 16), core))
    config = SolverConfig(rtol=1e-8, dense_below=0)
    q, mu = solve_pair(system, r, eps0, config, None, bad)
    assert q.fallbacks > 0
    for solution, matrix, b in ((q, system.dense(), r), (mu, system.dense().T, eps0)):
        expected = torch.linalg.solve(matrix, b)
        torch.testing.assert_close(solution.value, expected, rtol=1e-5, atol=1e-5)

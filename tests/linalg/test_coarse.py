"""The coarse correction: cells of equal size, exact where P is coarse."""

from __future__ import annotations

import pytest
import torch

from nopg import compiled
from nopg.linalg.coarse import CoarseCells, CompiledSystem
from nopg.linalg.operators import DenseRows

GAMMA = 0.97
needs_cc = pytest.mark.skipif(
    compiled.compiled("nopg.linalg", "solve.c", False) is None, reason="there is no C compiler"
)


def test_cells_hold_every_point_once_in_equal_parts(generator: torch.Generator) -> None:
    points = torch.rand((1003, 3), dtype=torch.float64, generator=generator)
    cells = CoarseCells.of(points, 3000)  # (5 * 24 * 3000)^(1/3) = 71
    assert cells.cell.shape == (1003,)
    assert torch.equal(torch.bincount(cells.cell, minlength=64), cells.sizes)
    assert int(cells.sizes.sum()) == 1003
    assert set(cells.sizes.tolist()) <= {15, 16}
    whole = torch.cat([torch.nonzero(cells.cell == c)[:, 0] for c in range(64)])
    assert torch.equal(cells.members.long(), whole)
    assert torch.equal(cells.starts.diff().long(), cells.sizes)
    spread = torch.stack([points[cells.cell == c].std(dim=0) for c in range(64)])
    assert float(spread.mean()) < 0.35 * float(points.std())


def test_few_points_make_few_cells() -> None:
    assert len(CoarseCells.of(torch.zeros((3, 2)), 10**6).sizes) == 2
    assert len(CoarseCells.of(torch.zeros((2000, 2)), 10**9).sizes) == 512


@needs_cc
def test_the_correction_is_the_inverse_where_rows_are_equal_within_cells(
    generator: torch.Generator,
) -> None:
    """P = Z Pc R: then M = (I - gamma P)^-1, terminal rows or not."""
    points = torch.rand((24, 2), dtype=torch.float64, generator=generator)
    cells = CoarseCells.of(points, 1)
    Z = torch.nn.functional.one_hot(cells.cell.long()).double()
    count = len(cells.sizes)
    logits = torch.randn((count, count), dtype=torch.float64, generator=generator)
    for ended in ((), (1,)):
        coarse = torch.softmax(logits, dim=1)
        coarse[list(ended)] = 0.0
        P = Z @ coarse @ (Z / cells.sizes).T
        system = CompiledSystem.of(DenseRows(P), GAMMA)
        assert system is not None
        M = system.correction(cells)
        assert M is not None
        whole = torch.eye(24, dtype=torch.float64) + Z @ M.core.double() @ Z.T
        A = torch.eye(24, dtype=torch.float64) - GAMMA * P
        expected = torch.linalg.inv(A)
        torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-4)


@needs_cc
def test_there_is_none_where_p_is_no_number() -> None:
    cells = CoarseCells.of(torch.rand((24, 2), dtype=torch.float64), 1000)
    P = torch.full((24, 24), torch.nan, dtype=torch.float64)
    system = CompiledSystem.of(DenseRows(P), GAMMA)
    assert system is not None
    assert system.correction(cells) is None

"""Every operator against its dense twin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nopg.linalg.operators import AveragedRows, DenseRows, LinearOperator, Pattern, SparseRows

Make = Callable[[torch.Generator], tuple[LinearOperator, Tensor]]


def dense(generator: torch.Generator) -> tuple[LinearOperator, Tensor]:
    matrix = torch.randn((9, 7), dtype=torch.float64, generator=generator)
    return DenseRows(matrix), matrix


def sparse(generator: torch.Generator) -> tuple[LinearOperator, Tensor]:
    """Two blocks of unequal length whose rows are interleaved."""
    rows = [torch.tensor([4, 1, 0]), torch.tensor([3, 2])]
    columns = [
        torch.stack([torch.randperm(7, generator=generator)[:k] for _ in block])
        for block, k in zip(rows, (3, 5), strict=True)
    ]
    values = [torch.randn(c.shape, dtype=torch.float64, generator=generator) for c in columns]
    twin = torch.zeros((5, 7), dtype=torch.float64)
    for block, c, v in zip(rows, columns, values, strict=True):
        twin[block[:, None], c] = v
    pattern = Pattern.stack(rows, [c.to(torch.int32) for c in columns], 7)
    return SparseRows(pattern, torch.cat([v.reshape(-1) for v in values])), twin


def averaged(generator: torch.Generator) -> tuple[LinearOperator, Tensor]:
    matrix = torch.randn((8, 4), dtype=torch.float64, generator=generator)
    live = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    twin = torch.stack([matrix[2 * i : 2 * i + 2].mean(dim=0) for i in range(4)])
    return AveragedRows(DenseRows(matrix), 2, live), twin * live[:, None]


OPERATORS = [dense, sparse, averaged]


@pytest.mark.parametrize("make", OPERATORS)
def test_matvec_matches_dense_twin(make: Make, generator: torch.Generator) -> None:
    operator, twin = make(generator)
    x = torch.randn(twin.shape[1], dtype=twin.dtype, generator=generator)
    torch.testing.assert_close(operator.matvec(x), twin @ x)


@pytest.mark.parametrize("make", OPERATORS)
def test_rmatvec_matches_dense_twin(make: Make, generator: torch.Generator) -> None:
    operator, twin = make(generator)
    y = torch.randn(twin.shape[0], dtype=twin.dtype, generator=generator)
    torch.testing.assert_close(operator.rmatvec(y), y @ twin)


@pytest.mark.parametrize("make", OPERATORS)
def test_mean_of_the_rows(make: Make, generator: torch.Generator) -> None:
    operator, twin = make(generator)
    torch.testing.assert_close(operator.row_mean(), twin.mean(dim=0))


@pytest.mark.parametrize("make", OPERATORS)
def test_dense_is_the_twin(make: Make, generator: torch.Generator) -> None:
    operator, twin = make(generator)
    torch.testing.assert_close(operator.dense(), twin)

"""Matched rows by the kernel, against those of the plain path in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not available on this platform")

from nopg.gpu.matched import FusedMatchedRows
from nopg.gpu.rows import feature_table
from tests.gpu.launches import DEVICE, Case, Matching, newton

CASES = (
    Case(n=33, k=16, d_a=1, n_batch=2),
    Case(n=24, k=11, d_a=2),  # nothing divides anything
    Case(n=40, k=32, d_a=1, dtype=torch.float32),
)
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8}


def compared(rows: Matching, taken: Tensor) -> None:
    """Weights and derivatives of a random q are those of the plain path."""
    weights, tolerance = rows.match(taken).double().cpu(), TOLERANCE[taken.dtype]
    q = torch.linspace(-1.0, 1.0, len(rows.sample_actions), dtype=torch.float64).cos()
    slopes = rows.slopes(q.to(taken)).double().cpu()
    for policy, actions in enumerate(taken.double().cpu()):
        expected = rows.plain.at(actions)
        found = weights[policy]
        torch.testing.assert_close(found, expected.blocks[0], rtol=0.0, atol=tolerance)
        exact = rows.plain.slopes(expected, rows.plain.rows.operator([found]), q)
        scale = float(exact.abs().max())
        torch.testing.assert_close(slopes[policy], exact, rtol=0.0, atol=tolerance * scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_and_slopes_are_those_of_the_plain_path(case: Case) -> None:
    """From kernel rows, and from the rows of actions close by."""
    rows = Matching.of(case)
    for actions in (rows.taken, rows.taken + 0.05, rows.taken - 2.0):
        compared(rows, actions)
        totals = rows.match(actions).double().sum(dim=-1)
        assert float((totals - 1.0).abs().max()) < 1e-5  # they are distributions


def test_the_mean_is_the_query_where_samples_surround_it() -> None:
    rows = Matching.of(CASES[0])
    weights = rows.match(rows.taken)
    actions = rows.sample_actions[:, 0][rows.columns.long()]  # (m, k)
    for policy, taken in enumerate(rows.taken):
        displacement = rows.plain.at(taken.cpu()).displacement
        assert displacement is not None
        is_surrounded = displacement < 1e-6
        assert int(is_surrounded.sum()) > 3
        mean = (weights[policy] * actions).sum(dim=1)
        error = (mean - taken[:, 0]).abs().cpu()[is_surrounded]
        assert float(error.max()) < 2e-6


def test_slopes_are_the_derivative_of_the_weights() -> None:
    """Against differences of the kernel's own weights."""
    rows, step = Matching.of(CASES[1]), 1e-5
    q = torch.linspace(0.0, 3.0, 24, dtype=torch.float64, device=DEVICE).sin()
    beside = q[rows.columns.long()]
    rows.match(rows.taken)
    slopes = rows.slopes(q)
    for a in range(2):
        change = torch.zeros_like(rows.taken)
        change[..., a] = step
        above, below = (rows.match(rows.taken + sign * change) for sign in (1.0, -1.0))
        expected = ((above - below) * beside).sum(dim=-1) / (2.0 * step)
        torch.testing.assert_close(slopes[..., a], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", ["at the query", "elsewhere"])
def test_samples_in_one_place_make_plain_rows(where: str) -> None:
    """There is nothing to match with, and nothing is divided by nothing."""
    like = torch.zeros((), device=DEVICE)
    m, k, there = 3, 8, 0.0 if where == "at the query" else 20.0
    log_psi = torch.linspace(-2.0, 0.0, m * k, device=DEVICE).reshape(m, k)
    columns = torch.arange(k, dtype=torch.int32, device=DEVICE).repeat(m, 1)
    table = feature_table(like.new_full((k, 2), there), like.new_ones((k, 1)))
    where_to = (like.new_zeros((m, 2)), like.new_ones(3), 1)
    rows = FusedMatchedRows(newton(torch.float32), log_psi, columns, table, *where_to)
    weights = rows.build(like.new_full((1, m, 1), 0.5))
    _, slopes = rows.differentiate(torch.linspace(-1.0, 1.0, k, device=DEVICE)[None])
    torch.testing.assert_close(weights[0], log_psi.softmax(dim=1), rtol=1e-4, atol=0)
    assert float(slopes.abs().max()) < 1e-3


def test_slopes_do_not_feel_a_constant() -> None:
    rows = Matching.of(CASES[0])
    rows.match(rows.taken)
    q = torch.linspace(0.0, 3.0, 33, dtype=torch.float64, device=DEVICE).sin()
    torch.testing.assert_close(rows.slopes(q + 1e3), rows.slopes(q), rtol=1e-6, atol=1e-8)

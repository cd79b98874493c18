"""Every kernel against its plain torch twin in float64, in the interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not available on this platform")

from nopg.gpu import sweep
from nopg.gpu.sweep import transposed_pattern, transposed_values
from tests.gpu import reference
from tests.gpu.launches import (
    CASES,
    COLUMN_SWEEP,
    DEFLATION,
    DEVICE,
    ROW_SWEEP,
    TRANSPOSE,
    Case,
    deflated,
    inputs,
    kernel_rows,
    swept,
)

each_case = pytest.mark.parametrize("case", CASES, ids=str)
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def assert_same(found: Tensor, expected: Tensor) -> None:
    """Equal relative to the largest number, shapes included; NaN never is."""
    assert found.shape == expected.shape
    assert expected.dtype == torch.float64
    scale = max(float(expected.abs().max()), 1e-300)
    error = float((found.double() - expected).abs().max()) / scale
    assert error <= TOLERANCE[found.dtype], error


@each_case
def test_build_is_a_softmax(case: Case) -> None:
    x = inputs(case)
    rows = kernel_rows(x)
    rows.weights.fill_(torch.nan)
    found = rows.build(x.taken)
    expected = reference.build(*x.double("log_psi", "gathered", "taken", "half_precision"))
    assert_same(found, expected)
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]))


def test_build_survives_queries_far_from_all_data() -> None:
    x = inputs(CASES[2])
    weights = kernel_rows(replace(x, log_psi=x.log_psi - 1e4)).build(x.taken)
    torch.testing.assert_close(weights, x.weights, rtol=1e-2, atol=1e-4)


@each_case
def test_products_with_rows_and_their_derivatives(case: Case) -> None:
    x = inputs(case)
    rows = kernel_rows(x)
    rows.weights.copy_(x.weights)
    products, slopes = rows.differentiate(x.q)
    weights, columns, q, gathered, half_precision = x.double(
        "weights", "columns", "q", "gathered", "half_precision"
    )
    assert_same(products, reference.matvec(weights, columns, q))
    expected = torch.stack(
        [
            reference.matvec(each, columns, q - q.mean(dim=-1, keepdim=True))
            for each in reference.slopes(weights, gathered, half_precision)
        ],
        dim=-1,
    )
    assert_same(slopes, expected)


@pytest.mark.parametrize(("n", "k"), [(40, 7), (300, 257)])
def test_a_pattern_made_in_parts_is_that_of_one_sort(
    n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SORTED", 5 * k)
    generator = torch.Generator().manual_seed(4)
    columns = torch.stack([torch.randperm(n, generator=generator) for _ in range(23)])
    columns = columns[:, :k].to(DEVICE, torch.int32)
    starts, rows, slots = transposed_pattern(columns, n)
    source = torch.argsort(columns.reshape(-1), stable=True)
    assert torch.equal(rows.long(), source // k)
    assert torch.equal(slots.long(), source % k)
    counts = torch.bincount(columns.reshape(-1), minlength=n)
    assert torch.equal(starts.diff().long(), counts)
    assert int(starts[0]) == 0


@each_case
def test_the_transpose_agrees_with_a_dense_one(case: Case) -> None:
    x = inputs(case)
    values = torch.full_like(x.values, torch.nan)
    transposed_values(*x.some(*TRANSPOSE), out=values)
    assert_same(values, reference.transposed_values(*x.double(*TRANSPOSE)))
    weights, discount, mu = x.double("weights", "discount", "mu")
    shape = (*weights.shape[:-1], case.n)
    places = x.columns.long().expand(weights.shape)
    dense = weights.new_zeros(shape).scatter(-1, places, weights)  # (B, n, n)
    expected = torch.einsum("...ij,i,...i->...j", dense, discount, mu)
    product = reference.rmatvec(values.double(), x.starts, x.rows, mu)
    assert_same(product.to(values), expected)


@each_case
@pytest.mark.parametrize("few", [0, sweep.FEW])
def test_a_sweep_steps_and_measures(case: Case, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "FEW", few)
    x = inputs(case)
    q_next, mu_next, sums = swept(*x.some(*ROW_SWEEP, *COLUMN_SWEEP))
    expected, residual = reference.sweep_values(*x.double(*ROW_SWEEP))
    assert_same(q_next, expected)
    assert_same(sums.sum(-1)[0], residual.square().sum(-1).reshape(-1))
    assert_same(sums.sum(-1)[1], residual.sum(-1).reshape(-1))
    expected, residual = reference.sweep_visits(*x.double(*COLUMN_SWEEP))
    assert_same(mu_next, expected)
    assert_same(sums.sum(-1)[2], residual.square().sum(-1).reshape(-1))
    assert_same(sums.sum(-1)[3], expected.sum(-1).reshape(-1))


@each_case
@pytest.mark.parametrize("has_terminals", [False, True])
@pytest.mark.parametrize("few", [0, sweep.FEW])
def test_deflation_reads_the_sums(
    case: Case, has_terminals: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "FEW", few)
    x = inputs(case)
    if has_terminals:
        nothing = torch.zeros_like(x.gain)
        x = replace(x, gain=nothing, mu_total=nothing)
    *_, sums = swept(*x.some(*ROW_SWEEP, *COLUMN_SWEEP))
    found = deflated(sums, *x.some(*DEFLATION))
    _, q_residual = reference.sweep_values(*x.double(*ROW_SWEEP))
    mu_next, mu_residual = reference.sweep_visits(*x.double(*COLUMN_SWEEP))
    per_policy = [v.reshape(-1, case.n) for v in (q_residual, mu_residual, mu_next)]
    expected = reference.deflate(*per_policy, *x.double(*DEFLATION))
    for mine, its in zip(found, expected, strict=True):
        assert_same(mine, its)
    if has_terminals:
        assert bool((found[0] == 0).all() and (found[1] == 1).all())


def test_slopes_are_derivatives_of_the_rows() -> None:
    """Against autograd through the softmax, which knows nothing of covariances."""
    x = inputs(CASES[1])
    _, n, _ = x.taken.shape
    rows = kernel_rows(x)
    rows.build(x.taken)
    share = torch.linspace(0.1, 1.0, n).to(x.q)
    taken = x.taken.clone().requires_grad_()
    weights = reference.build(x.log_psi, x.gathered, taken, x.half_precision)
    value = (share * reference.matvec(weights, x.columns, x.q)).sum()
    (expected,) = torch.autograd.grad(value, taken)
    assert_same(share[:, None] * rows.differentiate(x.q)[1], expected)


def test_deflated_sweeps_solve_both_systems() -> None:
    """Few sweeps where plain ones would need hundreds, and the right answer."""
    case = Case(n=60, k=12, d_a=1)
    x, gamma = inputs(case), 0.99
    discount = torch.full_like(x.discount, gamma)
    values = reference.transposed_values(x.weights, x.rows, x.slots, discount)
    P = torch.zeros(60, 60, dtype=torch.float64, device=DEVICE)
    P.scatter_(1, x.columns.long(), x.weights[0])
    system = torch.eye(60, dtype=torch.float64, device=DEVICE) - gamma * P
    q, mu = torch.zeros_like(x.q), torch.zeros_like(x.mu)
    shift, scale = torch.zeros_like(x.shift), torch.ones_like(x.scale)
    gain = torch.full_like(x.gain, gamma / (1 - gamma) / 60)
    mu_total = (x.eps0.sum() / (1 - gamma)).reshape(1)
    for _ in range(12):
        for _ in range(5):
            q, mu, sums = swept(
                x.weights, x.columns, x.rewards, discount, q, shift,
                values, x.starts, x.rows, x.eps0, mu, scale,
            )  # fmt: skip
            shift, scale = torch.zeros_like(shift), torch.ones_like(scale)
        ones = torch.ones_like(x.limits)  # norms as they are
        shift, scale, left = deflated(sums, gain, mu_total, ones)
    assert float(left.max()) < 1e-6  # 0.99^60 is 0.55
    expected = torch.linalg.solve(system, x.rewards)
    torch.testing.assert_close((q + shift)[0], expected, rtol=1e-5, atol=1e-5)
    expected = torch.linalg.solve(system.mT, x.eps0[0])
    torch.testing.assert_close((scale * mu)[0], expected, rtol=1e-5, atol=1e-5)

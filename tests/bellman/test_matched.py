"""Matched rows: their mean is their query, and their derivative that of J."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import nopg
from nopg.bellman.matched import MatchedRows
from nopg.bellman.problem import MATCHED
from nopg.bellman.rows import QueryRows, RowWeights, query_rows
from nopg.bellman.samples import ArcCoordinates, Samples, on_circles, state_offsets
from nopg.bellman.solution import Estimator
from nopg.linalg.solve import SolverConfig
from tests.problems import only_states, small_problem

DOUBLE = torch.float64
EXACT_SOLVES = SolverConfig(rtol=1e-12)


def rows_of(
    queries: Tensor, samples: Tensor, actions: Tensor, h: Tensor, k: int | None
) -> QueryRows:
    return query_rows(queries, samples, actions, h, k, log_margin=0.0, most=len(samples))


def matched_model(
    queries: Tensor, samples: Tensor, actions: Tensor, h: Tensor, h_a: Tensor, k: int | None = None
) -> MatchedRows:
    rows = rows_of(queries, samples, actions, h, k)
    return MatchedRows(rows, state_offsets(rows, only_states(samples), h), h_a)


@pytest.mark.parametrize("k", [None, 60])
def test_means_are_the_queries_and_linear_functions_are_reproduced(
    k: int | None, generator: torch.Generator
) -> None:
    """On a slope of the samples' density, where plain rows slip."""
    samples = torch.empty((600, 2), dtype=DOUBLE).exponential_(generator=generator)
    actions = torch.randn((600, 1), dtype=DOUBLE, generator=generator)
    queries = torch.tensor([[0.7, 0.9], [0.5, 0.6], [0.9, 0.5]], dtype=DOUBLE)
    taken = torch.tensor([[0.3], [-0.4], [0.0]], dtype=DOUBLE)
    h, h_a = torch.tensor([0.3, 0.3], dtype=DOUBLE), torch.tensor([0.8], dtype=DOUBLE)
    model = matched_model(queries, samples, actions, h, h_a, k)
    found = model.at(taken)
    W = model.rows.operator(found.blocks).dense()
    x = torch.cat([samples, actions], dim=1)
    wanted = torch.cat([queries, taken], dim=1)
    assert float((W @ x - wanted).abs().max()) < 1e-6
    assert found.displacement is not None
    assert float(found.displacement.max()) < 1e-6
    slope = torch.tensor([2.0, -3.0, 0.7], dtype=DOUBLE)
    found_values, values = W @ (x @ slope + 5.0), wanted @ slope + 5.0
    torch.testing.assert_close(found_values, values, rtol=0, atol=1e-5)
    plain = torch.softmax(
        -0.5 * (((wanted[:, None] - x) / torch.cat([h, h_a])) ** 2).sum(dim=2), dim=1
    )
    assert float((plain @ x - wanted).norm(dim=1).min()) > 0.02


def test_no_distribution_with_that_mean_is_closer_to_the_kernel(generator: torch.Generator) -> None:
    samples = torch.randn((40, 1), dtype=DOUBLE, generator=generator)
    actions = torch.randn((40, 1), dtype=DOUBLE, generator=generator)
    query, taken = (torch.tensor([[x]], dtype=DOUBLE) for x in (0.4, 0.3))
    h = torch.tensor([0.7], dtype=DOUBLE)
    model = matched_model(query, samples, actions, h, h)
    (p,) = model.at(taken).blocks
    x = torch.cat([samples, actions], dim=1)
    offset = (x - torch.cat([query, taken], dim=1)) / h
    kernel = torch.softmax(-0.5 * offset.square().sum(dim=1), dim=0)

    def divergence(row: Tensor) -> float:
        return float((row * (row / kernel).log()).sum())

    best = divergence(p[0])
    # Directions that keep the sum and the mean.
    constraints = torch.cat([torch.ones((1, 40), dtype=DOUBLE), x.T])
    basis = torch.linalg.svd(constraints).Vh[3:]
    for direction in basis[:10]:
        for size in (1e-4, -1e-4):
            row = p[0] + size * direction * p[0].min() / direction.abs().max()
            assert divergence(row) >= best - 1e-12


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["scattered", "one place", "on a line", "few values", "far"]),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
    m=st.sampled_from([5, 120]),
    dtype=st.sampled_from([DOUBLE, torch.float32]),
)
def test_rows_are_distributions_for_any_data(
    n: int, d: int, seed: int, shape: str, size: float, m: int, dtype: torch.dtype
) -> None:
    """Fewer samples than dimensions, collinear ones, one state, queries far outside."""
    generator = torch.Generator().manual_seed(seed)
    samples = size * torch.randn((n, d), dtype=dtype, generator=generator)
    if shape == "one place":
        samples[:] = samples[0].clone()
    if shape == "on a line":
        samples[:] = samples[:, :1]
    if shape == "few values":
        samples = size * (samples / size).round()
    actions = torch.randn((n, 1), dtype=dtype, generator=generator)
    queries = size * torch.randn((m, d), dtype=dtype, generator=generator)
    if shape == "far":
        queries = 100.0 * queries
    h = torch.full((d,), 0.5 * size, dtype=dtype)
    taken = 3.0 * torch.randn((m, 1), dtype=dtype, generator=generator)
    model = matched_model(queries, samples, actions, h, torch.ones(1, dtype=dtype))
    found = model.at(taken)
    (W,) = found.blocks
    assert bool(torch.isfinite(W).all())
    assert float(W.min()) >= 0.0
    torch.testing.assert_close(W.sum(dim=1), torch.ones(m, dtype=dtype))
    assert found.displacement is not None
    assert bool(torch.isfinite(found.displacement).all())


def test_a_row_of_one_place_is_the_plain_one() -> None:
    """Nothing can be matched where all states are the same: the kernel decides."""
    samples = torch.full((6, 2), 0.5, dtype=DOUBLE)
    actions = torch.linspace(-1, 1, 6, dtype=DOUBLE)[:, None]
    queries = torch.tensor([[0.5, 2.0]], dtype=DOUBLE)
    h = torch.ones(2, dtype=DOUBLE)
    model = matched_model(queries, samples, actions, h, h[:1])
    found = model.at(torch.zeros((1, 1), dtype=DOUBLE))
    plain = torch.softmax(-0.5 * actions[:, 0].square(), dim=0)
    torch.testing.assert_close(found.blocks[0][0], plain, rtol=1e-6, atol=1e-9)
    assert found.displacement is not None
    assert float(found.displacement) == pytest.approx(1.5, rel=1e-6)


def test_single_precision_gives_the_same_rows_as_double(generator: torch.Generator) -> None:
    """The derivatives too: at a tilt of zero a division by zero is near."""
    samples = torch.randn((60, 2), dtype=DOUBLE, generator=generator)
    actions = torch.randn((60, 1), dtype=DOUBLE, generator=generator)
    queries, taken = 0.5 * samples[:9], 0.5 * actions[:9]
    h = torch.tensor([0.7, 0.7], dtype=DOUBLE)

    def rows(dtype: torch.dtype) -> RowWeights:
        x, s, a, width = (t.to(dtype) for t in (queries, samples, actions, h))
        return matched_model(x, s, a, width, width[:1]).at(taken.to(dtype))

    double, single = rows(DOUBLE), rows(torch.float32)
    assert single.state is not None
    assert double.state is not None
    for ours, theirs in ((single.blocks[0], double.blocks[0]),
                         (single.state, double.state)):  # fmt: skip
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4)


KINDS = ("deterministic", "quadrature", "paper", "discrete")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("next_state_samples", [1, 3])
@pytest.mark.parametrize("neighbours", [None, 20])
def test_gradient_against_central_differences(
    kind: str, next_state_samples: int, neighbours: int | None
) -> None:
    problem = small_problem(kind, next_state_samples=next_state_samples)
    equation = problem.equation(rows=MATCHED, neighbours=neighbours)
    found = equation.gradient()
    parameters = list(problem.policy.parameters())
    sizes = [p.numel() for p in parameters]
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        direction = torch.randn(sum(sizes), dtype=DOUBLE, generator=generator)
        ends = []
        for step in (2e-6, -2e-6):  # short: ReLU has kinks
            _move(parameters, step * direction, sizes)
            again = problem.equation(rows=MATCHED, neighbours=neighbours)
            ends.append(float(again.objective))
            _move(parameters, -step * direction, sizes)
        expected = (ends[0] - ends[1]) / 4e-6
        assert float(found @ direction) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def _move(parameters: Sequence[Tensor], step: Tensor, sizes: list[int]) -> None:
    with torch.no_grad():
        for p, part in zip(parameters, torch.split(step, sizes), strict=True):
            p += part.view_as(p)


def test_a_start_close_by_gives_the_same_rows() -> None:
    problem = small_problem("deterministic", next_state_samples=1, n=60)
    equation = problem.equation(rows=MATCHED)
    estimator = Estimator.of(equation.problem, problem.policy)
    generator = torch.Generator()
    start = estimator.solve(problem.policy, generator, EXACT_SOLVES).following()
    with torch.no_grad():
        for p in problem.policy.parameters():
            p.add_(torch.randn(p.shape, dtype=DOUBLE, generator=generator), alpha=0.05)
    cold, warm = (
        estimator.solve(problem.policy, generator, EXACT_SOLVES, one) for one in (None, start)
    )
    torch.testing.assert_close(
        cold.transition.dense(), warm.transition.dense(), rtol=1e-6, atol=1e-9
    )
    loose = estimator.solve(problem.policy, generator, SolverConfig(rtol=1e-2), start)
    error = abs(float(loose.objective()) - float(cold.objective()))
    assert error <= loose.objective().certificate


def test_rows_on_a_circle_match_the_angle() -> None:
    angle = torch.linspace(-3.1, 3.1, 80, dtype=DOUBLE)
    samples = torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)], dim=1)
    samples[:, 2] = torch.linspace(-1, 1, 80, dtype=DOUBLE).roll(17)
    arcs = ArcCoordinates.of(samples)
    assert arcs.pairs == ((0, 1),)
    torch.testing.assert_close(arcs.states(arcs.places(samples)), samples)
    turn = arcs.wrapped(arcs.places(samples[:1]) - arcs.places(samples[-1:]))
    assert float(turn[0, 1]) == pytest.approx(2 * np.pi - 6.2)  # the short way round
    widths = on_circles(nopg.Bandwidths([0.2, 0.8, 0.5], [1.0]), arcs)
    assert widths.state == pytest.approx((0.4, 0.4, 0.5))
    assert widths.next_state == (0.2, 0.8, 0.5)


def test_labels_are_matched_within_their_own_kind(generator: torch.Generator) -> None:
    """What another action did is no way to reach a mean."""
    states = torch.randn((300, 2), dtype=DOUBLE, generator=generator)
    labels = torch.randint(0, 2, (300,), generator=generator)
    data = nopg.Dataset(
        states.numpy(), labels.numpy(), np.zeros(300), states.numpy(), np.zeros(300)
    )
    samples = Samples.of(data, DOUBLE, "cpu")
    assert samples.n_actions == 2
    policy = small_problem("discrete").policy
    config: dict[str, Any] = {"gamma": 0.9, "rows": MATCHED, "neighbours": None}
    equation = nopg.BellmanEquation(
        data, _two_labels(policy), [[0.1, 0.2]],
        bandwidths=nopg.Bandwidths([0.5, 0.5], [1e-3]), **config,
    )  # fmt: skip
    rows = equation.problem.rows_at(torch.tensor([[0.1, 0.2]], dtype=DOUBLE))
    (W,) = equation.problem.row_model(rows).at_label(1).blocks
    assert float(W[0, labels == 0].sum()) < 1e-12
    torch.testing.assert_close(W @ states, torch.tensor([[0.1, 0.2]], dtype=DOUBLE))


def _two_labels(policy: Any) -> Any:
    from nopg.policies.build import PolicySpec

    spec = PolicySpec(kind="discrete", n_states=2, n_outputs=2, hidden=(4,))
    return spec.build(torch.Generator().manual_seed(0))


@pytest.mark.parametrize("order", ["kernel-average", "analytic"])
def test_orders_that_need_kernels_are_refused(order: str) -> None:
    with pytest.raises(nopg.ConfigError, match="needs the paper's kernels"):
        nopg.NOPG("stochastic", stochastic=order)
    with pytest.raises(nopg.ConfigError, match='`rows` must be "matched" or'):
        nopg.NOPG(rows="mached")


def test_single_precision_finds_the_same_rows(generator: torch.Generator) -> None:
    """Also where the search for a tilt begins, at none."""
    states = torch.randn((200, 2), dtype=DOUBLE, generator=generator)
    actions = torch.randn((200, 1), dtype=DOUBLE, generator=generator)
    h, h_a = torch.tensor([0.5, 0.5], dtype=DOUBLE), torch.tensor([0.5], dtype=DOUBLE)
    dense = []
    for dtype in (DOUBLE, torch.float32):
        parts = [x.to(dtype) for x in (0.5 * states[:20], states, actions, h, h_a)]
        model = matched_model(parts[0], parts[1], parts[2], parts[3], parts[4])
        found = model.at((0.5 * actions[:20]).to(dtype))
        dense.append(model.rows.operator(found.blocks).dense().to(DOUBLE))
    torch.testing.assert_close(dense[1], dense[0], rtol=0, atol=1e-4)
